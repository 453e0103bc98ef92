"""TensorSpec, serialize, serialize_file and deserialize: safetensors' own names for the same."""

import inspect

import cfck
import cfck.torch
import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from cfck import TensorSpec, deserialize, serialize, serialize_file
from cfck._io.archive import Archive
from cfck.torch import load, load_file, save
from conftest import assert_same, weights

NAMES = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
    "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2", "complex64",
]  # fmt: skip


def spec_of(tensor, **changes):
    arguments = {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": tensor.shape,
        "data_ptr": tensor.data_ptr(),
        "data_len": tensor.nbytes,
    }
    return TensorSpec(**{**arguments, **changes})


@pytest.mark.parametrize("name", NAMES)
def test_dtypes_are_those_of_safetensors(name):
    arguments = {"dtype": name, "shape": (2, 4), "data_ptr": 1, "data_len": 8}
    ours, theirs = TensorSpec(**arguments), safetensors.TensorSpec(**arguments)
    for attribute in ("dtype", "shape", "data_ptr", "data_len"):
        assert getattr(ours, attribute) == getattr(theirs, attribute)
    assert repr(ours) == repr(theirs)
    with pytest.raises(AttributeError):
        ours.dtype = "F32"
    assert ours != TensorSpec(**arguments)
    assert len({ours, ours}) == 1


@pytest.mark.parametrize("name", ["serialize", "serialize_file", "deserialize", "TensorSpec"])
def test_signatures_are_those_of_safetensors(name):
    ours, theirs = (inspect.signature(getattr(module, name)) for module in (cfck, safetensors))
    assert list(ours.parameters) == list(theirs.parameters)
    for parameter, other in zip(ours.parameters.values(), theirs.parameters.values(), strict=True):
        assert (parameter.kind, parameter.default) == (other.kind, other.default)


def test_round_trips(path):
    tensor, ids = weights(30, 40), torch.arange(5)
    specs = {"w": spec_of(tensor), "ids": spec_of(ids)}
    data = serialize(specs, {"k": "v"})
    assert isinstance(data, bytes)
    assert_same(load(data)["w"], tensor)
    found = deserialize(data)
    assert [name for name, _ in found] == ["w", "ids"]
    assert found[0][1] == {"dtype": "F32", "shape": [30, 40], "data": tensor.numpy().tobytes()}
    assert isinstance(found[0][1]["data"], bytearray)
    assert serialize_file(specs, path, metadata={"k": "v"}) is None
    assert path.read_bytes() == data
    assert_same(load_file(path)["ids"], ids)
    with cfck.safe_open(path, "np") as file:
        assert file.metadata() == {"k": "v"}


def test_bytes_of_safetensors_are_deserialized():
    tensor = weights(3, 4)
    data = safetensors.torch.save({"w": tensor, "e": torch.empty(0, 2)}, {"k": "v"})
    assert dict(deserialize(data)) == dict(safetensors.deserialize(data))


def test_packed_elements():
    pairs = torch.arange(12, dtype=torch.uint8).reshape(3, 4).view(torch.float4_e2m1fn_x2)
    spec = spec_of(pairs)
    assert spec.shape == [3, 8]
    data = serialize({"p": spec})
    assert torch.equal(load(data)["p"].view(torch.uint8), pairs.view(torch.uint8))
    assert deserialize(data)[0][1]["shape"] == [3, 8]
    array = np.arange(6).astype(ml_dtypes.bfloat16)
    spec = TensorSpec(
        dtype=array.dtype.name, shape=array.shape, data_ptr=array.ctypes.data, data_len=12
    )
    assert load(serialize({"a": spec}))["a"].tolist() == [0, 1, 2, 3, 4, 5]


def test_tensors_without_elements_need_no_memory():
    spec = TensorSpec(dtype="int8", shape=[3, 0], data_ptr=0, data_len=0)
    assert deserialize(serialize({"e": spec})) == [
        ("e", {"dtype": "I8", "shape": [3, 0], "data": bytearray()})
    ]
    assert deserialize(serialize({})) == []


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"dtype": "float"}, cfck.SafetensorError),
        ({"dtype": "F32"}, cfck.InvalidArgumentError),
        ({"dtype": 3}, TypeError),
        ({"shape": "ab"}, TypeError),
        ({"shape": [2.0]}, TypeError),
        ({"shape": [-1]}, OverflowError),
        ({"data_ptr": -1}, OverflowError),
        ({"data_len": -1}, OverflowError),
    ],
)
def test_specs_that_are_refused(change, error):
    with pytest.raises(error):
        spec_of(weights(2), **change)
    with pytest.raises(TypeError):
        TensorSpec("float32", [2], 1, 8)


@pytest.mark.parametrize("change", [{"data_len": 4}, {"data_ptr": 0}, {"shape": [3]}])
def test_specs_without_the_memory_they_need(path, change):
    tensor = weights(2)
    with pytest.raises(cfck.InvalidArgumentError, match="`w`") as caught:
        serialize_file({"w": spec_of(tensor, **change)}, path)
    assert caught.value.record == "w"
    assert not path.exists()


@pytest.mark.parametrize("tensors", [[1], {"w": 1}, {"w": {"dtype": "float32"}}, {3: None}, None])
def test_other_things_than_specs(tensors):
    with pytest.raises(TypeError):
        serialize(tensors)


def test_bytes_alone_are_deserialized():
    for data in (bytearray(), memoryview(b""), "text", None):
        with pytest.raises(TypeError):
            deserialize(data)
    with pytest.raises(cfck.CfckError):
        deserialize(b"nothing")


def test_no_memory_is_taken_beyond_the_limit(monkeypatch):
    data = save({"zeros": torch.zeros(1000, 1000)})
    assert len(deserialize(data)[0][1]["data"]) == 4_000_000
    from_bytes = Archive.from_bytes

    def from_bytes_with_less(data, options):
        return from_bytes(data, {**options, "max_decoded_bytes": 1_000_000})

    monkeypatch.setattr(Archive, "from_bytes", from_bytes_with_less)
    with pytest.raises(cfck.LimitExceededError, match="max_decoded_bytes"):
        deserialize(data)


def test_small_bytes_that_claim_much_are_refused():
    """Names that share one tensor get memory of their own: 20 GB for a file of 22 kB."""
    shared = torch.zeros(16 << 20)
    data = save({f"t{i}": shared for i in range(300)})
    with pytest.raises(cfck.LimitExceededError, match="20132659200 bytes, more than deserialize"):
        deserialize(data)


def test_storage_of_tensors():
    tensor = torch.zeros(10, 4)
    for one in (tensor, tensor[3:], tensor.t(), torch.empty(0), torch.zeros(3, device="meta")):
        assert cfck.torch.storage_ptr(one) == safetensors.torch.storage_ptr(one)
        assert cfck.torch.storage_size(one) == safetensors.torch.storage_size(one)
    assert cfck.torch.storage_ptr(tensor[3:]) == tensor.data_ptr()
    assert cfck.torch.storage_size(tensor[3:]) == 160


def test_the_name_that_safetensors_has_for_errors():
    assert cfck.SafetensorError is cfck.CfckError
