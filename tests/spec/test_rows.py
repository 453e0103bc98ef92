"""The vectors of codec rows keep their bounds, use all of the codec, and say their errors."""

import collections
import math
import pathlib

import numpy as np
import pytest
import reference_container
import reference_decoder
import reference_rows
import rows_vectors
from reference_codec import Body
from test_direct_files import breaks_bound, doubles, errors_of, sum_of_squares
from test_direct_vectors import payloads

VECTORS = pathlib.Path(reference_decoder.__file__).parent / "vectors"


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
