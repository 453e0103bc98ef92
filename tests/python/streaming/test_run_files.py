"""Files that are damaged, change, or are of another model; models that cannot run from a file."""

import os
import re
import shutil
import time

import cfck
import pytest
import torch
from cfck._streaming.weight import Weight
from cfck.torch import compressed, load, save, save_file, save_model
from conftest import assert_same
from streamed_models import assert_equal_outputs, loaded, pair, scrambled, two_layers
from torch import nn

X = torch.ones(2, 64)


def damage(path, name):
    """Flips a byte in the stored values of a tensor."""
    data = path.read_bytes()
    for place in range(64, len(data), 50):
        flipped = bytearray(data)
        flipped[place] ^= 0x10
        try:
            load(bytes(flipped))
        except cfck.CfckError as error:
            if error.record == name:
                path.write_bytes(flipped)
                return
    raise AssertionError(f"no byte of {name} was found")


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("name", ["0.weight", "2.weight"])
def test_damage_names_the_weight_when_its_layer_runs(path, prefetch, name):
    save_model(two_layers(), path)
    damage(path, name)
    streamed = compressed(two_layers(), path, prefetch=prefetch)
    for _ in range(3):
        with pytest.raises(cfck.CfckError, match=name) as caught:
            streamed(X)
        assert caught.value.record == name
        assert isinstance(caught.value, cfck.ChecksumError | cfck.CorruptError)
    with pytest.raises(cfck.CfckError, match=name):
        streamed.state_dict()
    other = {"0.weight": 2, "2.weight": 0}[name]
    assert streamed[other].weight.shape


def test_damage_of_what_is_loaded_is_found_at_once(path):
    save_model(two_layers(), path)
    damage(path, "0.bias")
    with pytest.raises(cfck.CfckError, match="0.bias"):
        compressed(two_layers(), path)


def test_an_error_in_the_other_thread_is_that_of_the_call(path, monkeypatch):
    streamed, expected = pair(two_layers(), path)
    streamed(X), streamed(X)
    decode = Weight.decode
    failure = cfck.IoError("the disk is on fire", record="2.weight")

    def fail(weight):
        if weight.name == "2.weight":
            raise failure
        return decode(weight)

    monkeypatch.setattr(Weight, "decode", fail)
    for _ in range(3):
        with pytest.raises(cfck.IoError) as caught:
            streamed(X)
        assert caught.value is failure
    monkeypatch.undo()
    # The next weights were tried already; later calls try again.
    for _ in range(2):
        try:
            streamed(X)
        except cfck.IoError as error:
            assert error is failure
    assert_equal_outputs(streamed, expected, X)


@pytest.mark.parametrize("backend", ["pread", "mmap"])
def test_a_file_that_is_replaced_stays_open(path, backend):
    streamed, expected = pair(two_layers(), path, {"backend": backend})
    streamed(X)
    save_model(scrambled(two_layers()), path)
    assert_equal_outputs(streamed, expected, X)
    path.unlink()
    assert_equal_outputs(streamed, expected, X)


def test_a_file_that_is_updated_stays_as_it_was(path):
    streamed, expected = pair(two_layers(), path)
    cfck.update(path, {"0.weight": torch.zeros(128, 64)})
    assert_equal_outputs(streamed, expected, X)
    assert not compressed(two_layers(), path)[0].weight.any()


@pytest.mark.parametrize("verify", [True, False])
def test_a_file_that_is_overwritten(path, verify, tmp_path):
    streamed, _ = pair(two_layers(), path, {"verify": verify, "prefetch": False})
    save_model(scrambled(two_layers()), tmp_path / "other.cfck")
    with path.open("r+b") as file:
        file.write((tmp_path / "other.cfck").read_bytes())
    for _ in range(2):
        with pytest.raises(cfck.CfckError):
            streamed(X)


@pytest.mark.parametrize("size", [0, 100, 0.5])
def test_a_file_that_is_truncated(path, size):
    streamed, _ = pair(two_layers(), path)
    streamed(X)
    os.truncate(path, int(size * path.stat().st_size) if size < 1 else size)
    for _ in range(3):
        with pytest.raises(cfck.CfckError):
            streamed(X)


def test_a_safetensors_file_that_is_overwritten(tmp_path):
    import safetensors.torch

    path = tmp_path / "a.safetensors"
    model = nn.Sequential(nn.Embedding(500, 64), *two_layers())
    safetensors.torch.save_model(model, path)
    streamed, ids = compressed(scrambled(model), path), torch.arange(9)
    assert_equal_outputs(streamed, model, ids)
    data = bytearray(path.read_bytes())
    data[-5000:] = bytes(5000)
    time.sleep(0.05)  # clocks of file systems are coarse
    with path.open("r+b") as file:
        file.write(data)
    for part, given in ((streamed, ids), (streamed[1], X), (streamed[0], torch.arange(100, 200))):
        with pytest.raises(cfck.IoError, match="was changed after it was opened"):
            part(given)
    safetensors.torch.save_model(model, tmp_path / "b.safetensors")
    streamed = compressed(scrambled(model), tmp_path / "b.safetensors")
    shutil.move(path, tmp_path / "b.safetensors")  # another file takes the name
    assert_equal_outputs(streamed, model, ids)


def overwrite(path, times):
    """Writes other values into a file, at once, and sets its time back."""
    data = bytearray(path.read_bytes())
    data[-5000:] = bytes(5000)
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=times)


def times_of(path):
    return path.stat().st_atime_ns, path.stat().st_mtime_ns


@pytest.mark.parametrize("backend", ["pread", "mmap"])
def test_a_file_that_is_overwritten_with_its_time_restored(tmp_path, backend):
    import safetensors.torch

    path = tmp_path / "a.safetensors"
    model = two_layers()
    for _ in range(5):
        safetensors.torch.save_model(model, path)
        times = times_of(path)
        streamed = compressed(scrambled(model), path, backend=backend)
        overwrite(path, times)
        with pytest.raises(cfck.IoError, match="was changed after it was opened"):
            streamed(X)


def test_open_files_that_are_overwritten_with_their_time_restored(tmp_path):
    import safetensors.torch

    path = tmp_path / "a.safetensors"
    safetensors.torch.save_model(two_layers(), path)
    times = times_of(path)
    reads = [
        lambda file: file.get_tensor("0.weight"),
        lambda file: file.get_tensor("0.weight", out=torch.empty(128, 64)),
        lambda file: file.get_tensors(),
        lambda file: file.get_slice("0.weight")[1:3],
    ]
    file = cfck.safe_open(path, "pt")
    for read in reads:
        read(file)
    overwrite(path, times)
    for read in reads:
        with pytest.raises(cfck.IoError, match="was changed after it was opened"):
            read(file)


def test_missing_files(tmp_path):
    with pytest.raises(cfck.MissingFileError):
        compressed(two_layers(), tmp_path / "none.cfck")
    with pytest.raises(FileNotFoundError):
        compressed(two_layers(), tmp_path)


@pytest.mark.parametrize("strict", [True, False])
def test_missing_weights_are_named(path, strict):
    state = two_layers().state_dict()
    for lost in (["2.weight"], ["0.bias"], ["0.weight", "3.weight"]):
        save_file({name: t for name, t in state.items() if name not in lost}, path)
        model = two_layers()
        with pytest.raises(RuntimeError) as caught:
            compressed(model, path, strict=strict)
        quoted = ", ".join(f'"{name}"' for name in lost)
        assert f"Missing key(s) in state_dict: {quoted}" in str(caught.value)
        assert str(caught.value).startswith("Error(s) in loading state_dict for Sequential:")
        assert_equal_outputs(model, two_layers(), X)  # it is as it was


def test_a_file_of_another_model(path):
    save_model(nn.Conv2d(16, 32, 3), path)
    with pytest.raises(RuntimeError) as caught:
        compressed(two_layers(), path, strict=False)
    assert '"0.bias", "0.weight", "2.bias"' in str(caught.value)
    assert 'Unexpected key(s) in state_dict: "bias", "weight"' in str(caught.value)


@pytest.mark.parametrize("name", ["0.weight", "0.bias"])
def test_other_shapes_are_named(path, name):
    state = two_layers().state_dict()
    state[name] = torch.zeros(3, 7)
    save_file(state, path)
    for strict in (True, False):
        model = two_layers()
        with pytest.raises(RuntimeError, match=f"size mismatch for {name}"):
            compressed(model, path, strict=strict)
        assert type(model[0]) is nn.Linear


def test_more_tensors_than_the_model_has(path):
    state = {**two_layers().state_dict(), "extra.weight": torch.zeros(100, 100)}
    save_file(state, path)
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "extra.weight"'):
        compressed(two_layers(), path)
    assert_equal_outputs(compressed(scrambled(two_layers()), path, strict=False), two_layers(), X)


class WithTable(nn.Module):
    def __init__(self, persistent: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 128)
        self.register_buffer("table", torch.arange(64.0), persistent=persistent)

    def forward(self, x):
        return self.linear(x * self.table)


def test_buffers_without_values(path):
    model = WithTable(persistent=False)
    save_model(model, path)
    assert_equal_outputs(compressed(WithTable(persistent=False), path), model, X)
    with torch.device("meta"):
        empty = WithTable(persistent=False)
    with pytest.raises(cfck.UnsupportedError, match="`table`; make the model on the host"):
        compressed(empty, path)
    with torch.device("meta"):
        empty = WithTable(persistent=True)
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "table"'):
        compressed(empty, path, strict=False)
    # A buffer that has values keeps them.
    streamed = compressed(WithTable(persistent=True), path, strict=False)
    assert_equal_outputs(streamed, model, X)
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "table"'):
        compressed(WithTable(persistent=True), path)
    save_model(WithTable(persistent=True), path)
    with torch.device("meta"):
        empty = WithTable(persistent=True)
    streamed = compressed(empty, path)
    assert_equal_outputs(streamed, loaded(WithTable(persistent=True), path), X)


def test_lazy_modules_are_refused(path):
    save_model(two_layers(), path)
    with pytest.raises(cfck.UnsupportedError, match="`0.weight` is an uninitialised parameter"):
        compressed(nn.Sequential(nn.LazyLinear(128)), path)


@pytest.mark.filterwarnings("ignore")
def test_quantised_models_are_refused(path):
    save_model(two_layers(), path)
    quantised = torch.ao.quantization.quantize_dynamic(two_layers(), {nn.Linear})
    with pytest.raises(cfck.UnsupportedError, match="belongs to a quantised module"):
        compressed(quantised, path)


@pytest.mark.filterwarnings("ignore")
def test_scripts_are_refused(path):
    save_model(two_layers(), path)
    with pytest.raises(cfck.UnsupportedError, match="script of torch.jit"):
        compressed(torch.jit.script(two_layers()), path)


def test_parameters_of_other_classes_are_refused(path):
    class Special(nn.Parameter):
        pass

    save_model(two_layers(), path)
    model = two_layers()
    model[0].weight = Special(torch.zeros(128, 64))
    with pytest.raises(cfck.UnsupportedError, match="`0.weight` is a Special"):
        compressed(model, path)


def test_a_model_is_compressed_once(path):
    streamed, expected = pair(two_layers(), path)
    with pytest.raises(cfck.InvalidArgumentError, match="`0.weight` is compressed already"):
        compressed(streamed, path)
    assert_equal_outputs(streamed, expected, X)


def test_parts_of_one_model_from_several_files(path, tmp_path):
    model = two_layers()
    save_model(model[0], path)
    save_model(model[2], tmp_path / "b.cfck")
    other = scrambled(model)
    compressed(other[0], path)
    compressed(other[2], tmp_path / "b.cfck")
    other[3].load_state_dict(model[3].state_dict())
    assert_equal_outputs(other, model, X)


def test_wrong_arguments(path):
    save_model(two_layers(), path)
    with pytest.raises(cfck.InvalidArgumentError, match="expected a torch.nn.Module, not dict"):
        compressed({}, path)
    with pytest.raises(TypeError, match="prefetch is a bool, not str"):
        compressed(two_layers(), path, prefetch="yes")
    with pytest.raises(TypeError, match="did you mean prefetch"):
        compressed(two_layers(), path, prefetsch=True)
    with pytest.raises(TypeError, match="expected bytes, not int"):
        compressed(two_layers(), 3)
    with pytest.raises(cfck.InvalidArgumentError, match="backend"):
        compressed(two_layers(), path, backend="magic")
    for of_files in ({"backend": "mmap"}, {"only_tensors": True}):
        with pytest.raises(cfck.InvalidArgumentError, match="is an option of files"):
            compressed(two_layers(), path.read_bytes(), **of_files)
    with pytest.raises(TypeError, match="only_tensors is a bool, not str"):
        compressed(two_layers(), path, only_tensors="no")
    with pytest.raises(cfck.UnsupportedError, match='decode="device"'):
        compressed(two_layers(), path, decode="device")
    with pytest.raises(cfck.CfckError):
        compressed(two_layers(), b"no file of tensors")


def test_limits_hold_for_each_weight(path):
    save_model(two_layers(), path)
    streamed = compressed(two_layers(), path, max_decoded_bytes=128 * 64 * 4)
    streamed(X)
    with pytest.raises(cfck.LimitExceededError):
        compressed(two_layers(), path, limits={"max_records": 2})
    streamed = compressed(two_layers(), path, limits={"max_decoded_bytes": 20_000})
    with pytest.raises(cfck.LimitExceededError, match=re.escape("0.weight")):
        streamed(X)


def test_bytes_stay_in_memory():
    model = two_layers()
    data = bytearray(save(model.state_dict()))
    streamed = compressed(scrambled(model), bytes(data))
    data[:] = bytes(len(data))
    assert_same(streamed[0].weight, model[0].weight.detach())
