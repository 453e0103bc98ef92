"""Values per chunk: what is asked for is what the file has, and the same tensors come back."""

import cfck
import cfck.numpy
import cfck.torch
import numpy as np
import pytest
import torch
from cfck._io.archive import Archive

DEFAULT = 1 << 18
N = 3 * DEFAULT + 5


def _values(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5)).to(dtype)


def _chunks_of(path):
    archive = Archive.open(path, {})
    return {name: archive.record(name).n_chunks for name in archive.names()}


@pytest.mark.parametrize("chunk_elems", [0, 1 << 16, DEFAULT, (1 << 32) - 1])
@pytest.mark.parametrize("options", [{}, {"max_abs_error": 1e-3}, {"codec": "raw"}], ids=str)
def test_chunks_have_as_many_values(tmp_path, chunk_elems, options):
    path = tmp_path / "m.cfck"
    tensors = {"line": _values(N), "matrix": _values(1000, 900), "wide": _values(3, 300_000)}
    cfck.torch.save_file(tensors, path, chunk_elems=chunk_elems, **options)
    most = min(chunk_elems or DEFAULT, (64 << 20) // 4)
    rows = most - most % 900  # a row of the third tensor does not fit
    expected = {"line": -(-N // most), "matrix": -(-900_000 // rows), "wide": -(-900_000 // most)}
    assert _chunks_of(path) == expected
    loaded = cfck.torch.load_file(path)
    for name, tensor in tensors.items():
        error = (loaded[name] - tensor).abs().max()
        assert error <= options.get("max_abs_error", 0)


def test_the_default_is_equal_chunks_of_at_most_two_to_the_eighteenth():
    tensor = _values(N)
    expected = cfck.compress(tensor)
    equal = -(-N // 4 // 128) * 128  # whole groups
    assert cfck.compress(tensor, chunk_elems=0) == expected
    assert cfck.compress(tensor, chunk_elems=equal) == expected
    assert cfck.compress(tensor, chunk_elems=DEFAULT) != expected
    rows = _values(1000, 900)  # at most 291 of them in a chunk
    assert cfck.compress(rows, chunk_elems=250 * 900) == cfck.compress(rows)


@pytest.mark.parametrize("options", [{}, {"max_abs_error": 1e-3}, {"codec": "raw"}], ids=str)
def test_one_value_in_a_chunk(tmp_path, options):
    path = tmp_path / "m.cfck"
    tensors = {"w": _values(50, 40), "ids": torch.arange(60)}
    cfck.torch.save_file(tensors, path, chunk_elems=1, **options)
    loaded = cfck.torch.load_file(path)
    assert torch.equal(loaded["ids"], tensors["ids"])
    assert (loaded["w"] - tensors["w"]).abs().max() <= options.get("max_abs_error", 0)


def test_every_function_that_writes_takes_it(tmp_path):
    path = tmp_path / "m.cfck"
    chosen = {"chunk_elems": 1 << 16}
    tensor = _values(600, 1000, dtype=torch.bfloat16)
    n_chunks = 10  # of 65 rows, the last of 15
    cfck.torch.save_file({"w": tensor}, path, **chosen)
    assert _chunks_of(path)["w"] == n_chunks
    expected = path.read_bytes()
    assert cfck.torch.save({"w": tensor}, **chosen) == expected
    model = torch.nn.Linear(1000, 600, bias=False)
    cfck.torch.save_model(model, path, **chosen)
    assert _chunks_of(path)["weight"] == n_chunks
    cfck.torch.save_checkpoint({"w": tensor}, path, **chosen)
    assert _chunks_of(path)["w"] == n_chunks
    array = {"w": np.linspace(-1, 1, 600_000, dtype=np.float32).reshape(600, 1000)}
    cfck.numpy.save_file(array, path, **chosen)
    assert _chunks_of(path)["w"] == n_chunks
    cfck.update(path, {"v": array["w"] * 2})
    cfck.update(path, {"u": array["w"] * 3}, **chosen)
    chunks = _chunks_of(path)
    assert (chunks["w"], chunks["v"], chunks["u"]) == (n_chunks, 3, n_chunks)
    for data in (cfck.compress(tensor), cfck.compress(tensor, **chosen)):
        assert torch.equal(cfck.decompress(data, framework="pt"), tensor)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (-1, ValueError, r"chunk_elems is -1; it may be 1 to 2\*\*32 - 1, or 0"),
        (1 << 32, ValueError, "chunk_elems is 4294967296; it may be"),
        (1 << 70, ValueError, "chunk_elems is 1180591620717411303424; it may be"),
        (True, TypeError, "chunk_elems is int, not bool: True"),
        (65536.0, TypeError, "chunk_elems is int, not float: 65536.0"),
        ("65536", TypeError, "chunk_elems is int, not str: '65536'"),
        (None, TypeError, "chunk_elems is int, not NoneType: None"),
    ],
    ids=str,
)
def test_wrong_values(tmp_path, value, error, message):
    path = tmp_path / "m.cfck"
    path.write_bytes(b"old")
    tensors = {"w": torch.ones(3)}
    for call in (
        lambda: cfck.torch.save_file(tensors, path, chunk_elems=value),
        lambda: cfck.torch.save(tensors, chunk_elems=value),
        lambda: cfck.update(path, tensors, chunk_elems=value),
        lambda: cfck.compress(tensors["w"], chunk_elems=value),
    ):
        with pytest.raises(error, match=message) as caught:
            call()
        assert issubclass(error, TypeError) or isinstance(caught.value, cfck.CfckError)
    assert path.read_bytes() == b"old"


def test_it_is_for_a_whole_file(tmp_path):
    with pytest.raises(ValueError, match="unknown option 'chunk_elems'; there are codec"):
        cfck.torch.save_file({}, tmp_path / "m.cfck", rules={"*": {"chunk_elems": 9}})
