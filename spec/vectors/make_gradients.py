#!/usr/bin/env python3
"""Makes the test vectors of packets of gradients, `gradients/`, and their manifest.

    make_gradients.py --writer build/tests/spec/write_gradients            writes them
    make_gradients.py --writer build/tests/spec/write_gradients --check    compares them

The hashes in the manifest are those of the indices and values that the reference reader gives:
int64 and float32, of all tensors one after the other.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
from typing import NamedTuple

from publish import publish
from vector import Random

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "gradients"
sys.path.insert(0, str(HERE.parent))


class Tensor(NamedTuple):
    n_elems: int
    indices: list[int]
    words: list[int]  # the values, as the bits of F32


class Case(NamedTuple):
    name: str
    value_error: float
    tensors: list[Tensor]


def bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def some(random: Random, n_elems: int, every: int, scale: float) -> Tensor:
    """One value of about `every`, away from zero, as the largest ones are."""
    indices = [i for i in range(n_elems) if random.below(every) == 0]
    values = random.weights(len(indices), 1.0)
    return Tensor(n_elems, indices, [bits(scale * (v + (2 if v > 0 else -2))) for v in values])


def cases() -> list[Case]:
    random = Random(9000)
    plain = [some(random, 6000, 20, 1e-3), some(random, 900, 5, 7), some(random, 10, 3, 1)]
    special = some(random, 3000, 10, 1)
    words = [0x7F800000, 0xFF800000, 0x7FA12345, 0xFFC00001, 0x80000000, 1, *special.words[6:]]
    everything = Tensor(40, list(range(40)), [bits(0.5)] * 40)
    far = Tensor(2**32 - 1, [0, 2**32 - 2], [bits(1), bits(-2)])
    return [
        Case("plain", 0.1, plain),
        Case("coarse", 0.5, plain),
        Case("lossless", 0, plain),
        Case("special", 0.1, [special._replace(words=words)]),
        Case("tiny", 0.1, [some(random, 500, 5, 1e-42)]),
        Case("far", 0.1, [far, everything]),
        Case("far_float", 0.1, [Tensor(2**24, [2**24 - 1], [bits(3)])]),
        Case("empty", 0.1, [Tensor(0, [], []), Tensor(5, [], []), *plain, Tensor(7, [], [])]),
        Case("no_values", 0.1, [Tensor(0, [], []), Tensor(5, [], [])]),
        Case("no_tensors", 0.1, []),
    ]


def write(writer: str, case: Case) -> bytes:
    words = [len(case.tensors)]
    for tensor in case.tensors:
        words += [tensor.n_elems, len(tensor.indices), *tensor.indices, *tensor.words]
    with tempfile.TemporaryDirectory() as folder:
        data, out = pathlib.Path(folder, "data"), pathlib.Path(folder, "packet")
        data.write_bytes(struct.pack(f"<{len(words)}I", *words))
        command = [writer, str(case.value_error), data, out]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            raise SystemExit(f"{case.name}: {result.stderr.strip()}")
        return out.read_bytes()


def entry_of(case: Case, packet: bytes) -> dict[str, object]:
    import reference_gradients  # found only now

    found = reference_gradients.read(packet)
    if [t.indices.tolist() for t in found] != [t.indices for t in case.tensors]:
        raise SystemExit(f"{case.name}: the reference reader gives other places")
    parts = [t.indices.tobytes() for t in found] + [t.values.tobytes() for t in found]
    return {
        "file": f"{case.name}.packet",
        "tensors": [[t.n_elems, len(t.indices)] for t in case.tensors],
        "sha256": hashlib.sha256(b"".join(parts)).hexdigest(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--writer", required=True, help="the program write_gradients")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    arguments = parser.parse_args()
    files = {f"{case.name}.packet": write(arguments.writer, case) for case in cases()}
    entries = [entry_of(case, files[f"{case.name}.packet"]) for case in cases()]
    files["manifest.json"] = (json.dumps({"packets": entries}, indent=1) + "\n").encode()
    return publish(FOLDER, files, "packets", arguments.check)


if __name__ == "__main__":
    sys.exit(main())
