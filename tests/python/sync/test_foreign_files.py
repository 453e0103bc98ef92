"""Files that somebody else put into the folder of a publisher, and manifests that become long."""

import cfck
import pytest
from cfck.sync import Follower, Publisher
from sync_weights import arrays, assert_equal, kinds, versions


def test_links_to_files_elsewhere_leave_these_alone(tmp_path):
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "run"
    folder.mkdir()
    elsewhere.write_text("mine")
    (folder / "weights.lock").symlink_to(elsewhere)
    with pytest.raises(cfck.IoError, match=r"weights\.lock is a link, which is not followed"):
        Publisher(folder)
    (folder / "weights.lock").unlink()
    with Publisher(folder, keyframe_every=3) as publisher:
        for version in range(1, 6):
            for name in (
                f"weights-{version}.cfck", f".weights-{version}.cfck.cfck-sync-unfinished",
                ".weights-manifest.json.cfck-sync-unfinished",
            ):  # fmt: skip
                (folder / name).symlink_to(elsewhere)
            publisher.publish(arrays(version))
    assert elsewhere.read_text() == "mine"
    model = {}
    assert Follower(folder, framework="np").poll(model) == 5
    assert_equal(model, arrays(5))


def test_manifests_have_a_longest_size(tmp_path, monkeypatch):
    """The largest that a publisher can write is one that followers read."""
    import cfck._sync.manifest as module
    import cfck._sync.publisher as publishing

    entries, version = [], module._MAX_VERSION - 2 * module.MAX_KEPT
    for number in range(2 * module.MAX_KEPT):
        kind = (module.PATCH, version + number - 1) if number else (module.KEYFRAME, None)
        entries.append(module.Entry(version + number, *kind, 10**18, "0" * 64))
    manifest = module.Manifest("n" * 100, "0" * 32, tuple(entries))
    assert len(manifest.encoded()) < module.MAX_BYTES
    monkeypatch.setattr(publishing, "MAX_KEPT", 3)
    with Publisher(tmp_path, keyframe_every=10**9) as publisher:
        for version in range(1, 12):
            publisher.publish(arrays(version))
            assert len(versions(tmp_path)) <= 6
    assert "patch" in kinds(tmp_path).values()
