"""compress, decompress, update."""

import cfck
import ml_dtypes
import numpy as np
import pytest
import torch
from cfck.torch import load_file, save, save_file
from conftest import TORCH_DTYPES, assert_same, random_bits, shares_memory, weights


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (300, 400)])
@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
def test_torch_tensors(dtype, shape):
    tensor = random_bits(shape, dtype)
    assert_same(cfck.decompress(cfck.compress(tensor), framework="pt"), tensor)
    out = torch.empty(shape, dtype=dtype)
    assert cfck.decompress(cfck.compress(tensor), out) is out
    assert_same(out, tensor)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, ml_dtypes.bfloat16])
def test_numpy_arrays(dtype):
    array = np.arange(60000).reshape(200, 300).astype(dtype)
    data = cfck.compress(array)
    assert isinstance(data, bytes)
    loaded = cfck.decompress(data)
    assert loaded.dtype == array.dtype
    assert loaded.tobytes() == array.tobytes()
    out = np.zeros_like(array)
    assert cfck.decompress(data, out=out) is out
    assert out.tobytes() == array.tobytes()


def test_it_is_a_whole_small_file(path):
    path.write_bytes(cfck.compress(weights(100)))
    assert list(load_file(path)) == [""]
    assert len(cfck.compress(np.float32(1))) < 600


def test_options_and_wrong_input():
    tensor = weights(300, 300)
    assert cfck.compress(tensor, threads=1) == cfck.compress(tensor, threads=2)
    assert len(cfck.compress(tensor, codec="raw")) > len(cfck.compress(tensor, codec="lossless"))
    for wrong in ([1.0, 2.0], None, "text", b"bytes"):
        with pytest.raises(cfck.InvalidArgumentError, match="expected"):
            cfck.compress(wrong)
    with pytest.raises(cfck.InvalidArgumentError, match="2 named tensors"):
        cfck.decompress(save({"a": tensor, "b": tensor}))
    with pytest.raises(cfck.InvalidArgumentError, match="out"):
        cfck.decompress(cfck.compress(tensor), torch.zeros(3))
    data = bytearray(cfck.compress(tensor))
    data[len(data) // 2] ^= 1
    with pytest.raises(cfck.ChecksumError):
        cfck.decompress(data)
    with pytest.raises(cfck.LimitExceededError):
        cfck.decompress(cfck.compress(tensor), max_decoded_bytes=10)


def test_update_adds_replaces_and_removes(path):
    save_file(
        {"keep": weights(300, 300), "change": weights(10), "drop": weights(20)},
        path,
        {"a": "1", "b": "2"},
    )
    before = path.read_bytes()
    cfck.update(
        path,
        {"change": weights(11, seed=2), "new": weights(30, 40, seed=3)},
        remove=["drop"],
        metadata={"b": "3", "c": "4"},
    )
    assert path.read_bytes().startswith(before)
    loaded = load_file(path)
    assert set(loaded) == {"keep", "change", "new"}
    assert_same(loaded["keep"], weights(300, 300))
    assert_same(loaded["change"], weights(11, seed=2))
    assert_same(loaded["new"], weights(30, 40, seed=3))
    with cfck.safe_open(path, "pt") as file:
        assert file.metadata() == {"a": "1", "b": "3", "c": "4"}


def test_update_with_numpy_with_ties_and_with_nothing(path):
    save_file({"a": weights(10)}, path)
    array = np.arange(12.0).reshape(3, 4)
    cfck.update(path, {"n": array, "t": array.T})
    loaded = cfck.numpy.load_file(path)
    np.testing.assert_array_equal(loaded["t"], array.T)
    loaded["n"][0, 1] = -5
    assert loaded["t"][1, 0] == -5
    cfck.update(path, {})
    cfck.update(path, {}, remove=["a"])
    assert set(load_file(path)) == {"n", "t"}
    assert shares_memory(*load_file(path).values())


def test_a_tensor_that_is_not_there_comes_with_one_that_was_meant(path):
    save_file({"layer.weight": weights(10)}, path)
    message = "has no tensor 'layer.wieght' to remove; did you mean 'layer.weight'"
    with pytest.raises(cfck.NotFoundError, match=message) as caught:
        cfck.update(path, {}, remove=["layer.wieght"])
    assert caught.value.record == "layer.wieght"


def test_a_failed_update_leaves_the_file_as_it_was(path):
    save_file({"a": weights(10)}, path)
    before = path.read_bytes()
    with pytest.raises(cfck.NotFoundError) as caught:
        cfck.update(path, {"b": weights(10)}, remove=["zz"])
    assert not isinstance(caught.value, cfck.MissingFileError)
    with pytest.raises(cfck.UnsupportedError):
        cfck.update(path, {"b": torch.zeros(3, dtype=torch.complex128)})
    with pytest.raises(TypeError):
        cfck.update(path, {}, remove="a")
    assert path.read_bytes() == before
