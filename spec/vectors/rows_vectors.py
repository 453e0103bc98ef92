"""Vectors of the codec of rows: codec/rows/spec.md."""

from __future__ import annotations

import math

from vector import BITS, Random, Vector, ordinary, packed_floats

FLOATS = ("F64", "F32", "BF16", "F16")
ABS, REL, SIGMA = "max_abs_error", "max_rel_error", "max_sigma_error"


def repeated(random: Random, rows: list[bytes], n: int) -> bytes:
    """n of the rows, the first ones more often; some occur once, some not at all."""
    chosen = [random.below(1 + random.below(len(rows))) for _ in range(n)]
    return b"".join(rows[number] for number in chosen)


def rows_of(random: Random, dtype: str, n: int, width: int) -> list[bytes]:
    content = ordinary(dtype, n * width, random)
    size = width * BITS[dtype] // 8
    return [content[i * size : (i + 1) * size] for i in range(n)]


def near(random: Random, dtype: str, shape: tuple[int, int], n: int, noise: float) -> bytes:
    """Rows that are near one of n."""
    centres = [random.weights(shape[1], 0.1) for _ in range(n)]
    values: list[float] = []
    for _ in range(shape[0]):
        centre = centres[random.below(1 + random.below(n))]
        values += [a + b for a, b in zip(centre, random.weights(shape[1], noise), strict=True)]
    return packed_floats(dtype, values)


def of_stage(file: str, entropy: str, seed: int, dtypes) -> Vector:
    purpose = "records of codec rows, without loss and with maximum errors, one chunk and several"
    purpose += ", entropy stage rans" if entropy == "rans" else ""
    vector = Vector(file, purpose, codec="rows", chunk_elems=600, entropy=entropy)
    random = Random(seed)

    def add(name: str, dtype: str, shape, content: bytes, **asked) -> None:
        vector.add(name, dtype, shape, content, codec="rows", asked=asked or None)

    for dtype in dtypes:
        rows = rows_of(random, dtype, 24, 8)
        add(f"{dtype} one chunk", dtype, [40, 8], repeated(random, rows, 40))
        add(f"{dtype} chunks", dtype, [45, 3, 8], repeated(random, rows, 135))
    every = rows_of(random, "U16", 50, 2)
    add("many numbers", "U16", [300, 2], repeated(random, every, 300))
    add("all equal", "F32", [50, 12], rows_of(random, "F32", 1, 12)[0] * 50)
    add("constant", "F32", [50, 12], packed_floats("F32", [0.5]) * 600)
    add("no equal integers", "U16", [60, 8], ordinary("U16", 480, random))
    add("none equal", "F32", [60, 12], ordinary("F32", 720, random))
    add("one axis", "F32", [700], ordinary("F32", 700, random))
    add("no values", "F32", [0, 4], b"")
    for dtype in [dtype for dtype in FLOATS if dtype in dtypes]:
        for kind, bound in ((ABS, 0.01), (REL, 0.02), (SIGMA, 0.1)):
            content = near(random, dtype, (50, 8), 20, 0)
            add(f"{dtype} {kind}", dtype, [50, 8], content, **{kind: bound})
        content = near(random, dtype, (150, 8), 8, 1e-4)
        add(f"{dtype} merged", dtype, [150, 8], content, **{ABS: 0.02})
        values = random.weights(math.prod((70, 10)), 0.1)
        add(
            f"{dtype} nothing repeats", dtype, [70, 10], packed_floats(dtype, values), **{ABS: 0.01}
        )
        values = random.weights(700, 0.1)
        add(f"{dtype} one axis", dtype, [700], packed_floats(dtype, values), **{ABS: 0.01})
    specials = packed_floats("F32", [math.inf, -math.inf, math.nan, -0.0, 1e-42, 0.1, 3e38, 0.2])
    add("special values", "F32", [40, 8], specials * 40, **{ABS: 0.01})
    return vector


def rows_zstd() -> Vector:
    return of_stage("rows.cfck", "zstd", 111, list(BITS))


def rows_rans() -> Vector:
    return of_stage("rans_rows.cfck", "rans", 112, ["F32", "BF16", "F16", "F64", "C64", "F8_E4M3"])


ROWS_VECTORS = (rows_zstd, rows_rans)
