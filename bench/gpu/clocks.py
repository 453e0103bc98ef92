"""Times of work on a device: whole calls by the wall clock, kernels as CUPTI records them.

Without a profiler the time between two CUDA events around the call stands for its kernels.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Action = Callable[[], Any]
MIN_SAMPLES = 3


@dataclass(frozen=True)
class Work:
    """One kernel or copy on the device: its name, and when it ran, in seconds."""

    name: str
    start: float
    stop: float


@dataclass(frozen=True)
class KernelTime:
    """Launches of a kernel in one call and the time of all of them, the median of the calls."""

    launches: int
    seconds: float


@dataclass(frozen=True)
class DeviceTime:
    """The time of a call on the device, medians of several calls, in seconds.

    Work that overlaps counts once in `chosen`, of the kernels asked for, and in `everything`.
    """

    chosen: float
    everything: float
    kernels: Mapping[str, KernelTime]
    clock: str


def turns(action_of: Callable[[int], Any], n_inputs: int) -> Action:
    """An action that takes its inputs in turn and keeps as many results.

    What it reads and what it writes were then not touched for so long that neither is in the cache
    of the device.
    """
    numbers = itertools.cycle(range(n_inputs))
    results: deque[Any] = deque(maxlen=n_inputs)
    return lambda: results.append(action_of(next(numbers)))


def wall_seconds(
    ways: Mapping[str, Action], repeat: int, limit: float = 20, n_warm: int = 1
) -> dict[str, list[float]]:
    """Samples of each way, which take turns; the first `n_warm` rounds do not count.

    After `limit` seconds three samples of each are enough.
    """
    samples: dict[str, list[float]] = {name: [] for name in ways}
    began = time.perf_counter()
    for turn in range(n_warm + repeat):
        if turn >= n_warm + MIN_SAMPLES and time.perf_counter() - began > limit:
            break
        for name, way in ways.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            result = way()
            torch.cuda.synchronize()
            if turn >= n_warm:
                samples[name].append(time.perf_counter() - start)
            del result
    return samples


def event_seconds(action: Action, repeat: int) -> float:
    """The median time between two CUDA events around an action on the current stream."""
    samples = []
    for turn in range(repeat + 1):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        result = action()
        stop.record()
        torch.cuda.synchronize()
        if turn:
            samples.append(start.elapsed_time(stop) / 1e3)
        del result
    return statistics.median(samples)


def recorded(action: Action) -> list[Work]:
    """Kernels and copies of the device in one call."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        result = action()
        torch.cuda.synchronize()
    del result
    return [
        Work(event.name, event.time_range.start / 1e6, event.time_range.end / 1e6)
        for event in profiler.events() or []
        if event.device_type == DeviceType.CUDA
    ]


def busy(work: Sequence[Work]) -> float:
    """The time in which at least one of these runs."""
    total, until = 0.0, float("-inf")
    for one in sorted(work, key=lambda one: one.start):
        total += max(0.0, one.stop - max(one.start, until))
        until = max(until, one.stop)
    return total


def _kernel_times(calls: Sequence[Sequence[Work]]) -> dict[str, KernelTime]:
    sums: dict[str, list[float]] = defaultdict(list)
    launches: dict[str, int] = {}
    for call in calls:
        groups = defaultdict(list)
        for one in call:
            groups[one.name].append(one.stop - one.start)
        for name, times in groups.items():
            sums[name].append(sum(times))
            launches[name] = len(times)
    return {
        name: KernelTime(launches[name], statistics.median(times)) for name, times in sums.items()
    }


def device_time(action: Action, is_chosen: Callable[[str], bool], repeat: int) -> DeviceTime:
    """The times of the device in a call, recorded call by call."""
    try:
        calls = [recorded(action) for _ in range(repeat + 1)][1:]
        chosen = [[one for one in call if is_chosen(one.name)] for call in calls]
        if not all(chosen):
            raise RuntimeError("it recorded no kernels")
    except Exception as error:  # CUPTI may be missing, or refused
        seconds = event_seconds(action, repeat)
        clock = f"CUDA events, since the profiler cannot be used: {type(error).__name__}: {error}"
        return DeviceTime(seconds, seconds, {}, clock)
    return DeviceTime(
        statistics.median(busy(call) for call in chosen),
        statistics.median(busy(call) for call in calls),
        _kernel_times(calls),
        "profiler",
    )


def copy_rates(n_bytes: int, device: str, repeat: int) -> tuple[float, float]:
    """Bytes a second: from pinned memory to the device, and on the device, read and written."""
    host = torch.empty(n_bytes, dtype=torch.uint8, pin_memory=True)
    one = torch.empty(n_bytes, dtype=torch.uint8, device=device)
    other = torch.empty_like(one)
    one.random_(0, 256)
    host.copy_(one)
    other.copy_(one)
    to_device = event_seconds(lambda: one.copy_(host, non_blocking=True), repeat)
    on_device = event_seconds(lambda: other.copy_(one, non_blocking=True), repeat)
    return n_bytes / to_device, 2 * n_bytes / on_device
