"""Vectors of files that are stored against others: spec/format.md, section 5.6."""

from __future__ import annotations

import math

from vector import BITS, Random, Vector, ordinary

# name, dtype, shape, how many values one change stands for after a step (0: none), its size
TENSORS = (
    ("chunks", "BF16", [40, 128], 40, 1),
    ("packed", "BF16", [300], 20, 1),
    ("same chunks", "BF16", [2500], 0, 0),
    ("same", "F16", [100], 0, 0),
    ("most change", "BF16", [20, 100], 2, 3),
    ("F32", "F32", [30, 50], 30, 4000),
    ("F16", "F16", [1500], 30, 1),
    ("F64", "F64", [300], 20, 100),
    ("C64", "C64", [150], 20, 1000),
    ("F8_E4M3", "F8_E4M3", [50, 48], 40, 1),
    ("F8_E5M2", "F8_E5M2", [700], 40, 1),
    ("F8_E8M0", "F8_E8M0", [700], 40, 1),
    ("I8", "I8", [2000], 50, 2),
    ("I32", "I32", [600], 30, 5),
    ("U16", "U16", [700], 30, 5),
    ("I64", "I64", [200], 20, 1),
    ("BOOL", "BOOL", [1500], 100, 1),
    ("F4", "F4", [64, 64], 100, 1),
    ("F4 packed", "F4", [600], 50, 1),
    ("F6_E2M3", "F6_E2M3", [1600], 100, 1),
)


def stepped(dtype: str, content: bytes, random: Random, every: int, size: int) -> bytes:
    """The values with one of `every` changed by up to `size` units in the last place. Those below
    one byte are changed by bits; C64 counts as two values."""
    if dtype == "BOOL":
        return bytes(value ^ (random.below(every) == 0) for value in content)
    if BITS[dtype] < 8:
        return bytes(b ^ (random.below(every) == 0) << random.below(8) for b in content)
    width = 4 if dtype == "C64" else BITS[dtype] // 8
    out = bytearray(content)
    for at in range(0, len(out), width):
        if random.below(every) == 0:
            change = (1 + random.below(size)) * (1 - 2 * random.below(2))
            value = int.from_bytes(out[at : at + width], "little") + change
            out[at : at + width] = (value % 2 ** (8 * width)).to_bytes(width, "little")
    return bytes(out)


def contents(n_steps: int) -> dict[str, bytes]:
    """The values of all tensors after so many steps."""
    found = {}
    for number, (name, dtype, shape, every, size) in enumerate(TENSORS):
        content = ordinary(dtype, math.prod(shape), Random(500 + number))
        for step in range(n_steps if every else 0):
            random = Random(1000 * (step + 1) + number)
            content = stepped(dtype, content, random, every, size)
        found[name] = content
    return found


def add_all(vector: Vector, values: dict[str, bytes], names=None) -> None:
    for name, dtype, shape, *_ in TENSORS:
        if names is None or name in names:
            vector.add(name, dtype, shape, values[name])


def base() -> Vector:
    purpose = "what other vectors are stored against: dtypes, records of one chunk and of several"
    vector = Vector("base.cfck", purpose, chunk_elems=1024, entropy="rans")
    add_all(vector, contents(0))
    random = Random(400)
    vector.add("falls back", "BF16", [1500], random.bytes(3000))
    vector.add("constant", "F32", [400], ordinary("F32", 400, random))
    vector.add("another shape", "BF16", [30, 20], ordinary("BF16", 600, random))
    vector.add("another dtype", "BF16", [600], ordinary("BF16", 600, random))
    vector.add("removed", "U8", [5], random.bytes(5))
    vector.add("lossy", "F32", [800], ordinary("F32", 800, random))
    vector.add("no values", "F32", [0, 3], b"")
    return vector


def based() -> Vector:
    purpose = (
        "stored against base.cfck: differences of every kind, records without a change, a "
        "duplicate and an alias of differences, records that are smaller by themselves, a lossy "
        "one, names and shapes that the base does not have"
    )
    vector = Vector("based.cfck", purpose, chunk_elems=1024, entropy="rans", base="base.cfck")
    values, random = contents(1), Random(401)
    add_all(vector, values)
    vector.add("again", "BF16", [40, 128], values["chunks"], kind="duplicate")
    vector.alias("transposed", "chunks", 0, [128, 40], [1, 128])
    vector.alias("a part", "packed", 7, [20, 3], [10, 2])
    vector.alias("nibbles", "F4", 64, [8, 8], [8, 1])
    vector.add("falls back", "BF16", [1500], random.bytes(3000))
    vector.add("constant", "F32", [400], bytes(1600))
    vector.add("another shape", "BF16", [20, 30], ordinary("BF16", 600, random))
    vector.add("another dtype", "F16", [600], ordinary("F16", 600, random))
    vector.add("new", "BF16", [100], ordinary("BF16", 100, random))
    lossy = {"max_abs_error": 0.001}
    vector.add("lossy", "F32", [800], ordinary("F32", 800, random), asked=lossy)
    vector.add("no values", "F32", [0, 3], b"")
    vector.describe("step", "1")
    return vector


def based_zstd() -> Vector:
    purpose = "stored against base.cfck with the entropy stage zstd, which differences do not use"
    vector = Vector("based_zstd.cfck", purpose, chunk_elems=2048, base="base.cfck")
    names = ("most change", "F32", "I8", "F4")
    add_all(vector, contents(2), names)
    vector.add("new", "BF16", [100], ordinary("BF16", 100, Random(402)))
    return vector


def based_twice() -> Vector:
    purpose = "stored against based.cfck, which is stored against base.cfck"
    vector = Vector("based_twice.cfck", purpose, chunk_elems=1024, base="based.cfck")
    values = contents(2)
    add_all(vector, values, ("chunks", "packed", "same chunks", "F32", "F4", "I32"))
    # What the base has by an alias and by a duplicate.
    vector.add("again", "BF16", [40, 128], values["chunks"])
    before = contents(1)["packed"]
    part = b"".join(before[2 * (7 + i * 10 + j * 2) :][:2] for i in range(20) for j in range(3))
    vector.add("a part", "BF16", [20, 3], part)
    return vector


def based_on_memory() -> Vector:
    purpose = "stored against the tensors of base.cfck in memory: the name of the base is empty"
    vector = Vector("based_on_memory.cfck", purpose, base="base.cfck", base_in_memory=True)
    add_all(vector, contents(1), ("chunks", "packed", "same"))
    return vector


def based_updated() -> Vector:
    purpose = "stored against base.cfck, then updated: records of two generations, dead frames"
    vector = Vector("based_updated.cfck", purpose, chunk_elems=1024, base="base.cfck")
    values, random = contents(1), Random(403)
    add_all(vector, values, ("chunks", "packed", "F32", "same"))
    vector.update(
        [
            ("packed", "BF16", [300], ordinary("BF16", 300, random)),
            ("new", "I16", [20], ordinary("I16", 20, random)),
        ],
        ["F32"],
        {"step": "1"},
    )
    return vector


BASE_VECTORS = (base, based, based_zstd, based_twice, based_on_memory, based_updated)
