"""Bytes between ranks."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from .agreement import device_of_sums, device_of_wire


class FutureWork(dist.Work):
    """The work of a future. That of torch does not raise what the future does.

    Args:
        future: whose value is a tensor, or the error with which it failed.
    """

    def __init__(self, future: torch.futures.Future[torch.Tensor | Exception]) -> None:
        super().__init__()
        self._future = future

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Raises what went wrong; what is under way has the time limit of its group."""
        found = self._future.wait()
        if isinstance(found, Exception):
            raise found
        return True

    def is_completed(self) -> bool:
        return self._future.done()

    def get_future(self) -> torch.futures.Future[torch.Tensor | Exception]:
        return self._future


def completed(result: torch.Tensor) -> torch.futures.Future[Any]:
    """Returns a future that has its result already."""
    future: torch.futures.Future[Any] = torch.futures.Future()
    future.set_result(result)
    return future


# Is called with the frames of all ranks, on the host.
Taken = Callable[[list[torch.Tensor]], None]


def gather_frames(
    frame: torch.Tensor,
    lengths: Sequence[int],
    group: dist.ProcessGroup | None,
    device: torch.device,
    take: Taken,
) -> dist.Work:
    """Begins to send a frame to all ranks; all have the same room, that of the longest.

    Args:
        frame: of this rank, on the host.
        lengths: of the frames of all ranks.
        group: of the ranks.
        device: where the tensor of this call is.
        take: is called with the frames when they are there.

    Returns:
        The work, which is done when ``take`` is.
    """
    longest = max(lengths)
    to = device_of_wire(group, device)
    mine = torch.zeros(longest, dtype=torch.uint8, device=to)
    mine[: frame.numel()].copy_(frame)
    room = torch.empty(len(lengths) * longest, dtype=torch.uint8, device=to)
    work = dist.all_gather_into_tensor(room, mine, group=group, async_op=True)

    def finish(sent: torch.futures.Future[object]) -> torch.Tensor | Exception:
        sent.value()  # raises what went wrong
        frames = [
            part[:n] for part, n in zip(torch.split(room.cpu(), longest), lengths, strict=True)
        ]
        try:
            take(frames)
        except Exception as error:  # a future would make another one of it
            return error
        return mine

    assert work is not None
    return FutureWork(work.get_future().then(finish))


def sum_of_ranks(values: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
    """Adds up the values of all ranks; returns the sums where the values are, which stay."""
    wire = values.to(device_of_sums(group, values.device), copy=True)
    dist.all_reduce(wire, group=group)
    return wire.to(values.device)


def exchange_frames(
    frames: Sequence[torch.Tensor],
    lengths: Sequence[Sequence[int]],
    group: dist.ProcessGroup | None,
    device: torch.device,
) -> list[torch.Tensor]:
    """Sends each rank its frame, and returns those that the ranks sent this one, on the host.

    Args:
        frames: for each rank, on the host.
        lengths: of the frame that each rank sends this one.
        group: of the ranks.
        device: where the tensor of this call is.
    """
    to = device_of_wire(group, device)
    coming = [length for (length,) in lengths]
    room = torch.empty(sum(coming), dtype=torch.uint8, device=to)
    going = torch.cat([frame.to(to) for frame in frames])
    dist.all_to_all_single(room, going, coming, [f.numel() for f in frames], group=group)
    return list(torch.split(room.cpu(), coming))


def broadcast_frame(
    frame: torch.Tensor,
    length: int,
    src: int,
    group: dist.ProcessGroup | None,
    device: torch.device,
) -> torch.Tensor:
    """Returns the frame of rank ``src`` of the default group, of ``length`` bytes, on the host."""
    to = device_of_wire(group, device)
    room = (
        frame.to(to)
        if dist.get_rank() == src
        else torch.empty(length, dtype=torch.uint8, device=to)
    )
    dist.broadcast(room, src=src, group=group)
    return room.cpu()
