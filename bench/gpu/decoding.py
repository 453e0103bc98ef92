"""Rows `decode` and `small`: files whose bytes are on the device already."""

from __future__ import annotations

import statistics
from typing import Any

import torch
from cfck.torch import load, save

from common.targets import Goal
from gpu import clocks, subjects
from gpu.context import DEVICE, Context
from gpu.subjects import Subject

HASHES = "cfck_hash_extents"
HASH_GOAL = Goal(0.08, 0.05, smaller=True, text="{:.1%}".format)


def from_device(blob: torch.Tensor, verify: bool = True) -> dict[str, torch.Tensor]:
    """All tensors of a file whose bytes are on the device."""
    return load(blob, device=DEVICE, decode="device", verify=verify)


def is_ours(kernel: str) -> bool:
    """Whether a kernel is one of cfck's."""
    return "cfck_" in kernel


def expect_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """Raises unless the device gave the bits of the host."""
    for name, tensor in expected.items():
        one, other = found[name].view(torch.uint8), tensor.to(DEVICE).view(torch.uint8)
        if not torch.equal(one, other):
            raise ValueError(f"{name} differs from what the host decodes")


def blobs_of(data: bytes, n_decoded: int, context: Context) -> list[torch.Tensor]:
    """So many copies on the device that reading and writing all of them passes its cache by."""
    n_copies = max(2, -(-4 * context.cache_bytes() // (len(data) + n_decoded)))
    first = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(DEVICE)
    return [first, *(first.clone() for _ in range(n_copies - 1))]


def floor_of(kernel: str, n_stored: int, n_decoded: int) -> int | None:
    """The bytes that a kernel has to move at least, where that is one of those that matter."""
    moved = {
        HASHES: n_stored,
        "cfck_hash_frames": n_stored,
        "cfck_hash_ranges": n_decoded,
        "cfck_lossless": n_stored + n_decoded,
        "cfck_direct": n_stored + n_decoded,
        "cfck_encode": n_stored + n_decoded,
    }
    return next((n for name, n in moved.items() if name in kernel), None)


def add_kernels(
    context: Context, subject: str, time: clocks.DeviceTime, n_stored: int, n_decoded: int
) -> None:
    """The table of kernels: beside each of ours the bytes that it has to move at least."""
    copy_rate = context.rates[1]
    for name, kernel in sorted(time.kernels.items(), key=lambda one: -one[1].seconds):
        floor = floor_of(name, n_stored, n_decoded)
        row: dict[str, Any] = {
            "subject": subject,
            "kernel": name,
            "launches": kernel.launches,
            "seconds": kernel.seconds,
            "floor_bytes": floor,
            "times_floor": None if floor is None else kernel.seconds * copy_rate / floor,
        }
        context.results.kernels.append(row)


def decode(context: Context, row: str, subject: Subject) -> None:
    """Measures one file."""
    tensors = subjects.tensors_of(subject, DEVICE)
    n_decoded = subjects.bytes_of(tensors)
    data = save(tensors, **subject.options)
    del tensors
    blobs = blobs_of(data, n_decoded, context)
    n_resident = sum(blob.numel() for blob in blobs)
    expect_same(from_device(blobs[0]), load(data))
    n_extra = context.extra_bytes(lambda: from_device(blobs[0]), n_resident, n_decoded)

    call = clocks.turns(lambda i: from_device(blobs[i]), len(blobs))
    unverified = clocks.turns(lambda i: from_device(blobs[i], verify=False), len(blobs))
    walls = clocks.wall_seconds(
        {"call": call, "unverified": unverified}, 2 * context.repeat, 8, len(blobs) + 1
    )
    seconds = {name: statistics.median(samples) for name, samples in walls.items()}
    time = clocks.device_time(call, is_ours, context.repeat)
    context.clock = time.clock
    # Hashing and decoding go on side by side: what counts is what it takes longer with hashes.
    plain = clocks.device_time(unverified, is_ours, context.repeat)
    share = max(0.0, 1 - plain.chosen / time.chosen)
    result: dict[str, Any] = {
        "subject": subject.name,
        "decoded_bytes": n_decoded,
        "stored_bytes": len(data),
        "ratio": n_decoded / len(data),
        "kernel_rate": n_decoded / time.chosen,
        "device_rate": n_decoded / time.everything,
        "call_rate": n_decoded / seconds["call"],
        "unverified_call_rate": n_decoded / seconds["unverified"],
        "hash_share": share,
        "extra_bytes": n_extra,
        "call_seconds": walls["call"],
        "unverified_call_seconds": walls["unverified"],
        "clock": time.clock,
    }
    context.results.decodes.append(result)
    add_kernels(context, subject.name, time, len(data), n_decoded)
    told = f"whole call {result['call_rate'] / 1e9:.1f} GB/s"
    context.say(f"{subject.name}: kernels {result['kernel_rate'] / 1e9:.1f} GB/s, {told}")
    if subject.goal is not None:
        rate = result["kernel_rate"] / 1e9
        what = "decode, kernels" if time.kernels else "decode, between CUDA events"
        context.targets.judge(row, subject.name, what, rate, subject.goal, told)
    if subject.call_goal is not None:
        rate = result["call_rate"] / 1e9
        context.targets.judge(row, subject.name, "whole call", rate, subject.call_goal)
    context.targets.judge("hashes", subject.name, "of the time on the device", share, HASH_GOAL)
    context.judge_memory(subject.name, n_extra, n_decoded)


def decode_all(context: Context, row: str, files: list[Subject]) -> None:
    """Measures the files of a row, one after another."""
    for subject in files:
        with context.attempt(row, subject.name):
            decode(context, row, subject)
