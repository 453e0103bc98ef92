"""Codec delta alone, by the program build/bench/delta_bench: chunks without a file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from safetensors.torch import save_file

from delta.pairs import Pair

COLUMNS = [
    "data",
    "changed",
    "dense / codec",
    "make GB/s",
    "apply GB/s",
    "with digests: make",
    "apply",
    "XOR + zstd-1, without: make",
    "apply",
]
_SPEEDS = ["encode", "decode", "make_with_digests", "apply_with_digests"]
_SPEEDS += ["xor_zstd1_make", "xor_zstd1_apply"]


def measure(program: Path, pair: Pair, repetitions: int, folder: Path) -> list[str]:
    """A row of the table; `folder` holds the tensors for the program."""
    old, new = folder / "old.safetensors", folder / "new.safetensors"
    save_file(dict(pair.old), old)
    save_file(dict(pair.new), new)
    command = [program, "--repetitions", str(repetitions), "--peers", "1", old, new]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return [
        pair.name,
        f"{100 * found['changed']:.2f} %",
        f"{found['dense_bytes'] / found['delta_bytes']:.1f}",
        *(f"{found[f'{speed}_gb_s']:.2f}" for speed in _SPEEDS),
    ]
