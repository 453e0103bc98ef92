"""The collectives of FSDP2, compressed (docs/distributed.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from .._options.kinds import MessageOptions
from ..errors import InvalidArgumentError, UnsupportedError
from .agreement import Offer, Operation, encode_all
from .arguments import check_numbers
from .frames import decode_frame, encode_frame, for_frame, on_host
from .gradients import unsent
from .traffic import Traffic
from .transport import FutureWork, completed, exchange_frames, gather_frames

# Smaller tensors are sent as they are: to agree on lengths takes longer than is saved.
_MIN_BYTES = 1 << 14

# The dtype in which gradients are summed.
_GRADIENTS = {
    torch.float64: torch.float64,
    torch.float32: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
}


class _Collective:
    """What both collectives have.

    Attributes:
        traffic: what was sent from this rank.
    """

    def __init__(self) -> None:
        self.traffic = Traffic()

    def allocate(
        self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        """Memory for one call, as FSDP2 asks for it."""
        return torch.empty(*size, dtype=dtype, device=device)


class CompressedAllGather(_Collective):
    """The all-gather of weights, compressed without loss: what arrives is the same bit for bit.

    For ``set_custom_all_gather()`` of modules that fully_shard() has wrapped, on all ranks; one
    object may serve several modules. Weights on a CUDA device are encoded there (docs/devices.md
    says which), all others on the host, where bytes are decoded; they are sent from the device
    where its process group cannot send from the host.
    """

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        async_op: bool = False,
    ) -> dist.Work | None:
        """Gathers the inputs of all ranks, one after the other, in ``output_tensor``.

        With ``async_op`` everything is encoded when this returns, and decoded when the work is
        done.

        Raises:
            CfckError: as cfck.distributed.all_gather().
        """
        n_bytes = _n_bytes(input_tensor)
        if n_bytes < _MIN_BYTES or group.size() == 1:
            return self._send_dense(output_tensor, input_tensor, group, async_op, 0)
        offer = Offer(Operation.ALL_GATHER_INTO, input_tensor, n_frames=1)
        agreed = encode_all(offer, lambda: [encode_frame(for_frame(input_tensor), {})], group)
        lengths = [length for (length,) in agreed.lengths]
        if max(lengths) >= n_bytes:
            return self._send_dense(output_tensor, input_tensor, group, async_op, agreed.n_bytes)
        self.traffic.add(max(lengths) + agreed.n_bytes, n_bytes)
        outputs = output_tensor.view(-1).chunk(group.size())

        def take(frames: list[torch.Tensor]) -> None:
            for rank, frame in enumerate(frames):
                if rank != group.rank():
                    _decode_into(frame, outputs[rank])
                elif outputs[rank].data_ptr() != input_tensor.data_ptr():
                    outputs[rank].copy_(input_tensor.view(-1))

        work = gather_frames(agreed.frames[0], lengths, group, input_tensor.device, take)
        if async_op:
            return work
        work.wait()
        return None

    def _send_dense(
        self,
        output: torch.Tensor,
        values: torch.Tensor,
        group: dist.ProcessGroup,
        async_op: bool,
        n_agreed: int,
    ) -> dist.Work | None:
        self.traffic.add(_n_bytes(values) + n_agreed, _n_bytes(values))
        return dist.all_gather_into_tensor(output, values, group=group, async_op=async_op)


class CompressedReduceScatter(_Collective):
    """The reduce-scatter of gradients, compressed.

    For ``set_custom_reduce_scatter()`` of one module that fully_shard() has wrapped, on all ranks.
    Every rank sends each other rank its part; who receives them decodes the parts and adds them in
    the order of the ranks, in F32 (F64 for F64), so that the result does not depend on timing.

    Args:
        max_error: the most by which a value that is sent may differ from that of the gradient, as a
            fraction of the root mean square of the part that it is in; 0.0: no bit is lost. What
            was lost is added to the gradients of the next call (error feedback), which takes memory
            of 4 bytes (8 for F64) for each value of the whole gradient.

    Raises:
        InvalidArgumentError: ``max_error`` is negative, or not finite.
        TypeError: it is no number.
    """

    def __init__(self, max_error: float = 0.0) -> None:
        super().__init__()
        check_numbers(max_error=max_error)
        if not (math.isfinite(max_error) and max_error >= 0):
            raise InvalidArgumentError(f"max_error is 0.0 or a positive number, not {max_error!r}")
        self._max_error = float(max_error)
        self._residual: torch.Tensor | None = None

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> dist.Work | None:
        """Sums, or averages, part r of the inputs of all ranks on rank r.

        Raises:
            CfckError: as cfck.distributed.all_gather(); UnsupportedError for another ``op`` than
                SUM and AVG, and for other gradients than F64, F32, BF16 and F16.
        """
        if op not in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            raise UnsupportedError(
                f"gradients are summed or averaged, and not combined by {op}; with a factor of "
                "set_gradient_divide_factor(), call set_force_sum_reduction_for_comms(True)"
            )
        if input_tensor.dtype not in _GRADIENTS:
            raise UnsupportedError(f"gradients of {input_tensor.dtype} cannot be summed exactly")
        own = group.rank()
        parts: list[torch.Tensor] = []

        def encode() -> list[torch.Tensor]:
            parts.extend(self._parts(input_tensor, output_tensor.numel(), group.size()))
            return [
                torch.empty(0, dtype=torch.uint8, device=part.device)
                if rank == own
                else self._encode(part)
                for rank, part in enumerate(parts)
            ]

        is_lossy = int(self._max_error > 0)
        offer = Offer(Operation.REDUCE_SCATTER, input_tensor, n_frames=None, variant=is_lossy)
        agreed = encode_all(offer, encode, group)
        frames = agreed.frames
        n_others = _n_bytes(input_tensor) * (len(parts) - 1) // len(parts)
        n_sent = sum(frame.numel() for frame in frames)
        self.traffic.add(n_sent + agreed.n_bytes * (len(parts) - 1), n_others)
        received = exchange_frames(frames, agreed.lengths, group, input_tensor.device)
        total = self._sum(on_host(parts[own]), received, own)
        if op == dist.ReduceOp.AVG:
            total /= len(parts)
        output_tensor.copy_(total.view(output_tensor.shape))
        self._keep(parts, frames, own)
        return FutureWork(completed(output_tensor)) if async_op else None

    def state_dict(self) -> dict[str, torch.Tensor]:
        """What this rank lost and has not sent yet; empty without ``max_error``."""
        return {} if self._residual is None else {"residual": self._residual.clone()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Goes on from a state_dict() of this rank. Raises InvalidArgumentError for another."""
        unknown = set(state) - {"residual"}
        if unknown or (state and not self._max_error):
            raise InvalidArgumentError(
                f"this is no state of a reduce-scatter with max_error={self._max_error}: it has "
                f"{', '.join(sorted(state))}"
            )
        self._residual = state["residual"].clone() if state else None

    def _parts(self, gradient: torch.Tensor, n_own: int, n: int) -> list[torch.Tensor]:
        """What is to be sent to each rank: on the host, or on the device that encodes it."""
        if gradient.numel() != n * n_own:
            raise InvalidArgumentError(
                f"{n} ranks get {n_own} values each, and the gradient has {gradient.numel()}"
            )
        values = on_host(gradient) if self._max_error else for_frame(gradient)
        if self._max_error:
            values = values.to(_GRADIENTS[gradient.dtype])
            if self._residual is not None:
                if self._residual.shape != values.shape:
                    raise InvalidArgumentError(
                        f"a gradient of {values.numel()} values follows one of "
                        f"{self._residual.numel()}: each module needs a reduce-scatter of its own"
                    )
                values = values + self._residual
        return list(torch.split(values, n_own)) if n_own else [values] * n

    def _encode(self, part: torch.Tensor) -> torch.Tensor:
        options: MessageOptions = {}
        bound = self._max_error * _root_mean_square(part) if self._max_error else 0.0
        if bound > 0:
            options["max_abs_error"] = bound
        return encode_frame(part, options)

    def _sum(self, own: torch.Tensor, received: list[torch.Tensor], own_rank: int) -> torch.Tensor:
        total: torch.Tensor | None = None
        for rank, frame in enumerate(received):
            values = own if rank == own_rank else _decoded(frame, own)
            exact = values.to(_GRADIENTS[own.dtype])
            total = exact.clone() if total is None else total.add_(exact)
        assert total is not None
        return total

    def _keep(self, parts: list[torch.Tensor], frames: list[torch.Tensor], own_rank: int) -> None:
        """What the other ranks did not get, for the next call."""
        if not self._max_error:
            return
        lost = []
        for rank, (part, frame) in enumerate(zip(parts, frames, strict=True)):
            is_own = rank == own_rank
            lost.append(torch.zeros_like(part) if is_own else unsent(part, _decoded(frame, part)))
        self._residual = torch.cat(lost)


def _root_mean_square(values: torch.Tensor) -> float:
    """Of the finite ones; 0.0 where there are none."""
    norm = float(torch.linalg.vector_norm(values, dtype=torch.float64))
    if not math.isfinite(norm):
        values = values[values.isfinite()]
        norm = float(torch.linalg.vector_norm(values, dtype=torch.float64))
    return norm / math.sqrt(len(values)) if len(values) else 0.0


def _n_bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _decoded(frame: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    values = torch.empty_like(like)
    decode_frame(frame, values)
    return values


def _decode_into(frame: torch.Tensor, out: torch.Tensor) -> None:
    if out.device.type == "cpu":
        decode_frame(frame, out)
    else:
        out.copy_(_decoded(frame, torch.empty(out.shape, dtype=out.dtype, device="cpu")))
