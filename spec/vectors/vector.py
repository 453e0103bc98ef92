"""What a test vector is made of, and seeded values to fill it with.

Only the standard library: the vectors must not depend on anybody's random
numbers or rounding.
"""

from __future__ import annotations

import dataclasses
import math
import struct

BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
    "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip


class Random:
    """SplitMix64."""

    def __init__(self, seed: int):
        self.state = seed

    def next(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    def below(self, bound: int) -> int:
        return self.next() % bound

    def bytes(self, count: int) -> bytes:
        words = (self.next().to_bytes(8, "little") for _ in range(-(-count // 8)))
        return b"".join(words)[:count]

    def bell(self) -> int:
        """About normal, standard deviation 2^16 (a sum of twelve uniform values)."""
        a, b, c = self.next(), self.next(), self.next()
        parts = [w >> s & 0xFFFF for w in (a, b, c) for s in (0, 16, 32, 48)]
        return sum(parts) - 6 * 0xFFFF

    def weights(self, count: int, sigma: float) -> list[float]:
        return [self.bell() * sigma / 65536 for _ in range(count)]


def packed_floats(dtype: str, values: list[float]) -> bytes:
    """The bytes of `values` in a float dtype of 16 bits or more; BF16 truncates."""
    if dtype == "BF16":
        singles = struct.pack(f"<{len(values)}f", *values)
        return b"".join(singles[i + 2 : i + 4] for i in range(0, len(singles), 4))
    letter = {"F16": "e", "F32": "f", "C64": "f", "F64": "d"}[dtype]
    return struct.pack(f"<{len(values)}{letter}", *values)


def packed_integers(dtype: str, values: list[int]) -> bytes:
    size = BITS[dtype] // 8
    return b"".join((v % 2 ** (8 * size)).to_bytes(size, "little") for v in values)


def ordinary(dtype: str, count: int, random: Random) -> bytes:
    """Values such as a model has in this dtype."""
    if dtype in ("F16", "BF16", "F32", "F64"):
        return packed_floats(dtype, random.weights(count, 0.04))
    if dtype == "C64":
        return packed_floats(dtype, random.weights(2 * count, 0.5))
    if dtype == "BOOL":
        return bytes(random.below(4) == 0 for _ in range(count))
    if BITS[dtype] == 8:  # sign, an exponent around the middle, any mantissa
        return bytes((random.bell() >> 13) % 256 for _ in range(count))
    if BITS[dtype] < 8:
        return random.bytes(count * BITS[dtype] // 8)
    return packed_integers(dtype, [random.bell() >> 6 for _ in range(count)])


@dataclasses.dataclass
class Expected:
    """A named tensor that reading the file must give."""

    name: str
    dtype: str
    shape: list[int]
    content: bytes  # what goes in
    kind: str | None = None  # where the format leaves no choice
    asked: dict | None = None  # the maximum error, where what comes out may differ


@dataclasses.dataclass
class Vector:
    """A file: the calls that make it, and what it must hold."""

    file: str
    purpose: str
    codec: str = "auto"
    chunk_elems: int = 0
    entropy: str = "zstd"
    steps: list[dict] = dataclasses.field(default_factory=list)
    updates: list[dict] = dataclasses.field(default_factory=list)
    data: bytearray = dataclasses.field(default_factory=bytearray)
    tensors: dict[str, Expected] = dataclasses.field(default_factory=dict)
    metadata: dict[str, str] = dataclasses.field(default_factory=dict)
    attachments: dict[str, bytes] = dataclasses.field(default_factory=dict)
    base: str = ""  # the vector that it is stored against
    base_in_memory: bool = False  # the file names none

    def _store(self, content: bytes) -> int:
        self.data += bytes(-len(self.data) % 8)
        self.data += content
        return len(self.data) - len(content)

    def _expect(self, name: str, dtype: str, shape: list[int], content: bytes, kind=None) -> None:
        assert len(content) * 8 == math.prod(shape) * BITS[dtype], name
        self.tensors[name] = Expected(name, dtype, list(shape), content, kind)

    def add(self, name, dtype, shape, content, codec=None, kind=None, asked=None) -> None:
        step = {"op": "add", "name": name, "dtype": dtype, "shape": list(shape)}
        step["offset"] = self._store(content)
        if codec:
            step["codec"] = codec
        self.steps.append(step | (asked or {}))
        self._expect(name, dtype, shape, content, kind)
        self.tensors[name].asked = asked

    def alias(self, name, base, element_offset, shape, strides) -> None:
        step = {"op": "alias", "name": name, "base": base, "element_offset": element_offset}
        self.steps.append(step | {"shape": list(shape), "strides": list(strides)})
        source = self.tensors[base]
        content = gathered(source.content, source.dtype, element_offset, shape, strides)
        self._expect(name, source.dtype, shape, content, "alias")

    def family(self, dtype: str, storage: bytes, members) -> None:
        """Members: (name, first element, shape, strides, kind) of one storage."""
        start = self._store(storage)
        tensors = []
        for name, first, shape, strides, kind in members:
            place = {"name": name, "dtype": dtype, "shape": shape, "strides": strides}
            tensors.append(place | {"offset": start + first * BITS[dtype] // 8})
            content = gathered(storage, dtype, first, shape, strides)
            self._expect(name, dtype, shape, content, kind)
        self.steps.append({"op": "family", "tensors": tensors})

    def describe(self, key: str, value: str) -> None:
        self.steps.append({"op": "metadata", "key": key, "value": value})
        self.metadata[key] = value

    def attach(self, name: str, content: bytes) -> None:
        step = {"op": "attach", "name": name, "offset": self._store(content)}
        self.steps.append(step | {"length": len(content)})
        self.attachments[name] = content

    def update(self, tensors=(), remove=(), metadata=None) -> None:
        """Tensors: (name, dtype, shape, content)."""
        listed = []
        for name, dtype, shape, content in tensors:
            strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
            place = {"name": name, "dtype": dtype, "shape": shape, "strides": strides}
            listed.append(place | {"offset": self._store(content)})
            self.tensors.pop(name, None)
            self._expect(name, dtype, shape, content)
        for name in remove:
            del self.tensors[name]
        self.metadata |= metadata or {}
        step = {"tensors": listed, "remove": list(remove), "metadata": metadata or {}}
        self.updates.append(step)

    def recipe(self) -> dict:
        recipe = {"codec": self.codec, "chunk_elems": self.chunk_elems, "entropy": self.entropy}
        return recipe | {"steps": self.steps, "updates": self.updates}


def gathered(storage: bytes, dtype: str, first: int, shape, strides) -> bytes:
    """The elements first + i0*strides[0] + i1*strides[1] + ..., contiguous."""
    places = [first]
    for dimension, stride in zip(shape, strides, strict=True):
        places = [place + i * stride for place in places for i in range(dimension)]
    if BITS[dtype] >= 8:
        size = BITS[dtype] // 8
        return b"".join(storage[p * size : (p + 1) * size] for p in places)
    bits, whole, packed = BITS[dtype], int.from_bytes(storage, "little"), 0
    for i, place in enumerate(places):
        packed |= (whole >> place * bits) % 2**bits << i * bits
    return packed.to_bytes(len(places) * bits // 8, "little")
