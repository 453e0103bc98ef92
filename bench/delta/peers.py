"""What weights are sent with today: the bytes of a pair, coded by each."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zstandard
from safetensors.torch import save_file

from common import report
from common.peers import Missing
from delta.pairs import Pair, bytes_of, numbers_of

XOR_1, XOR_19 = "XOR + zstd-1", "XOR + zstd-19"
PLANES_1, PLANES_19 = "planes + zstd-1", "planes + zstd-19"
INDEX = "index + value"
PATCH_FROM, ZIPNN, MOONCLIP = "zstd -19 --patch-from", "ZipNN delta", "moonclip"
ALL = [XOR_1, PLANES_1, XOR_19, PLANES_19, INDEX, PATCH_FROM, ZIPNN, MOONCLIP]
# These know nothing of dtypes but their sizes.
OF_BYTES = [XOR_1, PLANES_1, XOR_19, PLANES_19, INDEX]


class WrongBytes(Exception):
    """A peer gave back other values than it was given."""


def _xor(pair: Pair, level: int) -> int:
    differing = bytes_of(pair.old) ^ bytes_of(pair.new)
    return len(zstandard.ZstdCompressor(level=level).compress(differing.data))


def _planes(pair: Pair, level: int) -> int:
    """First bytes of all elements of a tensor, then their second ones, and so on."""
    parts = []
    for name, new in pair.new.items():
        differing = numbers_of(pair.old[name]) ^ numbers_of(new)
        parts.append(differing.view(np.uint8).reshape(-1, new.element_size()).T.tobytes())
    return len(zstandard.ZstdCompressor(level=level).compress(b"".join(parts)))


def _index(pair: Pair) -> int:
    """Four bytes of index and the value, for each element that changed."""
    return sum(
        int((numbers_of(pair.old[name]) != numbers_of(new)).sum()) * (4 + new.element_size())
        for name, new in pair.new.items()
    )


def _patch_from(pair: Pair) -> int | Missing:
    program = shutil.which("zstd")
    if program is None:
        return Missing(PATCH_FROM, "the program zstd is not installed")
    with tempfile.TemporaryDirectory() as folder:
        old, new, frame, back = (Path(folder) / name for name in ("old", "new", "frame", "back"))
        save_file(dict(pair.old), old)
        save_file(dict(pair.new), new)
        from_old = [program, "-q", "--single-thread", f"--patch-from={old}"]
        subprocess.run([*from_old, "-19", new, "-o", frame], check=True, capture_output=True)
        subprocess.run([*from_old, "-d", frame, "-o", back], check=True, capture_output=True)
        if back.read_bytes() != new.read_bytes():
            raise WrongBytes(PATCH_FROM)
        return frame.stat().st_size


def _zipnn(pair: Pair) -> int | Missing:
    try:
        import zipnn
    except ImportError as error:
        return Missing(ZIPNN, f"not installed ({error})")
    names = {2: "bfloat16", 4: "float32"}
    element_size = next(iter(pair.new.values())).element_size()
    codec = zipnn.ZipNN(
        bytearray_dtype=names[element_size], delta_compressed_type="byte", threads=1
    )
    # It reorders its inputs in place, so that each call needs copies of its own.
    old, new = bytes_of(pair.old).tobytes(), bytes_of(pair.new).tobytes()
    frame = codec.compress(bytearray(new), delta_second_data=bytearray(old))
    if bytes(codec.decompress(frame, delta_second_data=bytearray(old))) != new:
        raise WrongBytes(ZIPNN)
    return len(frame)


def _moonclip(pair: Pair) -> int | Missing:
    """What the folder grows by when the second checkpoint is saved, with the default options."""
    try:
        import moonclip
    except ImportError as error:
        return Missing(MOONCLIP, f"not installed ({error})")
    with tempfile.TemporaryDirectory() as folder:
        manager = moonclip.MoonclipManager(storage_root=folder, async_save=False)
        sizes = []
        for step, tensors in enumerate((pair.old, pair.new)):
            manager.save_tensors(step, dict(tensors))
            manager.flush()
            files = [path for path in Path(folder).rglob("*") if path.is_file()]
            sizes.append(sum(path.stat().st_size for path in files))
        _, loaded = manager.load_latest()
        if any(bytes(loaded[k]) != numbers_of(new).tobytes() for k, new in pair.new.items()):
            raise WrongBytes(MOONCLIP)
        return sizes[1] - sizes[0]


SIZES: dict[str, Callable[[Pair], int | Missing]] = {
    XOR_1: lambda pair: _xor(pair, 1),
    XOR_19: lambda pair: _xor(pair, 19),
    PLANES_1: lambda pair: _planes(pair, 1),
    PLANES_19: lambda pair: _planes(pair, 19),
    INDEX: _index,
    PATCH_FROM: _patch_from,
    ZIPNN: _zipnn,
    MOONCLIP: _moonclip,
}


def versions() -> dict[str, str]:
    """The versions of the peers, as a report names them."""
    program = report.first_line(["zstd", "-q", "--version"])
    found = {"libzstd": ".".join(map(str, zstandard.ZSTD_VERSION)), "program zstd": program}
    for package in ("zstandard", "zipnn", "moonclip"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not available"
    return found


def entropy_given_exponent(pair: Pair) -> float:
    """Bytes of the differences of BF16 values, with one table for each exponent of the base.

    Differences are those of the order of the values, in units in the last place; those beyond -7
    to 8 count as these. No header and no table is counted.
    """
    total = 0.0
    for name, new in pair.new.items():
        old_bits, new_bits = numbers_of(pair.old[name]), numbers_of(new)
        differences = _ordered(new_bits) - _ordered(old_bits)
        symbols = np.clip(differences, -7, 8) + 7
        exponents = (old_bits >> 7) & 0xFF
        counts = np.bincount(exponents.astype(np.int64) * 16 + symbols, minlength=256 * 16)
        total += sum(_bits(row) for row in counts.reshape(256, 16))
    return total / 8


def _ordered(bits: np.ndarray) -> np.ndarray:
    """Integers in the order of the BF16 values with these bits."""
    signed = bits.astype(np.int32)
    return np.where(signed & 0x8000, 0x8000 - signed, signed)


def _bits(counts: np.ndarray) -> float:
    present = counts[counts > 0]
    return float(-(present * np.log2(present / present.sum())).sum()) if len(present) else 0.0
