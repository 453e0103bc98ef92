"""The error-bounded codecs cfck is compared with: SZ3, zfp and SPERR, one tensor at a time."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BoundedPeer:
    """A codec with one thread that keeps, or says it keeps, |x - y| <= bound.

    `encode` takes a contiguous float32 array and a bound; `decode` takes the bytes, the shape and
    the bound, which some of them keep outside their bytes.
    """

    name: str
    version: str
    encode: Callable[[np.ndarray, float], bytes]
    decode: Callable[[bytes, tuple[int, ...], float], np.ndarray]


@dataclass(frozen=True)
class Missing:
    """A peer that cannot be used here."""

    name: str
    reason: str


def _sz3(name: str, algorithm: str, flat: bool) -> BoundedPeer:
    import pysz

    def encode(array: np.ndarray, bound: float) -> bytes:
        data = array.reshape(-1) if flat else array
        config = pysz.szConfig(data.shape)
        config.errorBoundMode = pysz.szErrorBoundMode.ABS
        config.absErrorBound = bound
        config.cmprAlgo = getattr(pysz.szAlgorithm, algorithm)
        config.openmp = False
        blob, _ = pysz.sz.compress(data, config)
        return blob.tobytes()

    def decode(blob: bytes, shape: tuple[int, ...], bound: float) -> np.ndarray:
        del bound
        extent = (int(np.prod(shape)),) if flat else shape
        array, _ = pysz.sz.decompress(np.frombuffer(blob, np.uint8), np.float32, extent)
        return array.reshape(shape)

    return BoundedPeer(name, f"pysz {importlib.metadata.version('pysz')}", encode, decode)


def _hdf5(name: str, make_filter: Callable[[float], object]) -> BoundedPeer:
    """A filter of HDF5: one dataset in memory with one chunk, of the matrix rows x rest."""
    import h5py
    import hdf5plugin

    def encode(array: np.ndarray, bound: float) -> bytes:
        matrix = array.reshape(array.shape[0], -1)
        with h5py.File.in_memory() as file:
            # A filter that fails must not fall back to raw values in silence.
            created = file.create_dataset(
                "tensor", data=matrix, chunks=matrix.shape, compression=make_filter(bound)
            )
            _, blob = created.id.read_direct_chunk((0, 0))
        return blob

    def decode(blob: bytes, shape: tuple[int, ...], bound: float) -> np.ndarray:
        extent = (shape[0], int(np.prod(shape[1:])))
        with h5py.File.in_memory() as file:
            created = file.create_dataset(
                "tensor", extent, np.float32, chunks=extent, compression=make_filter(bound)
            )
            created.id.write_direct_chunk((0, 0), blob)
            return created[...].reshape(shape)

    return BoundedPeer(name, f"hdf5plugin {hdf5plugin.version}", encode, decode)


def _zfp() -> BoundedPeer:
    import hdf5plugin

    return _hdf5("zfp, 2-D", lambda bound: hdf5plugin.Zfp(accuracy=bound))


def _sperr() -> BoundedPeer:
    import hdf5plugin

    return _hdf5("SPERR, 2-D", lambda bound: hdf5plugin.Sperr(absolute=bound))


FACTORIES: dict[str, Callable[[], BoundedPeer]] = {
    "SZ3": lambda: _sz3("SZ3", "INTERP_LORENZO", flat=False),
    "SZ3, no predictor": lambda: _sz3("SZ3, no predictor", "NOPRED", flat=True),
    "zfp, 2-D": _zfp,
    "SPERR, 2-D": _sperr,
}


def make(name: str) -> BoundedPeer | Missing:
    """A peer by name, or why it cannot be used here."""
    try:
        return FACTORIES[name]()
    except ImportError as error:
        return Missing(name, f"not installed ({error})")
