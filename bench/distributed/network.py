"""Network namespaces for ranks, joined by links of a limited rate; Linux, as root.

    bridge, in the namespace of the hub
      |- veth - eth0 of rank 0        each end of a link has a token bucket (tbf): so much goes
      |- veth - eth0 of rank 1        out of a rank, and so much comes in

All of it is in namespaces of its own: nothing of the machine's own network changes, and a link ends
with its namespace.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

INTERFACE = "eth0"
_PREFIX = "cfck-bench-"
_CLONE_NEWNET = 0x40000000
# So much may be sent at once: as much as takes a millisecond, and at least some packets.
_LEAST_BURST = 16 << 10
_LATENCY = "100ms"
UNLIMITED = 100_000  # Mbit/s: more than the processor moves


class NotAllowed(Exception):
    """Namespaces cannot be made here; the message says why."""


@contextlib.contextmanager
def links(n: int) -> Iterator[list[str]]:
    """The namespaces of `n` ranks, whose links are not limited yet.

    They are removed at the end, also after errors, Ctrl-C and SIGTERM; those that a killed process
    has left are removed at the beginning.

    Raises:
        NotAllowed: there is no program `ip` or `tc`, or the user may not make namespaces.
    """
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            raise NotAllowed(f"there is no program {program}: install iproute2")
    _remove_left()
    names = [f"{_PREFIX}{os.getpid()}-{rank}" for rank in range(n)]
    hub = _hub_of(f"{_PREFIX}{os.getpid()}-0")
    with contextlib.ExitStack() as stack:
        for number, handler in _STOPPING.items():
            stack.callback(signal.signal, number, signal.signal(number, handler))
        for name in (hub, *names):
            stack.callback(_remove, name)
        stack.callback(_finish)
        _make(hub)
        _in(hub, "ip", "link", "add", "bridge", "type", "bridge")
        _in(hub, "ip", "link", "set", "bridge", "up")
        for rank, name in enumerate(names):
            _join(hub, name, rank)
        yield names


def burst_of(megabits: int) -> int:
    """Bytes that go through a link at once, where none went before."""
    return max(_LEAST_BURST, megabits * 1_000_000 // 8 // 1000)


def limit(names: list[str], megabits: int) -> None:
    """So many Mbit/s go through the links from now on; what is on its way is not lost."""
    rate = ("rate", f"{megabits}mbit", "burst", str(burst_of(megabits)), "latency", _LATENCY)
    for rank, name in enumerate(names):
        for space, device in ((_hub_of(name), _port(rank)), (name, INTERFACE)):
            _in(space, "tc", "qdisc", "replace", "dev", device, "root", "tbf", *rate)


def enter(name: str) -> None:
    """Moves the calling thread, and those that it starts, into a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/var/run/netns", name).open() as file:
        if libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns({name})")


def sent_bytes() -> int:
    """What the interface of this namespace has sent so far, headers included."""
    table = Path("/proc/thread-self/net/dev").read_text(encoding="ascii")
    found = re.search(rf"^\s*{INTERFACE}:(.*)$", table, re.M)
    if found is None:
        raise OSError(f"this namespace has no interface {INTERFACE}")
    return int(found[1].split()[8])


def _exit(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _finish() -> None:
    """What stops the process may come twice, and to all processes of its group."""
    for number in _STOPPING:
        signal.signal(number, signal.SIG_IGN)


_STOPPING = {signal.SIGTERM: _exit, signal.SIGINT: signal.default_int_handler}


def _make(name: str) -> None:
    try:
        _run("ip", "netns", "add", name)
    except RuntimeError as error:
        raise NotAllowed(
            f"network namespaces take root, or CAP_NET_ADMIN and CAP_SYS_ADMIN: {error}"
        ) from None
    _in(name, "ip", "link", "set", "lo", "up")


def _hub_of(name: str) -> str:
    return f"{name.rpartition('-')[0]}-hub"


def _port(rank: int) -> str:
    return f"port{rank}"


def _join(hub: str, name: str, rank: int) -> None:
    _make(name)
    port = _port(rank)
    _in(hub, "ip", "link", "add", port, "type", "veth", "peer", "name", INTERFACE, "netns", name)
    _in(hub, "ip", "link", "set", port, "master", "bridge", "up")
    _in(name, "ip", "address", "add", f"10.0.0.{rank + 1}/24", "dev", INTERFACE)
    _in(name, "ip", "link", "set", INTERFACE, "up")


def _remove(name: str) -> None:
    if Path("/var/run/netns", name).exists():
        _run("ip", "netns", "delete", name)


def _remove_left() -> None:
    """Removes the namespaces of processes that are no more."""
    for path in Path("/var/run/netns").glob(f"{_PREFIX}*"):
        process = path.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", process).exists():
            _remove(path.name)


def _in(name: str, *arguments: str) -> None:
    _run("ip", "netns", "exec", name, *arguments)


def _run(*arguments: str) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()}")
