"""The encoders that are measured: peers on quantised codes, and those that take rows."""

from __future__ import annotations

import importlib
import statistics
import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch

from .._embeddings.codec import RowCodec, Rows
from .._io.message import decode_message, encode_message
from . import codes as quantiser
from .codes import Codes
from .entropy import ans_bytes, huffman_bytes
from .vector_lz import vector_lz_bytes

OURS = "row_dictionary"
_REPETITIONS = 5
_Result = TypeVar("_Result")


@dataclass
class Measurement:
    """What an encoder made of rows.

    Attributes:
        n_bytes: all that is sent.
        seconds: of the stages "quantise", "compress", "decompress", "dequantise"; for encoders that
            do two in one, "encode" and "decode". Empty where only the size is computed.
        width: of the codes: "int8", "int16" or "int32"; empty for other encoders.
        n_exceptions: values that are no codes.
        largest_error: of a value; None where nothing was decoded.
    """

    n_bytes: int
    seconds: dict[str, float] = field(default_factory=dict)
    width: str = ""
    n_exceptions: int = 0
    largest_error: float | None = None

    def encode_seconds(self) -> float | None:
        """Rows to bytes; None where it was not measured."""
        return _sum(self.seconds, "quantise", "compress", "encode")

    def decode_seconds(self) -> float | None:
        """Bytes to rows; None where it was not measured."""
        return _sum(self.seconds, "decompress", "dequantise", "decode")


def _sum(seconds: dict[str, float], *stages: str) -> float | None:
    found = [seconds[stage] for stage in stages if stage in seconds]
    return sum(found) if found else None


Encoder = Callable[[torch.Tensor, float], Measurement]


class Packed(NamedTuple):
    """Codes as bytes.

    Attributes:
        side: what is sent beside them, and the shape and width of the codes.
        data: the compressed codes.
    """

    side: Codes
    data: bytes


@dataclass(frozen=True)
class ByteEncoder:
    """A compressor of bytes, which gets codes of 8 or of 16 bits, whichever it makes smaller.

    It gets codes of 32 bits too where some do not fit 16.
    """

    compress: Callable[[memoryview], bytes]
    decompress: Callable[[bytes], bytes]

    def encode(self, rows: torch.Tensor, error: float, width: torch.dtype) -> Packed:
        """Quantises rows and compresses their codes."""
        return self._compressed(quantiser.quantise(rows, error, width))

    def decode(self, packed: Packed) -> torch.Tensor:
        """Decompresses codes and dequantises them."""
        return quantiser.dequantise(self._decompressed(packed))

    def _compressed(self, codes: Codes) -> Packed:
        return Packed(codes, self.compress(_bytes_of(codes)))

    def _decompressed(self, packed: Packed) -> Codes:
        found = self.decompress(packed.data)
        shape, width = packed.side.values.shape, packed.side.values.dtype
        return packed.side._replace(values=torch.frombuffer(found, dtype=width).reshape(shape))

    def __call__(self, rows: torch.Tensor, error: float) -> Measurement:
        chosen, _ = _smallest(rows, error, lambda codes: len(self.compress(_bytes_of(codes))))
        width = chosen.values.dtype
        quantising, codes = _timed(lambda: quantiser.quantise(rows, error, width))
        compressing, packed = _timed(lambda: self._compressed(codes))
        decompressing, again = _timed(lambda: self._decompressed(packed))
        dequantising, decoded = _timed(lambda: quantiser.dequantise(again))
        seconds = {
            "quantise": quantising,
            "compress": compressing,
            "decompress": decompressing,
            "dequantise": dequantising,
        }
        n_bytes = codes.side_bytes() + len(packed.data)
        return _of_codes(rows, codes, decoded, n_bytes, seconds)


@dataclass(frozen=True)
class SizeOnly:
    """An encoder whose exact size is computed from codes of 8, 16 or 32 bits, the smallest."""

    size: Callable[[np.ndarray], int]

    def __call__(self, rows: torch.Tensor, error: float) -> Measurement:
        codes, n_bytes = _smallest(rows, error, lambda codes: self.size(codes.values.numpy()))
        return _of_codes(rows, codes, quantiser.dequantise(codes), n_bytes, {})


@dataclass(frozen=True)
class Whole(Generic[_Result]):
    """An encoder that takes rows and gives them back."""

    encode: Callable[[torch.Tensor, float], _Result]
    decode: Callable[[_Result], torch.Tensor]
    size: Callable[[_Result], int]

    def __call__(self, rows: torch.Tensor, error: float) -> Measurement:
        encoding, packed = _timed(lambda: self.encode(rows, error))
        decoding, decoded = _timed(lambda: self.decode(packed))
        largest = quantiser.largest_error(rows, decoded)
        seconds = {"encode": encoding, "decode": decoding}
        return Measurement(self.size(packed), seconds, largest_error=largest)


def measure_packet(batches: list[Rows], codec: RowCodec) -> Measurement:
    """One packet of rows of several tables."""
    encoding, packet = _timed(lambda: codec.encode(batches))
    keys = [batch.keys for batch in batches]
    decoding, decoded = _timed(lambda: codec.decode(packet, keys))
    errors = [
        quantiser.largest_error(batch.values, rows)
        for batch, rows in zip(batches, decoded, strict=True)
    ]
    seconds = {"encode": encoding, "decode": decoding}
    return Measurement(packet.numel(), seconds, largest_error=max(errors, default=None))


def encoders(codec: RowCodec) -> tuple[dict[str, Encoder], dict[str, str]]:
    """All that can run here, by name, ours first; and why others cannot.

    Args:
        codec: ours.
    """
    warnings.filterwarnings("ignore", message="The given buffer is not writable")
    found: dict[str, Encoder] = {
        OURS: Whole(
            lambda rows, error: codec.encode([Rows(rows, error)]),
            lambda packet: codec.decode(packet)[0],
            torch.Tensor.numel,
        ),
        "direct": Whole(_encode_direct, _decode_direct, lambda packed: len(packed[0])),
        "vector-lz": SizeOnly(vector_lz_bytes),
        "huffman": SizeOnly(huffman_bytes),
        "ans": SizeOnly(ans_bytes),
        "deflate": ByteEncoder(zlib.compress, zlib.decompress),
    }
    missing = {}
    for name, package, make in (("zstd-1", "zstandard", _zstd), ("lz4", "lz4.block", _lz4)):
        try:
            found[name] = make(importlib.import_module(package))
        except ImportError:
            missing[name] = f"pip install {package.partition('.')[0]}"
    found["fp16"] = Whole(
        lambda rows, _: rows.half(), torch.Tensor.float, lambda packed: packed.nbytes
    )
    found["int8 by row"] = Whole(
        _to_int8_rows, _from_int8_rows, lambda packed: sum(part.nbytes for part in packed)
    )
    return found, missing


def _zstd(package: Any) -> ByteEncoder:
    return ByteEncoder(package.ZstdCompressor(1).compress, package.ZstdDecompressor().decompress)


def _lz4(package: Any) -> ByteEncoder:
    return ByteEncoder(package.compress, package.decompress)


def _encode_direct(rows: torch.Tensor, error: float) -> tuple[bytes, torch.Size]:
    if error == 0:
        return encode_message(rows), rows.shape
    return encode_message(rows, codec="direct", max_abs_error=error), rows.shape


def _decode_direct(packed: tuple[bytes, torch.Size]) -> torch.Tensor:
    return decode_message(packed[0], out=torch.empty(packed[1]))


def _to_int8_rows(rows: torch.Tensor, _: float) -> tuple[torch.Tensor, ...]:
    """Codes, and the smallest value and the step of each row, as quantised embeddings have them."""
    low, high = torch.aminmax(rows, dim=1, keepdim=True)
    step = (high - low) / 255
    step = torch.where(step == 0, torch.ones_like(step), step)
    return ((rows - low) / step).round_().to(torch.uint8), low, step


def _from_int8_rows(packed: tuple[torch.Tensor, ...]) -> torch.Tensor:
    codes, low, step = packed
    return codes.float().mul_(step).add_(low)


def _bytes_of(codes: Codes) -> memoryview:
    return codes.values.numpy().reshape(-1).view(np.uint8).data


def _smallest(rows: torch.Tensor, error: float, size: Callable[[Codes], int]) -> tuple[Codes, int]:
    best: tuple[Codes, int] | None = None
    for width in quantiser.WIDTHS:
        codes = quantiser.quantise(rows, error, width)
        n_bytes = codes.side_bytes() + size(codes)
        if best is None or n_bytes < best[1]:
            best = codes, n_bytes
        if width != torch.int8 and codes.places.numel() == 0:
            break
    assert best is not None
    return best


def _of_codes(
    rows: torch.Tensor,
    codes: Codes,
    decoded: torch.Tensor,
    n_bytes: int,
    seconds: dict[str, float],
) -> Measurement:
    return Measurement(
        n_bytes,
        seconds,
        str(codes.values.dtype).removeprefix("torch."),
        codes.places.numel(),
        quantiser.largest_error(rows, decoded),
    )


def _timed(action: Callable[[], _Result]) -> tuple[float, _Result]:
    """The median of a few runs after one that does not count, and what the last one gave."""
    result = action()
    seconds = []
    for _ in range(_REPETITIONS):
        begin = time.perf_counter()
        result = action()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), result
