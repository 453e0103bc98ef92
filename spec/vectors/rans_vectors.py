"""Vectors of the entropy stage rans: codec/entropy/rans.md. Records of one chunk may have
the other stage, where it is shorter; those of several chunks have not."""

from __future__ import annotations

import direct_vectors
import lossless_vectors
from lossless_vectors import Floats, float_features
from vector import Random, Vector, packed_floats

SOME_FEATURES = (
    "plain", "outliers", "clean bits in some groups", "mask, clean bits, zeros", "scales far apart",
)  # fmt: skip


def lossless_features() -> Vector:
    purpose = "each part of mode 2 with the entropy stage rans"
    vector = Vector("rans_features.cfck", purpose, codec="lossless", entropy="rans")
    vector.chunk_elems = 384
    for seed, dtype in enumerate(["BF16", "F16", "F32", "F64", "F8_E4M3", "F8_E5M2FNUZ"]):
        floats = Floats(dtype, 70 + seed)
        for name, patterns in float_features(dtype, 70 + seed).items():
            if dtype in ("BF16", "F8_E4M3") or name in SOME_FEATURES:
                whole = patterns + patterns[: max(0, 385 - len(patterns))]
                vector.add(f"{dtype} {name}", dtype, [len(whole)], floats.pack(whole))
    values = Random(76).weights(1000, 0.3)
    vector.add("C64", "C64", [500], packed_floats("C64", values))
    vector.add("integers", "I16", [400], Random(77).bytes(800))
    return vector


def lane_sets(file: str, chunk_elems: int) -> Vector:
    """Chunks of that many values and of one less, of about 3 bits each."""
    purpose = f"lane sets: chunks of {chunk_elems} values, and of fewer"
    vector = Vector(file, purpose, codec="lossless", entropy="rans", chunk_elems=chunk_elems)
    floats, count = Floats("F8_E4M3", chunk_elems), 2 * chunk_elems - 1
    patterns: list[int] = []
    while len(patterns) < count:
        scale = 9 + len(patterns) // 128 % 5 - 4 * (len(patterns) % 4096 == 0)
        patterns += [value & 0x7F for value in floats.coarse(128, scale, 2)]
    vector.add("around", "F8_E4M3", [count], floats.pack(patterns[:count]))
    n_sparse = chunk_elems + 300
    sparse = [value * (floats.random.below(6) == 0) for value in floats.scaled(n_sparse, 8)]
    vector.add("most of them hidden", "F8_E4M3", [n_sparse], floats.pack(sparse))
    return vector


def two_lane_sets() -> Vector:
    vector = lane_sets("rans_two_lane_sets.cfck", 8192)
    floats = Floats("BF16", 81)
    zeros = floats.scaled(900, 120) + [0] * 7552 + floats.scaled(300, 118)
    vector.add("groups of zeros", "BF16", [len(zeros)], floats.pack(zeros))
    return vector


def four_lane_sets() -> Vector:
    return lane_sets("rans_four_lane_sets.cfck", 32768)


def segments() -> Vector:
    """Chunks of one group more than a segment may have, and of about three segments."""
    purpose = "lossless and lossy chunks in two and three segments"
    vector = Vector("rans_segments.cfck", purpose, entropy="rans")
    floats, random = Floats("F8_E4M3", 88), Random(89)
    for count in (512 * 128 + 1, 1300 * 128 - 5):
        patterns: list[int] = []
        while len(patterns) < count:
            scale = 9 + len(patterns) // 128 % 3
            patterns += [value & 0x7F for value in floats.coarse(128, scale, 2)]
        patterns[100:356] = [0] * 256
        patterns[70_000 % count] = 0x7E  # an escape
        vector.add(f"F8_E4M3 {count}", "F8_E4M3", [count], floats.pack(patterns[:count]))
    weights = random.weights(66_000, 0.1)
    weights[65_900], weights[5] = 1e30, -1e30
    asked = {direct_vectors.ABS: 0.001}  # three raw bits: with fewer, segments are longer
    content = packed_floats("F32", weights)
    vector.add("F32 direct", "F32", [66_000], content, asked=asked)
    return vector


def tables() -> Vector:
    """Values that no static table fits; and bins that need a table of their own."""
    purpose = "explicit tables, for values, classes and clean bits"
    vector = Vector("rans_tables.cfck", purpose, codec="lossless", entropy="rans")
    vector.chunk_elems = 6400
    floats, random = Floats("BF16", 82), Random(83)
    two = [127 + 3 * random.below(2) << 7 | random.below(128) for _ in range(6500)]
    vector.add("two exponents", "BF16", [6500], floats.pack(two))
    flat = [120 + random.below(14) << 7 | random.below(8) for _ in range(6500)]
    vector.add("even exponents", "BF16", [6500], floats.pack(flat))
    floats = Floats("F8_E4M3", 84)
    jumps = []
    for i in range(55):
        jumps += floats.coarse(128, 4 + 7 * (i % 2), random.below(3))
    vector.add("jumps", "F8_E4M3", [len(jumps)], floats.pack(jumps))
    return vector


def packed_bits() -> Vector:
    return lossless_vectors.packed_bits("rans_packed_bits.cfck", "rans")


def direct_low_bits() -> Vector:
    return direct_vectors.low_bits("rans_direct_low_bits.cfck", 91, "rans")


def direct_f32() -> Vector:
    return direct_vectors.of_dtype("rans_direct_f32.cfck", "F32", 85, "rans")


def direct_bf16() -> Vector:
    return direct_vectors.of_dtype("rans_direct_bf16.cfck", "BF16", 86, "rans", [[30, 100]])


def direct_lane_sets() -> Vector:
    """At about 1 bit a value, and at about 3."""
    purpose = "lossy records with two and four lane sets"
    vector = Vector("rans_direct_lane_sets.cfck", purpose, entropy="rans")
    random = Random(87)
    for shape in ([64, 160], [132, 256]):
        count = shape[0] * shape[1]
        for dtype, bound in (("F16", 0.2), ("F64", 0.05)):
            content = packed_floats(dtype, random.weights(count, 0.1))
            asked = {direct_vectors.ABS: bound}
            vector.add(f"{dtype} {shape}", dtype, shape, content, asked=asked)
    return vector


RANS_VECTORS = (
    lossless_features, two_lane_sets, four_lane_sets, segments, tables,
    packed_bits, direct_low_bits, direct_f32, direct_bf16, direct_lane_sets,
)  # fmt: skip
