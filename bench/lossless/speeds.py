"""The rows about speed and memory."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import safetensors.numpy

from common import data, measure, peers
from common.measure import Seconds
from common.product import Product, Unavailable
from lossless.context import SPEED_DATASETS, SPEED_REFERENCE, Context

LARGE_BYTES = 2_000_000_000
MANY = 10_000
INSPECT_LIMIT = 0.050
MEMORY_LIMIT = 300e6
OVERHEAD_LIMIT = 64


def coding(context: Context) -> None:
    """Encoding and decoding in memory, one thread, taking turns with ZipNN alone.

    The table of all codecs has slow ones between two runs of these. Memory that was given back
    may go to the host of a virtual machine meanwhile, and whoever takes it next pays for that.
    """
    row = "lossless speed, one thread"
    for name in SPEED_DATASETS:
        try:
            product = context.require_product()
            dataset = data.build(name)
        except (data.MissingData, Unavailable) as error:
            context.skip(row, name, f"{SPEED_REFERENCE}'s", str(error))
            continue
        peer = peers.make(SPEED_REFERENCE, dataset.dtype)
        if isinstance(peer, peers.Missing):
            context.skip(row, name, f"{SPEED_REFERENCE}'s", peer.reason)
            continue
        _coding_rows(context, name, product, peer, dataset.joined())


def _coding_rows(
    context: Context, name: str, product: Product, peer: peers.Peer, array: np.ndarray
) -> None:
    own = product.array_codec()
    measure.encoded_size(own, array)
    measure.encoded_size(peer, array)
    repetitions = 3 if context.quick else 9
    times = measure.alternate_codecs([own, peer], array, repetitions)
    (encode, decode), (peer_encode, peer_decode) = times[own.name], times[peer.name]

    own_blob = own.encode(array)
    peer_blob = peer.encode(peer.prepare(array))
    out = np.empty_like(array)
    reusing = measure.alternate(
        {
            "peer": lambda: peer.decode(peer_blob),
            "own": lambda: product.decode_into(own_blob, out),
            "filling": lambda: np.full_like(array, 1),
        },
        repetitions,
    )
    if out.tobytes() != array.tobytes():
        raise measure.RoundTripError(f"cfck: {name} differs after decoding")

    judge = functools.partial(_judge_speed, context, name=name, n_bytes=array.nbytes)
    told = "for information"
    judge("lossless decode speed, one thread", decode, peer_decode, 1.5)
    judge("lossless encode speed, one thread", encode, peer_encode, 2.0)
    judge("lossless decode speed into `out=`", reusing["own"], reusing["peer"], 1.5, told)
    # What no decoder into fresh memory can beat: it clears and fills the pages too.
    judge("filling a fresh numpy array", reusing["filling"], reusing["peer"], 0.0, told)


def _judge_speed(
    context: Context,
    row: str,
    mine: Seconds,
    theirs: Seconds,
    target: float,
    asked: str = "",
    *,
    name: str,
    n_bytes: int,
) -> None:
    """cfck's time for n_bytes against ZipNN's in the same run."""
    context.judge(
        row,
        name,
        "times as fast, wall clock (processor time)",
        f"{theirs.wall / mine.wall:.2f} ({theirs.cpu / mine.cpu:.2f})",
        f"{n_bytes / mine.wall / 1e9:.2f} GB/s, {SPEED_REFERENCE} "
        f"{n_bytes / theirs.wall / 1e9:.2f} GB/s",
        asked or f"{target}x {SPEED_REFERENCE}",
        theirs.wall >= target * mine.wall,
    )


def loading(context: Context) -> None:
    """The state_dict of MiniLM out of a file in the page cache, two threads."""
    row, name, target = "load, two threads", "minilm-f32", "at least half as fast"
    try:
        product = context.require_product()
        plain = data.minilm_path()
    except (data.MissingData, Unavailable) as error:
        context.skip(row, name, target, str(error))
        return
    packed = context.scratch / "minilm.cfck"
    product.save_file(data.minilm(), packed)
    repetitions = 3 if context.quick else 15
    _load_row(context, "numpy", repetitions, numpy_loaders(product, plain, packed))
    try:
        loaders = torch_loaders(product, plain, packed)
    except ImportError as error:
        context.skip(row, f"{name}, torch", target, f"no torch ({error})")
    else:
        _load_row(context, "torch", repetitions, loaders)
    packed.unlink()


Loaders = dict[str, Callable[[], object]]


def numpy_loaders(product: Product, plain: Path, packed: Path) -> Loaders:
    """Both ways to load a file into numpy."""
    return {
        "safetensors": lambda: safetensors.numpy.load_file(plain, backend="pread"),
        "cfck": lambda: product.load_file(packed, threads=2),
    }


def torch_loaders(product: Product, plain: Path, packed: Path) -> Loaders:
    """Both ways to load a file into torch; raises ImportError without it."""
    import safetensors.torch
    import torch  # noqa: F401

    return {
        "safetensors": lambda: safetensors.torch.load_file(plain, backend="pread"),
        "cfck": lambda: product.load_file_torch(packed, threads=2),
    }


def _load_row(context: Context, package: str, repetitions: int, loaders: Loaders) -> None:
    times = measure.alternate(loaders, repetitions)
    own, peer = times["cfck"], times["safetensors"]
    context.judge(
        "load, two threads",
        f"minilm-f32, {package}",
        "times as fast, wall clock (processor time)",
        f"{peer.wall / own.wall:.2f} ({peer.cpu / own.cpu:.2f})",
        f"{own.wall * 1e3:.1f} ms, safetensors (pread) {peer.wall * 1e3:.1f} ms",
        "at least half as fast",
        own.wall <= 2 * peer.wall,
    )


def memory(context: Context) -> None:
    """Peak memory of the converter, both ways, on a file far larger than the limit."""
    row, target = "peak memory of cfck convert", "under 300 MB"
    label = f"{LARGE_BYTES / 1e9:.0f} GB of scaled MiniLM copies"
    if context.quick:
        context.skip(row, label, target, "not in a quick run")
        return
    try:
        convert = context.require_product().program("cfck-convert")
        if shutil.disk_usage(context.scratch).free < 4 * LARGE_BYTES:
            raise data.MissingData(f"needs {4 * LARGE_BYTES / 1e9:.0f} GB of free disk")
        model = data.minilm()
    except (data.MissingData, Unavailable) as error:
        context.skip(row, label, target, str(error))
        return
    plain, packed = context.scratch / "large.safetensors", context.scratch / "large.cfck"
    back = context.scratch / "large-back.safetensors"
    try:
        data.write_large(plain, model, LARGE_BYTES)
        for what, source, made in (("there", plain, packed), ("back", packed, back)):
            run = measure.run_program([convert, "--quiet", source, made])
            value = f"{run.peak_bytes / 1e6:.0f} MB"
            speed = (
                f"{plain.stat().st_size / run.wall / 1e9:.2f} GB/s, {made.stat().st_size:,} bytes"
            )
            passed = run.peak_bytes < MEMORY_LIMIT
            context.judge(row, f"{label}, {what}", "peak memory", value, speed, target, passed)
    finally:
        for path in (plain, packed, back):
            path.unlink(missing_ok=True)


def inspecting(context: Context) -> None:
    """`cfck show` of a file with many tensors, from start to exit."""
    row, label, target = "cfck show", f"{MANY:,} tensors of 384 F32", "under 50 ms"
    try:
        product = context.require_product()
        inspect = product.program("cfck-inspect")
    except Unavailable as error:
        context.skip(row, label, target, str(error))
        return
    path = context.scratch / "many.cfck"
    product.save_file(data.many_small(MANY), path)
    for what, options in (("text", []), ("JSON", ["--json"])):
        actions = [measure.run_program([inspect, "show", *options, path]) for _ in range(12)]
        wall = measure.median([Seconds(run.wall, run.cpu) for run in actions[1:]]).wall
        context.judge(
            row,
            f"{label}, {what}",
            "wall clock",
            f"{wall * 1e3:.1f} ms",
            "-",
            target,
            wall < INSPECT_LIMIT,
        )
    path.unlink()


def overhead(context: Context) -> None:
    """What a tensor costs in the file beyond its bytes and its name."""
    row, label, target = "cost of a tensor", f"{MANY:,} tensors of 384 F32, raw", "under 64 bytes"
    try:
        product = context.require_product()
    except Unavailable as error:
        context.skip(row, label, target, str(error))
        return
    path = context.scratch / "many.cfck"
    tensors = data.many_small(MANY)
    product.save_file(tensors, path, codec="raw")
    payload = sum(len(name.encode()) + tensor.nbytes for name, tensor in tensors.items())
    each = (path.stat().st_size - payload) / len(tensors)
    plain = len(safetensors.numpy.save(tensors)) - payload
    context.judge(
        row,
        label,
        "bytes beyond data and name",
        f"{each:.1f}",
        f"safetensors {plain / len(tensors):.1f}",
        target,
        each < OVERHEAD_LIMIT,
    )
    path.unlink()
