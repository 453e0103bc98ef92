"""The Python package reads the vectors as the reference decoder does."""

import numpy as np
import pytest
from reference_records import DTYPES
from vector_files import BROKEN, MANIFEST, VECTORS, base_of, read_vector

cfck = pytest.importorskip("cfck", reason="the package cfck is not installed")
pytest.importorskip("cfck.numpy")

BITS = {name: bits for name, bits, *_ in DTYPES.values()}


def by_file(entries):
    return pytest.mark.parametrize("entry", entries, ids=[entry["file"] for entry in entries])


def packed_bytes(array: np.ndarray, bits: int) -> bytes:
    """The bytes of the file: the package gives sub-byte dtypes one byte an element."""
    array = np.ascontiguousarray(array)
    if bits >= 8:
        return array.tobytes()
    elements = array.reshape(-1).view(np.uint8)
    one_row_each = np.unpackbits(elements[:, None], axis=1, count=bits, bitorder="little")
    return np.packbits(one_row_each, bitorder="little").tobytes()


@by_file([entry for entry in MANIFEST["vectors"] if entry["file"] != "ranks.cfck"])
def test_vectors(entry):
    path = VECTORS / entry["file"]
    expected, base = read_vector(entry), base_of(entry)
    loaded = cfck.numpy.load_file(path, base=base)
    assert set(loaded) == set(expected.tensors)
    for name, array in loaded.items():
        tensor = expected.tensors[name]
        assert array.shape == tensor.shape, name
        if BITS[tensor.dtype] >= 8:
            assert array.dtype == tensor.array().dtype, name
        assert packed_bytes(array, BITS[tensor.dtype]) == tensor.data.tobytes(), name
    with cfck.safe_open(path, framework="np", base=base) as file:
        assert set(file.keys()) == set(expected.tensors)
        assert (file.metadata() or {}) == expected.metadata


def test_an_expanded_alias_needs_no_memory():
    data = (VECTORS / "broken" / "expanded_alias.cfck").read_bytes()
    view = cfck.numpy.load(data)["view"]
    assert view.shape == (2**40, 2) and view.strides == (0, 1)


@by_file([entry for entry in BROKEN if entry["file"] != "expanded_alias.cfck"])
def test_broken_vectors(entry):
    if entry["at"] in ("attachment", "verify"):
        pytest.skip("the package reads neither attachments nor digests here")
    data = (VECTORS / "broken" / entry["file"]).read_bytes()
    with pytest.raises(cfck.CfckError) as error:
        cfck.numpy.load(data, base=base_of(entry))
    assert error.value.code == entry["code"], error.value
