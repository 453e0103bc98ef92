"""Other programs that load a safetensors file onto a device, each in its fastest documented way."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from gpu.context import DEVICE

Tensors = dict[str, torch.Tensor]
BENCH = Path(__file__).resolve().parent.parent
PROBE_SECONDS = 60
# Two of them read past the page cache where nothing else is asked for.
os.environ.update(FASTSAFETENSORS_ODIRECT="0", RUNAI_STREAMER_FS_STRATEGY="sync_buffered")


def safetensors_mapped(path: Path) -> Tensors:
    """The default: the file is mapped."""
    from safetensors.torch import load_file

    return load_file(path, device=DEVICE)


def safetensors_pread(path: Path) -> Tensors:
    """Private copies."""
    from safetensors.torch import load_file

    return load_file(path, device=DEVICE, backend="pread")


def fastsafetensors(path: Path) -> Tensors:
    """Through pinned memory, with 16 threads: GPUDirect Storage would pass the page cache by."""
    from fastsafetensors import fastsafe_open

    with fastsafe_open([str(path)], device=DEVICE, nogds=True) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def instanttensor(path: Path) -> Tensors:
    """Buffered, which is for files in the page cache."""
    from instanttensor import BackendPolicy, safe_open

    with safe_open(
        str(path), framework="pt", device=DEVICE, backend=BackendPolicy.BUFFERED
    ) as file:
        return dict(file.tensors())


def runai_streamer(path: Path) -> Tensors:
    """Reads with 16 threads, and copies each tensor."""
    from runai_model_streamer import SafetensorsStreamer

    with SafetensorsStreamer() as streamer:
        streamer.stream_file(str(path), device=DEVICE)
        return dict(streamer.get_tensors())


# The package of each, and its function.
LOADERS: dict[str, tuple[str, Callable[[Path], Tensors]]] = {
    "safetensors": ("safetensors", safetensors_mapped),
    "safetensors, pread": ("safetensors", safetensors_pread),
    "fastsafetensors": ("fastsafetensors", fastsafetensors),
    "InstantTensor": ("instanttensor", instanttensor),
    "Run:ai Model Streamer": ("runai-model-streamer", runai_streamer),
}


def version(package: str) -> str:
    """The version that is installed, or "missing"."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _reason(process: subprocess.Popen[str], until: float) -> str | None:
    try:
        # One that is done needs a moment even where another took all the time.
        _, errors = process.communicate(timeout=max(1.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"no answer within {PROBE_SECONDS} seconds"
    if process.returncode == 0:
        return None
    lines = errors.strip().splitlines()
    return lines[-1] if lines else f"ended with code {process.returncode}"


def probe(path: Path) -> dict[str, str | None]:
    """Why a loader cannot be used here, or None.

    Each loads a small file in a process of its own, all at the same time: one that crashes or
    hangs must not end the run.
    """
    processes = {
        name: subprocess.Popen(
            [sys.executable, "-m", "gpu.probe", name, str(path)],
            cwd=BENCH,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in LOADERS
    }
    until = time.monotonic() + PROBE_SECONDS
    return {name: _reason(process, until) for name, process in processes.items()}
