"""Speeds as fractions of memcpy in the same run, and where the time goes."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from bounds import peers as bounded_peers
from bounds import tally as bounds
from common import data, measure, peers
from common.product import Unavailable
from common.targets import Goal
from entropy.run import LEVELS, SPEEDS, Run

SPEED_ROW = "speed, one thread"
SPEED_COLUMNS = [
    "data", "codec", "CPU level", "direction", "median GB/s", "best GB/s", "of memcpy",
    "best of best memcpy", "memcpy GB/s",
]  # fmt: skip
PEERS = ["ZipNN", "pcodec", "OpenZL FSE"]
BOUNDED_PEER = "SZ3, no predictor"


def of_memcpy(must: float, aim: float) -> Goal:
    """A part of the speed of memcpy."""
    return Goal(must, aim, text="{:.3f}".format)


FRACTIONS = {
    ("lossless BF16", "decode"): of_memcpy(0.35, 0.5),
    ("lossless BF16", "encode"): of_memcpy(0.10, 0.2),
    ("lossless F32", "decode"): of_memcpy(0.45, 0.7),
    ("lossless F32", "encode"): of_memcpy(0.18, 0.35),
    ("direct REL 1e-3", "decode"): of_memcpy(0.5, 0.8),
    ("direct REL 1e-3", "encode"): of_memcpy(0.12, 0.25),
}
SLOWER_THAN_V4 = Goal(4, 3, smaller=True, text="{:.2f}x".format)
BASELINE_SPEED = Goal(0.2, 0.4, text="{:.2f} GB/s".format)

Seconds = dict[str, list[float]]


def speeds(run: Run) -> None:
    """Encoding and decoding of every data set at every CPU level, and by peers."""
    for label in SPEEDS:
        try:
            found = _all_levels(run, label)
        except (data.MissingData, Unavailable) as error:
            run.targets.skip(SPEED_ROW, label, str(error))
            continue
        _judge(run, label, found)
        _peers(run, label)


def _all_levels(run: Run, label: str) -> dict[str, dict[str, Any]]:
    """Samples of each CPU level, a process each, taking turns; levels this CPU lacks left out."""
    path, bound = run.weights(label)
    arguments = [*run.encoding_arguments(), "--repetitions", "3" if run.quick else "7"]
    if bound:
        arguments += ["--rel", str(bound)]
    merged: dict[str, dict[str, Any]] = {}
    for _ in range(1 if run.quick else 3):
        for level in LEVELS:
            run.say(f"speed, {label}, {level}")
            found = run.program("speed_bench", level, *arguments, path)
            if found["cpu"] != level:
                run.say(f"SKIPPED {level}: this CPU has {found['cpu']} at most")
            elif level not in merged:
                merged[level] = found
            else:
                for what in ("memcpy", "encode", "decode"):
                    merged[level][what]["seconds"] += found[what]["seconds"]
    return merged


def _judge(run: Run, label: str, found: dict[str, dict[str, Any]]) -> None:
    """Lines of the table of speeds, and the verdicts."""
    rates: dict[tuple[str, str], float] = {}
    for level, samples in found.items():
        copying = samples["memcpy"]["seconds"]
        for direction in ("decode", "encode"):
            seconds = samples[direction]["seconds"]
            where = f"cfck ({samples['entropy']})"
            row = _speed_row(label, where, level, direction, samples["decoded_bytes"],
                             seconds, copying)  # fmt: skip
            run.speeds.append(row)
            rates[level, direction] = samples["decoded_bytes"] / statistics.median(seconds) / 1e9
            if level == LEVELS[0]:
                fraction = _fraction(seconds, copying)
                told = f"{row[4]} GB/s, memcpy {row[8]} GB/s; best of both {row[7]}"
                goal = FRACTIONS[label, direction]
                what = f"{direction}, of memcpy, AVX-512"
                run.targets.judge(SPEED_ROW, label, what, fraction, goal, told)
    for direction in ("decode", "encode"):
        _judge_lower_levels(run, label, direction, rates)


def _judge_lower_levels(
    run: Run, label: str, direction: str, rates: dict[tuple[str, str], float]
) -> None:
    """AVX2 against AVX-512, and what every CPU has."""
    best, middle, least = (rates.get((level, direction)) for level in LEVELS)
    if best and middle:
        told = f"{middle:.2f} GB/s, AVX-512 {best:.2f} GB/s"
        what = f"{direction}, time of AVX2 against AVX-512"
        run.targets.judge(SPEED_ROW, label, what, best / middle, SLOWER_THAN_V4, told)
    else:
        run.targets.skip(SPEED_ROW, f"{label}, {direction}, AVX-512", "not on this CPU")
    if least:
        what = f"{direction}, baseline"
        run.targets.judge(SPEED_ROW, label, what, least, BASELINE_SPEED)


def _fraction(seconds: list[float], copying: list[float]) -> float:
    """The median of what each run is of the memcpy next to it."""
    return statistics.median(c / s for c, s in zip(copying, seconds, strict=True))


def _speed_row(
    label: str,
    codec: str,
    level: str,
    direction: str,
    n_bytes: int,
    seconds: list[float],
    copying: list[float],
) -> list[str]:
    rates = [statistics.median(seconds), min(seconds), statistics.median(copying)]
    middle, best, copied = (f"{n_bytes / rate / 1e9:.2f}" for rate in rates)
    fractions = [
        f"{part:.3f}" for part in (_fraction(seconds, copying), min(copying) / min(seconds))
    ]
    return [label, codec, level, direction, middle, best, *fractions, copied]


def _peers(run: Run, label: str) -> None:
    """What peers take for the same values, taking turns with memcpy."""
    if SPEEDS[label][1]:
        _bounded_peer(run, label)
        return
    array = run.array(label)
    found = []
    for name in PEERS:
        peer = peers.make(name, array.dtype)
        if isinstance(peer, peers.Missing):
            run.miss(name, peer.reason)
        else:
            found.append(peer)
    run.say(f"speed, {label}, peers")
    out = array.copy()
    samples: dict[str, tuple[list[float], list[float]]] = {peer.name: ([], []) for peer in found}
    copying = []
    for _ in range(2 if run.quick else 6):
        copying.append(measure.timed(np.copyto, out, array)[0].wall)
        for peer in found:
            held = peer.prepare(array)
            encode, blob = measure.timed(peer.encode, held)
            decode, _ = measure.timed(peer.decode, blob)
            for one, taken in zip(samples[peer.name], (encode, decode), strict=True):
                one.append(taken.wall)
    # The first of each is a warming run.
    for name, (encode, decode) in samples.items():
        for direction, seconds in (("decode", decode), ("encode", encode)):
            run.speeds.append(
                _speed_row(label, name, "-", direction, array.nbytes, seconds[1:], copying[1:])
            )


def _bounded_peer(run: Run, label: str) -> None:
    """SZ3, tensor by tensor."""
    peer = bounded_peers.make(BOUNDED_PEER)
    if isinstance(peer, bounded_peers.Missing):
        run.miss(BOUNDED_PEER, peer.reason)
        return
    run.say(f"speed, {label}, {peer.name}")
    bound_of = bounds.of_range(SPEEDS[label][1])
    tensors = [np.ascontiguousarray(t) for t in data.matrices(data.minilm()).values()]
    outs = [tensor.copy() for tensor in tensors]
    encode, decode, copying = [], [], []
    for _ in range(1 if run.quick else 3):
        start = time.perf_counter()
        for out, tensor in zip(outs, tensors, strict=True):
            np.copyto(out, tensor)
        copying.append(time.perf_counter() - start)
        encode.append(0.0)
        decode.append(0.0)
        for tensor in tensors:
            bound = bound_of(tensor)
            taken, blob = measure.timed(peer.encode, tensor, bound)
            encode[-1] += taken.wall
            decode[-1] += measure.timed(peer.decode, blob, tensor.shape, bound)[0].wall
    n_bytes = sum(tensor.nbytes for tensor in tensors)
    for direction, seconds in (("decode", decode), ("encode", encode)):
        run.speeds.append(_speed_row(label, peer.name, "-", direction, n_bytes, seconds, copying))
