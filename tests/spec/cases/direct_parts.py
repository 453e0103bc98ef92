"""A payload of the direct codec taken apart, to put it together again with something wrong."""

from __future__ import annotations

import dataclasses

import reference_codec
import reference_direct
import zstandard
from direct_cases import Case, Outcome, pack_numbers

NUMBERS = ("first_bin", "mask_bytes", "n_masked", "n_escapes", "n_exact", "escape_bytes")
NUMBERS += ("n_bin_escapes", "raw_bytes")
SECTIONS = ("mask", "bin_escapes", "escape_flags", "escaped_indices", "exact", "raw")


@dataclasses.dataclass
class Parts:
    """Numbers are None where they are absent."""

    mode: int = 4
    parameters: bytes = b""  # of mode 4
    flags: int = 0
    first_bin: int | None = None
    mask_bytes: int | None = None
    n_masked: int | None = None
    n_escapes: int | None = None
    n_exact: int | None = None
    escape_bytes: int | None = None
    n_bin_escapes: int | None = None
    raw_bytes: int | None = None
    mask: bytes = b""
    bin_escapes: bytes = b""
    escape_flags: bytes = b""
    escaped_indices: bytes = b""
    exact: bytes = b""
    raw: bytes = b""
    symbols: bytes = b""

    def payload(self) -> bytes:
        numbers = [getattr(self, name) for name in NUMBERS]
        header = bytes([self.mode]) + self.parameters + bytes([self.flags])
        header += pack_numbers(*(number for number in numbers if number is not None))
        sections = b"".join(getattr(self, name) for name in SECTIONS)
        return header + sections + zstandard.ZstdCompressor().compress(self.symbols)

    def but(self, **changes) -> Parts:
        return dataclasses.replace(self, **changes)


def take_apart(case: Case, outcome: Outcome) -> Parts:
    """Requires: a valid payload of mode 4 or 5."""
    geometry = reference_direct.Geometry.of(case.shape)
    body = reference_codec.Body(outcome.payload)
    parts = Parts(mode=body.byte())
    if parts.mode == reference_direct.INLINE:
        parameters = reference_direct.Parameters(body, geometry)
        parts.parameters = outcome.payload[1 : body.position]
    else:
        parameters = reference_direct.read_preamble(outcome.preamble, geometry)
    parts.flags = body.byte()
    present = [parameters.field is None]
    for bit, count in ((0, 2), (1, 3), (2, 1), (3, 1)):
        present += [bool(parts.flags >> bit & 1)] * count
    for name, is_present in zip(NUMBERS, present):
        setattr(parts, name, body.varint() if is_present else None)
    size = int(reference_direct.WORDS[case.dtype][-1])
    lengths = (
        parts.mask_bytes or 0,
        2 * (parts.n_bin_escapes or 0),
        -(-(parts.n_escapes or 0) // 8),
        parts.escape_bytes or 0,
        size * (parts.n_exact or 0),
        parts.raw_bytes or 0,
    )
    for name, length in zip(SECTIONS, lengths):
        setattr(parts, name, body.take(length))
    parts.symbols = zstandard.ZstdDecompressor().decompress(body.rest())
    return parts
