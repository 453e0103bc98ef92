"""Row `lanes`: how much of real models a device leaves to the host when they are saved. What it is
does not depend on the device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cfck.torch import save_file
from safetensors.torch import load_file

from common.data import MissingData, data_path, minilm_path
from common.targets import Goal
from gpu.context import DEVICE, Context


def percent(must: float, aim: float) -> Goal:
    """A goal for a share, in per cent."""
    return Goal(must, aim, smaller=True, text="{:.2f} %".format)


MODELS: list[tuple[str, Callable[[], Path], Goal]] = [
    ("MiniLM", minilm_path, percent(0.5, 0.2)),
    ("the GPT with moments", lambda: data_path("gpt_step00950.safetensors"), percent(5, 4.5)),
]


def measure(context: Context, name: str, path: Path, goal: Goal) -> None:
    """Saves a model in both ways, and compares the files."""
    of_host = load_file(path)
    tensors = {key: tensor.to(DEVICE) for key, tensor in of_host.items()}
    ours, by_host = (context.folder / f"lanes-{way}" for way in ("device", "host"))
    summary = save_file(tensors, ours, fsync=False, encode="device")
    save_file(of_host, by_host, fsync=False)
    if ours.read_bytes() != by_host.read_bytes():
        raise AssertionError("the device has made another file than the host")
    share = 100 * summary.host_bytes / (summary.host_bytes + summary.device_bytes)
    context.say(f"{name}: {share:.2f} % encoded by the host")
    context.targets.judge("lanes", name, "values that the host has encoded", share, goal)


def measure_all(context: Context) -> None:
    """Whole models, or none."""
    for name, path_of, goal in MODELS:
        if context.scale != 1:
            context.skip("lanes", name, "models are saved whole")
            continue
        with context.attempt("lanes", name):
            try:
                path = path_of()
            except MissingData as missing:
                context.skip("lanes", name, str(missing))
            else:
                measure(context, name, path, goal)
