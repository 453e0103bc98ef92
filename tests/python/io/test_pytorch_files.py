"""Files that torch.save wrote, read without PyTorch and converted."""

import collections
import json
import pickle
import subprocess
import zipfile

import cfck.torch
import pytest
import safetensors.torch
import torch
from cfck.torch import load_checkpoint, load_file
from conftest import TORCH_DTYPES, assert_same, random_bits, shares_memory, weights
from torch import nn


def convert(source, *more):
    return subprocess.run(
        ["cfck", "convert", source, *more, "--quiet"], capture_output=True, text=True
    )


def assert_equal(actual, expected, place="checkpoint"):
    """The same types, orders, keys and bits."""
    assert type(actual) is type(expected), place
    if isinstance(expected, torch.Tensor):
        assert_same(actual, expected)
        assert actual.requires_grad == expected.requires_grad, place
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), place
        for key in expected:
            assert_equal(actual[key], expected[key], f"{place}[{key!r}]")
        if hasattr(expected, "_metadata"):
            assert_equal(actual._metadata, expected._metadata, f"{place}._metadata")
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected), place
        for index, item in enumerate(expected):
            assert_equal(actual[index], item, f"{place}[{index}]")
    elif expected != expected:
        assert actual != actual, place
    else:
        assert actual == expected, place


def model():
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))


def job():
    torch.manual_seed(0)
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.randn(5, 8)).square().mean().backward()
        optimizer.step()
    return {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "rng": torch.get_rng_state(),
        "epoch": 3,
        "args": {
            "betas": (0.9, 0.999), "big": 2**70, "negative": -(2**65), "long": -(2**60),
            "text": "\u00fc\n", "none": None, "nan": float("nan"), "inf": float("-inf"),
            "flag": True, "small": -5, "bytes": b"\x00\xff ab",
        },
        "dtype": torch.bfloat16,
        "device": torch.device("cuda:1"),
        "size": torch.Size([2, 3]),
        "counter": collections.Counter("aab"),
        "keys": {1: 2, (1, "a"): 3, None: 4, 2.5: 6},
    }  # fmt: skip


TREES = {
    "state_dict": lambda: model().state_dict(),
    "job": job,
    "tensor": lambda: weights(3, 4),
    "list": lambda: [torch.zeros(2), [torch.ones(0, 3)], torch.tensor(5.0), (), {}],
    "parameters": lambda: {"p": nn.Parameter(weights(4)), "q": nn.Parameter(weights(4), False)},
}


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_trees_come_back_as_torch_loads_them(tmp_path, name, protocol):
    torch.manual_seed(1)
    tree = TREES[name]()
    torch.save(tree, tmp_path / "run.pt", pickle_protocol=protocol)
    done = convert(tmp_path / "run.pt", tmp_path / "run.cfck")
    assert done.returncode == 0, done.stderr
    expected = torch.load(tmp_path / "run.pt", weights_only=False)
    assert_equal(load_checkpoint(tmp_path / "run.cfck"), expected)


def test_all_dtypes(tmp_path):
    tensors = {str(dtype): random_bits((3, 5), dtype) for dtype in TORCH_DTYPES}
    torch.save(tensors, tmp_path / "all.pth")
    # The output is named after the input, whatever suffix it has.
    assert convert(tmp_path / "all.pth").returncode == 0
    for loaded in (load_file(tmp_path / "all.cfck"), load_file(tmp_path / "all.pth")):
        assert list(loaded) == list(tensors)
        for name, tensor in tensors.items():
            assert_same(loaded[name], tensor)


def test_tensors_that_share_memory(tmp_path):
    w = weights(30, 40)
    tensors = {
        "t": w.t(), "w": w, "row": w[3], "column": w[:, 3], "again": w,
        "parameter": nn.Parameter(w[5:7]), "expanded": torch.ones(1).expand(3, 5),
        "part": torch.arange(100.0)[10:20], "alone": weights(5, 6).t(),
    }  # fmt: skip
    torch.save(tensors, tmp_path / "views.pt")
    assert convert(tmp_path / "views.pt", tmp_path / "views.cfck").returncode == 0
    loaded = load_checkpoint(tmp_path / "views.cfck")
    assert_equal(loaded, torch.load(tmp_path / "views.pt"))
    for name in ("t", "row", "column", "again", "parameter"):
        assert shares_memory(loaded["w"], loaded[name]), name
    assert not shares_memory(loaded["w"], loaded["part"])
    assert loaded["again"] is loaded["w"]


def test_slices_of_a_file(tmp_path):
    tensors = {"w": weights(60, 70), "t": weights(50, 40).t()}
    torch.save(tensors, tmp_path / "model.pt")
    with cfck.safe_open(tmp_path / "model.pt", "pt") as file:
        assert sorted(file.keys()) == ["t", "w"]
        for name, tensor in tensors.items():
            assert_same(file.get_slice(name)[3:9, 5:30], tensor[3:9, 5:30])
            assert_same(file.get_tensor(name), tensor)


def test_to_safetensors(tmp_path):
    tensors = {"w": weights(60, 70), "t": weights(50, 40).t(), "i": torch.arange(7)}
    torch.save(tensors, tmp_path / "model.pt")
    done = convert(tmp_path / "model.pt", tmp_path / "model.safetensors")
    assert done.returncode == 0, done.stderr
    loaded = safetensors.torch.load_file(tmp_path / "model.safetensors")
    for name, tensor in tensors.items():
        assert_same(loaded[name], tensor)


def test_an_optimizer_stays_lossless(tmp_path):
    tree = {"model": {"w": weights(64, 64)}, "optimizer": {"exp": weights(64, 64, seed=2)}}
    torch.save(tree, tmp_path / "job.pt")
    assert convert(tmp_path / "job.pt", "--max-sigma-error", "1e-2").returncode == 0
    loaded = load_checkpoint(tmp_path / "job.cfck")
    assert_same(loaded["optimizer"]["exp"], tree["optimizer"]["exp"])
    assert not torch.equal(loaded["model"]["w"], tree["model"]["w"])


def test_inspection(tmp_path):
    tensors = {"w": weights(60, 70), "b": weights(70)}
    torch.save(tensors, tmp_path / "a.pt")
    safetensors.torch.save_file(tensors, tmp_path / "b.safetensors")

    def run(*arguments):
        return subprocess.run(["cfck", *arguments], capture_output=True, text=True)

    same = run("diff", tmp_path / "a.pt", tmp_path / "b.safetensors")
    assert same.returncode == 0, same.stderr + same.stdout
    shown = json.loads(run("show", "--json", tmp_path / "a.pt").stdout)
    assert "pytorch" in json.dumps(shown)
    assert run("stats", tmp_path / "a.pt").returncode == 0
    assert run("verify", tmp_path / "a.pt").returncode == 0
    damaged = bytearray((tmp_path / "a.pt").read_bytes())
    damaged[damaged.index(tensors["w"].numpy().tobytes()) + 5] ^= 1
    (tmp_path / "a.pt").write_bytes(damaged)
    verified = run("verify", tmp_path / "a.pt")
    assert verified.returncode == 5 and "CRC-32" in verified.stderr
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(tensors, tmp_path / "a.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    verified = run("verify", tmp_path / "a.pt")
    assert verified.returncode == 6 and "without checksums" in verified.stderr


class Call:
    """What a hostile file would like to have called."""

    def __reduce__(self):
        return print, ("called",)


def refused(tmp_path, tree=None, save=torch.save):
    source, target = tmp_path / "bad.pt", tmp_path / "bad.cfck"
    save(tree, source)
    target.write_bytes(b"old")
    done = convert(source, target, "--force")
    assert done.returncode in (2, 4, 6, 7), (done.returncode, done.stderr)
    assert target.read_bytes() == b"old"
    return done.stderr


def test_code_is_named_and_never_called(tmp_path):
    message = refused(tmp_path, {"w": weights(3), "x": Call()})
    assert "builtins.print" in message or "__builtin__.print" in message
    assert "called" not in message.replace("never calls", "")
    assert "nn.modules" in refused(tmp_path, model())


@pytest.mark.parametrize(
    "tree, words",
    [
        (lambda: {"x": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)}, "qtensor"),
        (lambda: {"x": torch.ones(2).untyped_storage()}, "a storage without a tensor"),
    ],
)
def test_what_cannot_be_stored(tmp_path, tree, words):
    assert words in refused(tmp_path, tree())


def test_other_files_of_torch(tmp_path):
    def scripted(_, path):
        torch.jit.save(torch.jit.trace(nn.Linear(2, 3), torch.ones(1, 2)), path)

    def big_endian(_, path):
        torch.save({"w": weights(3)}, tmp_path / "little.pt")
        with zipfile.ZipFile(tmp_path / "little.pt") as old, zipfile.ZipFile(path, "w") as new:
            for name in old.namelist():
                is_order = name.endswith("/byteorder")
                new.writestr(name, b"big" if is_order else old.read(name))

    assert "torch.jit.load" in refused(tmp_path, save=scripted)
    assert "byte order" in refused(tmp_path, save=big_endian)


@pytest.mark.parametrize("name", ["run.zip", "run.index", "run"])
def test_names_of_files_decide_nothing(tmp_path, name):
    torch.save({"w": weights(3)}, tmp_path / name)
    assert_same(load_file(tmp_path / name)["w"], weights(3))


def test_truncated_files(tmp_path):
    torch.save({"w": weights(30), "n": [1, 2]}, tmp_path / "whole.pt")
    whole = (tmp_path / "whole.pt").read_bytes()
    for n_bytes in [*range(1, 40, 3), *range(40, len(whole), 97)]:
        message = refused(tmp_path, save=lambda _, path, n=n_bytes: path.write_bytes(whole[:n]))
        assert message


def test_a_recursive_list(tmp_path):
    tree = []
    tree.append(tree)
    assert "contains itself" in refused(tmp_path, {"x": tree})


def test_pickles_alone_are_refused(tmp_path):
    message = refused(tmp_path, save=lambda _, path: path.write_bytes(pickle.dumps({"a": 1})))
    assert "this is a pickle" in message and "cfck.torch.save_file" in message


def test_the_way_through_python(tmp_path):
    """A .pt file can be loaded in place of a .cfck file."""
    torch.save(job(), tmp_path / "job.pt")
    expected = torch.load(tmp_path / "job.pt")
    assert_equal(load_checkpoint(tmp_path / "job.pt"), expected)
    loaded = cfck.torch.load_file(tmp_path / "job.pt")
    assert_same(loaded["model.0.weight"], expected["model"]["0.weight"])


def test_loaded_tensors_share_memory_as_in_the_file(tmp_path):
    base = torch.arange(12.0).reshape(3, 4)
    path = tmp_path / "tied.pt"
    torch.save({"base": base, "row": base[2], "column": base[:, 1], "tied": base.detach()}, path)
    for tensors in (load_checkpoint(path), load_file(path)):
        assert shares_memory(tensors["base"], tensors["tied"])
        tensors["base"][2] = 7
        assert tensors["row"].eq(7).all()
        assert tensors["column"].tolist() == [1, 5, 7]
