"""Codec "rows": where files have it by themselves, and what it keeps."""

import cfck
import cfck.numpy
import numpy as np
import pytest

RNG = np.random.default_rng(45)


def looked_up(n_rows=20_000, n_different=300, width=32, dtype=np.float32):
    """Rows of a table, the first of which are popular."""
    table = RNG.normal(0, 0.1, (n_different, width)).astype(dtype)
    ids = (n_different * RNG.random(n_rows) ** 3).astype(int)
    return table[ids]


def record_of(path, name="x"):
    with cfck.safe_open(path, "np") as file:
        return next(record for record in file.records() if record.name == name)


def saved(path, array, **options):
    cfck.numpy.save_file({"x": array}, path, **options)
    return record_of(path)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int64, np.uint8])
def test_files_have_it_where_rows_repeat(tmp_path, dtype):
    scale = 1 if np.issubdtype(dtype, np.floating) else 1000
    array = (looked_up() * scale).astype(dtype)
    record = saved(tmp_path / "rows.cfck", array)
    plain = saved(tmp_path / "plain.cfck", array, codec="lossless")
    assert record.codec == "rows" and record.bound_kind is None
    # Zstd, which integers have, finds most of what repeats by itself.
    factor = 4 if np.issubdtype(dtype, np.floating) else 1.2
    assert record.stored_bytes * factor < plain.stored_bytes
    assert np.array_equal(cfck.numpy.load_file(tmp_path / "rows.cfck")["x"], array)
    with cfck.safe_open(tmp_path / "rows.cfck", "np") as file:
        part = file.get_slice("x")
        assert np.array_equal(part[7000:7003], array[7000:7003])
        assert np.array_equal(part[5:9, 3:7], array[5:9, 3:7])


@pytest.mark.parametrize("bound", [{"max_abs_error": 1e-3}, {"max_rel_error": 1e-2}])
def test_within_a_maximum_error(tmp_path, bound):
    array = looked_up()
    record = saved(tmp_path / "rows.cfck", array, **bound)
    plain = saved(tmp_path / "plain.cfck", array, codec="direct", **bound)
    assert record.codec == "rows" and plain.codec == "direct"
    assert record.bound_kind == plain.bound_kind and record.bound == plain.bound
    assert record.stored_bytes * 4 < plain.stored_bytes
    most = bound.get("max_abs_error") or bound["max_rel_error"] * float(np.ptp(array.astype(float)))
    found = cfck.numpy.load_file(tmp_path / "rows.cfck")["x"].astype(float)
    errors = np.abs(found - array.astype(float))
    assert errors.max() == record.max_abs_error <= most
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(record.rmse)


def test_rows_that_become_equal_are_stored_once(tmp_path):
    array = looked_up(n_rows=4000, n_different=50)
    array += RNG.normal(0, 1e-6, array.shape).astype(np.float32)
    assert saved(tmp_path / "auto.cfck", array, max_abs_error=0.01).codec == "direct"
    record = saved(tmp_path / "rows.cfck", array, max_abs_error=0.01, codec="rows")
    plain = record_of(tmp_path / "auto.cfck")
    assert record.codec == "rows" and record.stored_bytes * 10 < plain.stored_bytes
    assert np.abs(cfck.numpy.load_file(tmp_path / "rows.cfck")["x"] - array).max() <= 0.01


@pytest.mark.parametrize(
    "array",
    [RNG.normal(size=(500, 40)).astype(np.float32), looked_up(3000)[:, 0], looked_up(10, 3)],
    ids=["different rows", "one axis", "few rows"],
)
def test_other_tensors_have_other_codecs(tmp_path, array):
    assert saved(tmp_path / "m.cfck", np.ascontiguousarray(array)).codec != "rows"


def test_larger_chunks_take_fewer_bytes(tmp_path):
    array = looked_up(20_000, 300, 100)
    usual = saved(tmp_path / "usual.cfck", array)
    large = saved(tmp_path / "large.cfck", array, chunk_elems=2**22)
    assert usual.codec == large.codec == "rows"
    assert large.stored_bytes * 5 < usual.stored_bytes
    whole_rows = saved(tmp_path / "axes.cfck", array.reshape(2, 10_000, 100), chunk_elems=250_000)
    assert whole_rows.stored_bytes < usual.stored_bytes * 1.01


@pytest.mark.parametrize("share", [0.5, 0.2])
@pytest.mark.parametrize("bound", [{}, {"max_abs_error": 1e-2}], ids=str)
def test_padding_at_the_end_of_a_table(tmp_path, share, bound):
    padded = RNG.normal(size=(20_000, 64)).astype(np.float32)
    padded[int(share * 20_000) :] = padded[0]
    record = saved(tmp_path / "rows.cfck", padded, **bound)
    plain = saved(tmp_path / "plain.cfck", padded, codec="direct" if bound else "lossless", **bound)
    assert record.codec == "rows" and record.stored_bytes < plain.stored_bytes
    found = cfck.numpy.load_file(tmp_path / "rows.cfck")["x"]
    assert np.abs(found - padded).max() <= bound.get("max_abs_error", 0)


def test_targets_are_kept_beside_it(tmp_path):
    tensors = {"repeats": looked_up(9000, 300, 64), "other": looked_up(3000, 3000, 64)}
    path = tmp_path / "m.cfck"

    def saved_within(**target):
        cfck.numpy.save_file(tensors, path, **target)
        assert record_of(path, "repeats").codec == "rows"
        assert record_of(path, "other").codec == "spectral"
        found = cfck.numpy.load_file(path)
        assert np.array_equal(found["repeats"], tensors["repeats"])
        return [found[name].astype(float) - tensors[name] for name in tensors]

    saved_within(size=400_000)
    assert 398_000 < path.stat().st_size <= 400_000
    n_values = sum(array.size for array in tensors.values())
    saved_within(bits_per_weight=4)
    stored = sum(record_of(path, name).stored_bytes for name in tensors)
    assert 3.98 < 8 * stored / n_values <= 4
    errors = saved_within(nmse=0.001)
    energy = sum(np.sum(array.astype(float) ** 2) for array in tensors.values())
    assert sum(np.sum(error**2) for error in errors) <= 0.001 * energy


def test_level_fast_does_not_try_it(tmp_path):
    assert saved(tmp_path / "m.cfck", looked_up(), level="fast").codec == "lossless"


@pytest.mark.parametrize(
    "array",
    [
        RNG.normal(size=(500, 40)).astype(np.float32),
        RNG.normal(size=700).astype(np.float32),
        np.float32(3).reshape(()),
        np.zeros((0, 4), np.float32),
        np.full((200, 8), np.nan, np.float32),
    ],
    ids=["different rows", "one axis", "no axis", "no rows", "NaN"],
)
@pytest.mark.filterwarnings("ignore::cfck.LossWarning")  # small tensors stay lossless
@pytest.mark.parametrize("bound", [{}, {"max_abs_error": 1e-2}])
def test_any_tensor_can_have_it(tmp_path, array, bound):
    saved(tmp_path / "m.cfck", array, codec="rows", **bound)
    found = cfck.numpy.load_file(tmp_path / "m.cfck")["x"]
    assert found.shape == array.shape
    if bound:
        assert np.all((np.abs(found - array) <= 1e-2) | (np.isnan(found) & np.isnan(array)))
    else:
        assert found.tobytes() == array.tobytes()


def test_what_it_does_not_take(tmp_path):
    array = looked_up(500)
    with pytest.raises(cfck.InvalidArgumentError, match="codec rows has one maximum error"):
        saved(tmp_path / "m.cfck", array, codec="rows", max_rel_error=0.1, per_row=True)
    with pytest.raises(cfck.CfckError):
        saved(tmp_path / "m.cfck", array, codec="rows", nmse=0.01)
    per_row = saved(tmp_path / "m.cfck", array, max_rel_error=0.1, per_row=True)
    assert per_row.codec == "direct"


def test_messages_have_it_where_it_is_named():
    array = looked_up(3000)
    plain, message = cfck.encode_message(array), cfck.encode_message(array, codec="rows")
    assert len(message) * 3 < len(plain)
    assert np.array_equal(cfck.decode_message(message), array)
    lossy = cfck.encode_message(array, codec="rows", max_abs_error=1e-2)
    assert np.abs(cfck.decode_message(lossy) - array).max() <= 1e-2


def test_a_damaged_chunk_is_named(tmp_path):
    path = tmp_path / "m.cfck"
    saved(path, looked_up())
    content = bytearray(path.read_bytes())
    content[2000] ^= 1
    path.write_bytes(content)
    with pytest.raises(cfck.ChecksumError, match="x"):
        cfck.numpy.load_file(path)
