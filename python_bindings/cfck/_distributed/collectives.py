"""Collectives of whole tensors, bit for bit."""

from __future__ import annotations

import torch
import torch.distributed as dist

from ..errors import InvalidArgumentError
from .agreement import Offer, Operation, encode_all, gather_numbers
from .arguments import check_group, check_tensor, integer
from .frames import check_dense, decode_frame, encode_frame, for_frame
from .transport import broadcast_frame, gather_frames

_MAX_DIMENSIONS = 64


def all_gather(
    tensor: torch.Tensor, *, group: dist.ProcessGroup | None = None
) -> list[torch.Tensor]:
    """Gathers a tensor of each rank on all ranks, compressed without loss.

    All ranks of the group make this call. Their tensors may have different shapes, and have the
    same dtype.

    Args:
        tensor: of any dtype of safetensors, on any device.
        group: a process group; None: that of all ranks.

    Returns:
        The tensors in the order of the ranks, each in memory of its own on the device of
        ``tensor``, bit for bit those that were sent.

    Raises:
        CfckError: on all ranks, where one could not encode its tensor, or makes another call, or
            has another dtype or version of cfck. ChecksumError and others on the rank that receives
            damaged bytes. InvalidArgumentError before init_process_group().
        TypeError: ``tensor`` is none.
        RuntimeError: those of torch.distributed.
    """

    check_tensor(tensor)

    def encode() -> list[torch.Tensor]:
        if tensor.dim() > _MAX_DIMENSIONS:
            raise InvalidArgumentError(
                f"a tensor has at most {_MAX_DIMENSIONS} dimensions, not {tensor.dim()}"
            )
        return [encode_frame(for_frame(tensor), {})]

    offer = Offer(Operation.ALL_GATHER, tensor, n_frames=1, may_differ=True)
    (frame,), lengths, _ = encode_all(offer, encode, group)
    shapes = _shapes(tensor, group)
    gathered = [torch.empty(shape, dtype=tensor.dtype, device="cpu") for shape in shapes]

    def take(frames: list[torch.Tensor]) -> None:
        for received, out in zip(frames, gathered, strict=True):
            decode_frame(received, out.view(-1))

    gather_frames(frame, [n for (n,) in lengths], group, tensor.device, take).wait()
    return [found.to(tensor.device) for found in gathered]


def _shapes(tensor: torch.Tensor, group: dist.ProcessGroup | None) -> list[list[int]]:
    padding = [0] * (_MAX_DIMENSIONS - tensor.dim())
    rows = gather_numbers([tensor.dim(), *tensor.shape, *padding], group, tensor.device)
    return [row[1 : 1 + row[0]] for row in rows]


def broadcast(
    tensor: torch.Tensor, src: int = 0, *, group: dist.ProcessGroup | None = None
) -> None:
    """Sends a tensor of one rank to all ranks, compressed without loss.

    All ranks of the group make this call, with tensors of the same dtype and number of values.

    Args:
        tensor: on rank ``src`` what is sent; on the others it is filled, bit for bit. Of any dtype
            of safetensors, on any device.
        src: a rank of the default group, as for torch.distributed.broadcast().
        group: a process group; None: that of all ranks.

    Raises:
        CfckError, TypeError, RuntimeError: as all_gather(); also where the numbers of values
            differ, or ``src`` is not in the group.
    """
    check_tensor(tensor)
    src = integer("src", src)
    check_group(group)
    is_source = dist.get_rank() == src

    def encode() -> list[torch.Tensor]:
        ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
        if src not in ranks:
            raise InvalidArgumentError(f"src is a rank of the group, one of {ranks}, not {src}")
        if is_source:
            return [encode_frame(for_frame(tensor), {})]
        _check_target(tensor)
        return [torch.empty(0, device="cpu")]

    offer = Offer(Operation.BROADCAST, tensor, n_frames=1, variant=src)
    (frame,), lengths, _ = encode_all(offer, encode, group)
    length = max(n for (n,) in lengths)
    received = broadcast_frame(frame, length, src, group, tensor.device)
    if not is_source:
        values = torch.empty(tensor.numel(), dtype=tensor.dtype, device="cpu")
        decode_frame(received, values)
        with torch.inference_mode(tensor.is_inference()), torch.no_grad():
            tensor.copy_(values.view(tensor.shape))


def _check_target(tensor: torch.Tensor) -> None:
    check_dense(tensor)
    if any(n > 1 and step == 0 for n, step in zip(tensor.shape, tensor.stride(), strict=True)):
        raise InvalidArgumentError(
            "several values of the tensor that is filled have the same memory, as expand() makes "
            "it: give a clone of it"
        )
