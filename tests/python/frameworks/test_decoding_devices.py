"""Decoding on a CUDA device, played by the host: kernels run on the emulator.

CFCK_FAKE_DRIVER and CFCK_FAKE_CODE_FOLDER name what tests/simt builds for this.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import cfck
import pytest
import torch

ROOT = Path(__file__).parents[3]
DRIVER = Path(os.environ.get("CFCK_FAKE_DRIVER", ROOT / "build/tests/simt/libcfck_fake_driver.so"))
CODE = Path(os.environ.get("CFCK_FAKE_CODE_FOLDER", ROOT / "build/tests/simt/fake_code"))

# torch's part of a device: its memory is the host's.
PREAMBLE = """
import os, sys, tempfile, warnings
import cfck, torch
from cfck._frameworks import torch_device, torch_tensors
from cfck.torch import load, load_checkpoint, load_file, save_checkpoint, save_file

CUDA = torch.device("cuda", 0)
class Fake(torch_device.TorchDevice):
    def __init__(self, device):
        self.number, self.device = device.index or 0, torch.device("cpu")
    def why_not(self):
        return torch_device._native.why_not_cuda(self.number)
    def _on_host(self, n_bytes, is_pinned):
        return torch.empty(n_bytes, dtype=torch.uint8)
    def stream(self):
        return 0
    def wait(self):
        pass
torch_device.TorchDevice = Fake
torch_tensors.TorchFramework.reach_device = lambda self, device: None
copied = []
def to_device(self, tensor, device):
    copied.append(tensor)
    return tensor
torch_tensors.TorchFramework.to_device = to_device

torch.manual_seed(0)
tensors = {
    "w": torch.randn(70, 90),
    "half": torch.randn(40, 50).bfloat16(),
    "kernels": torch.randn(16, 8, 3, 3),
    "ids": torch.arange(2000),
    "scalar": torch.tensor(1.5),
    "empty": torch.empty(0, 3),
}
tensors["tied"] = tensors["w"]
tensors["turned"] = tensors["w"].t()
folder = tempfile.mkdtemp()
path = os.path.join(folder, "m.cfck")
save_file(tensors, path)

def same(one, other):
    assert one.dtype == other.dtype and one.shape == other.shape, (one, other)
    assert torch.equal(one.contiguous().view(torch.uint8) if one.dim() else one,
                       other.contiguous().view(torch.uint8) if other.dim() else other)
"""

pytestmark = pytest.mark.skipif(not DRIVER.exists(), reason="the fake driver is not built")


def run(code: str, settings: str = "", driver: Path = DRIVER) -> str:
    """Runs code after PREAMBLE, in a process of its own: a driver is started once."""
    environment = {
        **os.environ,
        "CFCK_CUDA_DRIVER": str(driver),
        "CFCK_ADAPTER_PATH": str(CODE),
        "CFCK_FAKE_CUDA": settings,
    }
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_everything_that_loads():
    run(
        """
        def check(loaded):
            for name, tensor in tensors.items():
                same(loaded[name], tensor)
        check(load_file(path, CUDA, decode="device"))
        check(load_file(path, 0))
        check(load(open(path, "rb").read(), device=CUDA, decode="device"))
        loaded = load_file(path, CUDA)
        assert loaded["w"].data_ptr() == loaded["tied"].data_ptr()
        with cfck.safe_open(path, "pt", CUDA, decode="device") as file:
            check({name: file.get_tensor(name) for name in file.keys()})
            check(file.get_tensors())
            same(file.get_slice("w")[3:20, 7:80:2], tensors["w"][3:20, 7:80:2])
            same(file.get_slice("turned")[5], tensors["turned"][5])
        save_checkpoint({"a": tensors["w"], "n": 3}, path + ".run")
        run = load_checkpoint(path + ".run", CUDA, decode="device")
        same(run["a"], tensors["w"])
        data = cfck.compress(tensors["w"], max_abs_error=1e-3)
        same(cfck.decompress(data, framework="pt", device=CUDA, decode="device"),
             cfck.decompress(data, framework="pt"))
        assert copied == []
        """
    )


def test_bytes_on_the_device():
    run(
        """
        def bytes_in_tensor(data):
            return torch.frombuffer(bytearray(data), dtype=torch.uint8)
        one = bytes_in_tensor(cfck.compress(tensors["w"], max_rel_error=1e-3))
        file = bytes_in_tensor(open(path, "rb").read())
        expected = cfck.decompress(one, framework="pt")
        bad = one.clone()
        bad[len(bad) // 3] ^= 1
        try:
            cfck.decompress(bad)
        except cfck.CfckError as error:
            message = str(error)
        def cpu(tensor):
            raise AssertionError("the bytes are copied")
        copy, torch.Tensor.cpu, torch_tensors.device_of = torch.Tensor.cpu, cpu, lambda t: CUDA
        for data in (one, torch.stack([one, one], 1)[:, 0]):
            same(cfck.decompress(data, framework="pt", device=CUDA, decode="device"), expected)
            same(cfck.decompress(data, torch.empty(70, 90), decode="device"), expected)
        for name, tensor in load(file, device=CUDA).items():
            same(tensor, tensors[name])
        try:
            cfck.decompress(bad, framework="pt", device=CUDA)
        except cfck.CfckError as error:
            assert str(error) == message, error
        else:
            raise AssertionError
        torch.Tensor.cpu = copy  # but where the values go elsewhere, or the host decodes
        same(cfck.decompress(one, framework="pt", device=CUDA, decode="host"), expected)
        same(cfck.decompress(one, framework="pt"), expected)
        """
    )


def test_models_on_the_device():
    run(
        """
        from cfck._io import model as loading_models
        from cfck.torch import load_model, save_model
        for module in (torch_tensors, loading_models):
            module.device_of = lambda tensor: CUDA
            module.takes_in_place = lambda tensor: False
        net = torch.nn.Sequential(torch.nn.Linear(40, 60), torch.nn.BatchNorm1d(60))
        net.register_buffer("turned", torch.randn(30, 50).t())
        save_model(net, path)
        native, loads = cfck._native.DeviceLoad, []
        class Counted(native):
            def __init__(self, file, requests, *rest):
                loads.append(len(requests))
                super().__init__(file, requests, *rest)
        cfck._native.DeviceLoad = Counted
        other = torch.nn.Sequential(torch.nn.Linear(40, 60), torch.nn.BatchNorm1d(60))
        other.register_buffer("turned", torch.zeros(30, 50).t())
        assert load_model(other, path, decode="device") == (set(), [])
        for (name, one), two in zip(net.state_dict().items(), other.state_dict().values()):
            same(two, one)
        assert loads == [7, 1], loads  # all that is contiguous together, and one through a copy
        assert copied == []
        """
    )


def test_progress_and_what_it_raises():
    run(
        """
        calls = []
        load_file(path, CUDA, progress=lambda *call: calls.append(call))
        assert calls[-1][0] == calls[-1][1] > 0
        def stop(*call):
            raise KeyboardInterrupt
        try:
            load_file(path, CUDA, progress=stop)
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError
        same(load_file(path, CUDA)["w"], tensors["w"])
        """
    )


def test_damage_is_reported_as_by_the_host():
    run(
        """
        data = bytearray(open(path, "rb").read())
        data[700] ^= 1
        errors = []
        for decode in ("device", "host"):
            try:
                load(bytes(data), device=CUDA, decode=decode)
            except cfck.CfckError as error:
                errors.append((type(error), str(error)))
        assert len(errors) == 2 and errors[0] == errors[1], errors
        """
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [("devices=0", "has no NVIDIA device"), ("version=12080", "series 580")],
)
def test_where_the_device_cannot(settings, reason):
    run(
        f"""
        assert {reason!r} in cfck.cuda.why_not("cuda:0")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                same(load_file(path, CUDA)["w"], tensors["w"])
        assert [w.category for w in caught] == [cfck.DeviceWarning], caught
        assert {reason!r} in str(caught[0].message) and caught[0].filename == "<string>"
        assert copied
        try:
            load_file(path, CUDA, decode="device")
        except cfck.UnsupportedError as error:
            assert {reason!r} in str(error)
        else:
            raise AssertionError
        """,
        settings,
    )


def test_the_host_on_request():
    run(
        """
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            load_file(path, CUDA, decode="host")
        assert len(copied) > 3
        """,
        "devices=0",
    )


def test_no_memory_on_the_device():
    run(
        """
        try:
            load_file(path, CUDA)
        except MemoryError as error:
            assert "out of memory" in str(error)
        else:
            raise AssertionError
        same(load_file(path, CUDA)["w"], tensors["w"])
        """,
        "fail=MemcpyHtoDAsync:2:2",
    )


def test_little_memory_to_copy_from():
    run(
        """
        asked = []
        def on_host(self, n_bytes, is_pinned):
            asked.append((n_bytes, is_pinned))
            if is_pinned or n_bytes > most:
                raise RuntimeError("none is left")
            return torch.empty(n_bytes, dtype=torch.uint8)
        Fake._on_host = on_host
        many = {str(i): torch.randn(1024, 1024) for i in range(3)}
        save_file(many, path)
        most = 1 << 40
        same(load_file(path, CUDA)["2"], many["2"])
        sizes = [n_bytes for n_bytes, is_pinned in asked]
        assert asked == [(n, True) for n in sizes[:-1]] + [(sizes[0], False)], asked
        assert len(sizes) == 4 and sizes[2] * 3 == sizes[0], sizes
        most = sizes[2]
        for name, tensor in load_file(path, CUDA, decode="device").items():
            same(tensor, many[name])
        most -= 1
        try:
            load_file(path, CUDA)
        except MemoryError as error:
            assert "bytes to copy to or from cuda:0: none is left" in str(error)
        else:
            raise AssertionError
        """
    )


def test_a_forked_child():
    run(
        """
        load_file(path, CUDA)
        if (child := os.fork()) == 0:
            reason = cfck.cuda.why_not(0)
            os._exit(0 if "spawn" in reason else 1)
        assert os.waitpid(child, 0)[1] == 0
        """
    )


def test_bytes_in_a_tensor():
    tensor = torch.randn(40, 50)
    data = torch.frombuffer(bytearray(cfck.compress(tensor)), dtype=torch.uint8)
    assert torch.equal(cfck.decompress(data, framework="pt"), tensor)
    for wrong in (data.float(), data.reshape(1, -1)):
        with pytest.raises(TypeError, match="dtype torch.uint8 with one dimension"):
            cfck.decompress(wrong)


def test_other_targets_of_a_device(path):
    cfck.torch.save_file({"w": torch.ones(3)}, path)
    with pytest.raises(cfck.UnsupportedError, match="not for the host"):
        cfck.torch.load_file(path, decode="device")
    with pytest.raises(cfck.UnsupportedError, match="devices of type meta"):
        cfck.torch.load_file(path, "meta", decode="device")
    with pytest.raises(cfck.InvalidArgumentError, match="auto, device or host"):
        cfck.torch.load_file(path, decode="gpu")
    with pytest.raises(cfck.DeviceError, match="is invalid"):
        cfck.cuda.why_not("mps")
