"""Deep gradient compression for DistributedDataParallel (docs/distributed.md).

The method is that of Lin et al., Deep Gradient Compression (ICLR 2018): each rank sends the largest
values of what its gradients have accumulated, with momentum correction and momentum factor masking.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket

from .. import _native
from .._common.callers import level_of_caller
from ..errors import InvalidArgumentError, UnsupportedError
from .agreement import Offer, Operation, device_of_wire, encode_all
from .arguments import check_flags, check_model, check_numbers
from .clipping import Clipping
from .gradients import GradientCodec, SparseGradient, unsent
from .schedule import RatioSchedule
from .traffic import Traffic
from .transport import completed, gather_frames

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class MomentumWarning(UserWarning):
    """Momentum is applied twice: by GradientCompression and by the optimizer."""


class _Accumulated:
    """What one parameter has accumulated on this rank.

    Attributes:
        name: of the parameter.
        is_matrix: whether it has two dimensions or more.
        velocity: what was not sent yet, flat, of dtype float32 on the host.
        momentum: likewise; None without momentum.
    """

    def __init__(self, name: str, parameter: nn.Parameter, has_momentum: bool) -> None:
        self.name = name
        self.is_matrix = parameter.dim() > 1
        self.velocity = torch.zeros(parameter.numel(), dtype=torch.float32, device="cpu")
        self.momentum = torch.zeros_like(self.velocity) if has_momentum else None
        self.saved: tuple[torch.Tensor, torch.Tensor | None] | None = None

    def save(self) -> None:
        """Keeps what is there, for undo()."""
        momentum = None if self.momentum is None else self.momentum.clone()
        self.saved = self.velocity.clone(), momentum

    def undo(self) -> None:
        """Takes back all since save()."""
        if self.saved is not None:
            self.velocity, self.momentum = self.saved
            self.saved = None

    def take(
        self, gradient: torch.Tensor, ratio: float, factor: float, nesterov: bool
    ) -> SparseGradient:
        """Accumulates a gradient, and returns what is to be sent."""
        n = self.velocity.numel()
        k = min(n, math.ceil(ratio * n))
        indices = torch.empty(k, dtype=torch.int32, device="cpu")
        _native.accumulate_and_select(
            gradient.data_ptr(),
            0 if self.momentum is None else self.momentum.data_ptr(),
            self.velocity.data_ptr(),
            n,
            factor,
            nesterov,
            indices.data_ptr(),
            k,
        )
        wide = indices.to(torch.int64) & 0xFFFFFFFF
        return SparseGradient(n, wide, self.velocity[wide])

    def sent(self, offered: SparseGradient, decoded: torch.Tensor, masks_momentum: bool) -> None:
        """Keeps what was not sent: the errors of values. What is not finite leaves nothing."""
        left = unsent(offered.values, decoded)
        self.velocity[offered.indices] = left
        if masks_momentum and self.momentum is not None and len(left) < self.velocity.numel():
            self.momentum[offered.indices] = 0


class GradientCompression:
    """The state of deep gradient compression on one rank.

    Register it with ``ddp.register_comm_hook(state, GradientCompression.hook)`` on all ranks. The
    optimizer is SGD without momentum, since the state has it; or, with ``momentum=0``, any other.

    Args:
        model: whose parameters DistributedDataParallel averages.
        ratio: the share of values of a tensor of two or more dimensions that is sent in a step,
            rounded up; 1.0: all of them, by an ordinary all-reduce.
        momentum: that of SGD; 0.0: what is not sent is accumulated, and nothing else (error
            feedback).
        nesterov: as torch.optim.SGD has it.
        weight_decay: added to gradients before momentum, as torch.optim.SGD does; that of the
            optimizer is then 0. Weight decay of the optimizer has no part in momentum.
        warmup_epochs: how many epochs there are in which more is sent, or the ratios in them;
            set_epoch() says which epoch it is.
        clip_value, clip_norm, clip_global_norm: clip the gradient of each tensor before it is
            accumulated, by value, by its norm on this rank, or by the root of the mean of its
            squared norms on all ranks. At most one.
        masks_momentum: momentum of values that are sent is set to 0.
        value_error: as for GradientCodec, of all values that are sent.
        vectors: how tensors of one dimension and less are sent: "quantised" (all values, within
            ``value_error``), "f16" or "dense" (an all-reduce).
        not_finite: "send" (values that are NaN or infinite are sent as they are), or "raise".
        scaler: the GradScaler of the training. What is accumulated is then in unscaled units, and
            where a gradient of any rank is not finite, all ranks take back the whole step.
        optimizer: is looked at, and warned of if it has momentum, too.
        process_group: that of the DistributedDataParallel; None: that of all ranks.

    Raises:
        CfckError: InvalidArgumentError for values out of range; UnsupportedError for parameters
            that are neither F32 nor BF16 nor F16.
        TypeError: an argument has the wrong type; it is named.
    """

    def __init__(
        self,
        model: nn.Module,
        ratio: float = 0.001,
        *,
        momentum: float = 0.9,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        warmup_epochs: int | Sequence[float] = 0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_global_norm: float | None = None,
        masks_momentum: bool = True,
        value_error: float = 0.1,
        vectors: Literal["quantised", "f16", "dense"] = "quantised",
        not_finite: Literal["send", "raise"] = "send",
        scaler: torch.amp.GradScaler | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        check_model(model)
        check_numbers(momentum=momentum, weight_decay=weight_decay)
        check_flags(nesterov=nesterov, masks_momentum=masks_momentum)
        if not 0 <= momentum < 1:
            raise InvalidArgumentError(f"momentum is at least 0 and below 1, not {momentum!r}")
        _check_word("vectors", vectors, ("quantised", "f16", "dense"))
        _check_word("not_finite", not_finite, ("send", "raise"))
        self._schedule = RatioSchedule(ratio, warmup_epochs)
        self._clipping = Clipping(clip_value, clip_norm, clip_global_norm)
        self._codec = GradientCodec(value_error)
        self._factor, self._nesterov = momentum, nesterov
        self._weight_decay = weight_decay
        self._masks_momentum, self._vectors = masks_momentum, vectors
        self._raises = not_finite == "raise"
        self._scaler, self._group = scaler, process_group
        self._epoch = 0
        self._is_undone = False
        self._tensors: dict[torch.Tensor, _Accumulated] = {}
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            if parameter.dtype not in _DTYPES:
                raise UnsupportedError(
                    f"{name} is {parameter.dtype}: gradients of F32, BF16 and F16 are compressed"
                )
            self._tensors[parameter] = _Accumulated(name, parameter, momentum > 0)
        self.traffic = Traffic()
        if optimizer is not None and momentum > 0:
            _warn_of_momentum(optimizer)

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch it is, the first one being 0: the ratio follows the warm-up."""
        self._schedule.at(epoch)
        self._epoch = epoch

    @property
    def ratio(self) -> float:
        """The share of values that is sent in this epoch."""
        return self._schedule.at(self._epoch)

    def _fingerprint(self) -> int:
        """Equal on ranks that have the same options and are in the same epoch."""
        options = (
            self.ratio,
            self._factor,
            self._nesterov,
            self._weight_decay,
            self._masks_momentum,
            self._vectors,
            self._codec.value_error,
            self._clipping,
            self._scaler is None,
        )
        return zlib.crc32(repr(options).encode())

    def describe(self) -> str:
        """A line of text: the ratio, and the bytes that this rank has sent."""
        return f"epoch {self._epoch}, ratio {self.ratio:g}: {self.traffic.describe()}"

    def hook(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """The communication hook, of DistributedDataParallel: it averages one bucket.

        Raises:
            CfckError: on all ranks, where ranks have other options, or values that are not finite
                and are not to be sent; for damaged bytes on the rank that receives them.
        """
        if bucket.index() == 0:
            self._is_undone = False
        try:
            tensors = [self._tensors[parameter] for parameter in bucket.parameters()]
        except KeyError:
            raise InvalidArgumentError(
                "the state was made for another model than the one whose gradients are averaged, "
                "or before its parameters were replaced"
            ) from None
        if self._is_undone:
            return completed(bucket.buffer().fill_(math.nan))
        step = _Step(self, tensors, bucket)
        return step.run()

    def state_dict(self) -> dict[str, Any]:
        """What this rank has accumulated, by parameter, and the epoch: for its checkpoint."""
        return {
            "epoch": self._epoch,
            "velocity": {t.name: t.velocity.clone() for t in self._tensors.values()},
            "momentum": {
                t.name: t.momentum.clone() for t in self._tensors.values() if t.momentum is not None
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state_dict() of this rank, or from what merge_states() made of several.

        Raises:
            InvalidArgumentError: it is of another model, or one with momentum is for one without.
                Nothing was changed then.
        """
        parts = {"velocity": state["velocity"], "momentum": state["momentum"]}
        for part, given in parts.items():
            own = {t.name: getattr(t, part) for t in self._tensors.values()}
            own = {name: tensor for name, tensor in own.items() if tensor is not None}
            if set(own) != set(given):
                other = ", ".join(sorted(set(own) ^ set(given))[:5])
                raise InvalidArgumentError(f"the state has other parameters in {part}: {other}")
            for name, tensor in own.items():
                if given[name].numel() != tensor.numel():
                    raise InvalidArgumentError(
                        f"{name} has {tensor.numel()} values, and in the state "
                        f"{given[name].numel()}"
                    )
        self.set_epoch(int(state["epoch"]))
        for one in self._tensors.values():
            one.velocity.copy_(parts["velocity"][one.name])
            if one.momentum is not None:
                one.momentum.copy_(parts["momentum"][one.name])

    @staticmethod
    def merge_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The state that every rank loads when their number changes, of the states of all ranks.

        Nothing is dropped: what ranks have accumulated counts by their mean, then as before.
        """
        if not states:
            raise InvalidArgumentError("there are no states to merge")
        merged: dict[str, Any] = {"epoch": states[0]["epoch"]}
        for part in ("velocity", "momentum"):
            merged[part] = {
                name: torch.stack([state[part][name].double() for state in states]).mean(0).float()
                for name in states[0][part]
            }
        return merged


# DistributedDataParallel compares these with classes, and not with their names.
GradientCompression.hook.__annotations__.clear()


class _Step:
    """One bucket of one step.

    Tensors are sent in one of two ways: some of their values in a packet, or all by an all-reduce.
    """

    def __init__(
        self, state: GradientCompression, tensors: list[_Accumulated], bucket: GradBucket
    ) -> None:
        self.state, self.tensors, self.bucket = state, tensors, bucket
        self.scale = 1.0 if state._scaler is None else float(state._scaler.get_scale())
        self.world = dist.get_world_size(state._group)
        self.is_sent = [self._is_in_packet(p) for p in bucket.parameters()]
        self.offered: list[SparseGradient] = []
        self.decoded: list[torch.Tensor] = []

    def _is_in_packet(self, parameter: torch.Tensor) -> bool:
        state = self.state
        return state.ratio < 1 and (parameter.dim() > 1 or state._vectors == "quantised")

    def run(self) -> torch.futures.Future[torch.Tensor]:
        state = self.state
        buffer: torch.Tensor = self.bucket.buffer()
        offer = Offer(Operation.GRADIENTS, buffer, n_frames=2, variant=state._fingerprint())
        agreed = encode_all(offer, self._encode, state._group)
        if any(mark for _, mark in agreed.lengths):
            for tensor in state._tensors.values():
                tensor.undo()
            state._is_undone = True
            return completed(buffer.fill_(math.nan))
        packets = [one for one, is_sent in zip(self.tensors, self.is_sent, strict=True) if is_sent]
        for one, offered, decoded in zip(packets, self.offered, self.decoded, strict=True):
            one.sent(offered, decoded, state._masks_momentum)
        results = [torch.zeros_like(one.velocity) for one in self.tensors]
        n_dense = self._reduce(results)
        frame = agreed.frames[0]
        lengths = [length for length, _ in agreed.lengths]
        n_values = sum(one.velocity.numel() for one in self.tensors)
        state.traffic.add(max(lengths) + agreed.n_bytes + n_dense, 4 * n_values)
        sums = [result for result, is_sent in zip(results, self.is_sent, strict=True) if is_sent]

        def take(frames: list[torch.Tensor]) -> None:
            for packet in frames:
                state._codec.add(packet, sums, 1 / self.world)
            self._store(results)

        def finish(done: torch.futures.Future[Any]) -> torch.Tensor:
            if isinstance(done.value(), Exception):
                raise done.value()
            return buffer

        work = gather_frames(frame, lengths, state._group, buffer.device, take)
        if self.bucket.is_last():
            for tensor in state._tensors.values():
                tensor.saved = None
        return work.get_future().then(finish)

    def _encode(self) -> list[torch.Tensor]:
        """The packet, and a mark: eight bytes where a gradient is not finite."""
        state = self.state
        gradients = self._gradients()
        # All ranks do this, whatever they have: it may communicate.
        state._clipping.apply(gradients, state._group)
        bad = [t.name for t, g in zip(self.tensors, gradients, strict=True) if not _is_finite(g)]
        if bad and state._scaler is not None:
            return [
                torch.zeros(8, dtype=torch.uint8, device="cpu"),
                torch.zeros(8, dtype=torch.uint8, device="cpu"),
            ]
        if bad and state._raises:
            raise InvalidArgumentError(f"the gradient of {bad[0]} has values that are not finite")
        for one, gradient, is_sent in zip(self.tensors, gradients, self.is_sent, strict=True):
            if state._scaler is not None:
                one.save()
            ratio = 0.0 if not is_sent else state.ratio if one.is_matrix else 1.0
            taken = one.take(gradient, ratio, state._factor, state._nesterov)
            if is_sent:
                self.offered.append(taken)
        packet, self.decoded = state._codec.encode(self.offered)
        return [packet, torch.empty(0, dtype=torch.uint8, device="cpu")]

    def _gradients(self) -> list[torch.Tensor]:
        """Copies of the gradients, flat, on the host, in unscaled units, with weight decay."""
        gradients = []
        decay = self.state._weight_decay
        pairs = zip(self.bucket.gradients(), self.bucket.parameters(), strict=True)
        for gradient, parameter in pairs:
            copied = gradient.detach().reshape(-1).to("cpu", torch.float32, copy=True)
            if self.scale != 1:
                copied.div_(self.scale)
            if decay:
                copied.add_(parameter.detach().reshape(-1).to(copied), alpha=decay)
            gradients.append(copied.contiguous())
        return gradients

    def _reduce(self, results: list[torch.Tensor]) -> int:
        """Averages what is in no packet; returns the bytes that were sent."""
        pairs = zip(self.tensors, results, self.is_sent, strict=True)
        dense = [(one, result) for one, result, is_sent in pairs if not is_sent]
        if not dense:
            return 0
        flat = torch.cat([one.velocity for one, _ in dense])
        is_half = self.state._vectors == "f16" and self.state.ratio < 1
        sent = flat.half() if is_half else flat
        left = unsent(flat, sent)
        wire = sent.to(device_of_wire(self.state._group, self.bucket.buffer().device))
        dist.all_reduce(wire, group=self.state._group)
        averages = wire.to("cpu", torch.float32).div_(self.world)
        at = 0
        for one, result in dense:
            n = result.numel()
            result.copy_(averages[at : at + n])
            one.velocity.copy_(left[at : at + n])
            at += n
        return wire.numel() * wire.element_size()

    def _store(self, results: list[torch.Tensor]) -> None:
        for gradient, result in zip(self.bucket.gradients(), results, strict=True):
            gradient.copy_(result.mul_(self.scale).view(gradient.shape))


def _is_finite(values: torch.Tensor) -> bool:
    # The sum of finite values may be infinite, and that of others never is finite.
    return math.isfinite(float(values.sum())) or bool(values.isfinite().all())


def _check_word(name: str, word: str, words: Sequence[str]) -> None:
    if word not in words:
        raise InvalidArgumentError(f"{name} is one of {', '.join(words)}, not {word!r}")


def _warn_of_momentum(optimizer: torch.optim.Optimizer) -> None:
    is_plain = isinstance(optimizer, torch.optim.SGD) and not any(
        group["momentum"] for group in optimizer.param_groups
    )
    if not is_plain:
        warnings.warn(
            f"{type(optimizer).__name__} has momentum of its own, beside that of "
            "GradientCompression: give it momentum=0, or take torch.optim.SGD without momentum",
            MomentumWarning,
            stacklevel=level_of_caller(),
        )
