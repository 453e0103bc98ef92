"""Programs that compress whole safetensors files: sizes of files, and speeds from file to file."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from common import data, measure, peers
from common.measure import Seconds
from common.product import Product, Unavailable
from lossless.context import Context, Finding, ProgramMeasurement

DATASETS = ["minilm-f32", "minilm-2d-bf16", "minilm-2d-f16", "gpt-f32", "gpt-bf16"]
ROW = "file size, programs for whole files"

Convert = Callable[[Path, Path], object]


@dataclass(frozen=True)
class Program:
    """A program with one thread: from a safetensors file to its own file, and back."""

    name: str
    version: str
    suffix: str
    compress: Convert
    decompress: Convert


def _lmzip() -> Program:
    from lmz import api
    from lmz.native import build

    if build.build() is None:
        raise ImportError("its kernel could not be compiled; without it, other code would run")
    return Program(
        name="lmzip",
        version=importlib.metadata.version("lmzip"),
        suffix=".lmz",
        compress=lambda source, packed: api.compress(str(source), str(packed), workers=1),
        decompress=lambda packed, back: api.decompress(
            str(packed), str(back), workers=1, overwrite=True
        ),
    )


def _bigsmall() -> Program:
    os.environ["BIGSMALL_DISABLE_VERSION_CHECK"] = "1"  # it asks a server when it is imported
    import bigsmall

    return Program(
        name="BigSmall",
        version=importlib.metadata.version("bigsmall"),
        suffix=".bs",
        compress=lambda source, packed: bigsmall.compress(
            source, packed, workers=1, progress=False
        ),
        decompress=lambda packed, back: bigsmall.decompress(packed, back, progress=False),
    )


def _cfck(product: Product) -> Program:
    program = [product.program("cfck-convert"), "--quiet", "--force", "--threads", "1"]
    options = [part for name, value in product.options.items() for part in (f"--{name}", value)]
    return Program(
        name=product.name,
        version=product.version,
        suffix=".cfck",
        compress=lambda source, packed: subprocess.run(
            [*program, *options, source, packed], check=True
        ),
        decompress=lambda packed, back: subprocess.run([*program, packed, back], check=True),
    )


def _programs(context: Context) -> list[Program]:
    found = []
    makers: dict[str, Callable[[], Program]] = {
        "cfck": lambda: _cfck(context.require_product()),
        "lmzip": _lmzip,
        "BigSmall": _bigsmall,
    }
    for name, make in makers.items():
        try:
            found.append(make())
        except (ImportError, Unavailable) as error:
            context.missing_peers[name] = f"not installed ({error})"
            context.say(f"SKIPPED program {name}: {error}")
    return found


def _check_same(program: Program, source: Path, back: Path) -> None:
    """The tensors must be the same; not every program keeps the header."""
    original, restored = load_file(source), load_file(back)
    same = original.keys() == restored.keys() and all(
        peers.same_bytes(np.ascontiguousarray(restored[name]), tensor)
        for name, tensor in original.items()
    )
    if not same:
        raise measure.RoundTripError(f"{program.name}: decoded tensors differ from the original")


def _measure(context: Context, name: str, programs: list[Program]) -> list[ProgramMeasurement]:
    dataset = data.build(name)
    source = context.scratch / "programs.safetensors"
    save_file(dataset.tensors, source)
    back = context.scratch / "programs-back.safetensors"
    files = {p.name: context.scratch / f"programs{p.suffix}" for p in programs}
    samples: dict[str, list[tuple[Seconds, Seconds]]] = {p.name: [] for p in programs}
    for repetition in range(2 if context.quick else 4):
        for program in programs:
            packed = files[program.name]
            packed.unlink(missing_ok=True)
            compressed, _ = measure.timed(program.compress, source, packed)
            back.unlink(missing_ok=True)
            decompressed, _ = measure.timed(program.decompress, packed, back)
            if repetition == 0:  # which is warming, too
                _check_same(program, source, back)
            else:
                samples[program.name].append((compressed, decompressed))
    found = [
        ProgramMeasurement(
            dataset=name,
            program=program.name,
            version=program.version,
            raw_bytes=source.stat().st_size,
            file_bytes=files[program.name].stat().st_size,
            compress_seconds=measure.median([c for c, _ in samples[program.name]]).wall,
            decompress_seconds=measure.median([d for _, d in samples[program.name]]).wall,
        )
        for program in programs
    ]
    for path in (source, back, *files.values()):
        path.unlink(missing_ok=True)
    return found


def whole_files(context: Context) -> None:
    """Whole files, beside other programs that compress such files. For information."""
    programs = _programs(context)
    if not programs:
        return
    for name in DATASETS:
        context.say(f"measuring programs on {name}")
        try:
            found = _measure(context, name, programs)
        except data.MissingData as error:
            context.skip(ROW, name, "for information", str(error))
            continue
        context.programs += found
        _compare(context, name, found)


def _compare(context: Context, name: str, found: list[ProgramMeasurement]) -> None:
    own = next((m for m in found if m.program == "cfck"), None)
    others = [m for m in found if m.program != "cfck"]
    if own is None or not others:
        return
    best = min(others, key=lambda m: m.file_bytes)
    says = "smaller than every other" if own.file_bytes < best.file_bytes else "NOT the smallest"
    context.findings.append(
        Finding(ROW, name, says, own.ratio_text(), f"{best.program} {best.ratio_text()}",
                "for information", "info")
    )  # fmt: skip
