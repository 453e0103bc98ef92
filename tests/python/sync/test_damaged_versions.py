"""Files of weights, and manifests, that are damaged, missing, or of another version."""

import json
import os
import shutil
import warnings

import cfck
import pytest
from cfck.sync import Publisher, SyncWarning
from sync_weights import arrays, assert_equal, flip, follower_of, publish


@pytest.fixture
def publisher(tmp_path):
    with Publisher(tmp_path, keyframe_every=4, keep=100) as publisher:
        yield publisher


def damage(path, how):
    if how == "flip":
        flip(path)
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    elif how == "longer":
        path.write_bytes(path.read_bytes() + b"x")
    elif how in ("folder", "pipe"):
        path.unlink()
        path.mkdir() if how == "folder" else os.mkfifo(path)
    elif how == "other":
        # A whole file of the same length, with weights that nobody published as this version.
        data = path.read_bytes()
        with Publisher(path.parent / "scratch", "weights") as other:
            other.publish({name: array + 1 for name, array in arrays(77).items()})
        other_data = (path.parent / "scratch" / "weights-1.cfck").read_bytes()
        path.write_bytes(other_data)
        manifest = path.parent / "weights-manifest.json"
        manifest.write_text(
            manifest.read_text().replace(f'"bytes": {len(data)}', f'"bytes": {len(other_data)}')
        )
        shutil.rmtree(path.parent / "scratch")
    else:
        path.unlink()


HARM = ["flip", "empty", "cut", "longer", "folder", "pipe", "other", "missing"]


@pytest.mark.parametrize("how", HARM)
def test_a_damaged_patch(tmp_path, publisher, how):
    """Nothing changes before the next keyframe; it is told once, and as long as it matters."""
    model, follower = {}, follower_of(tmp_path)
    publish(publisher, 1, 2)
    follower.poll(model)
    publish(publisher, 3, 4)
    damage(tmp_path / "weights-3.cfck", how)
    with pytest.warns(SyncWarning, match=r"weights-3\.cfck") as told:
        assert follower.poll(model) is None
    assert len(told) == 1
    assert_equal(model, arrays(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert follower.poll(model) is None
    status = follower.status()
    assert (status.version, status.newest) == (2, 4)
    assert list(status.problems) == ["weights-3.cfck"]
    publish(publisher, 5)  # a keyframe
    assert follower.poll(model) == 5
    assert_equal(model, arrays(5))


@pytest.mark.parametrize("how", HARM)
def test_a_damaged_keyframe(tmp_path, publisher, how):
    model, follower = {}, follower_of(tmp_path)
    late_model, late = {}, follower_of(tmp_path)
    publish(publisher, *range(1, 5))
    follower.poll(model)
    publish(publisher, 5, 6)
    damage(tmp_path / "weights-5.cfck", how)
    with pytest.warns(SyncWarning, match=r"weights-5\.cfck"):
        assert follower.poll(model) is None
    with pytest.warns(SyncWarning, match=r"weights-5\.cfck"):
        assert late.poll(late_model) == 4  # what can be reached
    assert_equal(late_model, arrays(4))
    publish(publisher, 7, 8, 9)
    for one, its_model in ((follower, model), (late, late_model)):
        assert one.poll(its_model) == 9
        assert_equal(its_model, arrays(9))


def test_a_damaged_patch_on_the_way_of_one_who_joins(tmp_path, publisher):
    publish(publisher, 1, 2, 3)
    flip(tmp_path / "weights-3.cfck")
    model, follower = {}, follower_of(tmp_path)
    with pytest.warns(SyncWarning, match=r"weights-3\.cfck is damaged"):
        assert follower.poll(model) == 2
    assert_equal(model, arrays(2))


def test_a_problem_ends_with_the_file(tmp_path):
    model, follower = {}, follower_of(tmp_path)
    with Publisher(tmp_path, keyframe_every=2, keep=2) as publisher:
        publish(publisher, 1, 2)
        flip(tmp_path / "weights-2.cfck")
        with pytest.warns(SyncWarning):
            follower.poll(model)
        publish(publisher, 3)
        assert follower.poll(model) == 3 and list(follower.status().problems) == ["weights-2.cfck"]
        publish(publisher, 4, 5)
        assert follower.poll(model) == 5 and not follower.status().problems


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is not JSON"),
        ("[]", 'it has no "format": "cfck-sync"'),
        ('{"format": "cfck-sync"}', "format_version is not a positive number"),
        ('{"format": "cfck-sync", "format_version": 1}', "it is not that of 'weights'"),
        (("name", "other"), "it is not that of 'weights'"),
        (("history", "x"), "its history is not 32"),
        (("versions", []), "it has no list of versions"),
        (("versions", [7]), "one of its versions is not an object"),
        (("version", 0), "version 0 is followed by 0"),
        (("version", 10**400), "version 0 is followed by -1"),
        (("file", "../../etc/passwd"), "a file, a kind and a base that do not fit"),
        (("kind", "patch"), "a file, a kind and a base that do not fit"),
        (("base", 1), "a file, a kind and a base that do not fit"),
        (("bytes", -5), "no number of bytes"),
        (("digest", "00"), "no digest of 64 hexadecimal digits"),
    ],
)
def test_damaged_manifests(tmp_path, publisher, text, said):
    model, follower = {}, follower_of(tmp_path)
    publish(publisher, 1)
    path = tmp_path / "weights-manifest.json"
    if isinstance(text, tuple):
        fields = json.loads(path.read_text())
        (fields if text[0] in fields else fields["versions"][0])[text[0]] = text[1]
        text = json.dumps(fields)
    path.write_text(text)
    with pytest.warns(SyncWarning) as told:
        assert follower.poll(model) is None and follower.poll(model) is None
    assert len(told) == 1 and said in str(told[0].message)
    assert said in follower.status().problems["weights-manifest.json"]
    publish(publisher, 2)  # writes it again
    assert follower.poll(model) == 2 and not follower.status().problems


def test_manifests_that_are_too_large_or_no_files(tmp_path, publisher):
    """They are not read into memory, and nobody waits for the other end of a pipe."""
    model = {}
    publish(publisher, 1)
    path = tmp_path / "weights-manifest.json"
    whole = path.read_bytes()
    for make, said in (
        (lambda: os.truncate(path, 1 << 36), "more than 16777216 bytes"),
        (lambda: (path.unlink(), os.mkfifo(path)), "not a regular file"),
        (lambda: (path.unlink(), path.symlink_to("/dev/zero")), "not a regular file"),
        (lambda: (path.unlink(), path.mkdir()), "Is a directory"),
    ):
        make()
        follower = follower_of(tmp_path)
        with pytest.warns(SyncWarning, match=said):
            assert follower.poll(model) is None
    path.rmdir()
    path.write_bytes(whole)
    assert follower.poll(model) == 1


def test_a_pipe_of_no_bytes_in_place_of_a_version(tmp_path, publisher):
    publish(publisher, 1, 2)
    path = tmp_path / "weights-manifest.json"
    fields = json.loads(path.read_text())
    fields["versions"][1]["bytes"] = 0
    path.write_text(json.dumps(fields))
    (tmp_path / "weights-2.cfck").unlink()
    os.mkfifo(tmp_path / "weights-2.cfck")
    model = {}
    with pytest.warns(SyncWarning, match="weights-2.cfck is not a regular file"):
        assert follower_of(tmp_path).poll(model) == 1


@pytest.mark.parametrize("depth", [500, 900, 960, 970, 980, 990, 1000, 20000])
def test_manifests_that_are_deep(tmp_path, publisher, depth):
    publish(publisher, 1)
    path = tmp_path / "weights-manifest.json"
    fields = json.loads(path.read_text())
    fields["versions"][0]["version"] = "DEEP"
    path.write_text(json.dumps(fields).replace('"DEEP"', "[" * depth + "]" * depth))
    with pytest.warns(SyncWarning, match="not a manifest"):
        assert follower_of(tmp_path).poll({}) is None


def test_manifests_of_a_newer_version_are_refused(tmp_path, publisher):
    publish(publisher, 1)
    publisher.close()
    path = tmp_path / "weights-manifest.json"
    path.write_text(path.read_text().replace('"format_version": 1', '"format_version": 2'))
    for call in (lambda: follower_of(tmp_path).poll({}), lambda: Publisher(tmp_path)):
        with pytest.raises(cfck.UnsupportedError, match="version 2 of the format.*newer cfck"):
            call()
    assert (tmp_path / "weights-1.cfck").exists()


def test_keys_that_later_versions_add_are_ignored(tmp_path, publisher):
    publish(publisher, 1)
    path = tmp_path / "weights-manifest.json"
    fields = json.loads(path.read_text())
    fields["more"] = fields["versions"][0]["more"] = [1]
    path.write_text(json.dumps(fields))
    assert follower_of(tmp_path).poll({}) == 1
