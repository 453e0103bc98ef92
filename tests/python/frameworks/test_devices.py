"""Tensors outside of host memory. Without such a device, the host plays its part."""

import collections

import cfck
import pytest
import torch
from cfck._frameworks import torch_memory, torch_tensors
from cfck._io import loading
from cfck.torch import load, load_file, save, save_file
from conftest import assert_same, shares_memory, weights


@pytest.fixture
def no_host(monkeypatch):
    """Every tensor is treated as one of another device."""
    leave_host(monkeypatch)


def leave_host(monkeypatch):
    for module in (torch_memory, torch_tensors):
        monkeypatch.setattr(module, "is_host", lambda tensor: False)


def tied_tensors(device="cpu"):
    base = weights(40, 30).to(device)
    flat = weights(1000, seed=3).to(device)
    return {
        "plain": weights(500, 600, seed=2).to(device),
        "base": base,
        "transposed": base.t(),
        "rows": base[5:9],
        "left": flat[:500],
        "right": flat[500:],
        "strided": weights(20, 20, seed=4).to(device).t(),
        "empty": torch.empty(0, 3, device=device),
        "scalar": torch.tensor(1.5, device=device),
        "equal": weights(500, 600, seed=2).to(device),
    }


@pytest.mark.usefixtures("no_host")
def test_device_tensors_are_saved_as_host_tensors_are():
    tensors = tied_tensors()
    loaded = load(save(tensors, threads=2))
    assert set(loaded) == set(tensors)
    for name, tensor in tensors.items():
        assert_same(loaded[name], tensor)
    assert shares_memory(loaded["base"], loaded["transposed"])
    assert shares_memory(loaded["base"], loaded["rows"])
    assert not shares_memory(loaded["left"], loaded["right"])
    assert not shares_memory(loaded["plain"], loaded["equal"])
    # Equal tensors are stored once, also when they are read through Python.
    del tensors["equal"]
    assert len(save({**tensors, "equal": tensors["plain"].clone()})) - len(save(tensors)) < 200


BOUNDS = [
    {"max_abs_error": 1e-4},
    {"max_rel_error": 1e-3, "per_row": True},
    {"max_sigma_error": 1e-3, "codec": "direct"},
    {"rules": {"plain": {"max_sigma_error": 1e-2}, "*r*": {"max_abs_error": 1e-3}}},
]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("options", BOUNDS)
def test_maximum_errors_are_those_of_host_tensors(path, monkeypatch, options, threads):
    tensors = tied_tensors()
    on_host = save_file(tensors, path, **options)
    expected, n_bytes = load_file(path), path.stat().st_size
    leave_host(monkeypatch)
    n_read = count_bytes_read(monkeypatch)
    summary = save_file(tensors, path, threads=threads, **options)
    assert summary.kept_lossless == on_host.kept_lossless
    assert summary.file_bytes == n_bytes
    for name, tensor in load_file(path).items():
        assert_same(tensor, expected[name])
    # Statistics, codes, perhaps the lossless form, and what tells equal tensors apart.
    assert n_read["plain"] <= 4 * 4 * tensors["plain"].numel()


def count_bytes_read(monkeypatch):
    """By name, how much of the tensors of a device is copied to the host from here on."""
    n_read = collections.Counter()
    original = torch_tensors._device_tensor

    def counting(name, tensor, latest):
        *what, read, address, cuda = original(name, tensor, latest)

        def count(offset_bytes, address, n_bytes):
            n_read[name] += n_bytes
            read(offset_bytes, address, n_bytes)

        return *what, count, address, cuda

    monkeypatch.setattr(torch_tensors, "_device_tensor", counting)
    return n_read


@pytest.mark.usefixtures("no_host")
def test_an_error_of_the_device_reaches_the_caller(path, monkeypatch):
    def broken(name, tensor, latest):
        def read(offset_bytes, address, n_bytes):
            raise RuntimeError("the device is gone")

        return name, "F32", tuple(tensor.shape), read, tensor.data_ptr(), None

    monkeypatch.setattr(torch_tensors, "_device_tensor", broken)
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="the device is gone"):
        save_file({"w": weights(10)}, path)
    assert path.read_bytes() == b"old"


@pytest.mark.usefixtures("no_host")
def test_update_and_compress_take_device_tensors(path):
    save_file({"a": weights(10)}, path)
    cfck.update(path, {"b": weights(300, seed=2)})
    assert_same(load_file(path)["b"], weights(300, seed=2))
    assert_same(cfck.decompress(cfck.compress(weights(99)), framework="pt"), weights(99))


def test_loading_to_a_device_goes_through_small_groups(path, monkeypatch):
    monkeypatch.setattr(loading, "_STAGED_BYTES", 1000)
    tensors = {f"t{i}": weights(100 + i, seed=i) for i in range(20)}
    save_file(tensors, path)
    calls = []
    loaded = load_file(path, "meta", progress=lambda *call: calls.append(call))
    assert {n: t.shape for n, t in loaded.items()} == {n: t.shape for n, t in tensors.items()}
    total = sum(4 * t.numel() for t in tensors.values())
    assert calls[-1][:2] == (total, total)


def loads(path, device):
    """Everything that takes a device, on a file with a Linear(2, 3)."""
    yield lambda: load_file(path, device)["weight"].device
    yield lambda: load_file(path, device=device)["weight"].device
    yield lambda: cfck.torch.load_checkpoint(path.with_suffix(".run"), device)["w"].device
    yield lambda: cfck.torch.load_model(torch.nn.Linear(2, 3), path, device=device) and None

    def opened(read):
        with cfck.safe_open(path, "pt", device) as file:
            return read(file).device

    yield lambda: opened(lambda file: file.get_tensor("weight"))
    yield lambda: opened(lambda file: file.get_tensors()["weight"])
    yield lambda: opened(lambda file: file.get_slice("weight")[1:])


@pytest.fixture
def linear(path):
    cfck.torch.save_model(torch.nn.Linear(2, 3), path)
    cfck.torch.save_checkpoint({"w": weights(3)}, path.with_suffix(".run"))
    return path


@pytest.mark.parametrize("device", [None, "cpu", torch.device("cpu")])
def test_the_host(linear, device):
    for place in loads(linear, device):
        assert place() in (torch.device("cpu"), None)


@pytest.mark.parametrize("device", ["nonsense", -1, 1.5, b"cpu", ["cpu"], True, "cuda:x", ""])
def test_devices_that_do_not_exist(linear, device):
    for place in loads(linear, device):
        with pytest.raises(cfck.DeviceError, match="device .* is invalid") as caught:
            place()
        assert isinstance(caught.value, RuntimeError | ValueError)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0, 1, "mps", "xpu", torch.device("mps")])
def test_devices_that_torch_cannot_use(linear, device):
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        message = str(error).strip().split("\n", 1)[0]
    else:
        pytest.skip("there is such a device")
    for place in loads(linear, device):
        with pytest.raises(RuntimeError) as caught:
            place()
        assert isinstance(caught.value, cfck.DeviceError)
        assert message in str(caught.value)


def test_arrays_are_on_the_host(linear):
    for device in (None, "cpu"):
        with cfck.safe_open(linear, "np", device) as file:
            assert file.get_tensor("weight").shape == (3, 2)
    for device in ("cuda", 0, "nonsense"):
        with pytest.raises(cfck.DeviceError, match="not supported for framework numpy"):
            cfck.safe_open(linear, "np", device)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda(path):
    tensors = tied_tensors("cuda")
    save_file(tensors, path)
    for name, tensor in load_file(path).items():
        assert_same(tensor, tensors[name].cpu())
    on_device = load_file(path, 0)
    for name, tensor in on_device.items():
        assert tensor.device == torch.device("cuda", 0)
        assert_same(tensor.cpu(), tensors[name].cpu())
    assert shares_memory(on_device["base"], on_device["transposed"])
    for options in BOUNDS:
        data = save(tensors, **options)
        assert data == save({name: tensor.cpu() for name, tensor in tensors.items()}, **options)
    layer = torch.nn.Linear(30, 40).cuda()
    cfck.torch.save_model(layer, path)
    other = torch.nn.Linear(30, 40).cuda()
    cfck.torch.load_model(other, path)
    assert torch.equal(layer.weight, other.weight)
