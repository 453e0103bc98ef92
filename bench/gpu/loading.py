"""Row `load`: files in the page cache, against other loaders of the same tensors."""

from __future__ import annotations

import functools
import statistics
from pathlib import Path

import torch
from cfck.torch import load_file, save_file

from common.targets import Goal
from gpu import clocks, decoding, loaders, subjects
from gpu.context import DEVICE, Context
from gpu.subjects import Subject

OURS = "cfck, decoded by the device"
BY_HOST = "cfck, decoded by the host"
# Lossless BF16 is smaller by this: so much faster than a copy of the values a load can be.
RATIO = 1.5
COPY_GOAL = Goal(0.8, 0.92, text="{:.3f}".format)
PEER_GOAL = Goal(1, 1, text="{:.2f}".format)
FAST_PEER_GOAL = Goal(2.3, 2.8, text="{:.2f}".format)
FAST_PEERS = ("fastsafetensors", "InstantTensor")
# Compressed bytes under way in a load of a file, at most (docs/devices.md).
IN_FLIGHT = 3 * (32 << 20)


def big(scale: float) -> Subject:
    """The file of the targets."""
    return Subject("4 GB of BF16", torch.bfloat16, int(4e9 * scale), 40)


def probed(context: Context) -> list[str]:
    """The loaders that run here; names the others with the reason."""
    from safetensors.torch import save_file as save_safetensors

    path = context.folder / "probe.safetensors"
    subject = Subject("probe", torch.bfloat16, 1 << 23, 4)
    save_safetensors(subjects.tensors_of(subject, DEVICE), path)
    reasons = loaders.probe(path)
    for name, reason in reasons.items():
        package, _ = loaders.LOADERS[name]
        context.versions[package] = loaders.version(package)
        if reason is not None:
            context.skip("load", name, reason)
    return [name for name, reason in reasons.items() if reason is None]


def peers_for(context: Context, names: list[str], plain: Path) -> dict[str, clocks.Action]:
    """The loaders that can load this file."""
    ways: dict[str, clocks.Action] = {}
    for name in names:
        way = functools.partial(loaders.LOADERS[name][1], plain)
        try:
            way()
            ways[name] = way
        except Exception as error:
            context.skip("load", name, f"{type(error).__name__}: {error}")
    return ways


def save_both(subject: Subject, path: Path, plain: Path) -> int:
    """Writes the file and its plain twin; returns the bytes of the values."""
    from safetensors.torch import save_file as save_safetensors

    tensors = subjects.tensors_of(subject, DEVICE)
    save_file(tensors, path, fsync=False, **subject.options)
    save_safetensors(tensors, plain)
    return subjects.bytes_of(tensors)


def measure(context: Context, subject: Subject, peers: list[str]) -> dict[str, float]:
    """Loads one file in every way; returns bytes a second."""
    path, plain = (context.folder / f"model.{suffix}" for suffix in ("cfck", "safetensors"))
    n_decoded = save_both(subject, path, plain)
    n_stored = path.stat().st_size
    ours = lambda: load_file(path, DEVICE, decode="device")  # noqa: E731
    decoding.expect_same(ours(), load_file(path))
    n_extra = context.extra_bytes(ours, 0, n_decoded) - min(n_stored, IN_FLIGHT)
    # Other loaders may end the run.
    alone = statistics.median(clocks.wall_seconds({OURS: ours}, context.repeat)[OURS])
    context.say(f"{subject.name}: {OURS} {n_decoded / alone / 1e9:.1f} GB/s, before all others")
    ways: dict[str, clocks.Action] = {
        OURS: ours,
        BY_HOST: lambda: load_file(path, DEVICE, decode="host"),
        **peers_for(context, peers, plain),
    }
    samples = clocks.wall_seconds(ways, context.repeat, 40)
    time = clocks.device_time(ours, decoding.is_ours, 1)
    decoding.add_kernels(context, f"{subject.name}, loaded", time, n_stored, n_decoded)
    rates = {}
    for name, times in samples.items():
        seconds = statistics.median(times)
        rates[name] = n_decoded / seconds
        row = {
            "subject": subject.name,
            "loader": name,
            "seconds": seconds,
            "rate": rates[name],
            "pinned_share": rates[name] / context.rates[0],
            "samples": times,
            "decoded_bytes": n_decoded,
            "stored_bytes": n_stored if name in (OURS, BY_HOST) else plain.stat().st_size,
        }
        context.results.loads.append(row)
        context.say(f"{subject.name}: {name} {rates[name] / 1e9:.1f} GB/s")
    context.judge_memory(f"{subject.name}, loaded", n_extra, n_decoded)
    return rates


def load_all(context: Context) -> None:
    """Measures both files; the targets are of the first."""
    peers: list[str] = []
    with context.attempt("load", "other loaders"):
        peers = probed(context)
    subject = big(context.scale)
    with context.attempt("load", subject.name):
        rates = measure(context, subject, peers)
        share = rates[OURS] / (RATIO * context.rates[0])
        against = f"pinned copy x {RATIO}"
        context.targets.judge("load", subject.name, "speed", share, COPY_GOAL, against)
        for name, rate in rates.items():
            if name not in (OURS, BY_HOST):
                times = rates[OURS] / rate
                goal = FAST_PEER_GOAL if name in FAST_PEERS else PEER_GOAL
                context.targets.judge("load", subject.name, "speed", times, goal, name)
    small = subjects.small(context.scale)[0]
    with context.attempt("load", small.name):
        measure(context, small, peers)
