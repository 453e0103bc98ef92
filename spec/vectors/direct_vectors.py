"""Vectors of the direct codec: codec/direct/spec.md."""

from __future__ import annotations

import math

from container_vectors import special
from lossless_vectors import FIELDS
from vector import Random, Vector, packed_floats, packed_integers

ABS, REL, SIGMA = "max_abs_error", "max_rel_error", "max_sigma_error"


def kernels(random: Random, shape) -> list[float]:
    """Kernels with a value in common, and a scale for each row and column."""
    rows, columns, taps = shape[0], shape[1], math.prod(shape[2:])
    row_scales = [2.0 ** (random.below(17) / 4 - 2) for _ in range(rows)]
    column_scales = [2.0 ** (random.below(9) / 4 - 1) for _ in range(columns)]
    values = []
    for row in row_scales:
        for column in column_scales:
            (common,) = random.weights(1, 0.1)
            scale = row * column
            values += [scale * (common + noise) for noise in random.weights(taps, 0.02)]
    return values


def sparse(random: Random, count: int) -> list[float]:
    values = random.weights(count, 0.1)
    return [value if random.below(4) == 0 else 0.0 for value in values]


SHAPES = ([24, 40], [30, 100])  # of one chunk and of several


def of_dtype(file: str, dtype: str, seed: int, entropy: str = "zstd", shapes=SHAPES) -> Vector:
    purpose = f"{dtype} under every kind of bound, records of one chunk and of several"
    purpose += ", entropy stage rans" if entropy == "rans" else ""
    vector = Vector(file, purpose, chunk_elems=1200, entropy=entropy)
    random = Random(seed)
    fine = {"F64": 1e-9, "F32": 1e-6}.get(dtype, 1e-4)

    def add(name: str, shape, values, **asked) -> None:
        vector.add(name, dtype, shape, packed_floats(dtype, values), asked=asked)

    def noise(shape) -> list[float]:
        return random.weights(math.prod(shape), 0.1)

    for shape in shapes:
        add(f"low rate {shape}", shape, noise(shape), **{ABS: 0.15})
        add(f"middle rate {shape}", shape, noise(shape), **{ABS: 0.004})
        add(f"high rate {shape}", shape, noise(shape), **{SIGMA: fine})
        add(f"rows {shape}", shape, noise(shape), per_row=True, **{REL: 0.003})
        add(f"row deviations {shape}", shape, noise(shape), per_row=True, **{SIGMA: 0.05})
        add(f"sparse {shape}", shape, sparse(random, math.prod(shape)), **{REL: 0.001})
        heavy = [x * y * y * 1e4 for x, y in zip(noise(shape), noise(shape))]
        add(f"heavy tails {shape}", shape, heavy, **{SIGMA: 0.01})
    for shape in ([6, 8, 3, 3], [40, 20, 3, 3], [70, 30, 5]):
        add(f"kernels {shape}", shape, kernels(random, shape), **{REL: 0.001})
    add("one dimension", [500], noise([500]), **{ABS: 0.01})
    add("no dimension", [], [0.3], **{ABS: 0.01})
    add("constant", [20, 60], [0.7] * 1200, **{ABS: 0.01})
    exponent, mantissa = FIELDS[dtype]
    odd = special(exponent, mantissa)
    odd += [pattern - 1 for pattern in odd if pattern]  # largest values among them
    for shape in ([30, 30], [20, 120]):
        count = math.prod(shape)
        plain = packed_floats(dtype, noise(shape))
        size = len(plain) // count
        mixed = [int.from_bytes(plain[i * size : (i + 1) * size], "little") for i in range(count)]
        for i in range(0, count, 37):
            mixed[i] = odd[random.below(len(odd))]
        content = packed_integers(f"U{8 * size}", mixed)
        vector.add(f"some specials {shape}", dtype, shape, content, asked={ABS: 0.01})
    patterns = [odd[random.below(len(odd))] for _ in range(100)]
    content = packed_integers(f"U{8 * size}", patterns)
    vector.add("specials", dtype, [10, 10], content, asked={ABS: 1e-3})
    return vector


def low_bits(file: str, seed: int, entropy: str = "zstd") -> Vector:
    """Indices of every number of low bits, in whole groups and in last ones of few values."""
    purpose = f"low bits of every number a value, entropy stage {entropy}"
    vector = Vector(file, purpose, entropy=entropy)
    random = Random(seed)
    for k in range(27):
        bound = 2.0**-k / 60
        n_values = 3 + random.below(50)
        content = packed_floats("F64", random.weights(n_values, 0.1))
        vector.add(f"{k} few", "F64", [n_values], content, asked={ABS: bound})
    values: list[float] = []
    for i in range(27):
        values += random.weights(128, 2.0 ** (i - 27))
    values += random.weights(45, 2.0**-16)
    content = packed_floats("F64", values)
    vector.add("whole", "F64", [len(values)], content, asked={ABS: 2.0**-32})
    return vector


def low_bits_zstd() -> Vector:
    return low_bits("direct_low_bits.cfck", 90)


def direct_f64() -> Vector:
    return of_dtype("direct_f64.cfck", "F64", 61)


def direct_f32() -> Vector:
    return of_dtype("direct_f32.cfck", "F32", 62)


def direct_bf16() -> Vector:
    return of_dtype("direct_bf16.cfck", "BF16", 63)


def direct_f16() -> Vector:
    return of_dtype("direct_f16.cfck", "F16", 64)


DIRECT_VECTORS = (low_bits_zstd, direct_f64, direct_f32, direct_bf16, direct_f16)
