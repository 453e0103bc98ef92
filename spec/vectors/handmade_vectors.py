"""Sound files that no writer makes: readers must not depend on a writer's choices."""

from __future__ import annotations

import struct

import broken_bases
import broken_direct
import broken_rans
import broken_rows
import broken_segments
import broken_spectral
from broken_payloads import Symbols, sound_values, unused_bits
from broken_vectors import digest, pack_of, sound
from layout import Entry, Layout
from vector import Expected, Vector


def container() -> tuple[Vector, bytes]:
    purpose = (
        "put together by hand: odd chunks, an alias of half bytes, an unknown optional feature"
    )
    vector = Vector("handmade_container.cfck", purpose)
    for tensor in (
        Expected("chunked", "U8", [100], bytes(range(100)), "chunked"),
        Expected("p", "U8", [4], b"abcd", "packed"),
        Expected("q", "F4", [2, 2], b"\x21\x43", "packed"),
        Expected("view", "U8", [2], b"ac", "alias"),
        Expected("twin", "U8", [4], b"abcd", "duplicate"),
        Expected("halves", "F4", [2], b"\x42", "alias"),
    ):
        vector.tensors[tensor.name] = tensor
    vector.metadata = {"a": "1", "b": "2"}
    vector.attachments = {"note": b"hello"}
    layout = sound()
    layout.optional = 2**63
    return vector, layout.seal()


def lossless() -> tuple[Vector, bytes]:
    purpose = "put together by hand: a mask with signs, clean bits, both kinds of escapes"
    vector = Vector("handmade_lossless.cfck", purpose)
    layout, payloads, entries = Layout.empty(), [], []
    for name, symbols in {"t": Symbols(), "unused bits": unused_bits()}.items():
        values = sound_values(symbols)
        vector.tensors[name] = Expected(name, "F16", [10], values, "packed")
        payloads.append(symbols.payload())
        entry = Entry(name.encode(), [10], [], dtype=14, codec=1, entropy=1)
        entry.digest = digest(values)
        entries.append(entry)
    pack_of(payloads, entries, layout)
    layout.rehash()
    return vector, layout.seal()


def direct() -> tuple[Vector, bytes]:
    purpose = "put together by hand: a direct record with a chunk of every kind"
    vector = Vector("handmade_direct.cfck", purpose)
    content = struct.pack("<12f", *broken_direct.sound_values())
    vector.tensors["t"] = Expected("t", "F32", broken_direct.SHAPE, content, "chunked")
    return vector, broken_direct.sound_file()


def rans() -> tuple[Vector, bytes]:
    purpose = "put together by hand: lane sets and tables that no encoder chooses"
    vector = Vector("handmade_rans.cfck", purpose)
    layout, payloads, entries = Layout.empty(), [], []
    for name, lanes in broken_rans.sound_chunks().items():
        values = lanes.values()
        vector.tensors[name] = Expected(name, "BF16", [140], values, "packed")
        payloads.append(lanes.payload())
        entry = Entry(name.encode(), [140], [], dtype=broken_rans.BF16, codec=1, entropy=2)
        entry.digest = digest(values)
        entries.append(entry)
    pack_of(payloads, entries, layout)
    layout.rehash()
    return vector, layout.seal()


def direct_rans() -> tuple[Vector, bytes]:
    purpose = "put together by hand: a direct record with the entropy stage rans"
    vector = Vector("handmade_direct_rans.cfck", purpose)
    content = struct.pack("<12f", *broken_direct.sound_values())
    vector.tensors["t"] = Expected("t", "F32", broken_direct.SHAPE, content, "chunked")
    return vector, broken_rans.direct_file(broken_rans.direct_chunks(), content)


def segments() -> tuple[Vector, bytes]:
    purpose = "put together by hand: segments that no encoder makes"
    vector = Vector("handmade_segments.cfck", purpose)
    layout, payloads, entries = Layout.empty(), [], []
    for name, chunk in broken_segments.sound_chunks().items():
        values = chunk.values()
        shape = [len(values) // 2]
        vector.tensors[name] = Expected(name, "BF16", shape, values, "packed")
        payloads.append(chunk.payload())
        entry = Entry(name.encode(), shape, [], dtype=broken_rans.BF16, codec=1, entropy=2)
        entry.digest = digest(values)
        entries.append(entry)
    pack_of(payloads, entries, layout)
    layout.rehash()
    return vector, layout.seal()


def direct_segments() -> tuple[Vector, bytes]:
    purpose = "put together by hand: a direct record in segments that no encoder makes"
    vector = Vector("handmade_direct_segments.cfck", purpose)
    content = broken_segments.direct_values()
    shape = [broken_segments.N_DIRECT]
    vector.tensors["t"] = Expected("t", "F32", shape, content, "packed")
    payload = broken_segments.direct_payload(broken_segments.direct_parts())
    return vector, broken_segments.direct_file(payload, content)


def spectral() -> tuple[Vector, bytes]:
    purpose = (
        "put together by hand: a spectral record with a chunk of every kind, and one without axes"
    )
    vector = Vector("handmade_spectral.cfck", purpose)
    content = struct.pack("<18f", *broken_spectral.sound_values())
    vector.tensors["t"] = Expected("t", "F32", [6, 1, 3], content, "chunked")
    vector.tensors["no axis"] = Expected("no axis", "F64", [], struct.pack("<d", 3), "packed")
    return vector, broken_spectral.sound_file()


def rows() -> tuple[Vector, bytes]:
    purpose = "put together by hand: numbers of rows that no encoder chooses"
    vector = Vector("handmade_rows.cfck", purpose)
    vector.tensors["t"] = Expected("t", "I32", broken_rows.SHAPE, broken_rows.VALUES, "chunked")
    return vector, broken_rows.sound_file()


def based() -> tuple[Vector, bytes]:
    purpose = "put together by hand: stored against handmade_container.cfck, with every stage"
    vector = Vector("handmade_based.cfck", purpose, base=broken_bases.BASE)
    for tensor in (
        Expected("chunked", "U8", [100], broken_bases.NEW, "chunked"),
        Expected("p", "U8", [4], b"wxyz", "packed"),
        Expected("q", "F4", [2, 2], b"\x21\x43", "packed"),
        Expected("twin", "U8", [4], b"wxyz", "duplicate"),
        Expected("view", "U8", [2], b"wy", "alias"),
        Expected("alone", "U8", [4], b"more", "chunked"),
    ):
        vector.tensors[tensor.name] = tensor
    return vector, broken_bases.sound().seal()


HANDMADE_VECTORS = (
    container, lossless, direct, rans, direct_rans, segments, direct_segments, spectral,
    rows, based,
)  # fmt: skip
