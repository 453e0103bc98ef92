"""The reference decoder and the library agree on chunks within an error bound."""

import collections

import direct_cases
import numpy as np
import pytest
import reference_codec
import reference_direct


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    cases = direct_cases.make_cases()
    return list(zip(cases, direct_cases.run(cases, tmp_path_factory.mktemp("chunks"))))


@direct_cases.needs_writer
def test_values_of_every_case(made):
    for case, outcome in made:
        decoded = direct_cases.reference_values(case, outcome)
        assert decoded == outcome.decoded, case.name


@direct_cases.needs_writer
def test_no_value_is_beyond_the_bound(made):
    for case, outcome in made:
        assert not direct_cases.beyond_bound(case, outcome.decoded), case.name


def direct_chunk(case, outcome):
    """The chunk of a payload of mode 4 or 5, and its symbol frame."""
    body = reference_codec.Body(outcome.payload)
    chunk = reference_direct.chunk_of(
        case.dtype, case.shape, case.first, case.n, outcome.preamble or None, body, case.stage
    )
    return chunk, body.rest()


@direct_cases.needs_writer
def test_the_cases_use_every_part_of_the_format(made):
    modes, seen, bins = collections.Counter(), collections.Counter(), set()
    for case, outcome in made:
        modes[outcome.payload[0]] += 1
        if outcome.payload[0] < reference_direct.INLINE:
            continue
        chunk, frame = direct_chunk(case, outcome)
        read_groups = chunk.read_groups

        def noting(of_groups, symbols, read_groups=read_groups):
            bins.update(of_groups.tolist())
            return read_groups(of_groups, symbols)

        chunk.read_groups = noting
        chunk.decode(frame)
        exact, escapes = chunk.n_exact, chunk.n_escapes
        seen["mask"] += chunk.mask_bytes is not None
        seen["compressed mask"] += 0 < (chunk.mask_bytes or 0) < -(-case.n // 8)
        seen["exact values"] += exact > 0
        seen["escaped indices"] += escapes > exact
        seen["bin escapes"] += chunk.n_bin_escapes > 0
        seen["raw bits"] += chunk.raw_bytes > 0
        seen["prediction"] += chunk.parameters.coefficients is not None
        seen["field"] += chunk.parameters.field is not None
        seen["row steps"] += chunk.parameters.row_steps is not None
        seen["incomplete kernel"] += bool(chunk.elements[0] % chunk.geometry.kernel_size)
    assert set(modes) == {0, 1, 2, 3, 4, 5}
    assert modes[4] > 300 and modes[5] > 300
    assert len(seen) == 10 and min(seen.values()) >= 10, seen
    assert bins >= set(range(150)), set(range(150)) - bins


@direct_cases.needs_writer
def test_a_large_chunk(tmp_path):
    n = 1 << 18
    values = direct_cases.make_values("jumps", "F32", n)
    values[direct_cases.make_values("sparse", "F32", n, 2) == 0] = 0
    options = {"bound": 1e-3}
    case = direct_cases.Case("large", "F32", (512, 512), 0, n, values.tobytes(), options=options)
    (outcome,) = direct_cases.run([case], tmp_path)
    assert outcome.payload[0] == reference_direct.INLINE
    assert direct_cases.reference_values(case, outcome) == outcome.decoded
    assert not direct_cases.beyond_bound(case, outcome.decoded)


@pytest.mark.parametrize("dtype", direct_cases.FLOATS)
def test_codes_times_steps(dtype):
    """Section 4, against ml_dtypes and numpy one value at a time."""
    chunk = object.__new__(reference_direct.DirectChunk)
    codes = np.arange(-3000, 3001) * 178957
    for step in (5e-324, 1e-45, 3e-39, 1e-12, 0.1, 1.0, 1e30, 1.7e308):
        chunk.elements = np.arange(len(codes))
        chunk.geometry = reference_direct.Geometry(1, len(codes), 1)
        chunk.parameters = object.__new__(reference_direct.Parameters)
        chunk.parameters.step, chunk.parameters.row_steps = step, None
        chunk.exact = np.zeros(0, reference_direct.WORDS[dtype])
        words = chunk.values((codes, np.zeros(len(codes), bool)), dtype)
        with np.errstate(over="ignore"):
            wide = [float(code) * step for code in codes.tolist()]
            expected = np.array(wide, np.float64)
            if dtype != "F64":
                expected = expected.astype(np.float32).astype(direct_cases.FLOATS[dtype])
        assert words.tobytes() == expected.tobytes()
