"""Vectors of the lossless codec: codec/lossless/spec.md."""

from __future__ import annotations

import math

from container_vectors import special
from vector import BITS, Random, Vector, ordinary, packed_floats, packed_integers

FIELDS = {  # exponent bits, mantissa bits
    "F8_E4M3": (4, 3), "F8_E4M3FNUZ": (4, 3), "F8_E5M2": (5, 2), "F8_E5M2FNUZ": (5, 2),
    "F16": (5, 10), "BF16": (8, 7), "F32": (8, 23), "F64": (11, 52),
}  # fmt: skip


def of_width(file: str, width: int, seed: int) -> Vector:
    """Every dtype of one width: 0-d, empty, 1, a partial group, three chunks."""
    purpose = f"every dtype of {width} bits, ordinary values, one chunk and three"
    vector = Vector(file, purpose, codec="lossless", chunk_elems=256)
    random = Random(seed)
    for dtype, bits in BITS.items():
        if bits != width and not (width == 8 and bits < 8):
            continue
        shapes = [[0], [4], [36, 4], [36, 16]] if bits < 8 else [[], [0], [1], [129], [7, 79]]
        for shape in shapes:
            content = ordinary(dtype, math.prod(shape), random)
            vector.add(f"{dtype} {shape}", dtype, shape, content)
    return vector


def dtypes_8() -> Vector:
    return of_width("lossless_dtypes_8.cfck", 8, 21)


def dtypes_16() -> Vector:
    return of_width("lossless_dtypes_16.cfck", 16, 22)


def dtypes_32() -> Vector:
    return of_width("lossless_dtypes_32.cfck", 32, 23)


def dtypes_64() -> Vector:
    return of_width("lossless_dtypes_64.cfck", 64, 24)


class Floats:
    """Bit patterns of one float dtype."""

    def __init__(self, dtype: str, seed: int):
        self.dtype, self.random = dtype, Random(seed)
        self.exponent, self.mantissa = FIELDS[dtype]
        self.sign = 1 << self.exponent + self.mantissa

    def scaled(self, count: int, middle: int) -> list[int]:
        """Roughly normal values whose exponents lie at and below `middle`."""
        patterns = []
        for _ in range(count):
            bell = max(abs(self.random.bell()), 1)
            exponent = max(middle + bell.bit_length() - 17, 0)
            fraction = self.random.below(1 << self.mantissa)
            sign = self.sign * self.random.below(2)
            patterns.append(sign | min(exponent, 2**self.exponent - 2) << self.mantissa | fraction)
        return patterns

    def coarse(self, count: int, middle: int, clean: int) -> list[int]:
        """The same, the low `clean` bits of every mantissa zero."""
        return [pattern >> clean << clean for pattern in self.scaled(count, middle)]

    def pack(self, patterns: list[int]) -> bytes:
        size = BITS[self.dtype] // 8
        return b"".join(pattern.to_bytes(size, "little") for pattern in patterns)


def float_features(dtype: str, seed: int) -> dict[str, list[int]]:
    """Value lists that make the encoder use each part of the format."""
    floats = Floats(dtype, seed)
    random, sign = floats.random, floats.sign
    middle = 2 ** (floats.exponent - 1) - 3
    plain = floats.scaled(600, middle)
    half = [value * random.below(2) for value in floats.scaled(700, middle)]
    both = [value if random.below(2) else sign * random.below(2) for value in plain]
    pairs = []
    for i in range(0, 640, 4):
        kept = random.below(4)
        pairs += [plain[(i + j) % 600] if j in (kept, (kept + 1) % 4) else 0 for j in range(4)]
    holes = floats.scaled(128, middle) + [0] * 256 + floats.scaled(150, middle)
    outliers = list(plain)
    for i in range(0, 600, 97):
        outliers[i] = 1 << floats.mantissa
    patterns = special(floats.exponent, floats.mantissa)
    mixed = [patterns[i % 8] if i % 16 < 8 else value for i, value in enumerate(plain[:300])]
    lists = {
        "plain": plain,
        "half zeros": half,
        "zeros of both signs": both,
        "two of four": pairs,
        "groups of zeros": holes,
        "outliers": outliers,
        "special values": mixed,
        "subnormal": [random.below(1 << floats.mantissa) for _ in range(200)],
        "random bits": [random.below(2 * sign) for _ in range(150)],
        "constant": [plain[0]] * 140,
        "constant NaN": [patterns[5]] * 140,
        "minus zero": [sign] * 129,
        "minus zero but one": [sign] * 140 + [plain[1]],
        "one value and zeros": [0] * 300 + [plain[2]],
    }
    if floats.mantissa > 3:
        clean = floats.mantissa - 3
        lists["clean bits"] = floats.coarse(400, middle, clean)
        lists["clean bits in some groups"] = (
            floats.coarse(256, middle, clean) + floats.scaled(128, middle)
            + floats.coarse(130, middle, clean - 1)
        )  # fmt: skip
        fine = floats.coarse(300, middle, clean)
        fine[50] = fine[200] = 1 << floats.mantissa | 2**floats.mantissa - 1
        lists["clean bits but for outliers"] = fine
        everything = floats.coarse(200, middle, clean) + [0] * 384 + floats.scaled(128, middle)
        everything += [value * random.below(2) for value in floats.scaled(260, middle)]
        lists["mask, clean bits, zeros"] = everything
    if floats.exponent > 5:
        low, high = floats.scaled(128, 20), floats.scaled(128, 2**floats.exponent - 10)
        lists["scales far apart"] = low + high + low + floats.scaled(60, middle)
        steps = (floats.scaled(128, middle + 3 * i) for i in range(5))
        lists["scales that grow"] = [value for group in steps for value in group]
    return lists


def features(file: str, dtypes: list[str], seed: int) -> Vector:
    purpose = f"each part of mode 2 with {', '.join(dtypes)}"
    vector = Vector(file, purpose, codec="lossless")
    for dtype in dtypes:
        floats = Floats(dtype, seed)
        for name, patterns in float_features(dtype, seed).items():
            vector.add(f"{dtype} {name}", dtype, [len(patterns)], floats.pack(patterns))
    return vector


def features_bf16() -> Vector:
    return features("lossless_features_bf16.cfck", ["BF16"], 31)


def features_f16() -> Vector:
    return features("lossless_features_f16.cfck", ["F16"], 32)


def features_f32() -> Vector:
    return features("lossless_features_f32.cfck", ["F32"], 33)


def features_f64() -> Vector:
    return features("lossless_features_f64.cfck", ["F64"], 34)


def features_f8() -> Vector:
    dtypes = ["F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ"]
    return features("lossless_features_f8.cfck", dtypes, 35)


def packed_bits(file: str, entropy: str) -> Vector:
    """Raw bits of every width, in whole groups and in last ones of few values."""
    purpose = f"raw bits of every number a value, entropy stage {entropy}"
    vector = Vector(file, purpose, codec="lossless", entropy=entropy)
    for seed, dtype in enumerate(["BF16", "F16", "F32", "F64"]):
        floats = Floats(dtype, 55 + seed)
        middle = 2 ** (floats.exponent - 1) - 3
        for clean in range(floats.mantissa):
            n_values = 1 + floats.random.below(40)
            patterns = floats.coarse(n_values, middle, clean)
            if clean % 3 == 1:  # no signs
                patterns = [pattern % floats.sign for pattern in patterns]
            vector.add(f"{dtype} {clean} few", dtype, [n_values], floats.pack(patterns))
        step = 3 if dtype == "F64" else 1
        for base in range(0, floats.mantissa - 1, 24):  # a group has at most 31 more than the base
            whole: list[int] = []
            for clean in range(base, min(base + 24, floats.mantissa - 1), step):
                whole += floats.coarse(128, middle, clean)
            whole += floats.coarse(29, middle, base + 1)
            vector.add(f"{dtype} from {base}", dtype, [len(whole)], floats.pack(whole))
    return vector


def packed_bits_zstd() -> Vector:
    return packed_bits("lossless_packed_bits.cfck", "zstd")


def complex_numbers() -> Vector:
    vector = Vector("lossless_complex.cfck", "C64: constant parts, zeros, several chunks")
    vector.codec, vector.chunk_elems = "lossless", 128
    random = Random(36)
    values = random.weights(600, 0.3)
    vector.add("plain", "C64", [300], packed_floats("C64", values))
    vector.add(
        "real",
        "C64",
        [200],
        packed_floats("C64", [v * (i % 2) for i, v in enumerate(values[:400])]),
    )
    vector.add("constant", "C64", [9], packed_floats("C64", [1.0, 2.0] * 9))
    vector.add("all parts equal", "C64", [9], packed_floats("C64", [2.0] * 18))
    return vector


def four_tables() -> Vector:
    purpose = "chunks of 4096 values and more: a table for each phase, blocks of four bit streams"
    vector = Vector("lossless_four_tables.cfck", purpose, codec="lossless")
    for seed, (dtype, count) in enumerate([("BF16", 4096), ("F16", 4500), ("F8_E4M3", 5000)]):
        floats = Floats(dtype, 40 + seed)
        middle = 2 ** (floats.exponent - 1) - 2
        patterns: list[int] = []
        while len(patterns) < count:  # neighbouring groups of another scale
            patterns += floats.scaled(128, middle - len(patterns) // 128 % 3)
        vector.add(f"{dtype} {count}", dtype, [count], floats.pack(patterns[:count]))
    random = Random(45)
    values = random.weights(4200, 0.02)
    scaled = [v * (1 + i // 128 % 8 / 4) for i, v in enumerate(values)]
    sparse = [v * (random.below(5) > 0) for v in scaled]
    vector.add("F32, four phases", "F32", [42, 100], packed_floats("F32", scaled))
    vector.add("BF16, four phases", "BF16", [42, 100], packed_floats("BF16", scaled))
    vector.add(
        "BF16, four phases, sparse", "BF16", [6000], packed_floats("BF16", sparse + scaled[:1800])
    )
    return vector


def integers() -> Vector:
    vector = Vector("lossless_integers.cfck", "byte planes and differences of integers")
    vector.codec = "lossless"
    random = Random(50)
    for dtype in ("I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64"):
        bits = BITS[dtype]
        low, high = (
            (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype[0] == "I" else (0, 2**bits - 1)
        )
        lists = {
            "counter": [i % 2 ** (bits - 1) for i in range(300)],
            "descending": [high - 3 * i for i in range(80)],
            "from end to end": [low, high] * 40 + [0],
            "wraps": [(high - 5 + i - low) % 2**bits + low for i in range(70)],
            "small": [random.below(10) for _ in range(200)],
            "random": [random.next() for _ in range(40)],
            "constant": [7] * 33,
            "constant but one": [7] * 200 + [low],
        }
        for name, values in lists.items():
            vector.add(f"{dtype} {name}", dtype, [len(values)], packed_integers(dtype, values))
    vector.add("BOOL sparse", "BOOL", [500], bytes(random.below(20) == 0 for _ in range(500)))
    vector.add("BOOL true", "BOOL", [500], b"\x01" * 500)
    vector.add("F4 zeros", "F4", [100, 2], bytes(100))
    vector.add("F4 sparse", "F4", [400], bytes((random.below(6) == 0) * 0x20 for _ in range(200)))
    vector.add("F6 repeating", "F6_E2M3", [400], b"\x12\x34\x56" * 100)
    vector.add("E8M0 scales", "F8_E8M0", [300], bytes(120 + random.below(3) for _ in range(300)))
    return vector


def integer_chunks() -> Vector:
    vector = Vector("lossless_integer_chunks.cfck", "each chunk has its own mode and transform")
    vector.codec, vector.chunk_elems = "lossless", 128
    random = Random(51)
    values = list(range(1000, 1128)) + [3] * 128 + [random.below(2**32) for _ in range(128)]
    values += [random.below(4) for _ in range(50)]
    vector.add("position ids", "I64", [434], packed_integers("I64", values))
    vector.add("the same, 32 bits", "U32", [434], packed_integers("U32", values))
    return vector


def float_planes() -> Vector:
    purpose = "floats that the symboliser cannot make smaller: byte planes, or stored"
    vector = Vector("lossless_float_planes.cfck", purpose, codec="lossless")
    random = Random(52)
    for dtype in ("F8_E4M3", "F8_E5M2", "F16", "BF16", "F32", "F64"):
        size = BITS[dtype] // 8
        words = [random.bytes(size) for _ in range(3)]
        vector.add(f"{dtype} period of three", dtype, [300], b"".join(words * 100))
        high = [bytes([i % 7]) * (size - 1) + random.bytes(1) for i in range(100)]
        vector.add(f"{dtype} random exponents", dtype, [100], b"".join(high))
        vector.add(f"{dtype} noise", dtype, [20], random.bytes(20 * size))
    return vector


def automatic() -> Vector:
    vector = Vector("auto.cfck", "codec auto: whichever is smaller, raw on a tie")
    random = Random(53)
    vector.add("weights", "BF16", [30, 20], packed_floats("BF16", random.weights(600, 0.02)))
    vector.add("noise", "U8", [100], random.bytes(100))
    vector.add("zeros", "F32", [64, 64], bytes(4 * 64 * 64))
    vector.add("positions", "I64", [1, 512], packed_integers("I64", list(range(512))))
    vector.add("scalar", "F32", [], packed_floats("F32", [1.5]))
    vector.add("empty", "F16", [0, 4], b"")
    vector.add("zeros again", "F32", [64, 64], bytes(4 * 64 * 64), kind="duplicate")
    vector.alias("transposed", "weights", 0, [20, 30], [1, 20])
    return vector


def default_chunks() -> Vector:
    """2^18 values make a chunk; zeros cost nothing."""
    vector = Vector("default_chunks.cfck", "chunks of the default size, whole rows, zeros")
    vector.add("600 rows", "U8", [600, 1000], bytes(600000))
    vector.add("flat", "U8", [2**18 + 1], bytes(2**18) + b"\x01")
    vector.add("exactly one", "BF16", [2**18], bytes(2**19))
    return vector


LOSSLESS_VECTORS = (
    dtypes_8, dtypes_16, dtypes_32, dtypes_64, features_bf16, features_f16, features_f32,
    features_f64, features_f8, packed_bits_zstd, complex_numbers, four_tables, integers,
    integer_chunks, float_planes, automatic, default_chunks,
)  # fmt: skip
