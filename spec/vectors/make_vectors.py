#!/usr/bin/env python3
"""Makes the test vectors and their manifest.

    make_vectors.py --writer build/tests/spec/write_vector            writes them
    make_vectors.py --writer build/tests/spec/write_vector --check    compares them

Needs what the reference decoder needs.

The hashes in the manifest are those of what went in, not of what came out; but of
tensors with a maximum error those of what the reference decoder gives.
Vectors may change as long as the format is below 1.0, with a line in the
changelog: `--check` finds a change that nobody meant. Masks, byte planes and
attachments are compressed by libzstd, so that other versions of it may give
other, equally valid files; the manifest names the version used.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

from base_vectors import BASE_VECTORS
from container_vectors import CONTAINER_VECTORS
from direct_vectors import DIRECT_VECTORS
from handmade_vectors import HANDMADE_VECTORS
from lossless_vectors import LOSSLESS_VECTORS
from rans_vectors import RANS_VECTORS
from rows_vectors import ROWS_VECTORS
from spectral_vectors import CODED_VECTORS, SPECTRAL_VECTORS
from vector import Vector

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write(vector: Vector, writer: str, files: dict[str, bytes] | None = None) -> bytes:
    """`files` are those that were made before, against which it may be stored."""
    with tempfile.TemporaryDirectory() as folder:
        recipe, data, out = (pathlib.Path(folder, name) for name in ("r.json", "d.bin", "o.cfck"))
        calls = vector.recipe()
        if vector.base:
            for name, content in (files or {}).items():
                pathlib.Path(folder, name).write_bytes(content)
            calls["base"] = str(pathlib.Path(folder, vector.base))
            calls["base_in_memory"] = vector.base_in_memory
        recipe.write_text(json.dumps(calls))
        data.write_bytes(vector.data)
        result = subprocess.run([writer, recipe, data, out], capture_output=True, text=True)
        if result.returncode != 0:
            raise SystemExit(f"{vector.file}: {result.stderr.strip()}")
        return out.read_bytes()


def decode(vector: Vector, files: dict[str, bytes], of_file: dict[str, Vector]):
    """The tensors of the reference decoder."""
    from reference_decoder import read_bytes  # found only now

    base = of_file.get(vector.base)
    bases = decode(base, files, of_file) if base else None
    return read_bytes(files[vector.file], bases=bases).tensors


def describe(vector: Vector, files: dict[str, bytes], of_file: dict[str, Vector]) -> dict:
    decoded = decode(vector, files, of_file)
    tensors = []
    for tensor in vector.tensors.values():
        entry = {"name": tensor.name, "dtype": tensor.dtype, "shape": tensor.shape}
        lossy = tensor.asked is not None
        entry["sha256"] = sha256(bytes(decoded[tensor.name].data) if lossy else tensor.content)
        if tensor.kind:
            entry["kind"] = tensor.kind
        tensors.append(entry)
    base = {"base": vector.base, "base_name": "" if vector.base_in_memory else vector.base}
    return {
        "file": vector.file,
        "purpose": vector.purpose,
        **(base if vector.base else {}),
        "file_sha256": sha256(files[vector.file]),
        "generation": len(vector.updates),
        "metadata": vector.metadata,
        "attachments": {name: sha256(content) for name, content in vector.attachments.items()},
        "tensors": tensors,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--writer", required=True, help="the program write_vector")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    arguments = parser.parse_args()
    libzstd = subprocess.run([arguments.writer, "--libzstd"], capture_output=True, text=True)
    files: dict[str, bytes] = {}
    of_file: dict[str, Vector] = {}
    written = CONTAINER_VECTORS + LOSSLESS_VECTORS + DIRECT_VECTORS + RANS_VECTORS
    for make in written + SPECTRAL_VECTORS + ROWS_VECTORS + BASE_VECTORS:
        vector = make()
        files[vector.file] = write(vector, arguments.writer, files)
        of_file[vector.file] = vector
    coded = (make(arguments.writer) for make in CODED_VECTORS)
    for vector, file in (*coded, *(make() for make in HANDMADE_VECTORS)):
        files[vector.file], of_file[vector.file] = file, vector
    described = [describe(vector, files, of_file) for vector in of_file.values()]
    manifest = {"libzstd": libzstd.stdout.strip(), "vectors": described}
    text = json.dumps(manifest, indent=1) + "\n"
    files["manifest.json"] = text.encode()
    different = [
        name
        for name, content in files.items()
        if not (HERE / name).exists() or (HERE / name).read_bytes() != content
    ]
    if arguments.check:
        for name in different:
            print(f"{name}: encoding its input again gives other bytes", file=sys.stderr)
        return 1 if different else 0
    for name in different:
        (HERE / name).write_bytes(files[name])
    total = sum(map(len, files.values()))
    print(f"{len(files) - 1} vectors, {total} bytes; {len(different)} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
