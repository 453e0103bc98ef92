"""The vectors of codec rows keep their bounds, use all of the codec, and say their errors; of
damaged chunks the library and the decoder of the specification say the same."""

import collections
import math
import pathlib
import random

import broken_rows
import numpy as np
import pytest
import reference_container
import reference_decoder
import reference_rows
import rows_vectors
from broken_payloads import number
from broken_rows import Chunk, digest, file_of, other, stored
from reference_codec import Body
from reference_container import DTYPES, Refused
from test_direct_files import breaks_bound, doubles, errors_of, sum_of_squares
from test_direct_vectors import payloads

VECTORS = pathlib.Path(reference_decoder.__file__).parent / "vectors"
BYTES = (0, 1, 2, 3, 4, 5, 127, 128, 255)


@pytest.mark.parametrize("make", rows_vectors.ROWS_VECTORS)
def test_bounds_and_errors(make):
    vector = make()
    read = reference_decoder.read(VECTORS / vector.file)
    n_lossy = 0
    for name, expected in vector.tensors.items():
        tensor = read.tensors[name]
        error = tensor.record.error
        if expected.asked is None:
            assert error is None and bytes(tensor.data) == expected.content, name
            continue
        n_lossy += 1
        decoded = tensor.array().reshape(-1)
        x, y = doubles(np.frombuffer(expected.content, decoded.dtype)), doubles(decoded)
        finite = np.isfinite(x)
        assert not breaks_bound(x, y, expected.asked), name
        errors = errors_of(x, y)
        step = tensor.record.chunk_elems or len(x)  # 0 in a pack
        total = 0.0
        for first in range(0, len(x), step):
            total += sum_of_squares(errors[first : first + step])
        assert error.max_abs_error == errors.max(), name
        greatest = error.max_abs_error
        rmse = math.sqrt(total / np.count_nonzero(finite)) if total >= 2**-960 else greatest
        assert error.rmse == min(rmse, greatest), name
    assert n_lossy >= 20


def test_they_use_every_part_of_the_codec():
    seen = collections.defaultdict(set)
    for make in rows_vectors.ROWS_VECTORS:
        vector = make()
        file = reference_container.File(
            (VECTORS / vector.file).read_bytes(), reference_container.Limits()
        )
        for record in file.records:
            for case, outcome in payloads(file, record):
                body = Body(outcome.payload)
                mode = body.byte()
                seen["mode"].add(mode)
                if mode < reference_rows.DICTIONARY:
                    continue
                seen["codec", mode].add(body.byte())
                if mode == reference_rows.OTHER:
                    seen["axes"].add(len(case.shape))
                    continue
                n_different, n_repeated, _, offset_bytes, _ = (body.varint() for _ in range(5))
                seen["single rows"].add(n_different > n_repeated)
                seen["repeated rows"].add(n_repeated > 0)
                seen["offsets"].add(offset_bytes > 0)
                seen["chunks"].add(len(record.extents) > 1)
                if record.name.endswith("merged"):
                    assert n_different <= 16, record.name
    assert seen["mode"] >= {1, 2, 3, 4, 5}
    assert seen["codec", 4] == {1, 2} and seen["codec", 5] >= {2}
    for part in ("single rows", "offsets", "chunks"):
        assert seen[part] == {False, True}, part
    assert seen["axes"] >= {1, 2}


def sound_chunks():
    """Fields of a record of one chunk, and its payload."""
    found = [({}, Chunk().payload()), ({}, other(stored(broken_rows.VALUES)))]
    for make in rows_vectors.ROWS_VECTORS:
        data = (VECTORS / make().file).read_bytes()
        file = reference_container.File(data, reference_container.Limits())
        for record in file.records:
            if record.codec != reference_container.ROWS:
                continue
            for case, outcome in payloads(file, record):
                if case.n == record.n_elems and outcome.payload[0] >= reference_rows.DICTIONARY:
                    fields = {"dtype": record.dtype, "shape": list(record.shape), "c": case.n}
                    found.append((fields | {"entropy": record.entropy}, bytes(outcome.payload)))
    return found


def damaged(payload: bytes, rng: random.Random) -> bytes:
    """With a few bytes changed, most of them in the header and the numbers of rows."""
    content = bytearray(payload)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(min(len(content), rng.choice((8, 40, len(content)))))
        how = rng.randrange(5)
        if how == 0:
            content[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            content[at] = rng.choice(BYTES)
        elif how == 2 and len(content) > 2:
            del content[at]
        elif how == 3:
            content[at:at] = number(rng.choice((0, 1, 7, 300, 2**31, 2**32 - 1)))
        elif how == 4 and at:
            del content[at:]
    return bytes(content)


def by_reference(fields: dict, payload: bytes) -> bytes | None:
    given = {"dtype": broken_rows.I32, "shape": broken_rows.SHAPE, "c": 12, "entropy": 1} | fields
    chunk = given["dtype"], tuple(given["shape"]), 0, given["c"], None, payload, given["entropy"]
    try:
        return bytes(reference_rows.decode_rows(*chunk, len(payload)))
    except Refused:
        return None


def by_library(data: bytes, dtype: int) -> bytes | None:
    cfck = pytest.importorskip("cfck", reason="the package cfck is not installed")
    numpy_arrays = pytest.importorskip("cfck.numpy")
    try:
        found = numpy_arrays.load(data)["t"]
    except (cfck.CorruptError, cfck.UnsupportedError):
        return None
    n_bits = DTYPES[dtype][1]
    if n_bits == 8 * found.itemsize:
        return found.tobytes()
    bits = np.unpackbits(found.view(np.uint8).reshape(-1, 1), axis=1, bitorder="little")
    return np.packbits(bits[:, :n_bits], bitorder="little").tobytes()


@pytest.mark.parametrize("seed", range(4))
def test_both_readers_agree(seed):
    rng = random.Random(seed)
    chunks = sound_chunks()
    assert len(chunks) > 40
    n_read = n_refused = 0
    for _ in range(600):
        fields, payload = rng.choice(chunks)
        payload = damaged(payload, rng)
        if payload[0] < reference_rows.DICTIONARY:
            continue
        expected = by_reference(fields, payload)
        data = file_of(payload, digest=digest(expected or b""), **fields)
        dtype = fields.get("dtype", broken_rows.I32)
        assert by_library(data, dtype) == expected, (seed, fields, payload.hex())
        n_read += expected is not None
        n_refused += expected is None
    assert n_read > 10 and n_refused > 100
