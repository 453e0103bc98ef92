"""Row `encode`: tensors of the device as messages in its memory, wall clock of whole calls."""

from __future__ import annotations

import statistics

import cfck
import torch
from cfck.torch import decode_message, encode_message, encode_messages

from gpu import clocks, decoding, subjects
from gpu.clocks import Action
from gpu.context import DEVICE, Context
from gpu.subjects import Subject, gigabytes_a_second


def large(scale: float) -> list[Subject]:
    """Tensors of 1 GB, and one of a small model."""
    n_bytes = int(1e9 * scale)
    return [
        Subject("lossless BF16", torch.bfloat16, n_bytes, 1, gigabytes_a_second(200, 450)),
        Subject("lossless F32", torch.float32, n_bytes, 1, gigabytes_a_second(250, 600)),
        Subject("45 MB of BF16", torch.bfloat16, int(45e6 * scale), 1),
        Subject(
            "direct F32, REL 1e-3",
            torch.float32,
            n_bytes,
            1,
            gigabytes_a_second(200, 450),
            options={"max_rel_error": 1e-3},
        ),
        Subject(
            "direct F32, sigma 1e-2",
            torch.float32,
            n_bytes,
            1,
            gigabytes_a_second(180, 400),
            options={"max_sigma_error": 1e-2},
        ),
    ]


def many(scale: float) -> Subject:
    """The tensors of a small model."""
    n_bytes = int(45e6 * scale)
    goal = gigabytes_a_second(30, 100)
    return Subject("45 MB of BF16 in 100 tensors", torch.bfloat16, n_bytes, 100, goal)


def note(
    context: Context, subject: Subject, encode: Action, n_inputs: int, sizes: tuple[int, int]
) -> None:
    """Times whole calls and kernels; `sizes` are the bytes of values and of messages."""
    n_bytes, n_stored = sizes
    samples = clocks.wall_seconds({subject.name: encode}, context.repeat, 20, n_inputs)
    seconds = statistics.median(samples[subject.name])
    time = clocks.device_time(encode, decoding.is_ours, context.repeat)
    context.clock = time.clock
    decoding.add_kernels(context, f"{subject.name}, encoded", time, n_stored, n_bytes)
    row = {
        "subject": subject.name,
        "seconds": seconds,
        "rate": n_bytes / seconds,
        "kernel_rate": n_bytes / time.chosen,
        "ratio": n_bytes / n_stored,
        "samples": samples[subject.name],
    }
    context.results.encodes.append(row)
    told = f"kernels {row['kernel_rate'] / 1e9:.1f} GB/s"
    context.say(f"{subject.name}: encoded {row['rate'] / 1e9:.1f} GB/s, {told}")
    if subject.goal is not None:
        rate = row["rate"] / 1e9
        context.targets.judge("encode", subject.name, "whole call", rate, subject.goal, told)


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
    length = encode_message(copies[0], out=outs[0], **subject.options)
    expected = encode_message(of_host, **subject.options)
    if outs[0][:length].cpu().numpy().tobytes() != expected:
        raise AssertionError("the device has made another message than the host")
    if not subject.options and not torch.equal(decode_message(expected), of_host):
        raise AssertionError("the message has other values")

    def encode(i: int) -> int:
        return encode_message(copies[i], out=outs[i % 2], **subject.options)

    note(context, subject, clocks.turns(encode, n_copies), n_copies, (n_bytes, length))


def measure_many(context: Context, subject: Subject) -> None:
    """Encodes the tensors of a model at once."""
    of_host = list(subjects.tensors_of(subject, DEVICE).values())
    n_bytes = sum(tensor.nbytes for tensor in of_host)
    n_copies = max(2, min(8, 4 * context.cache_bytes() // n_bytes + 1))
    copies = [[tensor.to(DEVICE) for tensor in of_host] for _ in range(n_copies)]
    expected = encode_messages(of_host)
    found = encode_messages(copies[0], out="device")
    if [message.cpu().numpy().tobytes() for message in found] != expected:
        raise AssertionError("the device has made other messages than the host")

    def encode(i: int) -> list[torch.Tensor]:
        return encode_messages(copies[i], out="device")

    sizes = (n_bytes, sum(len(message) for message in expected))
    note(context, subject, clocks.turns(encode, n_copies), n_copies, sizes)


def encode_all(context: Context) -> None:
    """Measures all of them, one after another."""
    for subject in large(context.scale):
        with context.attempt("encode", subject.name):
            measure(context, subject)
    subject = many(context.scale)
    with context.attempt("encode", subject.name):
        measure_many(context, subject)
