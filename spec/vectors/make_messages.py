#!/usr/bin/env python3
"""Makes the test vectors of messages, `messages/`, and their manifest.

    make_messages.py --writer build/tests/spec/write_message            writes them
    make_messages.py --writer build/tests/spec/write_message --check    compares them

The hashes in the manifest are those of the values that went in; for messages with a maximum error
or learned steps those of what the reference reader gives. Bytes of libzstd may differ from version
to version, as in the vectors of files.
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
from typing import NamedTuple

from publish import publish
from vector import BITS, Random, ordinary

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "messages"
sys.path.insert(0, str(HERE.parent))


class Case(NamedTuple):
    name: str
    dtype: str
    shape: tuple[int, ...]
    entropy: str
    chunk_elems: int = 0
    max_abs_error: float = 0  # 0: there is none
    step: float = 0  # a learned one; 0: there is none


def cases() -> list[Case]:
    listed = [Case(dtype.lower(), dtype, (24, 16), "rans") for dtype in BITS]
    for dtype in ("F32", "BF16"):
        small = dtype.lower()
        listed += [
            Case(f"{small}_scalar", dtype, (), "rans"),
            Case(f"{small}_empty", dtype, (3, 0, 2), "rans"),
            Case(f"{small}_rank_4", dtype, (4, 3, 5, 6), "zstd"),
            Case(f"{small}_flat", dtype, (2000,), "rans"),
            Case(f"{small}_chunks", dtype, (40, 50), "rans", 600),
            Case(f"{small}_chunks_zstd", dtype, (40, 50), "zstd", 600),
            Case(f"{small}_bound", dtype, (40, 50), "rans", 0, 0.003),
            Case(f"{small}_bound_zstd", dtype, (40, 50), "zstd", 0, 0.003),
            Case(f"{small}_bound_chunks", dtype, (40, 50), "rans", 600, 0.003),
        ]
    for dtype in ("F32", "BF16"):
        small = dtype.lower()
        listed += [
            Case(f"{small}_steps", dtype, (40, 50), "rans", step=0.02),
            Case(f"{small}_steps_zstd", dtype, (40, 50), "zstd", step=0.02),
            Case(f"{small}_steps_chunks", dtype, (40, 50), "rans", 600, step=0.02),
        ]
    return listed


def write(writer: str, case: Case, data: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        values, out = pathlib.Path(folder, "values"), pathlib.Path(folder, "message")
        values.write_bytes(data)
        sizes = "x".join(map(str, case.shape)) or "-"
        numbers = [str(case.chunk_elems), str(case.max_abs_error), str(case.step)]
        how = [case.dtype, sizes, case.entropy, *numbers]
        result = subprocess.run([writer, *how, values, out], capture_output=True, text=True)
        if result.returncode != 0:
            raise SystemExit(f"{case.name}: {result.stderr.strip()}")
        return out.read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--writer", required=True, help="the program write_message")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    arguments = parser.parse_args()
    import reference_message  # found only now

    files, entries = {}, []
    for seed, case in enumerate(cases()):
        name, dtype, shape = case[:3]
        data = ordinary(dtype, math.prod(shape), Random(7000 + seed))
        message = write(arguments.writer, case, data)
        decoded = bytes(reference_message.read(message).data)
        keeps_all = case.max_abs_error == 0 and case.step == 0
        if keeps_all and decoded != data:
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
    return publish(FOLDER, files, "messages", arguments.check)


if __name__ == "__main__":
    sys.exit(main())
