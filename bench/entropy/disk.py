"""Loading and saving of whole models, against safetensors."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np

from common import data, measure
from common.measure import Seconds
from common.product import Product, Unavailable
from common.targets import Goal
from entropy.run import Run
from lossless import speeds

LOAD_ROW = "load of MiniLM, two threads"
SAVE_ROW = "save of MiniLM, two threads, fsync"
FILE_COLUMNS = ["row", "codec", "median ms", "best ms", "median processor ms", "repetitions"]
TIMES = "{:.2f}x".format
LOAD_GOAL = Goal(1, 1.05, text=TIMES)  # faster: by more than chance


def files(run: Run) -> None:
    """Both rows."""
    try:
        product = run.context.require_product()
        plain = data.minilm_path()
    except (data.MissingData, Unavailable) as error:
        for row in (LOAD_ROW, SAVE_ROW):
            run.targets.skip(row, "minilm-f32", str(error))
        return
    packed = run.context.scratch / "minilm.cfck"
    product.save_file(data.minilm(), packed)
    loading(run, product, plain, packed)
    saving(run, product, plain, packed.stat().st_size)
    packed.unlink()


def loading(run: Run, product: Product, plain: Path, packed: Path) -> None:
    """The state_dict out of a file in the page cache."""
    makers: dict[str, Callable[..., speeds.Loaders]] = {
        "torch": speeds.torch_loaders,
        "numpy": speeds.numpy_loaders,
    }
    for package, make in makers.items():
        run.say(f"load, {package}")
        try:
            loaders = make(product, plain, packed)
        except ImportError as error:
            run.targets.skip(LOAD_ROW, package, f"no torch ({error})")
            continue
        _compare(loaders)
        samples = measure.alternate_samples(loaders, 5 if run.quick else 25)
        told = _tell(run, f"{LOAD_ROW}, {package}", samples)
        ratios = _ratios(samples)
        quartile = TIMES(statistics.quantiles(ratios)[0])
        told = f"{told}; lower quartile {quartile}"
        what = "times as fast, median of neighbours"
        run.targets.judge(LOAD_ROW, package, what, statistics.median(ratios), LOAD_GOAL, told)


def _compare(loaders: speeds.Loaders) -> None:
    """Raises where both ways to load do not give the same tensors."""
    tensors, others = (action() for action in loaders.values())
    for name, tensor in tensors.items():
        if not np.array_equal(np.asarray(tensor), np.asarray(others[name])):
            raise measure.RoundTripError(f"{name} differs after loading")


def saving(run: Run, product: Product, plain: Path, packed_bytes: int) -> None:
    """The state_dict into a new file of the same folder, until it is on the disk."""
    try:
        import safetensors.torch
    except ImportError as error:
        run.targets.skip(SAVE_ROW, "torch", f"no torch ({error})")
        return
    run.say("save, torch")
    tensors = safetensors.torch.load_file(plain)
    path = run.context.scratch / "saved"

    def save_plain() -> None:
        safetensors.torch.save_file(tensors, path)
        _sync(path)

    savers = {
        "safetensors": save_plain,
        "cfck": lambda: product.save_file_torch(tensors, path, threads=2),
    }
    samples: dict[str, list[Seconds]] = {name: [] for name in savers}
    for _ in range(3 if run.quick else 15):
        for name, save in savers.items():
            samples[name].append(measure.timed(save)[0])
            path.unlink()
    told = _tell(run, SAVE_ROW, samples)
    aim = plain.stat().st_size / packed_bytes
    goal = Goal(1, aim, text=TIMES)
    what = "times as fast, median of neighbours"
    run.targets.judge(SAVE_ROW, "torch", what, statistics.median(_ratios(samples)), goal, told)


def _sync(path: Path) -> None:
    """Waits until a file is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _ratios(samples: dict[str, list[Seconds]]) -> list[float]:
    """How many times as fast cfck is as the run of safetensors next to it."""
    pairs = zip(samples["safetensors"], samples["cfck"], strict=True)
    return [theirs.wall / own.wall for theirs, own in pairs]


def _tell(run: Run, row: str, samples: dict[str, list[Seconds]]) -> str:
    """Lines of the table of files; both medians in words."""
    words = []
    for name, runs in samples.items():
        median = measure.median(runs)
        best = min(one.wall for one in runs)
        cells = [f"{1e3 * seconds:.1f}" for seconds in (median.wall, best, median.cpu)]
        run.files.append([row, name, *cells, str(len(runs))])
        words.append(f"{name} {cells[0]} ms")
    return ", ".join(words)
