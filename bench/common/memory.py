"""By how much the resident memory of this process grows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path


def _status(name: str) -> int:
    """A size in the kernel's account of this process, in bytes."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.M)
    if found is None:
        raise RuntimeError(f"/proc/self/status has no {name}")
    return int(found[1]) * 1024


def peak_growth(work: Callable[[], object]) -> int:
    """Calls ``work`` and returns by how many bytes resident memory was above its start at most."""
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    work()
    return _status("VmHWM") - before
