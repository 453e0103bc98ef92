"""cfck as its users meet it: the Python package and the installed programs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

from common.peers import Peer, raw_bytes


class Unavailable(Exception):
    """cfck, or one of its programs, is not installed; the message says which."""


class Product:
    """The installed cfck, with the options the benchmark was asked to use."""

    name = "cfck"

    def __init__(self, codec: str = "auto", **options: str) -> None:
        """Imports cfck; raises Unavailable where that fails.

        `options` go to everything that encodes, to the programs as --name value.
        """
        try:
            import cfck
            import cfck.numpy
        except ImportError as error:
            raise Unavailable(f"cfck cannot be imported ({error})") from None
        self._cfck: ModuleType = cfck
        self.options: dict[str, str] = {"codec": codec, **options}
        self.version: str = cfck.__version__

    def array_codec(self) -> Peer:
        """`compress` and `decompress` of one array with one thread."""
        cfck = self._cfck
        return Peer(
            name=self.name,
            package="cfck",
            version=self.version,
            prepare=lambda array: array,
            encode=lambda array: cfck.compress(array, threads=1, **self.options),
            decode=lambda blob: cfck.decompress(blob, threads=1),
        )

    def decode_into(self, blob: bytes, out: np.ndarray) -> None:
        """Decodes into memory that is there already, with one thread."""
        self._cfck.decompress(blob, out, threads=1)

    def save_file(self, tensors: dict[str, np.ndarray], path: Path, codec: str = "") -> None:
        """Writes a file from tensors in memory."""
        options = {**self.options, "codec": codec} if codec else self.options
        self._cfck.numpy.save_file(tensors, path, **options)

    def load_file(self, path: Path, threads: int) -> dict[str, np.ndarray]:
        """Reads all tensors of a file."""
        return self._cfck.numpy.load_file(path, threads=threads)

    def save_file_torch(self, tensors: dict[str, object], path: Path, threads: int) -> None:
        """Writes a file from torch tensors and waits until it is on the disk."""
        import cfck.torch

        cfck.torch.save_file(tensors, path, threads=threads, **self.options)

    def load_file_torch(self, path: Path, threads: int) -> dict[str, object]:
        """Reads all tensors of a file as torch tensors."""
        import cfck.torch

        return cfck.torch.load_file(path, threads=threads)

    def program(self, name: str) -> Path:
        """A program of cfck: beside this Python, else on the PATH."""
        beside = Path(sys.executable).parent / name
        found = str(beside) if beside.is_file() else shutil.which(name)
        if not found:
            raise Unavailable(f"the program {name} is not installed")
        return Path(found)

    def convert_there_and_back(self, source: Path, folder: Path) -> int:
        """Converts a safetensors file, and back, compares bytes; the size of the .cfck file."""
        convert = self.program("cfck-convert")
        packed, back = folder / "packed.cfck", folder / "back.safetensors"
        options = ["--quiet", "--force"]
        for name, value in self.options.items():
            options += [f"--{name}", value]
        subprocess.run([convert, *options, source, packed], check=True)
        subprocess.run([convert, "--quiet", "--force", packed, back], check=True)
        size = packed.stat().st_size
        if not _same_file(source, back):
            raise RuntimeError("cfck: the file converted back differs from the original")
        packed.unlink()
        back.unlink()
        return size

    def stored_bytes(self, tensors: dict[str, np.ndarray], folder: Path) -> int:
        """Saves, loads, compares; the stored bytes of the records, as inspect counts them."""
        path = folder / "records.cfck"
        self.save_file(tensors, path)
        loaded = self.load_file(path, threads=1)
        for name, tensor in tensors.items():
            if raw_bytes(np.ascontiguousarray(loaded[name])) != raw_bytes(tensor):
                raise RuntimeError(f"cfck: {name} differs after loading")
        listing = subprocess.run(
            [self.program("cfck-inspect"), "show", "--json", path],
            check=True,
            capture_output=True,
        )
        path.unlink()
        return sum(record["stored_bytes"] for record in json.loads(listing.stdout)["records"])


def find_product(**options: str) -> Product | None:
    """cfck, or None after saying that its rows are skipped; `options` are those of Product."""
    try:
        return Product(**options)
    except Unavailable as error:
        print(f"SKIPPED: every row of cfck: {error}. The peers still run.", file=sys.stderr)
        return None


def _same_file(left: Path, right: Path) -> bool:
    with left.open("rb") as a, right.open("rb") as b:
        while True:
            block = a.read(1 << 24)
            if block != b.read(1 << 24):
                return False
            if not block:
                return True
