"""Row `encode`: tensors of the device as messages in its memory, wall clock of whole calls."""

from __future__ import annotations

import statistics

import cfck
import torch
from cfck.torch import decode_message, encode_message

from gpu import clocks, decoding, subjects
from gpu.context import DEVICE, Context
from gpu.subjects import Subject, gigabytes_a_second


def large(scale: float) -> list[Subject]:
    """Tensors of 1 GB, and one of a small model."""
    n_bytes = int(1e9 * scale)
    return [
        Subject("lossless BF16", torch.bfloat16, n_bytes, 1, gigabytes_a_second(200, 450)),
        Subject("lossless F32", torch.float32, n_bytes, 1, gigabytes_a_second(250, 600)),
        Subject("45 MB of BF16", torch.bfloat16, int(45e6 * scale), 1),
    ]


def measure(context: Context, subject: Subject) -> None:
    """Encodes copies of a tensor in turn, so that none of them is in the cache of the device."""
    (of_host,) = subjects.tensors_of(subject, DEVICE).values()
    n_bytes = of_host.nbytes
    n_copies = max(2, min(8, 4 * context.cache_bytes() // n_bytes + 1))
    copies = [of_host.to(DEVICE) for _ in range(n_copies)]
    outs = [
        torch.empty(cfck.max_message_bytes(of_host), dtype=torch.uint8, device=DEVICE)
        for _ in range(2)
    ]
    length = encode_message(copies[0], out=outs[0])
    expected = encode_message(of_host)
    if outs[0][:length].cpu().numpy().tobytes() != expected:
        raise AssertionError("the device has made another message than the host")
    if not torch.equal(decode_message(expected), of_host):
        raise AssertionError("the message has other values")

    def encode(i: int) -> int:
        return encode_message(copies[i], out=outs[i % 2])

    samples = clocks.wall_seconds(
        {subject.name: clocks.turns(encode, n_copies)}, context.repeat, 20, n_copies
    )[subject.name]
    seconds = statistics.median(samples)
    time = clocks.device_time(clocks.turns(encode, n_copies), decoding.is_ours, context.repeat)
    context.clock = time.clock
    decoding.add_kernels(context, f"{subject.name}, encoded", time, length, n_bytes)
    row = {
        "subject": subject.name,
        "seconds": seconds,
        "rate": n_bytes / seconds,
        "kernel_rate": n_bytes / time.chosen,
        "ratio": n_bytes / length,
        "samples": samples,
    }
    context.results.encodes.append(row)
    told = f"kernels {row['kernel_rate'] / 1e9:.1f} GB/s"
    context.say(f"{subject.name}: encoded {row['rate'] / 1e9:.1f} GB/s, {told}")
    if subject.goal is not None:
        context.targets.judge("encode", subject.name, "whole call", row["rate"], subject.goal, told)


def encode_all(context: Context) -> None:
    """Measures all of them, one after another."""
    for subject in large(context.scale):
        with context.attempt("encode", subject.name):
            measure(context, subject)
