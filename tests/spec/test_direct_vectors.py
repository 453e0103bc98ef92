"""The vectors with lossy records keep their bounds and use every part of the codec."""

import collections
import pathlib

import direct_cases
import direct_vectors
import numpy as np
import pytest
import rans_vectors
import reference_codec
import reference_container
import reference_decoder
import reference_direct
from test_direct_chunks import direct_chunk
from test_direct_files import breaks_bound, doubles

VECTORS = pathlib.Path(reference_decoder.__file__).parent / "vectors"
WITH_EVERY_PART = (
    direct_vectors.direct_f64,
    direct_vectors.direct_f32,
    direct_vectors.direct_bf16,
    direct_vectors.direct_f16,
    rans_vectors.direct_f32,
    rans_vectors.direct_bf16,
)


@pytest.mark.parametrize("make", (*WITH_EVERY_PART, rans_vectors.direct_lane_sets))
def test_bounds(make):
    vector = make()
    read = reference_decoder.read(VECTORS / vector.file)
    for name, expected in vector.tensors.items():
        decoded = read.tensors[name].array().reshape(-1)
        values = np.frombuffer(expected.content, decoded.dtype)
        x, y = doubles(values), doubles(decoded)
        special = ~np.isfinite(x)
        assert values[special].tobytes() == decoded[special].tobytes(), name
        n_rows = expected.shape[0] if expected.asked.get("per_row") else 1
        for row_x, row_y in zip(x.reshape(n_rows, -1), y.reshape(n_rows, -1)):
            assert not breaks_bound(row_x, row_y, expected.asked), name


def payloads(file: reference_container.File, record: reference_container.Record):
    """(case, outcome) of every chunk, as direct_cases has them."""
    preamble = reference_decoder.read_preamble(file, record)
    extents = [bytes(file.data[o + 12 : o + n]) for o, n, _ in record.extents]
    if record.kind == reference_container.PACKED:
        extents = [bytes(reference_decoder.packed_payload(file, record))]
    step = record.chunk_elems or record.n_elems
    for number, payload in enumerate(extents):
        n = min(step, record.n_elems - number * step)
        dtype = reference_container.DTYPES[record.dtype][0]
        case = direct_cases.Case(record.name, dtype, record.shape, number * step, n)
        case.entropy = "rans" if record.entropy == reference_codec.RANS else "zstd"
        yield case, direct_cases.Outcome(preamble or b"", payload, b"", "")


def test_they_use_every_part_of_the_codec():
    for make in WITH_EVERY_PART:
        path = VECTORS / make().file
        file = reference_container.File(path.read_bytes(), reference_container.Limits())
        seen = collections.Counter()
        for record in file.records:
            if record.codec != reference_container.DIRECT:
                seen["lossless record"] += 1
                continue
            kind = reference_container.BOUND_KINDS[record.error.kind]
            seen[kind, record.error.per_row] += 1
            for case, outcome in payloads(file, record):
                seen["mode", outcome.payload[0]] += 1
                if outcome.payload[0] < reference_direct.INLINE:
                    continue
                chunk, _ = direct_chunk(case, outcome)
                seen["mask"] += chunk.mask_bytes is not None
                seen["exact values"] += chunk.n_exact > 0
                seen["escaped indices"] += chunk.n_escapes > chunk.n_exact
                seen["raw bits"] += chunk.raw_bytes > 0
                seen["prediction"] += chunk.parameters.coefficients is not None
                seen["field"] += chunk.parameters.field is not None
                seen["row steps"] += chunk.parameters.row_steps is not None
        parts = ["lossless record", "mask", "exact values", "escaped indices", "raw bits"]
        parts += ["prediction", "field", "row steps", ("mode", 4), ("mode", 5)]
        parts += [("abs", False), ("rel", False), ("rel", True), ("sigma", False), ("sigma", True)]
        assert all(seen[part] for part in parts), (path.name, seen)
