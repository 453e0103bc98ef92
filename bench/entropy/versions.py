"""Row `versions`: sizes of all files of the data, beside those of an older version.

As a program (python -m entropy.versions) it prints {file: {setting: bytes}} of the cfck that it
imports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import data
from common.targets import Goal
from entropy.run import Run

BENCH = Path(__file__).resolve().parents[1]
ROW = "whole files, against the version before"
GOAL = Goal(1.001, 1.0, smaller=True, text="{:.5f}".format)
Sizes = dict[str, dict[str, int]]

# What is asked for, and of which tensors: all of the file, or its matrices cast to BF16.
SETTINGS: dict[str, tuple[bool, dict[str, Any]]] = {
    "lossless": (False, {}),
    "lossless, archive": (False, {"level": "archive"}),
    "lossless BF16": (True, {}),
    "direct, ABS 1e-4": (False, {"codec": "direct", "max_abs_error": 1e-4}),
    "direct, REL 1e-2": (False, {"codec": "direct", "max_rel_error": 1e-2}),
    "direct, REL 1e-3": (False, {"codec": "direct", "max_rel_error": 1e-3}),
    "direct, REL 1e-4": (False, {"codec": "direct", "max_rel_error": 1e-4}),
    "direct BF16, REL 1e-2": (True, {"codec": "direct", "max_rel_error": 1e-2}),
    "quality high": (False, {"quality": "high"}),
}


def files() -> Iterator[tuple[str, data.Tensors]]:
    """MiniLM, and every safetensors file of the folder `CFCK_DATA`."""
    from safetensors.numpy import load_file

    yield "MiniLM", data.minilm()
    for path in sorted(data.data_folder().glob("*.safetensors")):
        yield path.name, load_file(path)


def sizes() -> Sizes:
    """Bytes of whole files, of the cfck that is imported."""
    import cfck.numpy

    found: Sizes = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.cfck")
        for name, tensors in files():
            found[name] = {}
            short = data.cast(data.matrices(tensors), data.BFLOAT16)
            for setting, (is_short, options) in SETTINGS.items():
                cfck.numpy.save_file(short if is_short else tensors, path, **options)
                found[name][setting] = path.stat().st_size
                if "codec" not in options and "quality" not in options:
                    _expect_same(cfck.numpy.load_file(path), short if is_short else tensors)
                path.unlink()
    return found


def _expect_same(found: data.Tensors, expected: data.Tensors) -> None:
    for name, tensor in expected.items():
        if found[name].tobytes() != tensor.tobytes():
            raise RuntimeError(f"{name} differs after loading")


def printed_by(module: str, folder: Path | None, *arguments: str) -> Any:
    """The JSON that a module prints as a program, with the package cfck of a folder.

    None: with the package that is installed.
    """
    paths = [str(BENCH)] if folder is None else [str(folder.resolve()), str(BENCH)]
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def compare(run: Run) -> None:
    """Every file with every setting."""
    if run.before is None:
        run.targets.skip(ROW, "-", "--before names the folder of the older package")
        return
    run.say("versions, before")
    before: Sizes = printed_by(__name__, run.before)
    run.say("versions, now")
    now: Sizes = printed_by(__name__, None)
    for name, settings in now.items():
        for setting, n_bytes in settings.items():
            old = before[name][setting]
            run.targets.judge(
                ROW, f"{name}, {setting}", "bytes, of those before", n_bytes / old, GOAL,
                f"{n_bytes:,}, {old:,} before",
            )  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(sizes()))
