#!/usr/bin/env python3
"""Makes the test vectors of messages, `messages/`, and their manifest.

    make_messages.py --writer build/tests/spec/write_message            writes them
    make_messages.py --writer build/tests/spec/write_message --check    compares them

The hashes in the manifest are those of the values that went in; for messages with a maximum error
those of what the reference reader gives. Bytes of libzstd may differ from version to version, as in
the vectors of files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import pathlib
import subprocess
import sys
import tempfile

from vector import BITS, Random, ordinary

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "messages"
sys.path.insert(0, str(HERE.parent))


def cases() -> list[tuple[str, str, tuple[int, ...], str, int, float]]:
    """Name, dtype, shape, entropy stage, values per chunk, and maximum error."""
    listed: list[tuple[str, str, tuple[int, ...], str, int, float]] = [
        (f"{dtype.lower()}", dtype, (24, 16), "rans", 0, 0.0) for dtype in BITS
    ]
    for dtype in ("F32", "BF16"):
        small = dtype.lower()
        listed += [
            (f"{small}_scalar", dtype, (), "rans", 0, 0.0),
            (f"{small}_empty", dtype, (3, 0, 2), "rans", 0, 0.0),
            (f"{small}_rank_4", dtype, (4, 3, 5, 6), "zstd", 0, 0.0),
            (f"{small}_flat", dtype, (2000,), "rans", 0, 0.0),
            (f"{small}_chunks", dtype, (40, 50), "rans", 600, 0.0),
            (f"{small}_chunks_zstd", dtype, (40, 50), "zstd", 600, 0.0),
            (f"{small}_bound", dtype, (40, 50), "rans", 0, 0.003),
            (f"{small}_bound_zstd", dtype, (40, 50), "zstd", 0, 0.003),
            (f"{small}_bound_chunks", dtype, (40, 50), "rans", 600, 0.003),
        ]
    return listed


def write(
    writer: str, case: tuple[str, str, tuple[int, ...], str, int, float], data: bytes
) -> bytes:
    _, dtype, shape, entropy, chunk_elems, bound = case
    with tempfile.TemporaryDirectory() as folder:
        values, out = pathlib.Path(folder, "values"), pathlib.Path(folder, "message")
        values.write_bytes(data)
        sizes = "x".join(map(str, shape)) or "-"
        how = [dtype, sizes, entropy, str(chunk_elems), str(bound)]
        result = subprocess.run([writer, *how, values, out], capture_output=True, text=True)
        if result.returncode != 0:
            raise SystemExit(f"{case[0]}: {result.stderr.strip()}")
        return out.read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--writer", required=True, help="the program write_message")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    arguments = parser.parse_args()
    import reference_message  # found only now

    files, entries = {}, []
    for seed, case in enumerate(cases()):
        name, dtype, shape, _, _, bound = case
        data = ordinary(dtype, math.prod(shape), Random(7000 + seed))
        message = write(arguments.writer, case, data)
        decoded = bytes(reference_message.read(message).data)
        if bound == 0 and decoded != data:
            raise SystemExit(f"{name}: the reference reader gives other values")
        files[f"{name}.message"] = message
        entries.append(
            {
                "file": f"{name}.message",
                "dtype": dtype,
                "shape": shape,
                "sha256": hashlib.sha256(decoded).hexdigest(),
            }
        )
    files["manifest.json"] = (json.dumps({"messages": entries}, indent=1) + "\n").encode()
    different = [
        name
        for name, content in files.items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_bytes() != content
    ]
    if arguments.check:
        for name in different:
            print(f"{name}: encoding its input again gives other bytes", file=sys.stderr)
        return 1 if different else 0
    FOLDER.mkdir(exist_ok=True)
    for name in different:
        (FOLDER / name).write_bytes(files[name])
    print(f"{len(files) - 1} messages; {len(different)} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
