"""cfck.hdf5: datasets that h5py and HDF5's own programs read and write through the plug-in."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

h5py = pytest.importorskip("h5py", reason="h5py is not installed")

import cfck.hdf5  # noqa: E402
from cfck.errors import InvalidArgumentError  # noqa: E402

CHUNKS = (128, 100)  # neither divides the shape


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(0).normal(0, 0.03, (300, 257)).astype(np.float32)


@pytest.fixture(scope="module")
def smooth():
    x, y, z = np.meshgrid(*[np.linspace(0, 3, 40)] * 3, indexing="ij")
    return (np.sin(x * y) + np.cos(2 * z - x)).astype(np.float32)


def write(path, values, chunks=CHUNKS, more=None, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "x", data=values, chunks=chunks, **(more or {}), **cfck.hdf5.filter(**options)
        )
    return path


def read(path):
    with h5py.File(path, "r") as file:
        return file["x"][...]


def stored_bytes(path):
    with h5py.File(path, "r") as file:
        return file["x"].id.get_storage_size()


def largest_error(loaded, values):
    """Without rounding."""
    a, b = loaded.astype(np.float64).ravel(), values.astype(np.float64).ravel()
    near = np.argsort(np.abs(a - b))[-20:]
    return max(abs(Fraction(a[i]) - Fraction(b[i])) for i in near)


def chunks_of(values, chunks=CHUNKS):
    for i in range(0, values.shape[0], chunks[0]):
        for j in range(0, values.shape[1], chunks[1]):
            yield values[i : i + chunks[0], j : j + chunks[1]]


@pytest.mark.parametrize(
    "dtype",
    "? i1 u1 i2 >u2 i4 >i4 u8 >i8 f2 >f2 f4 >f4 f8 >f8 c8 >c16 S5".split()
    + [ml_dtypes.bfloat16, np.dtype([("x", "f4"), ("n", "i2")])],
)
def test_lossless_keeps_every_bit(tmp_path, weights, dtype):
    values = (weights * 1000).view(np.uint32).astype(np.int64) if dtype == "u8" else weights * 1000
    if np.dtype(dtype).names:
        values = np.rec.fromarrays([weights, (weights * 1000).astype("i2")], dtype=dtype)
    values = values.astype(dtype)
    if dtype == ml_dtypes.bfloat16:
        values = values.view("V2")  # h5py has no bfloat16
    path = write(tmp_path / "a.h5", values)
    assert read(path).tobytes() == values.tobytes()
    assert stored_bytes(path) < 1.4 * values.nbytes  # edge chunks are whole


def test_lossless_is_smaller_than_shuffled_deflate(tmp_path, weights):
    path = write(tmp_path / "a.h5", weights)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_dataset(
            "x", data=weights, chunks=CHUNKS, compression="gzip", shuffle=True, compression_opts=9
        )
    assert stored_bytes(path) < stored_bytes(tmp_path / "b.h5")


def test_special_values_come_back(tmp_path, weights):
    values = weights.copy()
    values[3, 5:9] = [np.nan, np.inf, -np.inf, -0.0]
    values.view(np.uint32)[200, 200] = 0x7FC01234
    assert read(write(tmp_path / "a.h5", values)).tobytes() == values.tobytes()
    loaded = read(write(tmp_path / "b.h5", values, max_abs_error=1e-3))
    special = ~np.isfinite(values)
    assert loaded[special].tobytes() == values[special].tobytes()
    assert largest_error(loaded[~special], values[~special]) <= Fraction(1e-3)


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f4", "f8", ">f8"])
@pytest.mark.parametrize("codec", ["auto", "direct", "spectral"])
def test_maximum_error_is_kept(tmp_path, weights, dtype, codec):
    values = weights.astype(dtype)
    more = {"written_once": True} if codec == "spectral" else {}
    path = write(tmp_path / "a.h5", values, max_abs_error=1e-3, codec=codec, **more)
    loaded = read(path)
    assert loaded.dtype == values.dtype
    error = largest_error(loaded, values)
    assert 0 < error <= Fraction(1e-3)
    assert stored_bytes(path) < values.nbytes


@pytest.mark.parametrize(
    "codec, written_once", [("auto", False), ("auto", True), ("spectral", True)]
)
@pytest.mark.parametrize("offset", [0, 1000])
def test_relative_error_is_kept_in_each_chunk(tmp_path, weights, codec, written_once, offset):
    # The fill value 0 pads chunks at the edge, far away from values around 1000.
    values = weights + np.float32(offset)
    options = {"max_rel_error": 1e-2, "codec": codec, "written_once": written_once}
    loaded = read(write(tmp_path / "a.h5", values, **options))
    assert (loaded != values).any()
    for got, given in zip(chunks_of(loaded), chunks_of(values), strict=True):
        span = Fraction(float(given.max())) - Fraction(float(given.min()))
        assert largest_error(got, given) <= Fraction(1e-2) * span


@pytest.mark.parametrize("written_once", [False, True])
@pytest.mark.parametrize("more", [{}, {"fillvalue": np.float32(9.96921e36)}])
def test_nmse_is_kept_in_each_chunk(tmp_path, weights, more, written_once):
    values = weights.copy()
    if more:
        values[17, 40:80] = more["fillvalue"]
    loaded = read(write(tmp_path / "a.h5", values, more=more, nmse=1e-3, written_once=written_once))
    given, got = values.astype(np.float64), loaded.astype(np.float64)
    if more:
        missing = values == more["fillvalue"]
        assert (missing == (loaded == more["fillvalue"])).all()
        given[missing] = got[missing] = 0
    for a, b in zip(chunks_of(given), chunks_of(got), strict=True):
        assert 0 < ((a - b) ** 2).sum() <= 1e-3 * (a**2).sum()


@pytest.mark.parametrize("written_once, nmse", [(False, 0.25), (True, 0.05)])
def test_rate_is_kept_in_each_chunk(tmp_path, weights, written_once, nmse):
    options = {"bits_per_weight": 3, "max_abs_error": 0.5, "written_once": written_once}
    path = write(tmp_path / "a.h5", weights, **options)
    with h5py.File(path) as file:
        of_chunks = file["x"].id
        for i in range(of_chunks.get_num_chunks()):
            assert of_chunks.get_chunk_info(i).size * 8 <= 3 * CHUNKS[0] * CHUNKS[1]
    assert np.square(read(path) - weights).sum() < nmse * np.square(weights).sum()


@pytest.mark.parametrize("written_once", [False, True])
def test_values_that_no_rate_reaches_are_kept(tmp_path, written_once):
    values = np.random.default_rng(0).integers(0x7F800001, 0x7FFFFFFF, (128, 100), np.uint32)
    values = values.view(np.float32)  # NaNs
    options = {"bits_per_weight": 2, "written_once": written_once}
    assert read(write(tmp_path / "a.h5", values, **options)).tobytes() == values.tobytes()


def test_blocks_of_smooth_fields(tmp_path, smooth):
    plain = write(tmp_path / "a.h5", smooth, chunks=(32, 32, 32), max_abs_error=1e-3)
    blocks = write(
        tmp_path / "b.h5",
        smooth,
        chunks=(32, 32, 32),
        max_abs_error=1e-3,
        codec="spectral",
        block=(8, 8, 8),
        written_once=True,
    )
    assert largest_error(read(blocks), smooth) <= Fraction(1e-3)
    assert stored_bytes(blocks) < stored_bytes(plain) / 2


def test_fill_values_stay_as_they_are(tmp_path, weights):
    fill = np.float32(-999)
    values = weights + 5
    values[::7, ::3] = fill
    for options in ({"max_rel_error": 1e-3}, {"max_abs_error": 1e-2}, {"nmse": 1e-4}):
        path = write(tmp_path / "a.h5", values, more={"fillvalue": fill}, **options)
        loaded = read(path)
        assert ((loaded == fill) == (values == fill)).all()
        if "max_rel_error" in options:
            rest = values != fill
            span = Fraction(float(values[rest].max())) - Fraction(float(values[rest].min()))
            assert largest_error(loaded, values) <= Fraction(1e-3) * span


def test_other_filters(tmp_path, weights):
    more = {"fletcher32": True}
    assert (read(write(tmp_path / "a.h5", weights, more=more)) == weights).all()
    loaded = read(write(tmp_path / "b.h5", weights, more=more, max_abs_error=1e-3))
    assert largest_error(loaded, weights) <= Fraction(1e-3)
    more = {"shuffle": True}
    assert (read(write(tmp_path / "c.h5", weights, more=more)) == weights).all()
    with pytest.raises(ValueError, match="cfck to be the first filter"):
        write(tmp_path / "d.h5", weights, more=more, max_abs_error=1e-3)


def test_chunks_that_are_shorter_than_those_of_the_dataset(tmp_path):
    """Nothing else stops libhdf5 from reading on beyond them."""
    for dtype in ("S1", "f4"):
        path = write(tmp_path / "short.h5", np.zeros(16, "u1"), (16,))
        with h5py.File(path, "a") as file:
            few = file["x"].id.read_direct_chunk((0,))[1]
            longer = file.create_dataset("y", (2000,), dtype, chunks=(2000,), **cfck.hdf5.filter())
            longer.id.write_direct_chunk((0,), few)
        with h5py.File(path) as file, pytest.raises(OSError, match="chunk"):
            file["y"][...]


def test_types_without_values_of_one_kind(tmp_path):
    """Their chunks have a size, too."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        texts = [f"text {i}" for i in range(100)]
        file.create_dataset("s", data=texts, chunks=(30,), **cfck.hdf5.filter())
        references = np.array([file["s"].ref] * 10, dtype=h5py.ref_dtype)
        file.create_dataset("r", data=references, chunks=(4,), **cfck.hdf5.filter())
        numbers = file.create_dataset(
            "v", (5,), h5py.vlen_dtype("i4"), chunks=(2,), **cfck.hdf5.filter()
        )
        for i in range(5):
            numbers[i] = np.arange(i)
        mixed = np.array([(1, 2.0), (3, 4.0)], dtype=[("q", "i4"), ("w", "f8")])
        file.create_dataset("c", data=mixed, chunks=(2,), **cfck.hdf5.filter(), shuffle=True)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["s"].asstr()[...].tolist() == texts
        assert all(file[reference].name == "/s" for reference in file["r"][...])
        assert [list(row) for row in file["v"][...]] == [list(range(i)) for i in range(5)]
        assert (file["c"][...] == mixed).all()


def test_datasets_that_grow(tmp_path, weights):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        grown = file.create_dataset(
            "x", (0, 257), "f4", maxshape=(None, 257), chunks=CHUNKS, **cfck.hdf5.filter()
        )
        for rows in np.array_split(weights, 7):
            grown.resize(len(grown) + len(rows), axis=0)
            grown[-len(rows) :] = rows
    assert (read(tmp_path / "a.h5") == weights).all()


@pytest.mark.parametrize("dtype", ["i4", "?", "S4", "u1"])
def test_refuses_bounds_of_other_types(tmp_path, weights, dtype):
    with pytest.raises(ValueError, match="apply to floats"):
        write(tmp_path / "a.h5", weights.astype(dtype), max_abs_error=1e-3)


def test_refuses_large_chunks_and_hopeless_rates(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(ValueError, match="more than 64 MiB"):
            file.create_dataset("x", (2**25,), "f4", chunks=(2**24 + 1,), **cfck.hdf5.filter())
        with pytest.raises(ValueError, match="choose larger chunks or more bits"):
            options = cfck.hdf5.filter(bits_per_weight=1)
            file.create_dataset("y", (64, 64), "f4", chunks=(8, 8), **options)


@pytest.mark.parametrize(
    "words, message",
    [
        ((2,), "version 2 of the cfck filter"),
        ((1, 9), "mode 9"),
        ((1, 1), "positive, finite number"),
        ((1, 0, 0, 0, 77), "codec 77"),
        ((1, 0, 0, 0, 9 << 8), "level 9"),
        ((1, 0, 0, 0, 9 << 16), "entropy stage 9"),
        ((1, 1, 0, 0x3FF00000, 2), "do not take a maximum error"),
        ((1, 1, 0, 0x3FF00000, 0, 0, 0, 0, 0x3FF00000), "value 7"),
        ((1, 3, 0, 0x3FF00000, 9 << 24), "trellis"),
        ((1, 1, 0, 0x3FF00000, 4), "written_once=True"),
    ],
)
def test_refuses_wrong_client_data(tmp_path, weights, words, message):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(ValueError, match=message):
            file.create_dataset(
                "x",
                data=weights,
                chunks=CHUNKS,
                compression=cfck.hdf5.filter_id(),
                compression_opts=words,
            )
        assert "x" not in file


def chunk_place(path):
    with h5py.File(path) as file:
        info = file["x"].id.get_chunk_info(0)
        return info.byte_offset, info.size


@pytest.mark.parametrize("options", [{}, {"max_abs_error": 1e-3}, {"nmse": 1e-3}])
def test_damage_is_found(tmp_path, weights, options):
    path = write(tmp_path / "a.h5", weights, **options)
    offset, size = chunk_place(path)
    intact = path.read_bytes()
    for at in [*range(24), 24, size // 2, size - 1]:
        damaged = bytearray(intact)
        damaged[offset + at] ^= 0x20
        path.write_bytes(damaged)
        with pytest.raises(OSError, match=r"cfck: .*(download|install)"):
            read(path)
    path.write_bytes(intact)
    read(path)


def test_a_chunk_of_another_version(tmp_path, weights):
    path = write(tmp_path / "a.h5", weights)
    offset, _ = chunk_place(path)
    newer = bytearray(path.read_bytes())
    newer[offset : offset + 4] = b"CFH3"
    path.write_bytes(newer)
    with pytest.raises(OSError, match="another version of the cfck filter, '3'"):
        read(path)


def test_truncated_chunks(tmp_path, weights):
    path = write(tmp_path / "a.h5", weights, max_abs_error=1e-3)
    with h5py.File(path, "r+") as file:
        for length in (0, 5, 23, 24, 100):
            _, chunk = file["x"].id.read_direct_chunk((0, 0))
            file["x"].id.write_direct_chunk((0, 0), chunk[:length] or b"\0")
            with pytest.raises(OSError, match="cfck: .*download the file again"):
                file["x"][0]
            file["x"].id.write_direct_chunk((0, 0), chunk)
    assert largest_error(read(path), weights) <= Fraction(1e-3)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"max_abs_error": 1, "max_rel_error": 1}, "exclude each other"),
        ({"nmse": 1, "bits_per_weight": 1}, "exclude each other"),
        ({"max_abs_error": -1}, "positive, finite"),
        ({"max_abs_error": float("nan")}, "positive, finite"),
        ({"codec": "lossless", "nmse": 0.1}, "keeps every bit"),
        ({"codec": "direct"}, "needs a maximum error"),
        ({"block": (65,)}, "sides from 1 to 64"),
        ({"trellis_states": 3}, "trellis_states"),
        ({"codec": "best"}, "codec 'best' .* auto, raw, lossless, direct, spectral; leave out"),
        ({"codec": "rows"}, "codec 'rows' is none of the filter for HDF5"),
        ({"codec": "rows", "max_abs_error": 1}, "codec 'rows' is none of the filter for HDF5"),
        ({"codec": "spectral", "max_abs_error": 1}, "written_once=True"),
        ({"block": (8, 8), "nmse": 0.1}, "block: .*written_once=True"),
        ({"trellis_states": 8, "nmse": 0.1}, "trellis_states: .*written_once=True"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        cfck.hdf5.filter(**options)
    with pytest.raises(TypeError):
        cfck.hdf5.filter(max_abs_eror=1)
    with pytest.raises(TypeError, match="written_once is bool"):
        cfck.hdf5.filter(nmse=0.1, written_once=1)


def test_options():
    assert cfck.hdf5.filter(nmse=0.1, written_once=True)["compression_opts"][4] >> 31 == 1
    assert cfck.hdf5._value("written_once", "true") is True
    assert cfck.hdf5.filter()["compression_opts"][:4] == (1, 0, 0, 0)
    words = cfck.hdf5.filter(nmse="-20dB")["compression_opts"]
    assert struct.unpack("<d", struct.pack("<2I", *words[2:4]))[0] == pytest.approx(0.01)
    assert "max_rel_error: likewise" in cfck.hdf5.filter.__doc__
    assert 256 <= cfck.hdf5.filter_id() < 512


def test_the_command_explains_itself(capsys):
    for option in ("-h", "--help"):
        assert cfck.hdf5._main([option]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith("usage: python -m cfck.hdf5")
        assert "max_abs_error" in shown
        assert "HDF5_PLUGIN_PATH" in shown


@pytest.mark.skipif(shutil.which("h5repack") is None, reason="h5repack is not installed")
def test_programs_of_hdf5(tmp_path, weights):
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file.create_dataset("x", data=weights)
    environment = os.environ | {"HDF5_PLUGIN_PATH": cfck.hdf5.plugin_path()}

    def run(*command):
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        ).stdout

    option = run(sys.executable, "-m", "cfck.hdf5", "max_abs_error=1e-3").strip()
    assert option == cfck.hdf5.repack_option(max_abs_error=1e-3)
    run("h5repack", "-l", "x:CHUNK=128x100", "-f", option, "plain.h5", "packed.h5")
    assert 0 < largest_error(read(tmp_path / "packed.h5"), weights) <= Fraction(1e-3)
    id_ = cfck.hdf5.filter_id()
    run("h5repack", "-l", "x:CHUNK=128x100", "-f", f"x:UD={id_},0,0", "plain.h5", "exact.h5")
    assert (read(tmp_path / "exact.h5") == weights).all()
    run("h5repack", "-f", "NONE", "packed.h5", "unpacked.h5")
    assert (read(tmp_path / "unpacked.h5") == read(tmp_path / "packed.h5")).all()
    text = run("h5dump", "-p", "-d", "x", "-s", "0,0", "-c", "1,2", "exact.h5")
    assert f"FILTER_ID {id_}" in text.replace("\n", " ")
    assert f"{weights[0, 0]:.4g}"[:5] in text
    shown = run(sys.executable, "-m", "cfck.hdf5").strip()
    assert shown == cfck.hdf5.plugin_path()


@pytest.mark.skipif(shutil.which("h5dump") is None, reason="h5dump is not installed")
def test_programs_say_why_they_fail(tmp_path, weights):
    path = write(tmp_path / "a.h5", weights)
    offset, size = chunk_place(path)
    damaged = bytearray(path.read_bytes())
    damaged[offset + size // 2] ^= 1
    path.write_bytes(damaged)
    environment = os.environ | {"HDF5_PLUGIN_PATH": cfck.hdf5.plugin_path()}
    run = subprocess.run(
        ["h5dump", "--enable-error-stack", str(path)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode != 0
    assert "their checksum is wrong" in run.stderr
