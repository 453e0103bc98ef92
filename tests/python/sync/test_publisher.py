"""What a publisher leaves in a folder, and who may publish there."""

import gc
import hashlib
import os
import signal
import subprocess
import sys
import time

import cfck
import cfck.numpy
import numpy as np
import pytest
from cfck.sync import Follower, Publisher, SyncWarning
from sync_weights import (
    arrays,
    assert_equal,
    files_of_at_most,
    flip,
    kinds,
    versions,
)


def test_keyframes_and_patches(tmp_path):
    with Publisher(tmp_path, keyframe_every=4, keep=100) as publisher:
        assert publisher.version is None and publisher.next_version == 1
        for version in range(1, 10):
            assert publisher.publish(arrays(version)) == version == publisher.version
    expected = {version: "patch" for version in range(1, 10)} | dict.fromkeys((1, 5, 9), "keyframe")
    assert kinds(tmp_path) == expected
    for one in versions(tmp_path):
        assert one["base"] == (None if one["kind"] == "keyframe" else one["version"] - 1)
        assert one["file"] == f"weights-{one['version']}.cfck"
        assert one["bytes"] == (tmp_path / one["file"]).stat().st_size
    assert_equal(cfck.numpy.load_file(tmp_path / "weights-5.cfck"), arrays(5))
    path = tmp_path / "weights-6.cfck"
    assert path.stat().st_size < (tmp_path / "weights-5.cfck").stat().st_size / 3
    assert_equal(cfck.numpy.load_file(path, base=arrays(5)), arrays(6))


def test_patches_that_are_no_smaller_are_keyframes(tmp_path):
    random = np.random.default_rng(1)
    model, follower = {}, Follower(tmp_path, framework="np")
    with Publisher(tmp_path) as publisher:
        for version in range(1, 5):
            weights = {"w": random.integers(0, 256, 10_000, dtype=np.uint8)}
            publisher.publish(weights)
            assert follower.poll(model) == version
            assert_equal(model, weights)
    assert list(kinds(tmp_path).values()) == ["keyframe"] * 4


def test_the_digest_is_what_the_page_says(tmp_path):
    weights = {"z": np.ones((2, 3), np.float32), "ä": np.arange(4), "a": np.float32(1)}
    with Publisher(tmp_path) as publisher:
        publisher.publish(weights)
    told = b""
    with cfck.safe_open(tmp_path / "weights-1.cfck", "np") as file:
        for name in sorted(file.keys(), key=str.encode):
            info = file.get_record(name)
            shape = ",".join(str(n) for n in info.shape)
            for text in (name, info.dtype, shape, info.digest):
                told += len(text.encode()).to_bytes(4, "little") + text.encode()
    assert versions(tmp_path)[0]["digest"] == hashlib.sha256(told).hexdigest()


def test_equal_weights_have_equal_digests(tmp_path):
    with Publisher(tmp_path, keyframe_every=2, keep=9) as publisher:
        for version in (1, 1, 2, 1):
            publisher.publish(arrays(version))
    digests = [one["digest"] for one in versions(tmp_path)]
    assert digests[0] == digests[1] == digests[3] != digests[2]


def test_a_keyframe_that_is_asked_for(tmp_path):
    with Publisher(tmp_path) as publisher:
        for keyframe in (False, False, True, False):
            publisher.publish(arrays(1), keyframe=keyframe)
    assert list(kinds(tmp_path).values()) == ["keyframe", "patch", "keyframe", "patch"]


def test_only_keyframes(tmp_path):
    model = {}
    with Publisher(tmp_path, keyframe_every=1) as publisher:
        follower = Follower(tmp_path, framework="np")
        for version in range(1, 4):
            publisher.publish(arrays(version))
            assert follower.poll(model) == version
            assert_equal(model, arrays(version))
    assert kinds(tmp_path) == {3: "keyframe"}


def test_what_no_kept_version_needs_is_removed(tmp_path):
    with Publisher(tmp_path, keyframe_every=3, keep=2) as publisher:
        for version in range(1, 12):
            publisher.publish(arrays(version))
            files = sorted(int(p.stem.partition("-")[2]) for p in tmp_path.glob("*.cfck"))
            first = max(1, version - 1)  # the older one of the two that are kept
            keyframe = (first - 1) // 3 * 3 + 1
            assert files == list(range(keyframe, version + 1)) == list(kinds(tmp_path))


def test_numbers_of_the_caller(tmp_path):
    with Publisher(tmp_path) as publisher:
        assert publisher.publish(arrays(1), 100) == 100
        assert publisher.publish(arrays(2), version=np.int64(250)) == 250
        assert publisher.publish(arrays(3)) == 251
        with pytest.raises(cfck.InvalidArgumentError, match="the next one is 252 or more"):
            publisher.publish(arrays(4), 251)
        with pytest.raises(cfck.InvalidArgumentError, match="versions are from 1"):
            publisher.publish(arrays(4), 0)
        with pytest.raises(TypeError, match="version is int"):
            publisher.publish(arrays(4), "7")
        assert publisher.publish(arrays(4)) == 252
    assert kinds(tmp_path) == {100: "keyframe", 250: "patch", 251: "patch", 252: "patch"}


@pytest.mark.parametrize("change", ["name", "shape", "dtype", "fewer"])
def test_another_layout_is_a_keyframe(tmp_path, change):
    model = {}
    other = arrays(3)
    if change == "name":
        other["head"] = other.pop("bias")
    elif change == "shape":
        other["bias"] = other["bias"][:49]
    elif change == "dtype":
        other["bias"] = other["bias"].astype(np.float64)
    else:
        del other["bias"]
    with Publisher(tmp_path) as publisher:
        follower = Follower(tmp_path, framework="np")
        for weights in (arrays(1), arrays(2), other, other):
            version = publisher.publish(weights)
            assert follower.poll(model) == version
            assert_equal(model, weights)
    assert list(kinds(tmp_path).values()) == ["keyframe", "patch", "keyframe", "patch"]


def test_weights_may_change_after_they_are_published(tmp_path):
    weights, model = arrays(1), {}
    with Publisher(tmp_path) as publisher:
        follower = Follower(tmp_path, framework="np")
        for _ in range(4):
            weights["bias"] += 1
            expected = {name: array.copy() for name, array in weights.items()}
            publisher.publish(weights)
            weights["matrix"] *= 2
            follower.poll(model)
            assert_equal(model, expected)


def test_tied_weights(tmp_path):
    """They are stored once, and may become separate and tied again."""
    model = {}
    with Publisher(tmp_path) as publisher:
        follower = Follower(tmp_path, framework="np")
        for version, is_tied in enumerate((True, True, False, False, True), 1):
            weights = arrays(version)
            weights["tied"] = weights["matrix"] if is_tied else weights["matrix"] + 1
            weights["part"] = weights["matrix"][3:5]
            publisher.publish(weights)
            assert follower.poll(model) == version
            assert_equal(model, weights)


def test_the_next_publisher_goes_on(tmp_path):
    model, follower = {}, Follower(tmp_path, framework="np")
    for version in range(1, 4):
        with Publisher(tmp_path) as publisher:
            assert publisher.version == (version - 1 or None)
            assert publisher.publish(arrays(version)) == version
        assert follower.poll(model) == version
        assert_equal(model, arrays(version))
    assert set(kinds(tmp_path).values()) == {"keyframe"}


def test_resumed_from_the_newest_version(tmp_path):
    model, follower = {}, Follower(tmp_path, framework="np")
    for version in range(1, 6):
        with Publisher(tmp_path, keyframe_every=4, resume=True) as publisher:
            publisher.publish(arrays(version))
        follower.poll(model)
        assert_equal(model, arrays(version))
    assert list(kinds(tmp_path).values()) == ["keyframe", *["patch"] * 3, "keyframe"]


def test_what_cannot_be_proven_is_not_resumed_from(tmp_path):
    with Publisher(tmp_path) as publisher:
        publisher.publish(arrays(1))
        publisher.publish(arrays(2))
    flip(tmp_path / "weights-1.cfck")
    with Publisher(tmp_path, resume=True) as publisher:
        with pytest.warns(SyncWarning, match="cannot be resumed from"):
            publisher.publish(arrays(3))
    assert kinds(tmp_path)[3] == "keyframe"


def test_a_second_publisher_is_refused(tmp_path):
    with Publisher(tmp_path) as publisher:
        said = rf"a publisher of 'weights' already, process {os.getpid()} of .*weights.lock"
        with pytest.raises(cfck.ExistsError, match=said):
            Publisher(tmp_path)
        with Publisher(tmp_path, "other") as other:  # in the same folder
            other.publish(arrays(1))
            publisher.publish(arrays(1))
            other.publish(arrays(2))
    assert kinds(tmp_path) == {1: "keyframe"}
    assert len(versions(tmp_path, "other")) == 2
    with pytest.raises(cfck.InvalidArgumentError, match="is closed"):
        publisher.publish(arrays(2))
    unused = Publisher(tmp_path)
    del unused
    gc.collect()
    Publisher(tmp_path).close()


HOLDS = """
import os, sys, time
from cfck.sync import Publisher
publisher = Publisher(sys.argv[1])
if os.fork() == 0:  # as a worker that loads data
    os.write(1, b"forked\\n")  # at once: the parent writes too
    time.sleep(60)
    os._exit(0)
os.write(1, b"held\\n")
time.sleep(60)
"""


def test_the_lock_of_a_killed_publisher_is_free(tmp_path):
    command = [sys.executable, "-c", HOLDS, tmp_path]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, text=True)
    try:
        assert {process.stdout.readline() for _ in range(2)} == {"held\n", "forked\n"}
        with pytest.raises(cfck.ExistsError, match=f"process {process.pid} "):
            Publisher(tmp_path)
        process.kill()
        process.wait()
        Publisher(tmp_path).close()  # although its child lives
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()


def test_a_forked_child_cannot_publish(tmp_path):
    with Publisher(tmp_path) as publisher:
        child = os.fork()
        if child == 0:
            try:
                publisher.publish(arrays(1))
            except cfck.InvalidArgumentError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        publisher.publish(arrays(1))
        with pytest.raises(cfck.ExistsError):
            Publisher(tmp_path)


def test_leftovers_are_removed_and_other_files_are_not(tmp_path):
    others = [
        "weights-x.cfck", "weights-03.cfck", "weights-0.cfck", "weights-4.cfck.bak", "notes.txt",
        "other-9.cfck", "weights-2-9.cfck", ".hidden", ".other-3.cfck.cfck-sync-unfinished",
    ]  # fmt: skip
    leftovers = [
        "weights-9.cfck", ".weights-10.cfck.cfck-sync-unfinished",
        ".weights-manifest.json.cfck-sync-unfinished",
    ]  # fmt: skip
    with Publisher(tmp_path) as publisher:
        publisher.publish(arrays(1))
    for name in (*others, *leftovers):
        (tmp_path / name).write_text("x")
    with Publisher(tmp_path) as publisher:
        assert not any((tmp_path / name).exists() for name in leftovers)
        publisher.publish(arrays(2))
    mine = ["weights-1.cfck", "weights-2.cfck", "weights-manifest.json", "weights.lock"]
    assert sorted(os.listdir(tmp_path)) == sorted([*others, *mine])


def test_without_its_manifest_nothing_is_removed_before_there_is_a_newer_version(tmp_path):
    with Publisher(tmp_path) as publisher:
        for version in (1, 2, 3):
            publisher.publish(arrays(version))
    (tmp_path / "weights-manifest.json").write_text("{")
    with pytest.warns(SyncWarning, match="is not a manifest, or is damaged: it is not JSON"):
        publisher = Publisher(tmp_path)
    assert len(list(tmp_path.glob("*.cfck"))) == 3
    assert publisher.next_version == 4  # what was once a number stays one
    assert publisher.publish(arrays(4)) == 4
    publisher.close()
    assert [path.name for path in tmp_path.glob("*.cfck")] == ["weights-4.cfck"]


@pytest.mark.parametrize("file", ["keyframe", "patch", "manifest"])
def test_a_full_disk(tmp_path, file):
    """The version before stays the newest, and a later call publishes."""
    model = {}
    follower = Follower(tmp_path, framework="np")
    with Publisher(tmp_path, keyframe_every=10) as publisher:
        version = 0
        for version in range(1, 4):
            publisher.publish(arrays(version))
        files = sorted(os.listdir(tmp_path))
        # A manifest of three versions is shorter than any file of weights.
        sizes = {"keyframe": 1000, "patch": 1000, "manifest": 100}
        weights = arrays(4) if file != "manifest" else {"small": np.arange(2)}
        if file == "manifest":
            publisher.publish(weights)
            files = sorted(os.listdir(tmp_path))
            version = 4
            sizes["manifest"] = (tmp_path / "weights-4.cfck").stat().st_size + 100
        with files_of_at_most(sizes[file]):
            with pytest.raises(cfck.IoError, match=r"cannot write .*: File too large") as error:
                publisher.publish(weights, keyframe=file == "keyframe")
        assert isinstance(error.value, OSError)
        assert sorted(os.listdir(tmp_path)) == files and publisher.version == version
        assert follower.poll(model) == version
        assert publisher.publish(arrays(5)) == version + 1
        assert follower.poll(model) == version + 1
        assert_equal(model, arrays(5))


def test_a_folder_that_is_gone_for_a_while(tmp_path):
    folder = tmp_path / "run"
    with Publisher(folder) as publisher:
        publisher.publish(arrays(1))
        folder.rename(tmp_path / "away")
        for keyframe in (False, True):
            with pytest.raises(cfck.MissingFileError, match=r"weights-2\.cfck"):
                publisher.publish(arrays(2), keyframe=keyframe)
        (tmp_path / "away").rename(folder)
        assert publisher.publish(arrays(2)) == 2
    model = {}
    assert Follower(folder, framework="np").poll(model) == 2
    assert_equal(model, arrays(2))


def test_a_read_only_folder(tmp_path, monkeypatch):
    real = os.open

    def refuse(path, flags, *arguments, **named):
        if flags & os.O_CREAT:
            raise OSError(30, "Read-only file system", path)
        return real(path, flags, *arguments, **named)

    with Publisher(tmp_path) as publisher:
        publisher.publish(arrays(1))
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", refuse)
            with pytest.raises(cfck.IoError, match=r"cannot write .*-2\.cfck: Read-only"):
                publisher.publish(arrays(2))
            with pytest.raises(cfck.IoError, match=r"cannot write to .*other\.lock: Read-only"):
                Publisher(tmp_path, "other")
        assert publisher.publish(arrays(2)) == 2
    with pytest.raises(cfck.IoError, match="cannot make the folder"):
        Publisher(tmp_path / "weights.lock" / "folder")


@pytest.mark.parametrize("moment", ["write", "list", "copy"])
def test_an_interrupted_publish(tmp_path, monkeypatch, moment):
    """Ctrl-C at any moment leaves the folder with the old version, or with the new one."""
    import cfck._sync.publisher as module

    model, follower = {}, Follower(tmp_path, framework="np")
    with Publisher(tmp_path) as publisher:
        publisher.publish(arrays(1))

        def interrupt(*arguments):
            raise KeyboardInterrupt

        where, name = {
            "write": (module, "write_patch"),
            "list": (Publisher, "_list"),
            "copy": (module, "overwrite"),
        }[moment]
        with monkeypatch.context() as patched:
            patched.setattr(where, name, interrupt)
            with pytest.raises(KeyboardInterrupt):
                publisher.publish(arrays(2))
        done = 2 if moment == "copy" else 1
        assert publisher.version == done == follower.poll(model)
        assert_equal(model, arrays(done))
        assert publisher.publish(arrays(7)) == done + 1 == follower.poll(model)
        assert_equal(model, arrays(7))
        # What it stores things against is as sure as before.
        assert publisher.publish(arrays(8)) == follower.poll(model)
        assert_equal(model, arrays(8))


def test_syncing_that_fails_is_told_after_the_version_is_there(tmp_path, monkeypatch):
    with Publisher(tmp_path) as publisher:
        publisher.publish(arrays(1))
        real = os.fsync

        def refuse(descriptor):
            if os.path.isdir(f"/proc/self/fd/{descriptor}"):
                raise OSError(5, "Input/output error")
            real(descriptor)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", refuse)
            with pytest.raises(cfck.IoError, match="version 2 was published, but: cannot sync"):
                publisher.publish(arrays(2))
        assert publisher.version == 2 and publisher.publish(arrays(3)) == 3
    model = {}
    assert Follower(tmp_path, framework="np").poll(model) == 3
    assert_equal(model, arrays(3))


def test_file_systems_without_locks_and_syncing(tmp_path, monkeypatch):
    import fcntl

    def refuse(*arguments):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(os, "fsync", refuse)
    with Publisher(tmp_path) as publisher:
        assert publisher.publish(arrays(1)) == 1 and publisher.publish(arrays(2)) == 2


def test_clocks_do_not_matter(tmp_path, monkeypatch):
    model, follower = {}, Follower(tmp_path, framework="np")
    with Publisher(tmp_path) as publisher:
        for version in (1, 2, 3):
            monkeypatch.setattr(time, "time", lambda version=version: 1e9 - 1000 * version)
            publisher.publish(arrays(version))
            for path in tmp_path.iterdir():
                os.utime(path, (1e9 - version, 1e9 - version))
            assert follower.poll(model) == version
            assert_equal(model, arrays(version))


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"keyframe_every": 0}, ValueError, "keyframe_every is 0; it is at least 1"),
        ({"keep": -1}, ValueError, "keep is -1"),
        ({"keep": 1.5}, TypeError, "keep is int"),
        ({"name": "a/b"}, ValueError, "name is 'a/b'"),
        ({"name": ".."}, ValueError, "begins with"),
        ({"name": 7}, TypeError, "name is str"),
        ({"resume": "yes"}, TypeError, "resume is a bool"),
        ({"fsync": 1}, TypeError, "fsync is a bool"),
        ({"level": "best"}, ValueError, "level"),
        ({"threads": -1}, ValueError, "threads"),
    ],
)
def test_wrong_arguments(tmp_path, arguments, error, said):
    with pytest.raises(error, match=said):
        Publisher(tmp_path / "new", **arguments)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("weights", "error", "said"),
    [
        ({}, ValueError, "there are no tensors"),
        ([1], ValueError, "expected a dict of names and tensors, not list"),
        ({"a": 3}, ValueError, "expected a torch.Tensor or a numpy.ndarray"),
        ({"a": np.array(["x"])}, cfck.UnsupportedError, "dtype <U1"),
        ({"a": np.ones(2), 5: np.ones(2)}, TypeError, "names of tensors are str"),
    ],
)
def test_what_cannot_be_published(tmp_path, weights, error, said):
    with Publisher(tmp_path) as publisher:
        with pytest.raises(error, match=said):
            publisher.publish(weights)
        assert os.listdir(tmp_path) == ["weights.lock"]
        assert publisher.publish(arrays(1)) == 1
