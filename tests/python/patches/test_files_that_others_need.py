"""Files that others are stored against are not overwritten by mistake."""

import os

import cfck
import cfck.numpy
import cfck.sync
import numpy as np
import pytest
from checkpoint_chain import save_chain


@pytest.fixture
def steps(tmp_path):
    """Three checkpoints in a folder, each but the first stored against the one before."""
    return save_chain(tmp_path)


def can_be_read(steps):
    return [
        all(loaded[name].tobytes() == arrays[name].tobytes() for name in arrays)
        for path, arrays in steps
        for loaded in [cfck.numpy.load_file(path)]
    ]


OTHER = {"a": np.zeros((600, 500), np.float16)}


def of_torch(name, **more):
    def save(path, **options):
        torch = pytest.importorskip("torch")
        import cfck.torch

        tensors = {"w": torch.zeros(40, 50)}
        model = torch.nn.Linear(3, 4)
        given = {"save_file": tensors, "save_checkpoint": {"epoch": 3, "model": tensors}}
        getattr(cfck.torch, name)(given.get(name, model), path, **more, **options)

    return save


SAVES = {
    "numpy.save_file": lambda path, **options: cfck.numpy.save_file(OTHER, path, **options),
    "numpy.save_checkpoint": lambda path, **options: cfck.numpy.save_checkpoint(
        {"list": [OTHER["a"]]}, path, **options
    ),
    "torch.save_file": of_torch("save_file"),
    "torch.save_model": of_torch("save_model"),
    "torch.save_checkpoint": of_torch("save_checkpoint"),
}


@pytest.mark.parametrize("save", SAVES.values(), ids=SAVES)
def test_saves_do_not_replace_a_base(steps, save):
    with pytest.raises(
        cfck.ExistsError, match=r"'step1\.cfck' is stored against .*step0"
    ) as caught:
        save(steps[0][0])
    for advice in ("cfck compact", "another name", "replace_base=True"):
        assert advice in str(caught.value)
    assert isinstance(caught.value, FileExistsError)
    assert can_be_read(steps) == [True] * 3
    # The last of a chain is nobody's base, and neither is a file that stands beside it.
    save(steps[2][0])
    save(steps[2][0])
    save(steps[0][0].with_name("latest.cfck"))
    assert can_be_read(steps[:2]) == [True] * 2
    save(steps[0][0], replace_base=True)
    with pytest.raises(cfck.MissingBaseError):
        cfck.numpy.load_file(steps[1][0])


def test_a_file_is_stored_against_an_older_one_again_and_again(steps):
    (older, _), (newer, arrays) = steps[1:]
    for _ in range(3):
        cfck.numpy.save_file(arrays, newer, base=older)
    assert can_be_read(steps) == [True] * 3
    with pytest.raises(cfck.ExistsError):
        cfck.numpy.save_file(steps[1][1], older, base=steps[0][0])


def test_dependents_that_stand_alone_need_no_base(steps):
    data = [cfck.numpy.save(arrays) for _, arrays in steps]
    steps[1][0].write_bytes(data[1])
    cfck.numpy.save_file(OTHER, steps[0][0])
    assert can_be_read(steps[1:]) == [True] * 2
    with pytest.raises(cfck.ExistsError, match=r"step2\.cfck"):
        cfck.numpy.save_file(OTHER, steps[1][0])
    steps[2][0].unlink()
    cfck.numpy.save_file(OTHER, steps[1][0])


def test_links_to_a_base_are_followed(steps, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "latest.cfck"
    link.symlink_to(steps[1][0])
    with pytest.raises(cfck.ExistsError, match=r"step2\.cfck"):
        cfck.numpy.save_file(OTHER, link)
    assert can_be_read(steps) == [True] * 3


def test_a_file_never_needs_itself(steps):
    for path in (steps[0][0], os.fsencode(steps[0][0])):
        with pytest.raises(cfck.InvalidArgumentError, match="step2.* is stored against") as caught:
            cfck.numpy.save_file(steps[0][1], path, base=steps[2][0], replace_base=True)
        assert not isinstance(caught.value, cfck.ExistsError)
    assert can_be_read(steps) == [True] * 3
    cfck.numpy.save_file(OTHER, steps[0][0].with_name("new.cfck"), base=steps[2][0])


def test_a_link_to_the_base_is_not_replaced(steps, tmp_path):
    link = tmp_path / "other-name.cfck"
    link.symlink_to(steps[2][0])
    with pytest.raises(cfck.InvalidArgumentError, match="is a link to its base"):
        cfck.numpy.save_file(OTHER, link, base=steps[2][0], replace_base=True)
    assert all(can_be_read(steps))


def test_updates_leave_what_others_need(steps):
    path, arrays = steps[0]
    for change in ({"tensors": {"a": arrays["a"] + 1}}, {"tensors": {}, "remove": ["a"]}):
        with pytest.raises(cfck.ExistsError, match=r"step1\.cfck.*replace_base=True"):
            cfck.update(path, **change)
    cfck.update(path, {"c": np.ones(5)}, metadata={"key": "value"})
    assert can_be_read(steps[1:]) == [True] * 2
    cfck.update(path, {}, remove=["a"], replace_base=True)
    with pytest.raises(cfck.MissingBaseError):
        cfck.numpy.load_file(steps[1][0])


def test_nothing_is_encoded_before_the_refusal(steps):
    called = []
    with pytest.raises(cfck.ExistsError):
        cfck.numpy.save_file(OTHER, steps[0][0], progress=lambda *args: called.append(args))
    with pytest.raises(cfck.ExistsError):
        cfck.update(steps[0][0], OTHER, progress=lambda *args: called.append(args))
    assert called == []


def test_shrink_refuses_before_it_begins(steps):
    torch = pytest.importorskip("torch")
    with pytest.raises(cfck.ExistsError, match=r"step1\.cfck.*another name$"):
        cfck.shrink(torch.nn.Linear(64, 64), steps[0][0], keep="99%", batches=[])
    assert can_be_read(steps) == [True] * 3


def test_the_option_is_a_bool(steps):
    for call in (
        lambda: cfck.numpy.save_file(OTHER, steps[0][0], replace_base="yes"),
        lambda: cfck.update(steps[0][0], OTHER, replace_base=1),
    ):
        with pytest.raises(TypeError, match="replace_base is a bool"):
            call()
    with pytest.raises(TypeError, match="replace_base"):
        cfck.numpy.save(OTHER, replace_base=True)


def test_names_that_are_no_text_are_found(steps, tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff\x1b.cfck"
    try:
        os.rename(steps[1][0], name)
    except OSError:
        pytest.skip("the file system takes text alone")
    with pytest.raises(cfck.ExistsError, match=r"'\\xff\\x1b\.cfck' is stored against"):
        cfck.numpy.save_file(OTHER, steps[0][0])


def test_publishers_go_by_their_own_rules(steps, tmp_path):
    folder = tmp_path / "run"
    with cfck.sync.Publisher(folder, keyframe_every=1, keep=1) as publisher:
        publisher.publish(steps[0][1])
        first = folder / "weights-1.cfck"
        cfck.numpy.save_file(steps[1][1], folder / "mine.cfck", base=first)
        # The file that a killed publisher left behind has the name of the next version.
        second = folder / "weights-2.cfck"
        cfck.numpy.save_file(steps[0][1], second)
        cfck.numpy.save_file(steps[1][1], folder / "mine_too.cfck", base=second)
        publisher.publish(steps[2][1])
    assert not first.exists()
    assert can_be_read([(second, steps[2][1])]) == [True]


def test_scripts_can_ask_which_files_would_be_lost(steps, tmp_path, monkeypatch):
    paths = [path for path, _ in steps]
    assert cfck.dependents_of(paths[0]) == ["step1.cfck"]
    cfck.numpy.save_file(steps[2][1], tmp_path / "more.cfck", base=paths[0])
    assert cfck.dependents_of(str(paths[0])) == ["more.cfck", "step1.cfck"]
    assert cfck.dependents_of(paths[2]) == []
    monkeypatch.chdir(paths[0].parent)
    assert cfck.dependents_of(paths[1].name) == ["step2.cfck"]
    with pytest.raises(cfck.MissingFileError) as caught:
        cfck.dependents_of(tmp_path / "nowhere.cfck")
    assert caught.value.filename == str(tmp_path / "nowhere.cfck")
    # As docs/patches.md prunes.
    (tmp_path / "more.cfck").unlink()
    for path in reversed(paths[:2]):
        if not cfck.dependents_of(path):
            path.unlink()
    assert can_be_read(steps) == [True, True, True]
