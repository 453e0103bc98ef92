"""State that the rows of a run share."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from common.targets import Goal, Targets
from gpu import clocks
from gpu.results import Results

DEVICE = "cuda:0"
MEMORY_AIM = 32e6


def requested_bytes(which: str) -> int:
    """Bytes that PyTorch has given out on the device, without what it rounds up."""
    return int(torch.cuda.memory_stats().get(f"requested_bytes.all.{which}", 0))


@dataclass
class Context:
    """One run on one device."""

    folder: Path
    scale: float
    repeat: int
    say: Callable[[str], None]
    keep: Callable[[], None]  # writes the results so far
    results: Results = field(default_factory=Results)
    targets: Targets = field(default_factory=Targets)
    clock: str = "-"
    versions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Notes what is allocated before anything is measured; goals are for the whole."""
        self.targets.are_judged = self.scale == 1
        self.allocated = requested_bytes("current")

    @functools.cached_property
    def rates(self) -> tuple[float, float]:
        """Bytes a second of copies: from pinned memory, and on the device (read and written)."""
        n_bytes = max(1 << 20, int(self.scale * (1 << 30)))
        pinned, on_device = clocks.copy_rates(n_bytes, DEVICE, max(5, self.repeat))
        self.results.copies.update(pinned_to_device=pinned, on_device=on_device)
        self.say(f"copies: pinned {pinned / 1e9:.1f} GB/s, on the device {on_device / 1e9:.0f}")
        return pinned, on_device

    def cache_bytes(self) -> int:
        """The size of the cache of the device."""
        return int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 50 << 20))

    @contextlib.contextmanager
    def attempt(self, row: str, subject: str) -> Iterator[None]:
        """An error fails this subject, not the rest of the row; results are kept in any case."""
        try:
            yield
        except Exception as error:
            described = f"{type(error).__name__}: {error}"
            self.say(f"FAILED {row}, {subject}: {described}")
            self.targets.fail(row, subject, described)
        finally:
            torch.cuda.empty_cache()
            self.keep()

    def skip(self, row: str, name: str, reason: str) -> None:
        """Names what cannot be measured here."""
        self.say(f"skipped {name}: {reason}")
        self.targets.skip(row, name, reason)

    def extra_bytes(self, action: clocks.Action, n_resident: int, n_decoded: int) -> int:
        """The most of the device's memory that a call takes beside its result.

        `n_resident` bytes are the caller's own. What was kept by earlier calls counts as well.
        """
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        result = action()
        torch.cuda.synchronize()
        peak = requested_bytes("peak")
        del result
        return int(peak - self.allocated - n_resident - n_decoded)

    def judge_memory(self, subject: str, n_extra: int, n_decoded: int) -> None:
        """64 MB and a fiftieth of what is decoded are the most."""
        goal = Goal(64e6 + n_decoded / 50, MEMORY_AIM, True, lambda n: f"{n / 1e6:.1f} MB")
        what = "device memory beside outputs and compressed bytes"
        self.targets.judge("memory", subject, what, n_extra, goal)
