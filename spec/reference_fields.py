"""What every part of a .cfck file is read with: hashes, fields and refusals."""

from __future__ import annotations

import struct

import numpy as np
import xxhash


class Refused(Exception):
    """The file breaks a rule. `code` is one of truncated, corrupt, checksum,
    unsupported and limit_exceeded; `byte` counts from the start of the file."""

    def __init__(self, code: str, message: str, byte: int | None = None):
        super().__init__(code, message, byte)
        self.code, self.message, self.byte = code, message, byte

    def __str__(self) -> str:
        place = "" if self.byte is None else f" (byte {self.byte})"
        return f"{self.code}: {self.message}{place}"


def hash64(data) -> int:
    return xxhash.xxh3_64_intdigest(data)


def hash128(data) -> bytes:
    """Low half first, then the high half, each a little-endian u64."""
    return xxhash.xxh3_128_intdigest(data).to_bytes(16, "little")


def check(condition, code: str, message: str, byte: int | None = None) -> None:
    if not condition:
        raise Refused(code, message, byte)


def require(condition, message: str, byte: int | None = None) -> None:
    check(condition, "corrupt", message, byte)


class Fields:
    """Takes little-endian fields from a byte string, one after another."""

    def __init__(self, data, file_offset: int | None = None):
        self.data, self.position, self.file_offset = data, 0, file_offset

    def take(self, size: int) -> bytes:
        require(
            size <= len(self.data) - self.position,
            f"{size} bytes wanted where {len(self.data) - self.position} are left",
            None if self.file_offset is None else self.file_offset + self.position,
        )
        self.position += size
        return bytes(self.data[self.position - size : self.position])

    def numbers(self, layout: str) -> tuple[int, ...]:
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout)))

    def table(self, dtype: str, count: int) -> list[int]:
        return np.frombuffer(self.take(np.dtype(dtype).itemsize * count), dtype).tolist()

    def text(self, size: int) -> str:
        raw = self.take(size)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise Refused("corrupt", "text is not UTF-8", self.file_offset) from None

    def end(self, what: str) -> None:
        require(self.position == len(self.data), f"{what}: bytes left over", self.file_offset)
