"""Values that torch.load(weights_only=True) takes, tied names, files before torch 1.6."""

import collections
import io
import pickle
import subprocess
import zipfile

import cfck
import numpy as np
import pytest
import safetensors.torch
import torch
from cfck.torch import load_checkpoint, load_file, save_checkpoint
from conftest import assert_same, shares_memory, weights
from test_pytorch_files import assert_equal, convert, job
from torch import nn


def loaded_both(tmp_path, tree, **options):
    """The checkpoints that the .cfck file and the .pt file itself give."""
    path = tmp_path / "run.pt"
    torch.save(tree, path, **options)
    done = convert(path, tmp_path / "run.cfck", "--force", "--verify")
    assert done.returncode == 0, done.stderr
    return load_checkpoint(tmp_path / "run.cfck"), load_checkpoint(path)


def marked(tensor, **attributes):
    vars(tensor).update(attributes)
    return tensor


VALUES = {
    "bytearray": lambda: {"w": weights(3), "engine": bytearray(b"a\xff"), "empty": bytearray()},
    "keys": lambda: {
        (torch.bfloat16, torch.float8_e5m2): 1, torch.float32: 2, torch.device("cuda:1"): 3,
        b"k": 4, 2 + 1j: 5, torch.Size([2, 3]): 6, (torch.int8, (1, None)): 7,
    },
    "dtypes": lambda: [torch.complex128, torch.uint4, torch.int3, torch.float4_e2m1fn_x2],
    "float4": lambda: {
        "w": torch.arange(32, dtype=torch.uint8).reshape(4, 8).view(torch.float4_e2m1fn_x2)
    },
    "complex128": lambda: {
        "w": torch.randn(3, 4, dtype=torch.complex128), "scalar": torch.tensor(1 - 2j).to(
            torch.complex128), "t": torch.randn(3, 4, dtype=torch.complex128).t(),
        "p": nn.Parameter(torch.randn(2, dtype=torch.complex128)),
        "none": torch.zeros(0, 3, dtype=torch.complex128),
    },
    "complex32": lambda: {"w": torch.randn(3, 4, dtype=torch.complex32)},
    "gradients": lambda: {"w": weights(3).requires_grad_(), "v": weights(3)},
    "meta": lambda: {
        "m": torch.empty(2, 3, device="meta", dtype=torch.float16).t(),
        "p": nn.Parameter(torch.empty(2, device="meta"), False), "w": weights(2),
    },
}  # fmt: skip


def assert_same_values(actual, expected, place="checkpoint"):
    """Compares like assert_equal, and also tensors that have no bits to compare."""
    if not isinstance(expected, torch.Tensor):
        assert type(actual) is type(expected), place
        if isinstance(expected, dict):
            assert list(actual) == list(expected), place
            for key in expected:
                assert type(key) is type(list(actual)[list(actual).index(key)])
                assert_same_values(actual[key], expected[key], f"{place}[{key!r}]")
        elif isinstance(expected, (list, tuple)):
            assert len(actual) == len(expected)
            for one, other in zip(actual, expected, strict=True):
                assert_same_values(one, other, place)
        else:
            assert actual == expected, place
        return
    assert type(actual) is type(expected), place
    assert (actual.dtype, actual.shape, actual.device, actual.layout) == (
        expected.dtype, expected.shape, expected.device, expected.layout), place  # fmt: skip
    assert actual.requires_grad == expected.requires_grad, place
    if expected.is_meta:
        assert actual.stride() == expected.stride()
    elif expected.layout != torch.strided:
        assert torch.equal(actual.to_dense(), expected.to_dense())
    elif expected.dtype in (torch.float4_e2m1fn_x2, torch.complex32):
        assert torch.equal(actual.view(torch.uint8), expected.view(torch.uint8))
    else:
        assert torch.equal(actual, expected), place
    assert_same_values(vars(actual), vars(expected), place)


@pytest.mark.parametrize("name", VALUES)
def test_values_that_torch_takes(tmp_path, name):
    tree = VALUES[name]()
    for loaded in loaded_both(tmp_path, tree):
        assert_same_values(loaded, torch.load(tmp_path / "run.pt", weights_only=True))


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_protocols(tmp_path, protocol):
    tree = {"a": [1, -5, 2**40, -(2**70), 2.5, True, None], "b": ("\u00fc\n'\\u", b"\x00\xff"),
            "c": {1, 2}, "d": bytearray(b"x\xff"), "e": 1 + 2j}  # fmt: skip
    if protocol > 0:
        tree["w"] = weights(3, 4)
    for loaded in loaded_both(tmp_path, tree, pickle_protocol=protocol):
        assert_equal(loaded, tree)


def test_protocol_0_has_no_tensors(tmp_path):
    torch.save({"w": weights(3)}, tmp_path / "run.pt", pickle_protocol=0)
    done = convert(tmp_path / "run.pt")
    assert done.returncode == 6 and "protocol 0" in done.stderr


def test_attributes_of_tensors(tmp_path):
    w = marked(weights(3, 4), scale=3, other=weights(2), names=["a"])
    tree = {"w": w, "p": marked(nn.Parameter(weights(2)), shard=(1, 2)), "again": w}
    for loaded in loaded_both(tmp_path, tree):
        assert_same_values(loaded, torch.load(tmp_path / "run.pt", weights_only=True))
        assert loaded["again"] is loaded["w"]
    assert set(load_file(tmp_path / "run.cfck")) == {"w", "w.other", "p", "again", "again.other"}


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_sparse_tensors(tmp_path, layout):
    dense = torch.zeros(4, 6)
    dense[1, 2], dense[3, 5] = 1, 2
    sparse = dense.to_sparse() if layout == "coo" else getattr(dense, f"to_sparse_{layout}")(
        *([(2, 2)] if layout.startswith("b") else []))  # fmt: skip
    for loaded in loaded_both(tmp_path, {"x": sparse}):
        assert_same_values(loaded, {"x": sparse})
        if layout == "coo":
            assert loaded["x"].is_coalesced()
    assert "x.values" in load_file(tmp_path / "run.cfck")


def test_lazy_tensors_have_their_values(tmp_path):
    x = torch.randn(3, 4, dtype=torch.complex64)
    double = torch.randn(3, 4, dtype=torch.complex128)
    tree = {"conj": x.conj(), "neg": torch._neg_view(x), "x": x,
            "both": torch._neg_view(x.conj()), "double": double.conj()}  # fmt: skip
    for loaded in loaded_both(tmp_path, tree):
        for name, tensor in tree.items():
            assert torch.equal(loaded[name], tensor), name
    with cfck.safe_open(tmp_path / "run.pt", "pt") as file:
        part = file.get_slice("double")[1:3, 2:3, 1:2]
    assert torch.equal(part[..., 0], tree["double"].imag[1:3, 2:3])


def test_compressed_members(tmp_path):
    tree = {"w": weights(300, 40), "t": weights(50, 40).t(), "n": 3}
    torch.save(tree, tmp_path / "stored.pt")
    with zipfile.ZipFile(tmp_path / "stored.pt") as old:
        with zipfile.ZipFile(tmp_path / "run.pt", "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                new.writestr(name, old.read(name))
    assert convert(tmp_path / "run.pt", "--verify").returncode == 0
    assert_equal(load_checkpoint(tmp_path / "run.cfck"), tree)
    assert_equal(load_checkpoint(tmp_path / "run.pt"), tree)


@pytest.mark.parametrize("protocol", [1, 2, 4])
def test_files_before_torch_1_6(tmp_path, protocol):
    tree = job()
    base = tree["model"]["0.weight"]
    tree["view"] = base[2:5]
    options = {"_use_new_zipfile_serialization": False, "pickle_protocol": protocol}
    for loaded in loaded_both(tmp_path, tree, **options):
        assert_equal(loaded, tree)
        assert shares_memory(loaded["view"], loaded["model"]["0.weight"])
    whole = (tmp_path / "run.pt").read_bytes()
    for damaged in (whole[:-1], whole[:-4000], whole + b"\0", whole[:300]):
        (tmp_path / "bad.pt").write_bytes(damaged)
        with pytest.raises(cfck.errors.CfckError):
            load_file(tmp_path / "bad.pt")


def test_views_of_storages_before_torch_1_6(tmp_path):
    """Storages that are parts of others, as old versions of torch wrote them."""
    head = io.BytesIO()
    for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
        pickle.dump(value, head, protocol=2)
    view = b"(X\x01\x00\x00\x00vK\x02K\x03t"
    storage = (b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000"
               b"X\x03\x00\x00\x00cpuK\x06" + view + b"tQ")  # fmt: skip
    body = (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + b"K\x01K\x02\x85K\x01\x85\x89}tR."
    )
    keys = pickle.dumps(["0"], protocol=2)
    elements = np.array([6], "<i8").tobytes() + np.arange(6, dtype="<f4").tobytes()
    (tmp_path / "old.pt").write_bytes(head.getvalue() + body + keys + elements)
    assert load_checkpoint(tmp_path / "old.pt").tolist() == [3, 4]


def names_of(path):
    """The names of a file; safetensors files have further ones of a tensor in their metadata."""
    names = set(load_file(path))
    if path.suffix == ".safetensors":
        with cfck.safe_open(path, "pt") as file:
            names |= {name for name, kept in file.metadata().items() if kept in names}
    return sorted(names)


def test_every_name_of_a_tied_tensor_is_kept(tmp_path):
    w = weights(30, 40)
    part = {"w": w, "n": [w.t(), weights(2)]}
    tree = {"a": w, "b": w, "t": w.t(), "u": [w[3], w.t()], "p": part, "q": part,
            "x": w.t()[1:], "y": nn.Parameter(w)}  # fmt: skip
    tree["z"] = tree["x"]
    wanted = ["a", "b", "p.n.0", "p.n.1", "p.w", "q.n.0", "q.n.1", "q.w", "t", "u.0", "u.1", "x",
              "y", "z"]  # fmt: skip
    torch.save(tree, tmp_path / "run.pt")
    outputs = ["run.cfck", "run.safetensors", "run.npz", "back.safetensors"]
    for source, target in zip(["run.pt", "run.pt", "run.pt", "run.cfck"], outputs, strict=True):
        done = convert(tmp_path / source, tmp_path / target)
        assert done.returncode == 0, done.stderr
    for name in ("run.pt", *outputs):
        assert names_of(tmp_path / name) == wanted, name
        loaded = load_file(tmp_path / name)
        assert_same(loaded["a"], w)
        if not name.endswith(".safetensors"):
            assert_same(loaded["q.n.0"], w.t())
            assert_same(loaded["b"], w)
    tied = load_file(tmp_path / "run.cfck")
    assert shares_memory(tied["a"], tied["b"]) and shares_memory(tied["p.w"], tied["q.w"])
    loaded = load_checkpoint(tmp_path / "run.cfck")
    assert loaded["a"] is loaded["b"] and loaded["p"] is loaded["q"]
    assert loaded["z"] is loaded["x"] and loaded["y"] is not loaded["a"]
    save_checkpoint(tree, tmp_path / "saved.cfck")
    assert names_of(tmp_path / "saved.cfck") == wanted
    again = load_checkpoint(tmp_path / "saved.cfck")
    assert again["a"] is again["b"] and again["p"] is again["q"]


def test_views_without_a_base_are_tied(tmp_path):
    column = weights(30, 40)[:, 3:5]
    torch.save({"a": column, "b": column.detach(), "e": torch.ones(0, 3)}, tmp_path / "run.pt")
    assert convert(tmp_path / "run.pt").returncode == 0
    loaded = load_file(tmp_path / "run.cfck")
    assert shares_memory(loaded["a"], loaded["b"])
    assert_same(loaded["b"], column)


def test_a_second_name_changes_with_the_first(tmp_path):
    path = tmp_path / "run.cfck"
    w, new = weights(30, 40), weights(30, 40, seed=3)
    save_checkpoint({"a": w, "b": w, "c": weights(3)}, path)
    for tensors in ({"a": new}, {"b": new}, {"a": new, "b": w}):
        with pytest.raises(cfck.errors.InvalidArgumentError, match="second name"):
            cfck.update(path, tensors)
    cfck.update(path, {"a": new, "b": new, "c": weights(4)})
    loaded = load_checkpoint(path)
    assert loaded["a"] is loaded["b"]
    assert_same(loaded["b"], new)


class Callback:
    pass


def test_only_tensors(tmp_path):
    namespace = __import__("argparse").Namespace(lr=0.1, table=weights(2))
    tree = {"state_dict": {"w": weights(3, 4)}, "callbacks": {Callback: {"best": torch.ones(1)}},
            "args": namespace, "best": np.float64(0.5), "epoch": 3, "anchors": np.arange(6.0),
            "log": collections.defaultdict(list, a=[1])}  # fmt: skip
    path = tmp_path / "run.ckpt"
    torch.save(tree, path)
    done = convert(path)
    assert done.returncode == 6
    assert "Callback" in done.stderr and "['callbacks']" in done.stderr
    assert "--only-tensors" in done.stderr
    done = subprocess.run(
        ["cfck", "convert", path, "--only-tensors", "--verify"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for word in ("argparse.Namespace", "numpy", "defaultdict", "plain value"):
        assert word in done.stderr
    names = {"state_dict.w", "args.table", f"callbacks.{__name__}.Callback.best"}
    assert set(load_file(tmp_path / "run.cfck")) == names
    with pytest.warns(cfck.LeftOutWarning, match="Namespace"):
        assert set(load_file(path, only_tensors=True)) == names
    with pytest.raises(cfck.errors.UnsupportedError, match="only_tensors=True"):
        load_file(path)


def test_only_tensors_of_npz(tmp_path):
    np.savez(tmp_path / "run.npz", w=np.ones(3), names=np.array(["a"]), o=np.array([{}], object))
    with pytest.warns(cfck.LeftOutWarning, match="names"):
        assert set(load_file(tmp_path / "run.npz", only_tensors=True)) == {"w"}
    assert convert(tmp_path / "run.npz", "--only-tensors").returncode == 0


def test_safetensors_keep_names(tmp_path):
    w = weights(4, 5)
    torch.save({"a": w, "b": w}, tmp_path / "run.pt")
    assert convert(tmp_path / "run.pt", tmp_path / "run.safetensors").returncode == 0
    assert "a" in safetensors.torch.load_file(tmp_path / "run.safetensors")
