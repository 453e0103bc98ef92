"""Bounds of rows hold in rational arithmetic, and simulation gives the same bits, for values at the
limits of their types, of codes, and between two codes."""

from fractions import Fraction

import pytest
import torch
from cfck.embeddings import RowCodec, Rows, quantize_and_dequantize
from conftest import bits

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def hard_values(kind, dtype, generator):
    """Rows, and an error that is hard to keep for them."""
    limits = torch.finfo(dtype)
    uniform = torch.rand(40, 9, generator=generator, dtype=torch.float64)
    integers = torch.randint(-40, 40, (40, 9), generator=generator).double()
    if kind == "between two codes":
        return (integers + 0.5) * 2e-3 * (1 - 2.0**-16), 1e-3
    if kind == "subnormal":
        return integers * limits.smallest_normal / 16, limits.smallest_normal / 16
    if kind == "largest":
        return limits.max * (1 - uniform * 2.0**-6), limits.max * 2.0**-9
    if kind == "2^22 steps":
        error = limits.smallest_normal
        return (2.0**22 + integers / 4) * 2 * error * (1 - 2.0**-16), error
    # Mixed magnitudes in each row.
    return 2.0 ** (20 * uniform - 10) * integers.sign(), 2.0**-9


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "kind", ["between two codes", "subnormal", "largest", "2^22 steps", "mixed"]
)
def test_no_value_is_off_by_more(kind, dtype):
    generator = torch.Generator().manual_seed(7)
    for _ in range(4):
        values, error = hard_values(kind, dtype, generator)
        rows = values.to(dtype)
        (found,) = RowCodec().decode(RowCodec().encode([Rows(rows, error)]))
        assert bits(quantize_and_dequantize(rows.clone(), error)) == bits(found)
        pairs = zip(found.flatten().tolist(), rows.flatten().tolist(), strict=True)
        kept = [(a, b) for a, b in pairs if abs(b) != float("inf")]
        assert all(abs(Fraction(a) - Fraction(b)) <= Fraction(error) for a, b in kept)
