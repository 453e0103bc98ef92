"""Ranks tell each other what they are about to send, so that all go on or all raise."""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist

from ..errors import CfckError, InvalidArgumentError
from .arguments import check_group

# The version of frames and of what is agreed on.
_PROTOCOL = 2
# A rank says this in place of lengths when it could not encode.
_FAILED = -1
# Rows of all calls are equally long, so that ranks that make different calls can read each other's:
# a rank is told the lengths of at most so many frames.
_N_LENGTHS = 2


class Operation(enum.IntEnum):
    """What ranks do together; all must do the same."""

    ALL_GATHER = 1
    BROADCAST = 2
    ALL_GATHER_INTO = 3
    REDUCE_SCATTER = 4
    GRADIENTS = 5
    LOCAL_STEPS = 6
    ROWS = 7
    ROW_IDS = 8
    ROW_GRADIENTS = 9


class Offer(NamedTuple):
    """What one rank is about to do.

    Attributes:
        operation: of all ranks.
        tensor: of this rank; dtype, number of values and device count.
        n_frames: how many frames it sends to each rank, at most 2, as all ranks do; None: one to
            each rank, and to each another one.
        variant: of the operation, which must be the same everywhere.
        may_differ: whether ranks may have tensors of different sizes.
    """

    operation: Operation
    tensor: torch.Tensor
    n_frames: int | None
    variant: int = 0
    may_differ: bool = False


class Agreed(NamedTuple):
    """What ranks have told each other.

    Attributes:
        frames: of this rank.
        lengths: of the frames that each rank sends this one.
        n_bytes: what telling it took this rank.
    """

    frames: list[torch.Tensor]
    lengths: list[list[int]]
    n_bytes: int


def agree(offer: Offer, group: dist.ProcessGroup | None) -> int:
    """Finds out that all ranks are about to do the same, where encoding needs the other ranks.

    Returns:
        How many bytes that took this rank.

    Raises:
        InvalidArgumentError: on all ranks, where one is about to do something else.
    """
    rows = _tell(offer, [[]] * dist.get_world_size(group), group)
    _check(rows, offer, dist.get_rank(group))
    return 8 * len(rows[0])


def encode_all(
    offer: Offer, encode: Callable[[], list[torch.Tensor]], group: dist.ProcessGroup | None
) -> Agreed:
    """Encodes the frames of this rank, and tells the others how long they are.

    Raises:
        InvalidArgumentError: there is no process group yet, or this rank is not in it.
        CfckError: on all ranks, where one could not encode, or they do not do the same. The one
            that could not raises what ``encode`` did.
    """
    check_group(group)
    frames: list[torch.Tensor] = []
    error: Exception | None = None
    try:
        frames = encode()
    except Exception as found:
        error = found
    n_ranks = dist.get_world_size(group)
    n_each = 1 if offer.n_frames is None else offer.n_frames
    lengths = [frame.numel() for frame in frames]
    if error is not None:
        told = [[_FAILED] * n_each] * n_ranks
    else:
        told = [[one] for one in lengths] if offer.n_frames is None else [lengths] * n_ranks
    rows = _tell(offer, told, group)
    if error is not None:
        raise error
    _check(rows, offer, dist.get_rank(group))
    return Agreed(frames, [row[-_N_LENGTHS:][:n_each] for row in rows], 8 * len(rows[0]))


def confirm_all(
    finish: Callable[[], object],
    what: str,
    group: dist.ProcessGroup | None,
    device: torch.device,
) -> int:
    """Does something, and tells the other ranks whether it worked.

    Args:
        finish: raises a CfckError where it does not work.
        what: it is, for the errors of the other ranks.

    Returns:
        How many bytes that took this rank.

    Raises:
        CfckError: on all ranks, where it did not work on one.
    """
    error: CfckError | None = None
    try:
        finish()
    except CfckError as found:
        error = found
    rows = gather_numbers([int(error is None)], group, device)
    if error is not None:
        raise error
    for rank, (worked,) in enumerate(rows):
        if not worked:
            raise CfckError(f"rank {rank} could not {what}; its own error says why")
    return 8


def _tell(
    offer: Offer, lengths: Sequence[Sequence[int]], group: dist.ProcessGroup | None
) -> list[list[int]]:
    """Tells each rank what this one is about to do; returns what each rank told this one.

    Every rank is sent a row of its own: one trip to all of them, where rings take one after
    the other, and where lengths of all frames of all ranks would have to follow.
    """
    check_group(group)
    dtype = zlib.crc32(str(offer.tensor.dtype).encode())
    numbers = [_PROTOCOL, offer.operation, offer.variant, dtype, offer.tensor.numel()]
    rows = [[*numbers, *[*of_rank, *[0] * _N_LENGTHS][:_N_LENGTHS]] for of_rank in lengths]
    to = device_of_wire(group, offer.tensor.device)
    going = torch.tensor(rows, dtype=torch.int64, device=to)
    coming = torch.empty_like(going)
    dist.all_to_all_single(coming, going, group=group)
    found: list[list[int]] = coming.tolist()
    return found


def _check(rows: list[list[int]], offer: Offer, own_rank: int) -> None:
    own = rows[own_rank]
    for rank, row in enumerate(rows):
        if row[0] != own[0]:
            raise InvalidArgumentError(
                f"rank {rank} sends frames of version {row[0]}, and rank {own_rank} of version "
                f"{own[0]}: install the same version of cfck on all"
            )
        if row[1] != own[1]:
            raise InvalidArgumentError(
                f"ranks {own_rank} and {rank} do not make the same call: {_called(own)} and "
                f"{_called(row)}"
            )
        if row[2] != own[2]:
            raise InvalidArgumentError(
                f"ranks {own_rank} and {rank} do not make the same call: {_called(own)} with other "
                "arguments, such as src, max_error, ratio, every, epoch, step, model, bounds or "
                "iteration, or backward() of another"
            )
        if row[3] != own[3]:
            raise InvalidArgumentError(
                f"rank {own_rank} has values of {offer.tensor.dtype}, and rank {rank} of another "
                "dtype"
            )
        if not offer.may_differ and row[4] != own[4]:
            raise InvalidArgumentError(
                f"rank {own_rank} has {own[4]} values, and rank {rank} has {row[4]}"
            )
        if _FAILED in row[5:]:
            raise CfckError(
                f"rank {rank} could not encode what it was to send; its own error says why"
            )


def _called(row: list[int]) -> str:
    known = {int(operation): operation.name.lower() for operation in Operation}
    return known.get(row[1], "another operation")


def gather_numbers(
    own: Sequence[int], group: dist.ProcessGroup | None, device: torch.device
) -> list[list[int]]:
    """The numbers of all ranks, equally many of each."""
    to = device_of_wire(group, device)
    mine = torch.tensor(own, dtype=torch.int64, device=to)
    all_of_them = mine.new_empty(dist.get_world_size(group) * len(own))
    dist.all_gather_into_tensor(all_of_them, mine, group=group)
    flat = all_of_them.tolist()
    return [flat[at : at + len(own)] for at in range(0, len(flat), len(own))]


def device_of_wire(group: dist.ProcessGroup | None, device: torch.device) -> torch.device:
    """Where bytes have to be to be sent: on the host, if the group can send from there."""
    host = torch.device("cpu")
    return host if _sends_from(host, group) else device


def device_of_sums(group: dist.ProcessGroup | None, device: torch.device) -> torch.device:
    """Where values have to be to be added up: where they are, if the group can send from there."""
    return device if _sends_from(device, group) else torch.device("cpu")


def _sends_from(device: torch.device, group: dist.ProcessGroup | None) -> bool:
    try:
        (group or dist.group.WORLD)._get_backend(device)  # type: ignore[union-attr]
    except RuntimeError:
        return False
    return True
