"""Row `nvcomp`: the codecs of nvCOMP on the values of the large files.

They take the same bytes, in chunks of their default size, and check no hashes.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable
from typing import Any

import torch

from gpu import clocks, loaders, subjects
from gpu.context import DEVICE, Context
from gpu.subjects import Subject

PACKAGE = "nvidia-nvcomp-cu13"


def variants(dtype: torch.dtype) -> dict[str, dict[str, Any]]:
    """The codecs by name, and how each is made."""
    typed = {2: "<f2", 4: "<f4"}[dtype.itemsize]
    return {
        "ANS": {"algorithm": "ANS"},
        f"ANS, values as {typed}": {"algorithm": "ANS", "data_type": typed},
        "LZ4": {"algorithm": "LZ4"},
    }


def decoder(codec: Any, encoded: list[Any], values: torch.Tensor) -> Callable[[int], Any]:
    """Decodes one of the inputs, into memory of ours where the codec takes it."""
    config = codec.decompression_config(encoded[0])
    outs = [torch.empty_like(values) for _ in encoded]

    def decode_into(i: int) -> None:
        codec.decode(encoded[i], out=outs[i], decompression_config=config)

    def decode(i: int) -> Any:
        return codec.decode(encoded[i], decompression_config=config)

    with contextlib.suppress(Exception):
        decode_into(0)
        torch.cuda.synchronize()
        if torch.equal(outs[0], values):
            return decode_into
    found = torch.as_tensor(decode(0), device=DEVICE)
    torch.cuda.synchronize()
    if not torch.equal(found.view(torch.uint8), values):
        raise ValueError("the decoded values differ")
    return decode


def measure(
    context: Context, subject: Subject, values: torch.Tensor, name: str, options: dict[str, Any]
) -> None:
    """One codec on the bytes of all values."""
    from nvidia import nvcomp

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        codec = nvcomp.Codec(cuda_stream=stream.cuda_stream, **options)
        encoded = [codec.encode(nvcomp.as_array(values)) for _ in range(2)]
        stream.synchronize()  # sizes are known when it is done
        n_stored = int(encoded[0].buffer_size)
        call = clocks.turns(decoder(codec, encoded, values), len(encoded))
        seconds = statistics.median(clocks.wall_seconds({name: call}, context.repeat, 4, 3)[name])
        time = clocks.device_time(call, lambda _: True, context.repeat)
    row = {
        "subject": subject.name,
        "codec": name,
        "ratio": values.numel() / n_stored,
        "kernel_rate": values.numel() / time.chosen,
        "call_rate": values.numel() / seconds,
        "decoded_bytes": values.numel(),
        "stored_bytes": n_stored,
        "clock": time.clock,
    }
    context.results.codecs.append(row)
    rates = f"{row['kernel_rate'] / 1e9:.1f} GB/s"
    context.targets.tell("nvcomp", subject.name, "decode, kernels", rates, name)
    context.say(f"{subject.name}: {name} {rates}, {row['ratio']:.3f} times smaller")


def measure_all(context: Context) -> None:
    """Every codec on the lossless files of 1 GB."""
    context.versions[PACKAGE] = loaders.version(PACKAGE)
    for subject in subjects.large(context.scale)[:2]:
        tensors = subjects.tensors_of(subject, DEVICE)
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors.values()])
        values = flat.view(torch.uint8).to(DEVICE)
        del tensors, flat
        for name, options in variants(subject.dtype).items():
            try:
                measure(context, subject, values, name, options)
            except Exception as error:  # whatever a peer does, the rest is measured
                context.skip(
                    "nvcomp", f"{subject.name}, {name}", f"{type(error).__name__}: {error}"
                )
            torch.cuda.empty_cache()
            context.keep()
