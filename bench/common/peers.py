"""The codecs cfck is compared with, behind one small interface.

Every peer takes one contiguous numpy array and returns one byte string. A peer that is not
installed is left out of `available()` with the reason, so that the caller can say so.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

FLOAT_NAMES = {
    np.dtype(np.float32): "float32",
    np.dtype(np.float16): "float16",
    np.dtype(ml_dtypes.bfloat16): "bfloat16",
}


@dataclass(frozen=True)
class Peer:
    """A codec with one thread: how it encodes an array and gives the bytes back.

    `prepare` makes what one call to `encode` may use up; it is not part of the measured time.
    It is a copy for codecs that destroy their input, the array itself for the others.
    """

    name: str
    package: str
    version: str
    prepare: Callable[[np.ndarray], Any]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


@dataclass(frozen=True)
class Missing:
    """A peer that cannot be used here."""

    name: str
    reason: str


def raw_bytes(array: np.ndarray) -> memoryview:
    """The bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8).data


def same_bytes(decoded: Any, original: np.ndarray) -> bool:
    """Whether what a peer gave back equals the bytes of `original`."""
    if isinstance(decoded, np.ndarray):
        decoded = raw_bytes(np.ascontiguousarray(decoded))
    return np.array_equal(
        np.frombuffer(decoded, np.uint8), np.frombuffer(raw_bytes(original), np.uint8)
    )


def _version(package: str) -> str:
    return importlib.metadata.version(package)


def _zstd(level: int, dtype: np.dtype) -> Peer:
    import zstandard

    del dtype
    compressor = zstandard.ZstdCompressor(level=level)
    decompressor = zstandard.ZstdDecompressor()
    return Peer(
        name=f"zstd -{level}",
        package="zstandard",
        version=_version("zstandard"),
        prepare=raw_bytes,
        encode=compressor.compress,
        decode=decompressor.decompress,
    )


def _zipnn(dtype: np.dtype) -> Peer:
    import zipnn

    codec = zipnn.ZipNN(bytearray_dtype=FLOAT_NAMES[dtype], threads=1)
    return Peer(
        name="ZipNN",
        package="zipnn",
        version=_version("zipnn"),
        # ZipNN reorders its input in place, so every call needs a copy of its own.
        prepare=lambda array: bytearray(raw_bytes(array)),
        encode=codec.compress,
        decode=codec.decompress,
    )


def _pcodec(dtype: np.dtype) -> Peer:
    from pcodec import ChunkConfig, standalone

    # pcodec knows no bfloat16; its integers do best there.
    number = np.dtype(np.uint16) if dtype == ml_dtypes.bfloat16 else dtype
    config = ChunkConfig()
    return Peer(
        name="pcodec",
        package="pcodec",
        version=_version("pcodec"),
        prepare=lambda array: array.reshape(-1).view(number),
        encode=lambda values: standalone.simple_compress(values, config),
        decode=standalone.simple_decompress,
    )


def _openzl(entropy: str, dtype: np.dtype) -> Peer:
    import openzl.ext as zl

    nodes = {"float32": "Float32", "float16": "Float16", "bfloat16": "BFloat16"}
    deconstruct = getattr(zl.nodes, nodes[FLOAT_NAMES[dtype]] + "Deconstruct")()
    compressor = zl.Compressor()
    coder = {"Huffman": zl.graphs.Huffman, "FSE": zl.graphs.Fse}[entropy]()
    graph = deconstruct(compressor, sign_frac=zl.graphs.Store(), exponent=coder)
    compressor.select_starting_graph(graph)
    encoder = zl.CCtx()
    encoder.ref_compressor(compressor)
    encoder.set_parameter(zl.CParam.StickyParameters, 1)
    encoder.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)
    decoder = zl.DCtx()
    number = np.dtype(f"u{dtype.itemsize}")
    return Peer(
        name=f"OpenZL {entropy}",
        package="openzl",
        version=_version("openzl"),
        # An Input does not keep its array alive, so both travel together.
        prepare=lambda array: (zl.Input(zl.Type.Numeric, array.reshape(-1).view(number)), array),
        encode=lambda held: encoder.compress([held[0]]),
        decode=lambda blob: decoder.decompress(blob)[0].content.as_nparray(),
    )


def _blosc2(shuffle: str, level: int, dtype: np.dtype) -> Peer:
    import blosc2

    parameters = {
        "codec": blosc2.Codec.ZSTD,
        "clevel": level,
        "filters": [getattr(blosc2.Filter, shuffle.upper())],
        "nthreads": 1,
        "typesize": dtype.itemsize,
    }
    return Peer(
        name=f"blosc2 {shuffle}+zstd{level}",
        package="blosc2",
        version=_version("blosc2"),
        prepare=lambda array: array.reshape(-1).view(np.uint8),
        encode=lambda values: blosc2.compress2(values, **parameters),
        decode=lambda blob: blosc2.decompress2(blob, nthreads=1),
    )


FACTORIES: dict[str, Callable[[np.dtype], Peer]] = {
    "zstd -1": lambda dtype: _zstd(1, dtype),
    "zstd -3": lambda dtype: _zstd(3, dtype),
    "ZipNN": _zipnn,
    "pcodec": _pcodec,
    "OpenZL Huffman": lambda dtype: _openzl("Huffman", dtype),
    "OpenZL FSE": lambda dtype: _openzl("FSE", dtype),
    "blosc2 shuffle+zstd1": lambda dtype: _blosc2("shuffle", 1, dtype),
    "blosc2 bitshuffle+zstd1": lambda dtype: _blosc2("bitshuffle", 1, dtype),
}


def make(name: str, dtype: np.dtype) -> Peer | Missing:
    """The peer called `name` for arrays of `dtype`, or why it cannot be had."""
    try:
        return FACTORIES[name](np.dtype(dtype))
    except ImportError as error:
        return Missing(name, f"not installed ({error})")
