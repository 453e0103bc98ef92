"""cfck.hdf5: chunks that are filled in several goes keep what was promised for what was written.

tests/hdf5/filter has more: all types and options, parts in any order.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

h5py = pytest.importorskip("h5py", reason="h5py is not installed")

import cfck.hdf5  # noqa: E402
from cfck.errors import InvalidArgumentError  # noqa: E402

SHAPE = (32, 256)


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)


def create(path, values, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "x", values.shape, values.dtype, chunks=values.shape, **cfck.hdf5.filter(**options)
        )


def append(path, values, n_rows=2):
    """Rows in a file that is opened anew for each few."""
    for i in range(0, len(values), n_rows):
        with h5py.File(path, "a") as file:
            file["x"][i : i + n_rows] = values[i : i + n_rows]


def read(path):
    with h5py.File(path) as file:
        return file["x"][...]


def largest_error(loaded, values):
    a, b = loaded.astype(np.float64).ravel(), values.astype(np.float64).ravel()
    near = np.argsort(np.abs(a - b))[-20:]
    return max(abs(Fraction(a[i]) - Fraction(b[i])) for i in near)


def nmse(loaded, values):
    error = loaded.astype(np.float64) - values
    return np.square(error).sum() / np.square(values.astype(np.float64)).sum()


@pytest.mark.parametrize("codec", ["auto", "direct"])
@pytest.mark.parametrize("dtype", ["f2", "f4", ">f4", "f8"])
def test_maximum_error(tmp_path, rows, dtype, codec):
    values = rows.astype(dtype)
    create(tmp_path / "a.h5", values, max_abs_error=1e-2, codec=codec)
    append(tmp_path / "a.h5", values)
    assert 0 < largest_error(read(tmp_path / "a.h5"), values) <= Fraction(1e-2)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_relative_error(tmp_path, rows, dtype):
    values = (rows * np.linspace(0.01, 100, len(rows))[:, None]).astype(dtype)
    create(tmp_path / "a.h5", values, max_rel_error=1e-2)
    append(tmp_path / "a.h5", values)
    span = Fraction(float(values.max())) - Fraction(float(values.min()))
    assert 0 < largest_error(read(tmp_path / "a.h5"), values) <= Fraction(1e-2) * span


@pytest.mark.parametrize("more", [{}, {"max_abs_error": 0.02}])
def test_nmse(tmp_path, rows, more):
    create(tmp_path / "a.h5", rows, nmse=1e-3, **more)
    append(tmp_path / "a.h5", rows)
    loaded = read(tmp_path / "a.h5")
    assert 0 < nmse(loaded, rows) <= 1e-3
    assert not more or largest_error(loaded, rows) <= Fraction(0.02)


def test_rate(tmp_path, rows):
    for name in ("a.h5", "b.h5"):
        create(tmp_path / name, rows, bits_per_weight=3)
    append(tmp_path / "a.h5", rows)
    append(tmp_path / "b.h5", rows, len(rows))
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"].id.get_storage_size() * 8 <= 3 * rows.size
    at_once = nmse(read(tmp_path / "b.h5"), rows)
    assert 0 < nmse(read(tmp_path / "a.h5"), rows) <= at_once * 1.0001


def test_a_chunk_above_the_cache(tmp_path):
    values = np.random.default_rng(2).standard_normal((16, 32768)).astype(np.float32)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        options = cfck.hdf5.filter(max_rel_error=1e-3)
        dataset = file.create_dataset("x", values.shape, "f4", chunks=values.shape, **options)
        for i in range(0, 16, 2):
            dataset[i : i + 2] = values[i : i + 2]
    span = Fraction(float(values.max())) - Fraction(float(values.min()))
    assert 0 < largest_error(read(tmp_path / "a.h5"), values) <= Fraction(1e-3) * span


def test_chunks_that_are_written_once_take_fewer_bytes(tmp_path, rows):
    sizes = {}
    for written_once in (False, True):
        options = {"max_rel_error": 1e-3, "written_once": written_once}
        create(tmp_path / "a.h5", rows, **options)
        append(tmp_path / "a.h5", rows, len(rows))
        span = float(rows.max()) - float(rows.min())
        assert largest_error(read(tmp_path / "a.h5"), rows) <= Fraction(1e-3) * Fraction(span)
        with h5py.File(tmp_path / "a.h5") as file:
            sizes[written_once] = file["x"].id.get_storage_size()
    assert sizes[True] <= sizes[False]


def test_codec_spectral_is_for_chunks_that_are_written_once(tmp_path, rows):
    with pytest.raises(InvalidArgumentError, match="written_once=True"):
        cfck.hdf5.filter(max_abs_error=1e-2, codec="spectral", block=(8, 8))
    words = cfck.hdf5.filter(max_abs_error=1e-2, codec="spectral", written_once=True)
    words["compression_opts"] = tuple(
        word & ~(1 << 31) if i == 4 else word for i, word in enumerate(words["compression_opts"])
    )
    with h5py.File(tmp_path / "a.h5", "w") as file, pytest.raises(ValueError, match="written_once"):
        file.create_dataset("x", data=rows, chunks=SHAPE, **words)
