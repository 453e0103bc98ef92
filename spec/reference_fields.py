"""What every part of a .cfck file is read with: hashes, fields and refusals."""

from __future__ import annotations

import struct

import numpy as np
import xxhash
import zstandard


class Refused(Exception):
    """The file breaks a rule. `code` is one of truncated, corrupt, checksum,
    missing_base, unsupported and limit_exceeded; `byte` counts from the start of the file."""

    def __init__(self, code: str, message: str, byte: int | None = None):
        super().__init__(code, message, byte)
        self.code, self.message, self.byte = code, message, byte

    def __str__(self) -> str:
        place = "" if self.byte is None else f" (byte {self.byte})"
        return f"{self.code}: {self.message}{place}"


def hash64(data) -> int:
    return xxhash.xxh3_64_intdigest(data)


def tiled_hash64(data) -> int:
    """The tiled hash of format.md, section 1."""
    view = memoryview(data)
    tiles = [view[at : at + 4096] for at in range(0, max(1, len(view)), 4096)]
    return sum((2 * i + 1) * hash64(tile) for i, tile in enumerate(tiles)) % 2**64


def hash128(data) -> bytes:
    """Low half first, then the high half, each a little-endian u64."""
    return xxhash.xxh3_128_intdigest(data).to_bytes(16, "little")


def check(condition, code: str, message: str, byte: int | None = None) -> None:
    if not condition:
        raise Refused(code, message, byte)


def require(condition, message: str, byte: int | None = None) -> None:
    check(condition, "corrupt", message, byte)


def decompress_frame(frame: bytes, decoded_bytes: int) -> bytes:
    """One ordinary Zstd frame that fills `frame` and states its content size."""
    require(frame[:4] == b"\x28\xb5\x2f\xfd", "no ordinary Zstd frame")
    try:
        header = zstandard.get_frame_parameters(frame)
        require(header.dict_id == 0, "a Zstd frame with a dictionary")
        require(header.content_size == decoded_bytes, "another decoded length than stated")
        decompressor = zstandard.ZstdDecompressor()
        if decoded_bytes == 0:  # the one-shot call does not look into such a frame
            stream = decompressor.decompressobj()
            content = stream.decompress(frame)
            require(stream.eof and not stream.unused_data, "not exactly one Zstd frame")
        else:
            content = decompressor.decompress(
                frame, max_output_size=decoded_bytes, allow_extra_data=False
            )
    except zstandard.ZstdError as error:
        raise Refused("corrupt", f"Zstd: {error}") from None
    require(len(content) == decoded_bytes, "another decoded length than stated")
    return content


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
