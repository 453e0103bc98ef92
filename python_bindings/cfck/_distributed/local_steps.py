"""Training with few rounds of communication (docs/distributed.md).

Ranks train on their own for some steps, and then apply the average of what they have changed:
DiLoCo (Douillard et al., 2023), with outer updates that are sparse and have few bits, and error
feedback in place of outer momentum, as SparseLoCo has it (Sarfi et al., 2025).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ..errors import InvalidArgumentError
from .agreement import Offer, Operation, agree, confirm_all, encode_all
from .arguments import check_group, check_model, check_numbers, integer, trained_parameters
from .collectives import broadcast
from .gradients import GradientCodec, SparseGradient, add_packets, chosen, unsent
from .selection import largest_of_rows
from .states import check_state
from .traffic import Traffic
from .transport import gather_frames

# The largest values are chosen in each chunk, so that every part of a tensor moves.
_CHUNK = 4096


class LocalSteps:
    """Lets ranks train on their own, and meet after some steps.

    All ranks make one for their replica, which is no DistributedDataParallel; parameters and
    buffers of rank 0 are sent to all. After each step of the optimizer, whichever it is, all call
    step(). What is kept is in F32, three values for each parameter, on the device where the
    parameters are when this is made.

    Args:
        model: this rank's replica, with parameters of F32, BF16 or F16.
        every: how many steps ranks train on their own.
        ratio: the share of values that is sent at a meeting, of each 4096 values of a tensor; 1.0:
            all of them.
        bits: about how many bits a value takes, beside its place: values are sent within 2 / 2^bits
            of the root mean square of those that are sent of the tensor. None: no bit is lost.
        outer_lr: by how much of the average of all changes the weights move.
        outer_momentum: of these averages; 0.0 where what is not sent is kept (``decay``).
        decay: how much of what was not sent counts at the next meeting, 1.0: all of it.
        process_group: None: that of all ranks.

    Attributes:
        traffic: what this rank has sent, beside one dense gradient of F32 for each step.

    Raises:
        CfckError: InvalidArgumentError for values out of range; UnsupportedError for other dtypes;
            on all ranks, where their models differ. InvalidArgumentError before
            init_process_group().
        TypeError: an argument has the wrong type; it is named.
    """

    def __init__(
        self,
        model: nn.Module,
        every: int = 30,
        *,
        ratio: float = 0.02,
        bits: int | None = 2,
        outer_lr: float = 1.0,
        outer_momentum: float = 0.0,
        decay: float = 0.95,
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        check_model(model)
        if isinstance(model, DistributedDataParallel):
            raise InvalidArgumentError(
                "the model is wrapped by DistributedDataParallel, which averages gradients in each "
                "step: train without it, or give its module, where it averages in another group"
            )
        every = integer("every", every)
        bits = None if bits is None else integer("bits", bits)
        check_numbers(ratio=ratio, outer_lr=outer_lr, outer_momentum=outer_momentum, decay=decay)
        _check(every, ratio, bits, outer_momentum, decay)
        if not (math.isfinite(outer_lr) and outer_lr > 0):
            raise InvalidArgumentError(f"outer_lr is a positive number, not {outer_lr!r}")
        check_group(process_group)
        self._every, self._ratio = every, ratio
        self._outer_lr, self._outer_momentum, self._decay = outer_lr, outer_momentum, decay
        self._codec = GradientCodec(0.0 if bits is None else 2.0 / 2**bits)
        self._group = process_group
        self._n_steps = 0
        self._model, self._parameters = model, trained_parameters(model)
        # Found out here, ranks do not wait for each other at different steps.
        agree(self._offer(), process_group)
        source = 0 if process_group is None else dist.get_global_rank(process_group, 0)
        for tensor in (*model.parameters(), *model.buffers()):
            broadcast(tensor.data, source, group=process_group)
        self._outer = {n: _flat(p) for n, p in self._parameters.items()}
        self._residual = {n: torch.zeros_like(t) for n, t in self._outer.items()}
        self._momentum = {n: torch.zeros_like(t) for n, t in self._outer.items()}
        self.traffic = Traffic()

    def describe(self) -> str:
        """A line of text: the steps, the meetings, and the bytes that this rank has sent."""
        n_meetings = self._n_steps // self._every
        return f"{self._n_steps} steps, {n_meetings} meetings: {self.traffic.describe()}"

    def step(self) -> bool:
        """Counts a step of the optimizer; after ``every`` of them ranks meet.

        Returns:
            Whether they did: then all have the same weights.

        Raises:
            CfckError: as cfck.distributed.all_gather(), on all ranks where one makes another call,
                or gets damaged bytes. Weights and all that is kept are then on every rank as they
                were, and the step has not been counted: step() may be called again.
        """
        is_last = (self._n_steps + 1) % self._every == 0
        n_bytes = self._meet() if is_last else 0
        self._n_steps += 1
        self.traffic.add(n_bytes, 4 * self._n_values())
        return is_last

    def _meet(self) -> int:
        """Exchanges what ranks have changed; returns the bytes that this one has sent."""
        residuals: dict[str, torch.Tensor] = {}
        offered: list[SparseGradient] = []
        decoded: list[torch.Tensor] = []

        def encode() -> list[torch.Tensor]:
            self._check_parameters()
            for name, outer in self._outer.items():
                own = _flat(self._parameters[name]).to(outer.device)
                residuals[name] = (self._residual[name] * self._decay).add_(outer).sub_(own)
                offered.append(_largest_of_chunks(residuals[name], self._ratio))
            packet, found = self._codec.encode(offered)
            decoded.extend(found)
            return [packet]

        offer = self._offer()
        agreed = encode_all(offer, encode, self._group)
        averages = {name: torch.zeros_like(outer) for name, outer in self._outer.items()}

        def take(packets: list[torch.Tensor]) -> None:
            add_packets(self._codec, packets, list(averages.values()))

        lengths = [length for (length,) in agreed.lengths]
        device = offer.tensor.device
        work = gather_frames(agreed.frames[0], lengths, self._group, device, take)
        n_bytes = confirm_all(work.wait, "decode what it was sent", self._group, device)
        for residual, given, sent in zip(residuals.values(), offered, decoded, strict=True):
            at = given.indices.to(residual.device)
            residual[at] = unsent(given.values, sent).to(residual.device)
        self._residual = residuals
        self._move(averages)
        return max(lengths) + agreed.n_bytes + n_bytes

    def _move(self, averages: dict[str, torch.Tensor]) -> None:
        for name, average in averages.items():
            momentum = self._momentum[name].mul_(self._outer_momentum).add_(average)
            self._outer[name].sub_(momentum, alpha=self._outer_lr)
            parameter = self._parameters[name]
            with torch.no_grad():
                parameter.copy_(self._outer[name].view(parameter.shape))

    def _check_parameters(self) -> None:
        known = set(map(id, self._parameters.values()))
        for name, parameter in self._model.named_parameters():
            if parameter.requires_grad and id(parameter) not in known:
                raise InvalidArgumentError(
                    f"{name} was replaced, added or made trainable after LocalSteps was made, so "
                    "that ranks have not exchanged it: make LocalSteps anew"
                )

    def _offer(self) -> Offer:
        """What is equal on ranks with the same options and models that are at the same step."""
        options = (
            (self._n_steps, self._every, self._ratio, self._codec.value_error),
            (self._outer_lr, self._outer_momentum, self._decay),
            [(name, one.numel(), str(one.dtype)) for name, one in self._parameters.items()],
        )
        nothing = torch.empty(0, device="cpu")  # of a model without parameters
        anchor = next(iter(self._parameters.values()), nothing)
        variant = zlib.crc32(repr(options).encode())
        return Offer(Operation.LOCAL_STEPS, anchor, 1, variant=variant, may_differ=True)

    def _n_values(self) -> int:
        return sum(tensor.numel() for tensor in self._outer.values())

    def state_dict(self) -> dict[str, Any]:
        """What this rank needs to go on, for its checkpoint, beside the model and its optimizer."""
        copied = {
            part: {name: tensor.clone() for name, tensor in tensors.items()}
            for part, tensors in self._parts().items()
        }
        return {"n_steps": self._n_steps, **copied}

    def load_state_dict(self, state: Mapping[str, Any], *, joins: bool = False) -> None:
        """Goes on from a state_dict().

        Args:
            state: that of this rank.
            joins: it is that of another rank, whose weights this one takes when it joins: what
                that one has not sent is not this one's.

        Raises:
            InvalidArgumentError: it is of another model, or not whole. Nothing was changed then.
        """
        check_state(state, list(self._parts()), "n_steps")
        for part, tensors in self._parts().items():
            sizes = {name: tensor.numel() for name, tensor in tensors.items()}
            given = {name: tensor.numel() for name, tensor in state[part].items()}
            if sizes != given:
                raise InvalidArgumentError(f"the state has other parameters in {part}")
        self._n_steps = int(state["n_steps"])
        for part, tensors in self._parts().items():
            for name, tensor in tensors.items():
                tensor.copy_(state[part][name])
        if joins:
            for tensor in self._residual.values():
                tensor.zero_()

    def _parts(self) -> dict[str, dict[str, torch.Tensor]]:
        return {"outer": self._outer, "residual": self._residual, "momentum": self._momentum}


def _check(every: int, ratio: float, bits: int | None, outer_momentum: float, decay: float) -> None:
    if every < 1:
        raise InvalidArgumentError(f"every is 1 or more, not {every}")
    if not 0 < ratio <= 1:
        raise InvalidArgumentError(f"ratio is above 0 and at most 1, not {ratio!r}")
    if bits is not None and not 1 <= bits <= 16:
        raise InvalidArgumentError(f"bits is 1 to 16, or None, not {bits!r}")
    if not (0 <= outer_momentum < 1 and 0 <= decay <= 1):
        raise InvalidArgumentError("outer_momentum is at least 0 and below 1, decay at most 1")


def _flat(parameter: torch.Tensor) -> torch.Tensor:
    return parameter.detach().reshape(-1).to(torch.float32, copy=True)


def _largest_of_chunks(values: torch.Tensor, ratio: float) -> SparseGradient:
    """The largest values of each chunk, the last of which may be shorter."""
    n_whole = values.numel() // _CHUNK * _CHUNK
    whole, rest = values[:n_whole].view(-1, _CHUNK), values[n_whole:].unsqueeze(0)
    return chosen(
        values,
        torch.cat(
            [
                largest_of_rows(whole, math.ceil(ratio * _CHUNK)),
                largest_of_rows(rest, math.ceil(ratio * rest.numel())) + n_whole,
            ]
        ),
    )
