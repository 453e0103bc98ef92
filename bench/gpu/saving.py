"""Row `save`: tensors of the device into files of the page cache, encoded by the device and by the
host, against safetensors and a plain write of the finished file."""

from __future__ import annotations

import statistics
from pathlib import Path

import torch
from cfck.torch import save_file

from common.targets import Goal
from gpu import clocks, subjects
from gpu.context import DEVICE, Context
from gpu.subjects import Subject

OURS = "cfck, encoded by the device"
BY_HOST = "cfck, encoded by the host"
PLAIN = "safetensors"
WRITE = "the finished file, in blocks of 4 MiB"
BLOCK_BYTES = 4 << 20
# Times as fast as others; or this share of the rate of a plain write, whichever is less.
GOALS = {BY_HOST: (2.0, 4.0), PLAIN: (1.3, 1.5)}
WRITE_SHARE = 0.8
MEMORY_MUST, MEMORY_AIM = 256e6, 128e6


def big(scale: float) -> Subject:
    """The tensors of the targets."""
    return Subject("4 GB of BF16", torch.bfloat16, int(4e9 * scale), 40)


def write_plain(data: bytes, path: Path) -> None:
    """What any program that saves has to do at least."""
    with path.open("wb", buffering=0) as file:
        for at in range(0, len(data), BLOCK_BYTES):
            file.write(data[at : at + BLOCK_BYTES])


def measure(context: Context, subject: Subject) -> dict[str, float]:
    """Saves in every way; returns seconds."""
    from safetensors.torch import save_file as save_safetensors

    of_host = subjects.tensors_of(subject, DEVICE)
    tensors = {name: tensor.to(DEVICE) for name, tensor in of_host.items()}
    del of_host
    n_bytes = subjects.bytes_of(tensors)
    paths = {
        name: context.folder / f"save-{i}" for i, name in enumerate((OURS, BY_HOST, PLAIN, WRITE))
    }
    summary = save_file(tensors, paths[OURS], fsync=False, encode="device", **subject.options)
    save_file(tensors, paths[BY_HOST], fsync=False, encode="host", **subject.options)
    finished = paths[OURS].read_bytes()
    if finished != paths[BY_HOST].read_bytes():
        raise AssertionError("the device has made another file than the host")
    torch.cuda.synchronize()

    def ours() -> None:
        save_file(tensors, paths[OURS], fsync=False, encode="device", **subject.options)

    n_extra = context.extra_bytes(ours, n_bytes, 0)
    ways: dict[str, clocks.Action] = {
        OURS: ours,
        BY_HOST: lambda: save_file(
            tensors, paths[BY_HOST], fsync=False, encode="host", **subject.options
        ),
        PLAIN: lambda: save_safetensors(tensors, paths[PLAIN]),
        WRITE: lambda: write_plain(finished, paths[WRITE]),
    }
    seconds = {}
    for name, samples in clocks.wall_seconds(ways, context.repeat, 60).items():
        seconds[name] = statistics.median(samples)
        row = {
            "subject": subject.name,
            "way": name,
            "seconds": seconds[name],
            "rate": n_bytes / seconds[name],
            "samples": samples,
            "decoded_bytes": n_bytes,
            "stored_bytes": paths[name].stat().st_size,
        }
        context.results.saves.append(row)
        context.say(f"{subject.name}: {name} {row['rate'] / 1e9:.1f} GB/s")
    share = summary.host_bytes / n_bytes
    context.targets.tell("save", subject.name, "values that the host has encoded", f"{share:.2%}")
    goal = Goal(MEMORY_MUST, MEMORY_AIM, True, lambda n: f"{n / 1e6:.1f} MB")
    context.targets.judge("save", subject.name, "device memory beside the tensors", n_extra, goal)
    for path in paths.values():
        path.unlink(missing_ok=True)
    return seconds


def save_all(context: Context) -> None:
    """Measures both sizes; the targets are of the first."""
    subject = big(context.scale)
    with context.attempt("save", subject.name):
        seconds = measure(context, subject)
        for name, (must, aim) in GOALS.items():
            most = WRITE_SHARE * seconds[name] / seconds[WRITE]
            goal = Goal(min(must, most), aim, text="{:.2f}".format)
            times = seconds[name] / seconds[OURS]
            context.targets.judge("save", subject.name, "speed", times, goal, name)
    small = subjects.small(context.scale)[0]
    with context.attempt("save", small.name):
        measure(context, small)
