"""torch tensors of every kind survive, or are refused with a reason."""

import cfck
import numpy as np
import pytest
import safetensors.torch
import torch
from cfck.torch import load, load_file, save, save_file
from conftest import TORCH_DTYPES, assert_same, bits, random_bits, shares_memory, weights
from torch._subclasses.fake_tensor import FakeTensorMode

SHAPES = [(), (1,), (0,), (3, 0, 2), (7,), (5, 4), (2, 3, 4, 5), (1, 1, 1), (300, 1000)]


def round_trip(tensor: torch.Tensor, **options) -> torch.Tensor:
    return load(save({"x": tensor}, **options))["x"]


@pytest.mark.parametrize("codec", ["auto", "raw", "lossless"])
@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
def test_every_dtype_and_shape(dtype, codec):
    tensors = {f"{shape}": random_bits(shape, dtype, seed) for seed, shape in enumerate(SHAPES)}
    loaded = load(save(tensors, codec=codec))
    assert list(loaded) == list(tensors)
    for name, tensor in tensors.items():
        assert_same(loaded[name], tensor)


def test_float4_pairs():
    tensor = random_bits((6, 10), torch.uint8).view(torch.float4_e2m1fn_x2)
    data = save({"x": tensor})
    loaded = load(data)["x"]
    assert loaded.dtype == torch.float4_e2m1fn_x2
    assert loaded.shape == (6, 10)
    assert torch.equal(loaded.view(torch.uint8), tensor.view(torch.uint8))


def test_float4_counts_elements_as_safetensors_does(path):
    tensor = torch.zeros(2, 4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    save_file({"x": tensor}, path)
    spec = safetensors.TensorSpec(
        dtype="float4_e2m1fn_x2", shape=tensor.shape, data_ptr=0, data_len=8
    )
    with cfck.safe_open(path, "pt") as file:
        assert file.get_slice("x").get_shape() == list(spec.shape)
        assert file.get_slice("x").get_dtype() == spec.dtype


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.t(),
        lambda x: x[::2],
        lambda x: x[:, 3:7],
        lambda x: x[:1].expand(5, -1),
        lambda x: x.reshape(4, 2, 5, 3).to(memory_format=torch.channels_last),
        lambda x: x.as_strided((5, 5), (3, 2), 1),
        lambda x: x.unfold(0, 4, 2),
        lambda x: x.diagonal(),
        lambda x: torch.nn.Parameter(x),
        lambda x: x.clone().requires_grad_(),
        lambda x: x.clone().requires_grad_() * 2,
    ],
)
def test_any_layout_comes_back_contiguous_with_its_values(make):
    tensor = make(weights(12, 10))
    loaded = round_trip(tensor)
    assert loaded.is_contiguous()
    assert not loaded.requires_grad
    assert_same(loaded, tensor)


def test_conjugate_and_negative_views_are_resolved():
    z = torch.complex(weights(4, 5), weights(4, 5, seed=2))
    assert_same(round_trip(z.conj()), z.conj().resolve_conj())
    negative = z.conj().imag
    assert negative.is_neg()
    assert_same(round_trip(negative), negative.resolve_neg())


class Named(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class Wrapper(torch.Tensor):
    """Its values are in another tensor, as in DTensor and in quantised weights."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError(func)


def test_subclass_with_memory_of_its_own_is_stored_as_a_plain_tensor():
    tensor = weights(8, 8)
    loaded = round_trip(tensor.as_subclass(Named))
    assert type(loaded) is torch.Tensor
    assert_same(loaded, tensor)


def _fake():
    with FakeTensorMode():
        return torch.empty(3)


def _freed():
    tensor = torch.zeros(3)
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: torch.eye(3).to_sparse(), "to_dense"),
        (lambda: torch.eye(3).to_sparse_csr(), "to_dense"),
        (lambda: torch.empty(3, device="meta"), "no data"),
        (_fake, "no data"),
        (lambda: torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8), "quantised"),
        (lambda: torch.zeros(3, dtype=torch.complex128), "complex128"),
        (lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), "nested"),
        (lambda: Wrapper(torch.zeros(3)), "Wrapper"),
        (_freed, "no memory"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_name(make, words, path):
    path.write_bytes(b"old")
    with pytest.raises(cfck.CfckError, match=words) as caught:
        save_file({"fine": torch.zeros(1), "culprit": make()}, path)
    assert caught.value.record == "culprit"
    assert "culprit" in str(caught.value)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    "tensors", [[torch.zeros(1)], {"a": 1}, {"a": np.zeros(1)}, {"a": None}, None]
)
def test_wrong_types_raise_what_safetensors_raises(tensors):
    with pytest.raises(ValueError, match="xpected"):
        safetensors.torch.save(tensors)
    with pytest.raises(ValueError, match="xpected"):
        save(tensors)


def test_names_and_metadata_are_strings():
    for arguments in [({1: torch.zeros(1)},), ({"a": torch.zeros(1)}, {"k": 1}), ({}, {1: "v"})]:
        with pytest.raises(TypeError):
            safetensors.torch.save(*arguments)
        with pytest.raises(TypeError):
            save(*arguments)
    with pytest.raises(cfck.CfckError):
        save({"\ud800": torch.zeros(1)})


def test_odd_names_survive():
    names = ["", " ", "a\nb", "ä/ö", "../x", "__metadata__", "é" * 1000, "\0"]
    loaded = load(save({name: torch.tensor(i) for i, name in enumerate(names)}))
    assert list(loaded) == names
    assert [int(t) for t in loaded.values()] == list(range(len(names)))


def test_same_results_as_safetensors(tmp_path):
    tensors = {
        "w": weights(64, 48),
        "b": weights(48).bfloat16(),
        "ids": torch.arange(100),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "empty": torch.empty(0, 4),
        "mask": torch.arange(20) % 3 == 0,
    }
    metadata = {"format": "pt", "ключ": "значение"}
    safetensors.torch.save_file(tensors, tmp_path / "a.safetensors", metadata)
    save_file(tensors, tmp_path / "a.cfck", metadata)
    expected = safetensors.torch.load_file(tmp_path / "a.safetensors")
    actual = load_file(tmp_path / "a.cfck")
    assert actual.keys() == expected.keys()
    for name in expected:
        assert_same(actual[name], expected[name])
    with cfck.safe_open(tmp_path / "a.cfck", "pt") as ours:
        with safetensors.safe_open(tmp_path / "a.safetensors", "pt") as theirs:
            assert ours.metadata() == theirs.metadata()
            assert ours.keys() == theirs.keys()


def test_bytes_and_file_are_the_same(path):
    tensors = {"w": weights(100, 100)}
    save_file(tensors, path, {"a": "b"})
    assert path.read_bytes() == save(tensors, {"a": "b"})


def test_bytes_do_not_depend_on_threads():
    tensors = {f"w{i}": weights(600, 700, seed=i) for i in range(3)}
    assert save(tensors, threads=1) == save(tensors, threads=2) == save(tensors, threads=5)


def test_loaded_tensors_are_independent_and_writable(path):
    save_file({"a": weights(10), "b": weights(10)}, path)
    loaded = load_file(path)
    assert not shares_memory(loaded["a"], loaded["b"])
    loaded["a"].add_(1)
    assert_same(loaded["b"], weights(10))


def test_default_device_and_grad_modes_do_not_matter(path):
    with torch.device("meta"):
        save_file({"a": weights(10)}, path)
        loaded = load_file(path)["a"]
    assert loaded.device.type == "cpu"
    with torch.inference_mode():
        assert_same(load_file(path)["a"], weights(10))
    with FakeTensorMode(), pytest.raises(cfck.UnsupportedError, match="Fake"):
        load_file(path)


def test_device_argument(path):
    save_file({"a": weights(10)}, path)
    assert_same(load_file(path, "cpu")["a"], weights(10))
    assert load_file(path, torch.device("meta"))["a"].device.type == "meta"
    with pytest.raises(RuntimeError):
        load_file(path, "no_such_device")


def test_empty_dict(path):
    save_file({}, path)
    assert load_file(path) == {}
    assert load(save({})) == {}


def test_dtypes_of_files_that_torch_does_not_have(path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    cfck.numpy.save_file({"six": np.zeros(4, ml_dtypes.float6_e2m3fn), "f": np.zeros(1)}, path)
    with cfck.safe_open(path, "pt") as file:
        assert float(file.get_tensor("f")) == 0
        with pytest.raises(cfck.UnsupportedError, match="F6_E2M3"):
            file.get_tensor("six")


def test_compressible_tensors_shrink():
    tensor = weights(512, 512)
    data = save({"w": tensor})
    assert len(data) < 0.9 * len(bits(tensor))
    assert len(save({"z": torch.zeros(512, 512)})) < 2000
