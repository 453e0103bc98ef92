#!/usr/bin/env python3
"""Reads a .cfck file with nothing but numpy, zstandard, xxhash and ml_dtypes.

Written from spec/format.md and the pages of the codecs, not from the C++ code,
to show that they suffice. It checks every hash and every rule and refuses the
file at the first that does not hold. It is made to be read, not to be fast.

    reference_decoder.py FILE.cfck OUT.npz [BASE.cfck]

A file that is stored against another one is read with BASE.cfck, or else with the file
of the name that it has, in the same folder.

npz knows neither BF16 nor FP8 nor arbitrary names, so OUT.npz holds

    cfck.json       uint8 array, UTF-8 JSON: "format_version", "generation",
                    "content_digest", "metadata", "attachments" (name to key) and
                    "tensors", in file order, each with "key", "name" (null if the
                    record is hidden), "dtype", "shape", "kind", "codec", "base",
                    "first_element", "strides" and "digest"
    tensor_N        the N-th tensor, in its shape (flat where numpy does not have
                    it). Dtypes that numpy lacks come as unsigned integers of their
                    width; sub-byte dtypes as a flat array of their packed bytes;
                    C64 as complex64
    attachment_N    the bytes of an attachment

As a module: `read(path)` returns `Tensors`; `Tensor.array()` uses ml_dtypes.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import struct
import sys
from collections.abc import Mapping, Sequence

import numpy as np
import reference_delta
from reference_codec import decode_chunk, decompress_frame
from reference_container import MAGIC, VERSION, File, Limits, check_frame_header
from reference_direct import decode_direct
from reference_fields import Refused, check, hash128, require, tiled_hash64
from reference_records import (
    ALIAS,
    CODECS,
    DELTA,
    DIRECT,
    DTYPES,
    DUPLICATE,
    ENTROPY_STAGES,
    KINDS,
    PACKED,
    RAW,
    RAW_FRAME_BYTES,
    ROWS,
    SCANS,
    SPECTRAL,
    Record,
    raw_start_bytes,
)
from reference_rows import decode_rows
from reference_spectral import decode_spectral

# These codecs have to know where in a tensor their values are.
DECODERS = {DIRECT: decode_direct, SPECTRAL: decode_spectral, ROWS: decode_rows}


@dataclasses.dataclass
class Tensor:
    """A record with its values: the bytes of the contiguous row-major tensor."""

    record: Record
    data: np.ndarray  # uint8, flat

    @property
    def dtype(self) -> str:
        return DTYPES[self.record.dtype][0]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.record.shape

    def array(self) -> np.ndarray:
        """The tensor in numpy and ml_dtypes; sub-byte dtypes as packed bytes."""
        return self.shaped(DTYPES[self.record.dtype][2])

    def storable(self) -> np.ndarray:
        """The same in dtypes that npz keeps."""
        return self.shaped(DTYPES[self.record.dtype][3])

    def shaped(self, numpy_dtype) -> np.ndarray:
        if DTYPES[self.record.dtype][1] < 8:
            return self.data
        flat = self.data.view(numpy_dtype)
        try:
            return flat.reshape(self.shape)
        except ValueError:  # numpy has fewer dimensions, or an empty shape is too large
            return flat


@dataclasses.dataclass
class Tensors:
    tensors: dict[str, Tensor]  # by name
    records: list[Tensor]  # in file order, hidden ones too
    metadata: dict[str, str]
    attachments: dict[str, bytes]
    generation: int
    content_digest: bytes


def base_of(record: Record, bases: Mapping[str, Tensor]) -> bytes | None:
    """The bytes that the record is stored against (section 5.6)."""
    if record.base_digest is None:
        return None
    found = bases.get(record.name)
    check(found is not None, "missing_base", "the base has no tensor of this name")
    alike = (found.record.dtype, found.record.shape) == (record.dtype, record.shape)
    check(alike, "missing_base", "the tensor of the base has another dtype or shape")
    right = digest(found.data) == record.base_digest
    check(right, "missing_base", "the tensor of the base has other values")
    return found.data.tobytes()


def read_values(file: File, record: Record, bases: Mapping[str, Tensor]) -> np.ndarray:
    """The decoded bytes of a chunked or packed record (section 4)."""
    known = record.dtype in DTYPES and record.codec in CODECS
    known = known and record.entropy in ENTROPY_STAGES and record.scan in SCANS
    check(known, "unsupported", "a dtype, codec, entropy stage or scan of a newer version")
    base = base_of(record, bases)
    if record.kind == PACKED:
        return decode(record, packed_payload(file, record), 0, record.n_elems, base=base)
    if record.codec == RAW:
        return read_raw(file, record)
    preamble = read_preamble(file, record)
    parts = [np.empty(0, np.uint8)]
    first_elem = 0
    for place in record.extents:
        extent = hashed_extent(file, place)
        magic, following, tag = struct.unpack("<II4s", extent[:12])
        chunk = magic == MAGIC and tag == b"CHNK" and 4 <= following <= len(extent) - 8
        require(chunk, "no CHNK frame", place[0])
        n_elems = min(record.chunk_elems, record.n_elems - first_elem)
        payload = extent[12:]
        parts.append(decode(record, payload, first_elem, n_elems, preamble, following - 4, base))
        first_elem += n_elems
    return np.concatenate(parts)


def read_preamble(file: File, record: Record) -> bytes | None:
    """Section 4.4."""
    if record.preamble is None:
        return None
    frame = hashed_extent(file, record.preamble)
    check_frame_header(frame, b"PREA", "preamble", record.preamble[0])
    return bytes(frame[12:])


def hashed_extent(file: File, place: tuple[int, int, int]):
    offset, length, expected = place
    extent = file.data[offset : offset + length]
    check(tiled_hash64(extent) == expected, "checksum", "a chunk or preamble is damaged", offset)
    return extent


def decode(
    record: Record,
    payload,
    first_elem: int,
    n_elems: int,
    preamble: bytes | None = None,
    body_bytes: int | None = None,
    base: bytes | None = None,
) -> np.ndarray:
    if record.codec == RAW:
        return np.frombuffer(payload, np.uint8)
    if record.codec == DELTA:
        return decode_difference(record, bytes(payload), first_elem, n_elems, body_bytes, base)
    payload, how = bytes(payload), (record.entropy, body_bytes)
    if record.codec in DECODERS:
        place = record.dtype, record.shape, first_elem, n_elems
        return DECODERS[record.codec](*place, preamble, payload, *how)
    return decode_chunk(payload, record.dtype, n_elems, *how)


def decode_difference(
    record: Record,
    payload: bytes,
    first_elem: int,
    n_elems: int,
    body_bytes: int | None,
    base: bytes,
) -> np.ndarray:
    """A chunk of codec delta, against the same elements of the base."""
    bits = DTYPES[record.dtype][1]
    part = base[first_elem * bits // 8 : -(-(first_elem + n_elems) * bits // 8)]
    require(body_bytes in (None, len(payload)), "a symbol frame behind values against a base")
    values = reference_delta.decode_chunk(payload, record.dtype, n_elems, part)
    return np.frombuffer(values, np.uint8)


def packed_payload(file: File, record: Record):
    """Section 4.3."""
    offset, length, _, expected = file.packs[record.pack]
    frame = file.data[offset : offset + length]
    check(tiled_hash64(frame) == expected, "checksum", "a pack is damaged", offset)
    check_frame_header(frame, b"PACK", "pack", offset)
    start, payload_bytes = record.payload
    return frame[start : start + payload_bytes]


def read_raw(file: File, record: Record) -> np.ndarray:
    """Section 4.1: RAWD frames, each of as many full chunks as it can hold."""
    chunk_bytes = record.chunk_elems * DTYPES[record.dtype][1] // 8
    left = record.decoded_bytes
    parts = [np.empty(0, np.uint8)]
    for number, place in enumerate(record.extents):
        extent, offset = hashed_extent(file, place), place[0]
        start = raw_start_bytes(record, number, offset)
        if start:
            following = start - 8 + min(left, RAW_FRAME_BYTES // chunk_bytes * chunk_bytes)
            header = struct.pack("<II4s", MAGIC, following, b"RAWD").ljust(start, b"\0")
            require(bytes(extent[:start]) == header, "no RAWD frame", offset)
        parts.append(np.frombuffer(extent[start:], np.uint8))
        left -= len(parts[-1])
    return np.concatenate(parts)


def read_attachment(file: File, entry: tuple[str, int, int, int, int]) -> bytes:
    """Section 6."""
    name, offset, length, decoded, expected = entry
    frame = file.data[offset : offset + length]
    limit = file.limits.max_attachment_bytes
    check(decoded <= limit, "limit_exceeded", f"attachment {name!r} of {decoded} bytes", offset)
    check(tiled_hash64(frame) == expected, "checksum", f"attachment {name!r} is damaged", offset)
    return decompress_frame(bytes(frame), decoded)


def gather(base: np.ndarray, record: Record) -> np.ndarray:
    """The elements of an alias, contiguous."""
    bits = DTYPES[record.dtype][1]
    if bits < 8:  # one row of bits per element, least significant first
        elements = np.unpackbits(base, bitorder="little").reshape(-1, bits)
    else:
        elements = base.reshape(-1, bits // 8)
    places = np.array([record.first_element])
    for dimension, stride in zip(record.shape, record.strides):
        if dimension > 1:
            places = (places[:, None] + np.arange(dimension) * stride).reshape(-1)
    gathered = elements[places].reshape(-1)
    return np.packbits(gathered, bitorder="little") if bits < 8 else gathered


LEAF_BYTES = 65536


def digest(data: np.ndarray) -> bytes:
    """Section 8."""
    leaves = (data[i : i + LEAF_BYTES] for i in range(0, len(data), LEAF_BYTES))
    return hash128(b"".join(hash128(leaf) for leaf in leaves))


def content_digest(records: list[Record]) -> bytes:
    parts = []
    visible = [record for record in records if not record.hidden]
    for record in sorted(visible, key=lambda record: record.name.encode()):
        name = record.name.encode()
        n_dims = len(record.shape)
        parts.append(struct.pack("<I", len(name)) + name)
        parts.append(struct.pack(f"<BB{n_dims}Q", record.dtype, n_dims, *record.shape))
        parts.append(record.digest)
    return hash128(b"".join(parts))


def read_bytes(
    data, limits: Limits | None = None, bases: Mapping[str, Tensor] | None = None
) -> Tensors:
    """Decodes a file that is in memory, against tensors of others. Raises Refused."""
    limits = limits or Limits()
    return read_file(File(data, limits), limits, bases or {})


def read_file(file: File, limits: Limits, bases: Mapping[str, Tensor]) -> Tensors:
    decoded = sum(record.decoded_bytes for record in file.records)
    limit = limits.max_decoded_bytes
    limit = max(16 << 30, 64 * file.length) if limit is None else limit
    check(decoded <= limit, "limit_exceeded", f"{decoded} decoded bytes (max_decoded_bytes)")
    values: dict[int, np.ndarray] = {}
    for record in sorted(file.records, key=lambda record: record.kind in (ALIAS, DUPLICATE)):
        try:
            if record.kind == ALIAS:
                values[record.number] = gather(values[record.base], record)
            elif record.kind == DUPLICATE:
                values[record.number] = values[record.base].copy()
            else:
                values[record.number] = read_values(file, record, bases)
            right = digest(values[record.number]) == record.digest
            check(right, "checksum", "the decoded values have another digest")
        except Refused as error:
            raise Refused(
                error.code, f"{error.message} (record {record.name!r})", error.byte
            ) from None
    for offset, length, _, expected in file.packs:
        frame = file.data[offset : offset + length]
        check(tiled_hash64(frame) == expected, "checksum", "a pack is damaged", offset)
    records = [Tensor(record, values[record.number]) for record in file.records]
    return Tensors(
        tensors={t.record.name: t for t in records if not t.record.hidden},
        records=records,
        metadata=file.metadata,
        attachments={entry[0]: read_attachment(file, entry) for entry in file.attachments},
        generation=file.generation,
        content_digest=content_digest(file.records),
    )


def read(
    path,
    limits: Limits | None = None,
    bases: Mapping[str, Tensor] | None = None,
    base_dirs: Sequence[str | pathlib.Path] = (),
    chain: tuple[pathlib.Path, ...] = (),
) -> Tensors:
    """Decodes the file at `path`, all of it, against `bases` or else the file that it names, which
    is looked for beside it and then in `base_dirs`. `chain` are the files that are stored against
    this one, the nearest last. Raises Refused."""
    limits, path = limits or Limits(), pathlib.Path(path)
    file = File(path.read_bytes(), limits)
    if file.has_base and bases is None:
        bases = read_base(file, path, limits, base_dirs, chain)
    return read_file(file, limits, bases or {})


def read_base(
    file: File, path: pathlib.Path, limits: Limits, base_dirs, chain
) -> Mapping[str, Tensor]:
    """The tensors that the file is stored against (section 5.6)."""
    check(file.base_name, "missing_base", "the base was in no file")
    check(len(chain) < limits.max_bases, "limit_exceeded", "a longer chain of bases (max_bases)")
    places = [pathlib.Path(folder, file.base_name) for folder in (path.parent, *base_dirs)]
    refusals = []
    for place in filter(pathlib.Path.is_file, places):
        try:
            check_place(place, (*chain, path))
            bases = read(place, limits, None, base_dirs, (*chain, path)).tensors
            for record in file.records:
                base_of(record, bases)
            return bases
        except Refused as error:  # another folder may have the right one
            refusals.append(Refused(error.code, f"{error.message} (base {place})", error.byte))
    refusals.append(Refused("missing_base", f"no file {file.base_name!r} beside the file"))
    raise refusals[0]


def check_place(place: pathlib.Path, chain: tuple[pathlib.Path, ...]) -> None:
    """Refuses what a file from elsewhere should not have read by its name."""
    again = any(place.samefile(path) for path in chain)
    check(not again, "missing_base", "the chain of bases comes back to a file that it went through")
    leads_out = place.is_symlink() and place.resolve().parent != place.parent.resolve()
    check(not leads_out, "missing_base", "a link out of the folder")


def write_npz(tensors: Tensors, path) -> None:
    arrays, described = {}, []
    for number, tensor in enumerate(tensors.records):
        record = tensor.record
        arrays[f"tensor_{number}"] = tensor.storable()
        described.append(
            {
                "key": f"tensor_{number}",
                "name": None if record.hidden else record.name,
                "dtype": tensor.dtype,
                "shape": list(record.shape),
                "kind": KINDS[record.kind],
                "codec": CODECS[record.codec],
                "base": record.base if record.kind in (ALIAS, DUPLICATE) else None,
                "first_element": record.first_element,
                "strides": list(record.strides),
                "digest": record.digest.hex(),
            }
        )
    for number, content in enumerate(tensors.attachments.values()):
        arrays[f"attachment_{number}"] = np.frombuffer(content, np.uint8)
    description = {
        "format_version": ".".join(map(str, VERSION)),
        "generation": tensors.generation,
        "content_digest": tensors.content_digest.hex(),
        "metadata": tensors.metadata,
        "attachments": {name: f"attachment_{i}" for i, name in enumerate(tensors.attachments)},
        "tensors": described,
    }
    arrays["cfck.json"] = np.frombuffer(json.dumps(description).encode(), np.uint8)
    with open(path, "wb") as out:
        np.savez(out, **arrays)


def main(arguments: list[str]) -> int:
    if len(arguments) not in (2, 3):
        print("usage: reference_decoder.py FILE.cfck OUT.npz [BASE.cfck]", file=sys.stderr)
        return 2
    try:
        bases = read(arguments[2]).tensors if len(arguments) == 3 else None
        tensors = read(arguments[0], bases=bases)
    except Refused as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 1
    write_npz(tensors, arguments[1])
    print(f"{len(tensors.tensors)} tensors, content digest {tensors.content_digest.hex()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
