"""Followers of a folder, and what they do when files are late or gone."""

import os
import shutil
import threading
import warnings

import cfck
import cfck.numpy
import numpy as np
import pytest
from cfck.sync import Follower, Publisher, SyncWarning
from sync_weights import arrays, assert_equal, follower_of, publish, versions


@pytest.fixture
def publisher(tmp_path):
    with Publisher(tmp_path, keyframe_every=4, keep=100) as publisher:
        yield publisher


def test_every_version(tmp_path, publisher):
    model, follower = {}, follower_of(tmp_path)
    assert follower.poll(model) is None and model == {}
    assert follower.status().version is None and follower.status().newest is None
    for version in range(1, 11):
        publish(publisher, version)
        assert follower.poll(model) == version
        assert_equal(model, arrays(version))
        assert follower.poll(model) is None
        status = follower.status()
        assert status.version == status.newest == version and not status.problems


def test_a_folder_that_does_not_exist_yet(tmp_path):
    follower, model = follower_of(tmp_path / "later"), {}
    assert follower.poll(model) is None
    with Publisher(tmp_path / "later") as publisher:
        publish(publisher, 1)
    assert follower.poll(model) == 1


@pytest.mark.parametrize("newest", range(1, 10))
def test_a_follower_that_joins_late(tmp_path, publisher, newest):
    publish(publisher, *range(1, newest + 1))
    model = {}
    assert follower_of(tmp_path).poll(model) == newest
    assert_equal(model, arrays(newest))


def test_a_follower_that_lags_skips_versions(tmp_path, publisher):
    model, follower = {}, follower_of(tmp_path)
    publish(publisher, 1)
    follower.poll(model)
    publish(publisher, 2, 3)
    assert follower.poll(model) == 3
    assert_equal(model, arrays(3))
    publish(publisher, *range(4, 11))
    assert follower.poll(model) == 10
    assert_equal(model, arrays(10))


def test_the_way_with_the_fewest_bytes(tmp_path, publisher, monkeypatch):
    """Patches from what is there, or a keyframe: whatever is shorter."""
    import cfck._sync.follower as module

    read = []
    for name in ("read_keyframe", "read_next"):
        real = getattr(module, name)
        monkeypatch.setattr(
            module,
            name,
            lambda folder, manifest, entry, *rest, real=real: (
                read.append(entry.version),
                real(folder, manifest, entry, *rest),
            )[1],
        )
    model, follower = {}, follower_of(tmp_path)
    publish(publisher, *range(1, 4))
    follower.poll(model)
    assert read == [1, 2, 3]
    publish(publisher, 4)
    follower.poll(model)
    assert read[3:] == [4]
    publish(publisher, 5, 6)
    follower.poll(model)
    assert read[4:] == [5, 6]


def test_a_follower_whose_chain_was_removed(tmp_path):
    model, follower = {}, follower_of(tmp_path)
    with Publisher(tmp_path, keyframe_every=3, keep=1) as publisher:
        publish(publisher, 1, 2)
        follower.poll(model)
        publish(publisher, *range(3, 9))
        assert [one["version"] for one in versions(tmp_path)] == [7, 8]
        assert follower.poll(model) == 8
        assert_equal(model, arrays(8))


def test_two_followers(tmp_path, publisher):
    models, followers = ({}, {}), [follower_of(tmp_path) for _ in range(2)]
    for version in range(1, 8):
        publish(publisher, version)
        for model, follower in list(zip(models, followers, strict=True))[version % 2 :]:
            assert follower.poll(model) == version
            assert_equal(model, arrays(version))


def test_a_file_that_comes_late(tmp_path, publisher):
    """As on a network file system, where a manifest may be seen before a file."""
    model, follower = {}, follower_of(tmp_path)
    publish(publisher, 1, 2)
    path = tmp_path / "weights-2.cfck"
    path.rename(tmp_path / "away")
    with pytest.warns(SyncWarning, match="is missing"):
        assert follower.poll(model) == 1
    path.write_bytes((tmp_path / "away").read_bytes()[:500])
    assert follower.poll(model) is None
    assert "has 500 bytes, and the manifest says" in follower.status().problems[path.name]
    (tmp_path / "away").rename(path)
    assert follower.poll(model) == 2 and not follower.status().problems
    assert_equal(model, arrays(2))


def test_files_that_are_removed_while_a_follower_reads(tmp_path, monkeypatch):
    """A manifest that was read names files that are gone: it is read again."""
    import cfck._sync.follower as module

    model, follower = {}, follower_of(tmp_path)
    with Publisher(tmp_path, keyframe_every=2, keep=1) as publisher:
        publish(publisher, 1, 2)
        real, left = module.read_manifest, [3]

        def read_and_publish(*arguments):
            manifest = real(*arguments)
            if left[0]:
                left[0] -= 1
                publish(publisher, publisher.next_version, publisher.next_version + 1)
            return manifest

        monkeypatch.setattr(module, "read_manifest", read_and_publish)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert follower.poll(model) == publisher.version == 8
        assert_equal(model, arrays(8))


def test_a_folder_that_begins_again(tmp_path):
    """Lower numbers of another history are new; an older manifest of the same one is not."""
    model, follower = {}, follower_of(tmp_path / "run")
    with Publisher(tmp_path / "run") as publisher:
        publish(publisher, 1, 2)
        old = (tmp_path / "run" / "weights-manifest.json").read_bytes()
        publish(publisher, 3)
    assert follower.poll(model) == 3
    (tmp_path / "run" / "weights-manifest.json").write_bytes(old)
    assert follower.poll(model) is None
    shutil.rmtree(tmp_path / "run")
    assert follower.poll(model) is None
    with Publisher(tmp_path / "run") as publisher:
        publisher.publish(arrays(50))
    assert follower.poll(model) == 1
    assert_equal(model, arrays(50))


def test_arrays_are_filled_where_they_are(tmp_path, publisher):
    model = {name: np.zeros_like(array) for name, array in arrays(1).items()}
    model["matrix"] = np.zeros((100, 50), np.float32).T  # not contiguous
    model["old"] = np.ones(3)
    before = dict(model)
    read_only = model["bias"]
    read_only.setflags(write=False)
    follower = follower_of(tmp_path)
    for version in (1, 2):
        publish(publisher, version)
        assert follower.poll(model) == version
        assert_equal(model, arrays(version))
    assert model["matrix"] is before["matrix"] and model["fixed"] is before["fixed"]
    assert model["bias"] is not read_only and not read_only.any()


def test_arrays_that_share_memory_become_separate_where_they_must(tmp_path, publisher):
    model = {name: np.zeros_like(array) for name, array in arrays(1).items()}
    model["twin"] = model["bias"]
    follower = follower_of(tmp_path)
    for version in (1, 2):
        weights = arrays(version)
        weights["twin"] = weights["bias"] + (version - 1)
        publisher.publish(weights)
        assert follower.poll(model) == version
        assert_equal(model, weights)


def test_arrays_that_overlap_become_separate_where_they_must(tmp_path):
    weights = {"left": np.zeros((20, 30), np.float32), "right": np.zeros((20, 30), np.float32)}
    memory = np.zeros((20, 40), np.float32)
    model, follower = {"left": memory[:, :30], "right": memory[:, 10:]}, follower_of(tmp_path)
    with Publisher(tmp_path) as publisher:
        publisher.publish(weights)
        assert follower.poll(model) == 1
        assert_equal(model, weights)
        assert all(np.shares_memory(array, memory) for array in model.values())
        weights = {"left": weights["left"] + 1, "right": weights["right"] + 2}
        publisher.publish(weights)
        assert follower.poll(model) == 2
        assert_equal(model, weights)


def test_another_model_gets_everything(tmp_path, publisher):
    publish(publisher, 1, 2)
    follower, models = follower_of(tmp_path), [{}, {}]
    for model in (*models, *models):
        assert follower.poll(model) == 2
        assert follower.poll(model) is None
        assert follower.poll(dict(model)) is None  # the same arrays
        assert_equal(model, arrays(2))
    models[1]["bias"] = np.zeros(50, np.float32)
    assert follower.poll(models[1]) == 2
    assert_equal(models[1], arrays(2))


def test_whole_tensors_that_changed_are_handed_over(tmp_path, publisher):
    got = []

    def take(version, tensors):
        got.append((version, {name: array.copy() for name, array in tensors.items()}))

    follower = follower_of(tmp_path, on_tensors=take)
    publish(publisher, 1)
    assert follower.poll() == 1 and follower.poll() is None
    publish(publisher, 2, 3, 4, 5)
    assert follower.poll() == 5
    assert [version for version, _ in got] == [1, 5]
    assert_equal(got[0][1], arrays(1))
    expected = arrays(5)
    del expected["fixed"]
    assert_equal(got[1][1], expected)
    assert follower.status().version == 5
    model = {}
    assert follower.poll(model, lambda *a: got.append(a)) == 5  # the model has nothing yet
    assert_equal(model, arrays(5))
    assert len(got) == 2


def test_weights_that_a_receiver_wrote_to_are_read_again(tmp_path, publisher):
    """They are not what a patch is stored against any more."""

    def spoil(version, tensors):
        tensors["matrix"][0, 0] += 1

    follower, model = follower_of(tmp_path), {}
    publish(publisher, 1)
    follower.poll(on_tensors=spoil)
    publish(publisher, 2)
    with pytest.warns(SyncWarning, match=r"weights-2\.cfck: .*matrix"):
        assert follower.poll(model) == 2
    assert_equal(model, arrays(2))
    assert not follower.status().problems


def test_a_patch_that_was_not_made_for_what_was_published(tmp_path, publisher):
    """As if a publisher's copy had changed: the next keyframe is waited for."""
    follower, model = follower_of(tmp_path), {}
    publish(publisher, 1, 2)
    follower.poll(model)
    publisher._base.tensors["matrix"][3] += 1
    publish(publisher, 3)
    with pytest.warns(SyncWarning, match=r"weights-3\.cfck"):
        assert follower.poll(model) is None
    assert "matrix" in follower.status().problems["weights-3.cfck"]
    assert_equal(model, arrays(2))
    publish(publisher, 4, 5)
    assert follower.poll(model) == 5
    assert_equal(model, arrays(5))


def test_a_receiver_that_raises_gets_all_again(tmp_path, publisher):
    follower, got = follower_of(tmp_path), []
    publish(publisher, 1)
    follower.poll(on_tensors=lambda *arguments: None)
    publish(publisher, 2)

    def refuse(version, tensors):
        raise RuntimeError("the engine is asleep")

    with pytest.raises(RuntimeError, match="asleep"):
        follower.poll(on_tensors=refuse)
    assert follower.status().version is None
    assert follower.poll(on_tensors=lambda version, tensors: got.append(sorted(tensors))) == 2
    assert got == [sorted(arrays(2))]


def test_an_error_while_a_model_is_filled_is_made_good(tmp_path, publisher, monkeypatch):
    from cfck._frameworks.numpy_arrays import NumpyFramework

    model, follower = {}, follower_of(tmp_path)
    publish(publisher, 1)
    follower.poll(model)
    publish(publisher, 2)
    with monkeypatch.context() as patched:

        def interrupt(*arguments):
            raise KeyboardInterrupt

        patched.setattr(NumpyFramework, "copy", interrupt)
        with pytest.raises(KeyboardInterrupt):
            follower.poll(model)
    model["fixed"][:] = 0  # all of it is copied again
    assert follower.poll(model) == 2
    assert_equal(model, arrays(2))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RuntimeError])
def test_an_interrupted_patch_leaves_the_model_as_it_was(tmp_path, publisher, monkeypatch, error):
    import cfck._sync.chain as module

    model, follower = {}, follower_of(tmp_path)
    publish(publisher, 1)
    follower.poll(model)
    publish(publisher, 2)

    def interrupt(framework, base, *arguments, **named):
        base["bias"] += 1  # as if it were half done
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(module, "read_patch", interrupt)
        with pytest.raises(error):
            follower.poll(model)
    assert_equal(model, arrays(1))
    assert follower.poll(model) == 2
    assert_equal(model, arrays(2))


def test_limits_are_told(tmp_path, publisher):
    publish(publisher, 1)
    follower, model = follower_of(tmp_path, max_decoded_bytes=1000), {}
    for _ in range(2):
        with pytest.raises(cfck.LimitExceededError):
            follower.poll(model)
    assert model == {}


def test_threads_of_one_process(tmp_path, publisher):
    """Publishing and following at once."""
    model, follower = {}, follower_of(tmp_path)
    failed = []

    def follow():
        last = 0
        while last < 40 and not failed:
            version = follower.poll(model)
            if version is not None:
                try:
                    assert last < version
                    assert_equal(model, arrays(version))
                except AssertionError as error:
                    failed.append(error)
                last = version

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        publish(publisher, *range(1, 41))
    except BaseException as error:
        failed.append(error)
        raise
    finally:
        thread.join()
    assert not failed


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda folder: Follower(folder).poll(), TypeError, "takes a model, or on_tensors"),
        (lambda folder: Follower(folder).poll([1]), TypeError, "dict of tensors, not list"),
        (lambda folder: Follower(folder).poll({"a": 3}), ValueError, "expected a torch.Tensor"),
        (lambda folder: Follower(folder, on_tensors=3), TypeError, "it is not int"),
        (lambda folder: Follower(folder, strict=3), TypeError, "strict is a bool"),
        (lambda folder: Follower(folder, "x y"), ValueError, "name is 'x y'"),
        (lambda folder: Follower(folder, framework="jax"), ValueError, "framework jax"),
    ],
)
def test_wrong_arguments_of_followers(tmp_path, call, error, said):
    with pytest.raises(error, match=said):
        call(tmp_path)


def test_followers_write_nothing(tmp_path, publisher):
    publish(publisher, 1, 2)
    before = {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}, os.stat(tmp_path).st_mtime
    follower_of(tmp_path).poll({})
    after = {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}, os.stat(tmp_path).st_mtime
    assert before == after


def test_an_older_version_is_read_by_hand(tmp_path, publisher):
    """As docs/sync.md says."""
    publish(publisher, 1, 2, 3, 4)
    assert '"patch"' in (tmp_path / "weights-manifest.json").read_text()
    with pytest.raises(cfck.MissingBaseError):
        cfck.numpy.load_file(tmp_path / "weights-3.cfck")
    tensors = cfck.numpy.load_file(tmp_path / "weights-1.cfck")
    for version in (2, 3):
        cfck.numpy.apply(tensors, tmp_path / f"weights-{version}.cfck")
    assert_equal(tensors, arrays(3))
