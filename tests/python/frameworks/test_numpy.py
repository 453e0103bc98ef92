"""numpy arrays of every kind survive, or are refused with a reason."""

import cfck
import cfck.torch
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import torch
from cfck.numpy import load, load_file, save, save_file

NUMPY_DTYPES = [
    np.bool_, np.uint8, np.int8, np.int16, np.uint16, np.float16, np.int32, np.uint32,
    np.float32, np.complex64, np.float64, np.int64, np.uint64, np.intp, np.longlong,
]  # fmt: skip
ML_DTYPES = [
    ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e8m0fnu,
]  # fmt: skip
PACKED = {ml_dtypes.float4_e2m1fn: 4, ml_dtypes.float6_e2m3fn: 6, ml_dtypes.float6_e3m2fn: 6}


def random_bits(shape, dtype, seed=1):
    dtype = np.dtype(dtype)
    n_bytes = int(np.prod(shape, dtype=int)) * dtype.itemsize
    data = np.random.Generator(np.random.PCG64(seed)).integers(0, 256, n_bytes, dtype=np.uint8)
    if dtype == np.bool_:
        data &= 1
    return data.view(dtype).reshape(shape)


def assert_same(actual, expected):
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert actual.tobytes() == expected.tobytes()


def round_trip(array):
    return load(save({"x": array}))["x"]


@pytest.mark.parametrize("dtype", NUMPY_DTYPES + ML_DTYPES, ids=lambda d: np.dtype(d).name)
def test_every_dtype_and_shape(dtype):
    shapes = [(), (1,), (0,), (3, 0, 2), (7,), (2, 3, 4, 5), (300, 1000)]
    arrays = {f"{shape}": random_bits(shape, dtype, seed) for seed, shape in enumerate(shapes)}
    loaded = load(save(arrays))
    assert list(loaded) == list(arrays)
    for name, array in arrays.items():
        assert_same(loaded[name], array)
        assert loaded[name].flags.writeable and loaded[name].flags.c_contiguous


@pytest.mark.parametrize(("dtype", "n_bits"), PACKED.items(), ids=lambda d: str(d))
def test_packed_floats(dtype, n_bits):
    codes = np.arange(2**n_bits * 6, dtype=np.uint8).reshape(6, -1) % 2**n_bits
    array = codes.view(dtype)
    data = save({"x": array, "none": array[:0], "equal": array.copy()}, codec="raw")
    loaded = load(data)
    assert_same(loaded["x"], array)
    assert_same(loaded["equal"], array)
    assert loaded["none"].shape == (0, 2**n_bits)
    assert load(data)["x"].flags.writeable


def test_float4_is_packed_as_torch_packs_it(path):
    array = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).reshape(2, 8)
    save_file({"x": array}, path)
    pairs = cfck.torch.load_file(path)["x"]
    assert pairs.shape == (2, 4)
    low_first = np.arange(16, dtype=np.uint8).reshape(2, 4, 2)
    expected = low_first[..., 0] | low_first[..., 1] << 4
    assert torch.equal(pairs.view(torch.uint8), torch.from_numpy(expected))


@pytest.mark.parametrize("dtype", PACKED, ids=lambda d: np.dtype(d).name)
def test_packed_floats_that_do_not_fill_bytes_are_refused(dtype):
    with pytest.raises(cfck.CfckError) as caught:
        save({"x": np.zeros(3, dtype)})
    assert caught.value.record == "x"


@pytest.mark.parametrize(
    "make",
    [
        np.asfortranarray,
        lambda a: a.T,
        lambda a: a[::2, 1:4],
        lambda a: a[::-1],
        lambda a: a[:, ::-2],
        lambda a: np.broadcast_to(a[:1], (5, 10)),
        lambda a: a.astype(">f4"),
        lambda a: a.astype(">i8")[::-1],
        lambda a: np.frombuffer(b"x" + a.tobytes(), "<f4", offset=1),
        lambda a: np.rec.fromarrays([a[0], a[0].astype("u1")], names="v,t").v,
        lambda a: np.matrix(a),
        lambda a: a[0, 0],
        lambda a: np.float64(3.5),
    ],
)
def test_any_layout_comes_back_in_c_order(make):
    array = make(np.arange(120, dtype=np.float32).reshape(12, 10))
    loaded = round_trip(array)
    assert loaded.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(loaded, np.asarray(array))
    assert loaded.flags.c_contiguous


def test_memory_mapped_input(tmp_path):
    array = np.random.default_rng(1).standard_normal((100, 30))
    np.save(tmp_path / "a.npy", array)
    assert_same(round_trip(np.load(tmp_path / "a.npy", mmap_mode="r")), array)


@pytest.mark.parametrize(
    "array",
    [
        np.array(["text"]),
        np.array([b"bytes"]),
        np.array([object()]),
        np.zeros(2, np.longdouble),
        np.zeros(2, np.complex128),
        np.zeros(2, "M8[s]"),
        np.zeros(2, [("a", "f4"), ("b", "i4")]),
        np.zeros(2, ml_dtypes.int4),
        np.zeros(2, ml_dtypes.float8_e3m4),
        np.ma.masked_array([1.0, 2.0], [True, False]),
    ],
    ids=lambda a: str(a.dtype),
)
def test_what_cannot_be_stored_is_refused_by_name(array):
    with pytest.raises(cfck.UnsupportedError, match="culprit") as caught:
        save({"culprit": array})
    assert caught.value.record == "culprit"


@pytest.mark.parametrize("tensors", [{"a": 1}, {"a": [1.0]}, {"a": torch.zeros(1)}, 3])
def test_wrong_types(tensors):
    with pytest.raises(ValueError, match="xpected"):
        save(tensors)


def test_same_results_as_safetensors(tmp_path):
    arrays = {
        "w": np.random.default_rng(1).standard_normal((64, 48)).astype(np.float32),
        "ids": np.arange(100),
        "big": np.arange(10, dtype=">i4"),
        "scalar": np.array(2.5),
    }
    safetensors.numpy.save_file(arrays, tmp_path / "a.safetensors")
    save_file(arrays, tmp_path / "a.cfck")
    expected = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    actual = load_file(tmp_path / "a.cfck")
    assert actual.keys() == expected.keys()
    for name in expected:
        assert_same(actual[name], expected[name])


def test_torch_and_numpy_write_the_same_bytes():
    arrays = {"a": np.arange(10.0), "b": np.ones((300, 400), np.float32)}
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    assert save(arrays) == cfck.torch.save(tensors)


def test_views_come_back_as_views(path):
    base = np.arange(60, dtype=np.int32).reshape(6, 10)
    save_file({"base": base, "t": base.T, "rows": base[2:4], "copy": base.copy()}, path)
    loaded = load_file(path)
    for name, expected in {"base": base, "t": base.T, "rows": base[2:4], "copy": base}.items():
        np.testing.assert_array_equal(loaded[name], expected)
        assert loaded[name].flags.writeable
    loaded["base"][2, 3] = -1
    assert loaded["t"][3, 2] == -1
    assert loaded["rows"][0, 3] == -1
    assert loaded["copy"][2, 3] == 23
    loaded["t"][0, 0] = -2
    assert loaded["base"][0, 0] == -2


def test_views_without_a_common_base_share_hidden_storage():
    memory = np.arange(100, dtype=np.float32)
    loaded = load(save({"left": memory[:60], "right": memory[40:], "apart": np.arange(5)}))
    assert sorted(loaded) == ["apart", "left", "right"]
    np.testing.assert_array_equal(loaded["left"], memory[:60])
    np.testing.assert_array_equal(loaded["right"], memory[40:])
    loaded["left"][45] = -1
    assert loaded["right"][5] == -1
