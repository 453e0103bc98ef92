"""Timing and memory: runs that alternate between codecs, and programs in a clean process."""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.peers import Peer, same_bytes


class RoundTripError(Exception):
    """A codec gave back other bytes than it was given."""


@dataclass(frozen=True)
class Seconds:
    """Wall clock and processor time of the whole process, in seconds."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class ProgramRun:
    """What one run of a program took."""

    wall: float
    cpu: float
    peak_bytes: int


def median(samples: Sequence[Seconds]) -> Seconds:
    """Median of each clock."""
    return Seconds(
        statistics.median(s.wall for s in samples), statistics.median(s.cpu for s in samples)
    )


def timed(action: Callable[..., object], *inputs: object) -> tuple[Seconds, object]:
    """Runs `action` once; gives its time and its result."""
    cpu = time.process_time()
    wall = time.perf_counter()
    result = action(*inputs)
    wall = time.perf_counter() - wall
    return Seconds(wall, time.process_time() - cpu), result


def encoded_size(peer: Peer, array: np.ndarray) -> int:
    """Encodes, decodes, compares; the number of bytes."""
    blob = peer.encode(peer.prepare(array))
    if not same_bytes(peer.decode(blob), array):
        raise RoundTripError(f"{peer.name}: decoded bytes differ from the original")
    return len(blob)


def _once(peer: Peer, array: np.ndarray) -> tuple[Seconds, Seconds]:
    held = peer.prepare(array)
    encode, blob = timed(peer.encode, held)
    del held
    decode, _ = timed(peer.decode, blob)
    return encode, decode


def alternate_codecs(
    peers: Sequence[Peer], array: np.ndarray, repetitions: int
) -> dict[str, tuple[Seconds, Seconds]]:
    """Median encode and decode time of every peer, one run of each after the other.

    Taking turns spreads whatever else the machine does over all of them alike. The caller has
    run each once before (`encoded_size`), so the first run here is warm.
    """
    samples: dict[str, list[tuple[Seconds, Seconds]]] = {peer.name: [] for peer in peers}
    gc.collect()
    gc.disable()
    try:
        for _ in range(repetitions):
            for peer in peers:
                samples[peer.name].append(_once(peer, array))
    finally:
        gc.enable()
    return {
        name: (median([e for e, _ in runs]), median([d for _, d in runs]))
        for name, runs in samples.items()
    }


def alternate_samples(
    actions: dict[str, Callable[[], object]], repetitions: int
) -> dict[str, list[Seconds]]:
    """Times of every action, taking turns, after one warming run of each."""
    for action in actions.values():
        action()
    samples: dict[str, list[Seconds]] = {name: [] for name in actions}
    for _ in range(repetitions):
        for name, action in actions.items():
            taken, result = timed(action)
            del result
            samples[name].append(taken)
    return samples


def alternate(actions: dict[str, Callable[[], object]], repetitions: int) -> dict[str, Seconds]:
    """Medians of alternate_samples."""
    return {name: median(runs) for name, runs in alternate_samples(actions, repetitions).items()}


def run_program(arguments: Sequence[str | Path]) -> ProgramRun:
    """Runs a program to its end; raises with its messages where it fails."""
    launcher = [sys.executable, "-S", str(Path(__file__).with_name("launch.py"))]
    done = subprocess.run(
        [*launcher, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout) if done.returncode == 0 else {"code": done.returncode}
    if report["code"] != 0:
        program = " ".join(map(str, arguments))
        raise RuntimeError(f"{program}: exit code {report['code']}: {done.stderr.strip()}")
    return ProgramRun(report["wall"], report["cpu"], report["peak_bytes"])
