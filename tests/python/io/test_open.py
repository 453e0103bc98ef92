"""safe_open and slices."""

import cfck
import cfck.numpy
import cfck.torch
import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from conftest import assert_same, bits, weights

SHAPE = (9, 11, 13)


@pytest.fixture
def both(tmp_path):
    tensors = {"x": weights(*SHAPE), "s": torch.tensor(3.0), "e": torch.zeros(0, 3)}
    ours, theirs = tmp_path / "a.cfck", tmp_path / "a.safetensors"
    cfck.torch.save_file(tensors, ours, {"k": "v"})
    safetensors.torch.save_file(tensors, theirs, {"k": "v"})
    return ours, theirs


INDICES = [
    0, -1, 8, np.int64(4), slice(None), slice(2, 5), slice(-4, None), slice(5, 2), slice(0, 100),
    slice(None, None, 2), slice(1, None, 3), ..., (), (..., 0), (0, ...), (0, ..., 0),
    (slice(None), -1), (1, 2, 3), (slice(1, 3), slice(None), slice(4, 9, 2)),
    (..., slice(1, 3)), (slice(None), 3, slice(None)), (slice(100, 200), 0),
    None, (None, 0), [0, 2], (slice(None), [1, 3]), True, (slice(3), None, ..., 2),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_slices_equal_those_of_safetensors_and_of_numpy(both, index):
    with cfck.safe_open(both[0], "pt") as ours, safetensors.safe_open(both[1], "pt") as theirs:
        expected = theirs.get_slice("x")[index]
        actual = ours.get_slice("x")[index]
    assert type(actual) is torch.Tensor
    assert_same(actual, expected)
    with cfck.safe_open(both[0], "np") as file:
        array = weights(*SHAPE).numpy()[index]
        actual = file.get_slice("x")[index]
    assert np.shape(actual) == np.shape(array)
    np.testing.assert_array_equal(actual, array)


@pytest.mark.parametrize(
    "index",
    [9, -10, (0, 11), (0, 0, 0, 0), 1.5, slice(None, None, -1), (..., 0, 0, 0, 0)],
    ids=str,
)
@pytest.mark.parametrize("framework", ["pt", "np"])
def test_wrong_indices_raise_what_safetensors_raises(both, index, framework):
    # safetensors has an error of its own for numpy; the builtin ones are those of torch.
    with safetensors.safe_open(both[1], "pt") as file:
        with pytest.raises((IndexError, ValueError, TypeError)) as expected:
            file.get_slice("x")[index]
    with cfck.safe_open(both[0], framework) as file, pytest.raises(expected.type):
        file.get_slice("x")[index]


def test_an_index_beyond_the_tensor_is_an_error_of_cfck_too(both):
    with cfck.safe_open(both[0], "np") as file:
        for index in (1000, np.s_[0, 0, 0, 0, 0, 0]):
            with pytest.raises(cfck.OutOfBoundsError) as caught:
                file.get_slice("x")[index]
            assert isinstance(caught.value, IndexError)
            assert caught.value.record == "x"


def test_slices_of_scalars_and_empty_tensors(both):
    with cfck.safe_open(both[0], "pt") as file:
        assert_same(file.get_slice("s")[...], torch.tensor(3.0))
        assert_same(file.get_slice("s")[()], torch.tensor(3.0))
        with pytest.raises(IndexError):
            file.get_slice("s")[:]
        assert file.get_slice("e")[:].shape == (0, 3)
        assert file.get_slice("e")[:, 1:].shape == (0, 2)
        assert file.get_slice("x").get_shape() == list(SHAPE)
        assert file.get_slice("x").get_dtype() == "F32"


def test_slices_of_tensors_with_many_chunks(tmp_path):
    array = np.arange(3000 * 700, dtype=np.int32).reshape(3000, 700)
    cfck.numpy.save_file({"x": array}, tmp_path / "x.cfck")
    generator = np.random.Generator(np.random.PCG64(3))
    with cfck.safe_open(tmp_path / "x.cfck", "np") as file:
        for _ in range(50):
            rows, columns = (sorted(generator.integers(0, n + 1, 2)) for n in array.shape)
            index = (slice(*rows), slice(*columns, int(generator.integers(1, 4))))
            np.testing.assert_array_equal(file.get_slice("x")[index], array[index])


def test_contents(both):
    with cfck.safe_open(both[0], "pt") as file:
        assert file.keys() == ["e", "s", "x"]
        assert file.offset_keys() == ["x", "s", "e"]
        assert file.metadata() == {"k": "v"}
        assert_same(file.get_tensor("x"), weights(*SHAPE))
        assert list(file.get_tensors()) == ["x", "s", "e"]


def test_no_metadata_is_none(path):
    cfck.torch.save_file({}, path)
    with cfck.safe_open(path, "pt") as file:
        assert file.metadata() is None


def test_missing_tensor(both):
    with cfck.safe_open(both[0], "pt") as file:
        for call in (file.get_tensor, file.get_slice):
            with pytest.raises(cfck.NotFoundError, match="File does not contain tensor zz"):
                call("zz")
            with pytest.raises(KeyError):
                call("zz")


def test_missing_tensors_come_with_names_that_were_meant(both, path):
    names = ["layer.weight", "layer.bias", "other.weight", "ids"]
    cfck.torch.save_file({name: torch.zeros(3) for name in names}, path)
    with cfck.safe_open(path, "pt") as file:
        for call in (file.get_tensor, file.get_slice, file.get_record):
            with pytest.raises(cfck.NotFoundError) as caught:
                call("layer.wieght")
            assert str(caught.value) == (
                "File does not contain tensor layer.wieght; did you mean 'layer.weight'?"
            )
            assert caught.value.record == "layer.wieght"
        with pytest.raises(KeyError, match="; it has 4 others, such as 'layer.weight'"):
            file.get_tensor("zzzz")
        # Who tries name after name does not wait for advice.
        for _ in range(5):
            with pytest.raises(KeyError):
                file.get_tensor("zzzz")
        with pytest.raises(KeyError) as caught:
            file.get_tensor("layer.wieght")
        assert str(caught.value) == "File does not contain tensor layer.wieght"
    with cfck.safe_open(both[0], "pt") as file:
        with pytest.raises(KeyError, match="; it has 'x', 's', 'e'"):
            file.get_tensor("zzzz")


def test_closed_file(both):
    with cfck.safe_open(both[0], "pt") as file:
        part = file.get_slice("x")
    with pytest.raises(cfck.InvalidArgumentError, match="not open"):
        file.keys()
    assert_same(part[0], weights(*SHAPE)[0])


def test_frameworks_and_devices(both):
    for name in ("np", "numpy"):
        assert isinstance(cfck.safe_open(both[0], name).get_tensor("x"), np.ndarray)
    with pytest.raises(cfck.CfckError, match='framework zz is invalid; it is "pt" or "np"'):
        cfck.safe_open(both[0], "zz")
    with pytest.raises(cfck.CfckError, match="not supported for framework numpy"):
        cfck.safe_open(both[0], "np", device="cuda:0")
    with cfck.safe_open(both[0], "pt", device="meta") as file:
        assert file.get_tensor("x").device.type == "meta"
        assert file.get_slice("x")[1:3].device.type == "meta"


@pytest.mark.parametrize("backend", ["pread", "mmap"])
@pytest.mark.parametrize("codec", ["raw", "lossless"])
def test_backends(path, backend, codec):
    cfck.torch.save_file({"x": weights(700, 800)}, path, codec=codec)
    assert_same(cfck.torch.load_file(path, backend=backend)["x"], weights(700, 800))
    with cfck.safe_open(path, "np", backend=backend) as file:
        assert file.get_slice("x")[600:].tobytes() == bits(weights(700, 800)[600:])
    with pytest.raises(cfck.InvalidArgumentError, match="backend"):
        cfck.torch.load_file(path, backend="tape")


def test_out_takes_torch_tensors(both):
    with cfck.safe_open(both[0], "pt") as file:
        out = torch.full(SHAPE, -1.0)
        assert file.get_tensor("x", out=out) is out
        assert_same(out, weights(*SHAPE))
        strided = torch.zeros(SHAPE[::-1]).permute(2, 1, 0)
        assert file.get_tensor("x", out=strided) is strided
        assert_same(strided, weights(*SHAPE))
        parameter = torch.nn.Parameter(torch.zeros(SHAPE))
        file.get_tensor("x", out=parameter)
        assert_same(parameter, weights(*SHAPE))
        for wrong in [torch.zeros(3), torch.zeros(SHAPE, dtype=torch.int32), np.zeros(SHAPE)]:
            with pytest.raises(cfck.InvalidArgumentError, match="out"):
                file.get_tensor("x", out=wrong)


def test_out_takes_numpy_arrays(both):
    with cfck.safe_open(both[0], "np") as file:
        expected = weights(*SHAPE).numpy()
        for out in [
            np.zeros(SHAPE, np.float32),
            np.zeros(SHAPE, np.float32, order="F"),
            np.zeros((20, *SHAPE[1:]), np.float32)[::2][:9],
        ]:
            assert file.get_tensor("x", out=out) is out
            np.testing.assert_array_equal(out, expected)
        frozen = np.zeros(SHAPE, np.float32)
        frozen.flags.writeable = False
        wrong_ones = [frozen, np.zeros(3, np.float32), np.zeros(SHAPE), torch.zeros(SHAPE)]
        for wrong in wrong_ones:
            with pytest.raises(cfck.InvalidArgumentError, match="out"):
                file.get_tensor("x", out=wrong)


def test_it_is_where_safetensors_has_it_with_the_same_methods(both):
    assert cfck.torch.safe_open is cfck.numpy.safe_open is cfck.safe_open
    public = {name for name in dir(safetensors.safe_open) if not name.startswith("_")}
    assert public <= set(dir(cfck.safe_open))
    with cfck.torch.safe_open(both[0], framework="pt", device="cpu", backend="mmap") as ours:
        with safetensors.safe_open(both[1], framework="pt", device="cpu", backend="mmap") as theirs:
            assert ours.keys() == sorted(theirs.keys())
            assert sorted(ours.offset_keys()) == sorted(theirs.offset_keys())
            assert ours.metadata() == theirs.metadata()
            for name, tensor in theirs.get_tensors().items():
                assert_same(ours.get_tensors()[name], tensor)
            parts = ours.get_slice("x"), theirs.get_slice("x")
            public = {name for name in dir(parts[1]) if not name.startswith("_")}
            assert public <= set(dir(parts[0]))
            assert parts[0].get_shape() == parts[1].get_shape()
            assert parts[0].get_dtype() == parts[1].get_dtype()
