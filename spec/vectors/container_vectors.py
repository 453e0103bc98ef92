"""Vectors of the container: spec/format.md."""

from __future__ import annotations

from vector import BITS, Random, Vector, packed_floats, packed_integers


def sizes(dtype: str) -> list[list[int]]:
    """0-d, empty, one element and odd sizes, as far as whole bytes allow."""
    step = {4: 2, 6: 4}.get(BITS[dtype], 1)
    shapes = [[0], [step], [7 * step], [3, 0, 5], [3, 1, 5 * step]]
    return shapes if step > 1 else [[], *shapes]


def empty() -> Vector:
    return Vector("empty.cfck", "no records, no metadata")


def dtypes_raw() -> Vector:
    vector = Vector("dtypes_raw.cfck", "every dtype, small shapes, codec raw", codec="raw")
    random = Random(1)
    for dtype in BITS:
        for shape in sizes(dtype):
            count = 1
            for dimension in shape:
                count *= dimension
            content = random.bytes(count * BITS[dtype] // 8)
            if dtype == "BOOL":
                content = bytes(b & 1 for b in content)
            vector.add(f"{dtype} {shape}", dtype, shape, content)
    return vector


def raw_chunks() -> Vector:
    purpose = "raw records of several chunks, a last one that is shorter, and one large chunk"
    vector = Vector("raw_chunks.cfck", purpose, codec="raw", chunk_elems=64)
    random = Random(2)
    for name, dtype, shape in [
        ("flat", "U8", [1000]),
        ("rows of 33", "F32", [7, 33]),
        ("rows of 16", "F64", [9, 4, 4]),
        ("long rows", "I16", [2, 100]),
        ("exactly two", "BF16", [128]),
        ("four bits", "F4", [75, 2]),
        ("six bits", "F6_E2M3", [300]),
        ("six bits, long rows", "F6_E3M2", [2, 100]),
    ]:
        count = shape[0] * (shape[1] if len(shape) > 1 else 1) * (shape[2] if shape[2:] else 1)
        vector.add(name, dtype, shape, random.bytes(count * BITS[dtype] // 8), kind="chunked")
    return vector


def raw_large() -> Vector:
    purpose = (
        "raw records around the largest packed payload; the last three lie in their own frames"
    )
    vector = Vector("raw_large.cfck", purpose, codec="raw")
    random = Random(3)
    vector.add("small", "U8", [3], random.bytes(3), kind="packed")
    vector.add("largest packed", "U8", [16384], random.bytes(16384), kind="packed")
    vector.add("one more", "U8", [16385], random.bytes(16385), kind="chunked")
    vector.add("words", "F32", [4100], random.bytes(16400), kind="chunked")
    vector.add("last", "U8", [1], random.bytes(1), kind="packed")
    return vector


def packs() -> Vector:
    purpose = "a pack that is closed because it is full, and one that stays open across a record"
    vector = Vector("packs.cfck", purpose, codec="raw")
    random = Random(4)
    for i in range(9):
        vector.add(f"full {i}", "U8", [16384 - i % 2], random.bytes(16384 - i % 2), kind="packed")
    vector.add("in between", "U8", [16400], random.bytes(16400), kind="chunked")
    vector.add("behind", "U8", [5], random.bytes(5), kind="packed")
    return vector


def ranks() -> Vector:
    vector = Vector("ranks.cfck", "many dimensions; large dimensions beside a 0", codec="raw")
    random = Random(5)
    vector.add("64 dimensions", "U8", [1] * 30 + [2, 3] + [1] * 32, random.bytes(6))
    strides = [7] * 30 + [1, 2] + [0] * 32
    vector.alias(
        "64 dimensions, transposed", "64 dimensions", 0, [1] * 30 + [2, 3] + [1] * 32, strides
    )
    vector.add("64 dimensions, empty", "U8", [1] * 63 + [0], b"")
    vector.add("large and empty", "F32", [2**47, 0, 2**15], b"")
    vector.add("no bytes, six bits", "F6_E2M3", [0], b"")
    return vector


def names() -> Vector:
    vector = Vector("names.cfck", "names that are any UTF-8", codec="raw")
    random = Random(6)
    for name in (
        "",
        "model.layers.0.weight",
        "nul\x00inside",
        "line\nbreak\ttab\rreturn",
        "\x1b[31mred\x1b[0m",
        "../../outside",
        "/absolute",
        "\u202etxet desrever",
        "caf\u00e9",
        "cafe\u0301",
        "\U0001f9ea\u7d0d\u8c46",
        "\ufeffmark",
        '"quoted\\',
        "long " * 60,
    ):
        vector.add(name, "U8", [2], random.bytes(2))
    return vector


def aliases() -> Vector:
    vector = Vector(
        "aliases.cfck", "aliases: offsets, transposed, expanded, below one byte", chunk_elems=64
    )
    random = Random(7)
    vector.add("chunked", "F32", [20, 12], packed_floats("F32", random.weights(240, 0.1)))
    vector.alias("whole", "chunked", 0, [20, 12], [12, 1])
    vector.alias("row 3", "chunked", 36, [12], [1])
    vector.alias("column 5", "chunked", 5, [20], [12])
    vector.alias("transposed", "chunked", 0, [12, 20], [1, 12])
    vector.alias("overlapping windows", "chunked", 0, [5, 8], [4, 1])
    vector.alias("expanded", "chunked", 17, [3, 12, 2], [0, 1, 0])
    vector.alias("one element", "chunked", 239, [], [])
    vector.alias("unused strides", "chunked", 239, [1, 1], [1000000, 7])
    vector.add("packed", "F4", [10], random.bytes(5), codec="raw")
    vector.alias("nibbles from the third", "packed", 2, [4, 2], [2, 1])
    vector.add("six", "F6_E3M2", [8], random.bytes(6), codec="raw")
    vector.alias("six from the fifth", "six", 4, [4], [1])
    return vector


def families() -> Vector:
    purpose = "tensors of one storage: a base with a name, and hidden bases"
    vector = Vector("families.cfck", purpose, codec="raw")
    random = Random(8)
    weights = random.bytes(4 * 60)
    vector.family(
        "F32",
        weights,
        [
            ("embedding", 0, [10, 6], [6, 1], "chunked or packed"),
            ("head", 0, [10, 6], [6, 1], "alias"),
            ("rows", 12, [3, 6], [6, 1], "alias"),
            ("transposed", 0, [6, 10], [1, 6], "alias"),
        ],
    )
    vector.family(
        "I16",
        random.bytes(2 * 40),
        [
            ("first thirty", 0, [30], [1], "alias"),
            ("last thirty", 10, [30], [1], "alias"),
        ],
    )
    # The odd columns belong to no view, and are not in the file.
    vector.family(
        "U8",
        random.bytes(64),
        [
            ("even columns", 0, [8, 4], [8, 2], "chunked or packed"),
            ("even columns of rows from two", 16, [2, 4], [8, 2], "alias"),
        ],
    )
    vector.family("F64", random.bytes(8), [("scalar", 0, [], [], "packed")])
    return vector


def duplicates() -> Vector:
    purpose = "equal tensors, stored once; equal bytes of another dtype or shape, stored apart"
    vector = Vector("duplicates.cfck", purpose, codec="raw", chunk_elems=32)
    random = Random(9)
    large, small = random.bytes(400), random.bytes(8)
    vector.add("large", "F32", [10, 10], large, kind="chunked")
    vector.add("small", "F32", [2], small, kind="packed")
    vector.add("large again", "F32", [10, 10], large, kind="duplicate")
    vector.add("small again", "F32", [2], small, kind="duplicate")
    vector.add("and again", "F32", [2], small, kind="duplicate")
    vector.add("another shape", "F32", [1, 2], small, kind="packed")
    vector.add("another dtype", "I32", [2], small, kind="packed")
    vector.alias("view of it", "large", 10, [10], [1])
    return vector


def metadata() -> Vector:
    vector = Vector("metadata.cfck", "metadata: empty, long, any UTF-8, the last value of a key")
    for key, value in [
        ("format", "pt"),
        ("b", ""),
        ("", "no key"),
        ("a", "first"),
        ("a", "second"),
        ("caf\u00e9", "na\u00efve \u2713"),
        ("nul\x00", "\x00\n\x1b"),
        ("B", "capital letters come first"),
        ("long", "x" * 300),
    ]:
        vector.describe(key, value)
    vector.add("t", "U8", [1], b"\x01")
    return vector


def attachments() -> Vector:
    vector = Vector("attachments.cfck", "attachments: empty, text, incompressible bytes")
    random = Random(10)
    vector.attach("empty", b"")
    vector.attach("text", b"{" + b'"a": 1, ' * 50 + b"}")
    vector.attach("bytes", random.bytes(500))
    vector.attach("\u00fcber\n", b"\x00")
    vector.add("t", "U8", [1], b"\x02")
    return vector


def generations() -> Vector:
    purpose = "two updates: replaced, removed and added records, kept chunks, dead frames"
    vector = Vector("generations.cfck", purpose, codec="raw", chunk_elems=32)
    random = Random(11)
    vector.describe("step", "0")
    vector.describe("kept", "yes")
    vector.add("replaced", "F32", [50], random.bytes(200))
    vector.add("removed", "F32", [50], random.bytes(200))
    vector.add("kept", "F32", [50], random.bytes(200))
    vector.add("small replaced", "U8", [3], random.bytes(3))
    vector.add("small kept", "U8", [4], random.bytes(4))
    vector.alias("view", "kept", 1, [7, 7], [7, 1])
    vector.update(
        [("replaced", "F32", [50], random.bytes(200)), ("new", "I64", [3], random.bytes(24))],
        ["removed"],
        {"step": "1"},
    )
    vector.update([("small replaced", "U8", [5], random.bytes(5))], [], {"step": "2", "more": "."})
    return vector


def special_values_raw() -> Vector:
    purpose = "special values, codec raw: NaN payloads, infinities, -0, subnormals"
    vector = Vector("special_values_raw.cfck", purpose, codec="raw")
    vector.add("F32", "F32", [8], packed_integers("U32", special(8, 23)))
    vector.add("F16", "F16", [8], packed_integers("U16", special(5, 10)))
    vector.add("BF16", "BF16", [8], packed_integers("U16", special(8, 7)))
    vector.add("F64", "F64", [8], packed_integers("U64", special(11, 52)))
    return vector


def special(exponent: int, mantissa: int) -> list[int]:
    """Bit patterns: +0, -0, infinities, quiet and signalling NaN, subnormals."""
    sign, top = 1 << exponent + mantissa, (2**exponent - 1) << mantissa
    quiet = top | 1 << mantissa - 1
    return [0, sign, top, sign | top, quiet | 5, sign | top | 1, 1, sign | 2**mantissa - 1]


CONTAINER_VECTORS = (
    empty, dtypes_raw, raw_chunks, raw_large, packs, ranks, names, aliases, families, duplicates,
    metadata, attachments, generations, special_values_raw,
)  # fmt: skip
