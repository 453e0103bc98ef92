"""Files that are stored against others, and how their bases are found."""

import cfck
import cfck.numpy
import numpy as np
import pytest
from cfck import safe_open
from checkpoint_chain import save_chain


@pytest.fixture
def steps(tmp_path):
    """Three checkpoints in a folder, each but the first stored against the one before."""
    return save_chain(tmp_path)


def same(one, other):
    return all(one[name].tobytes() == other[name].tobytes() for name in other)


def test_chains_are_found_beside_the_file(steps):
    for path, arrays in steps:
        assert same(cfck.numpy.load_file(path), arrays)
    path, arrays = steps[2]
    assert path.stat().st_size * 10 < steps[0][0].stat().st_size
    with safe_open(path, "np") as file:
        assert file.get_record("a").codec == "delta"
        rows = file.get_slice("a")[100:200, 7:9]
    assert rows.tobytes() == arrays["a"][100:200, 7:9].tobytes()


def test_a_base_elsewhere_is_named(steps, tmp_path):
    (tmp_path / "archive").mkdir()
    steps[0][0].rename(tmp_path / "archive" / "step0.cfck")
    path, arrays = steps[1]
    with pytest.raises(cfck.MissingBaseError, match=r"step0\.cfck"):
        cfck.numpy.load_file(path)
    assert same(cfck.numpy.load_file(path, base_dirs=[tmp_path / "archive"]), arrays)
    assert same(cfck.numpy.load_file(path, base=tmp_path / "archive" / "step0.cfck"), arrays)
    assert same(cfck.numpy.load_file(path, base=steps[0][1]), arrays)
    with safe_open(path, "np") as file:
        assert file.keys() == ["a", "b"]  # what needs no base is there
    with safe_open(path, "np", base=steps[0][1]) as file:
        assert file.get_tensor("a").tobytes() == arrays["a"].tobytes()


def test_memory_of_a_base_outlives_the_call_that_names_it(steps):
    path, arrays = steps[1]
    file = safe_open(path, "np", base={name: a.copy() for name, a in steps[0][1].items()})
    scraps = [np.full(600 * 500, i, np.float16) for i in range(20)]
    assert file.get_tensor("a").tobytes() == arrays["a"].tobytes()
    assert scraps


def test_another_file_of_the_name_is_refused(steps):
    arrays = {name: array.copy() for name, array in steps[0][1].items()}
    arrays["a"][5, 5] += 1
    cfck.numpy.save_file(arrays, steps[0][0], replace_base=True)
    with pytest.raises(cfck.MissingBaseError, match="other values") as caught:
        cfck.numpy.load_file(steps[1][0])
    assert caught.value.record == "a"


def test_chains_that_readers_would_refuse_are_not_made(tmp_path):
    weights = np.random.default_rng(1).standard_normal((64, 64), np.float32)
    cfck.numpy.save_file({"w": weights}, tmp_path / "0.cfck")
    for step in range(1, 9):
        weights[step] += 1
        base = tmp_path / f"{step - 1}.cfck"
        cfck.numpy.save_file({"w": weights}, tmp_path / f"{step}.cfck", base=base)
    assert np.array_equal(cfck.numpy.load_file(tmp_path / "8.cfck")["w"], weights)
    with pytest.raises(cfck.LimitExceededError, match="cfck compact"):
        cfck.numpy.save_file({"w": weights + 1}, tmp_path / "9.cfck", base=tmp_path / "8.cfck")
    assert not (tmp_path / "9.cfck").exists()


def test_long_chains_need_a_limit(steps):
    with pytest.raises(cfck.LimitExceededError, match="max_bases"):
        cfck.numpy.load_file(steps[2][0], limits={"max_bases": 1})
    assert same(cfck.numpy.load_file(steps[2][0], limits={"max_bases": 2}), steps[2][1])


def test_updates_take_no_base(steps):
    with pytest.raises(cfck.InvalidArgumentError, match="update"):
        cfck.update(steps[2][0], {"c": np.zeros(3)}, base=steps[0][0])
    cfck.update(steps[2][0], {"c": np.zeros(3)})
    assert same(cfck.numpy.load_file(steps[2][0]), steps[2][1])


def test_options_that_make_no_sense(steps):
    with pytest.raises(TypeError, match="base_dirs"):
        cfck.numpy.load_file(steps[1][0], base_dirs="folder")
    with pytest.raises(cfck.MissingFileError):
        cfck.numpy.load_file(steps[1][0], base="nowhere.cfck")
    with pytest.raises(cfck.MissingFileError):
        cfck.numpy.save_file(steps[2][1], steps[2][0], base="nowhere.cfck")
    assert same(cfck.numpy.load_file(steps[1][0]), steps[1][1])


def test_a_file_does_not_name_itself(steps, tmp_path):
    path, arrays = steps[0]
    (tmp_path / "other").mkdir()
    for target in (path, tmp_path / "other" / path.name):
        with pytest.raises(cfck.InvalidArgumentError, match="itself"):
            cfck.numpy.save_file(arrays, target, base=path)
    assert same(cfck.numpy.load_file(path), arrays)


def test_models_of_torch(tmp_path):
    torch = pytest.importorskip("torch")
    import cfck.torch

    old = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.BatchNorm1d(200))
    new = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.BatchNorm1d(200))
    new.load_state_dict(old.state_dict())
    with torch.no_grad():
        new[0].weight[7] *= 1.001
    new[1].num_batches_tracked += 1
    patch = cfck.torch.patch(old, new)
    version = old[0].weight._version
    changed = cfck.torch.apply(old, patch)
    assert changed == ["0.weight", "1.num_batches_tracked"]
    assert old[0].weight._version > version
    assert all(
        torch.equal(a, b) for a, b in zip(old.state_dict().values(), new.state_dict().values())
    )
    cfck.torch.save_model(new, tmp_path / "new.cfck", base=old)
    with torch.no_grad():
        new[0].weight.zero_()
    cfck.torch.load_model(new, tmp_path / "new.cfck", base=old)
    assert torch.equal(new[0].weight, old[0].weight)


@pytest.mark.parametrize("name", ["x.npz", "folder", "other/x.cfck"])
def test_bases_that_readers_do_not_find_are_told_of(steps, tmp_path, monkeypatch, name):
    (_, old), (_, new) = steps[:2]
    monkeypatch.chdir(tmp_path)
    for folder in ("folder", "other"):
        (tmp_path / folder).mkdir()
    np.savez("x.npz", **old)
    cfck.numpy.save_file(old, "folder/model.cfck")
    cfck.numpy.save_file(old, "other/x.cfck")
    for base in (name, tmp_path / name):
        with pytest.warns(UserWarning, match=r"new\.cfck is stored against .*[Rr]ead it") as told:
            cfck.numpy.save_file(new, "new.cfck", base=base)
        assert [warning.filename for warning in told] == [__file__]
        with pytest.raises(cfck.MissingBaseError):
            cfck.numpy.load_file("new.cfck")
        # What the warning says works.
        call = str(told[0].message).partition("ead it with ")[2]
        assert same(eval(call, {"load_file": cfck.numpy.load_file}), new)


@pytest.mark.filterwarnings("error")
def test_other_bases_are_not_told_of(steps, tmp_path, monkeypatch):
    (path, old), (_, new) = steps[:2]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    for base in (path, path.name, f"./{path.name}", f"link/{path.name}", old):
        cfck.numpy.save_file(new, "new.cfck", base=base)
    np.savez("x.npz", **old)
    cfck.numpy.patch("x.npz", new)
    cfck.numpy.save(new, base="x.npz")
    other = {"other": np.ones(3)}  # nothing of it is stored against the base
    cfck.numpy.save_file(other, "new.cfck", base="x.npz")
    assert same(cfck.numpy.load_file("new.cfck"), other)


def test_records_say_what_is_stored_against_the_base(steps, tmp_path):
    (base, old), *_ = steps
    new = {name: array.copy() for name, array in old.items()}
    new["a"][3, 4] += 1
    new["more"] = np.random.default_rng(2).random((40, 50))
    cfck.numpy.save_file(new, tmp_path / "new.cfck", base=base)
    with safe_open(tmp_path / "new.cfck", "np") as file:
        found = {record.name: record.against_base for record in file.records()}
    assert found["a"] and found["b"] and not found["more"]
    with safe_open(base, "np") as file:
        assert not any(record.against_base for record in file.records())


def test_aliases_are_against_the_base_where_what_they_share_is(steps, tmp_path):
    base, old = steps[0]
    new = {name: array.copy() for name, array in old.items()}
    new["z"] = new["a"]
    cfck.numpy.save_file(new, tmp_path / "new.cfck", base=base)
    with safe_open(tmp_path / "new.cfck", "np") as file:
        records = {record.name: record for record in file.records()}
    assert records["z"].kind == "alias"
    assert records["a"].against_base == records["z"].against_base
