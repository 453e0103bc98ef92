"""Deep gradient compression for DistributedDataParallel (docs/distributed.md).

The method is that of Lin et al., Deep Gradient Compression (ICLR 2018): each rank sends the largest
values of what its gradients have accumulated, with momentum correction and momentum factor masking.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket

from .._common.callers import level_of_caller
from ..errors import InvalidArgumentError
from .accumulation import Accumulated
from .arguments import (
    check_flags,
    check_model,
    check_numbers,
    check_word,
    integer,
    trained_parameters,
)
from .clipping import Clipping
from .measures import Measures
from .nodes import Nodes
from .schedule import RatioSchedule
from .states import check_state, check_states
from .step import Method, Replica, Step
from .traffic import Traffic
from .transport import completed

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

# A state has these of each parameter.
_PARTS = ("velocity", "momentum")


class MomentumWarning(UserWarning):
    """Momentum is applied twice: by GradientCompression and by the optimizer."""


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
            ``value_error``), "f16" or "dense" (an all-reduce). None: "quantised", or "dense" with
            ``chunk_elems``.
        not_finite: "send" (values that are NaN or infinite are sent as they are), or "raise".
        scaler: the GradScaler of the training. What is accumulated is then in unscaled units, and
            where a gradient of any rank is not finite, all ranks take back the whole step.
        optimizer: is looked at, and warned of if it has momentum, too.
        process_group: that of the DistributedDataParallel; None: that of all ranks.
        mesh: a DeviceMesh of the ranks of that group with two dimensions, the nodes and the ranks
            of each, in the order that FSDP2 has for its hybrid sharding: gradients are averaged
            densely inside of a node, and compressed between nodes, where a node counts as a rank.
            Each rank of a node then accumulates, and sends, its share of the parameters. None: all
            ranks are equally far from each other.
        chunk_elems: None: each rank sends the values that are largest on it. A number: ``ratio`` of
            the chunks of so many consecutive values are sent, those whose L1 norms are largest
            in the sum of all ranks, by an all-reduce in F32: what a rank receives does not grow
            with the number of ranks. ``value_error`` then has no meaning. 128 or 256 suit most
            models: norms are sent of all chunks, and of long chunks more values are small.

    Attributes:
        traffic: what this rank has sent; with ``mesh``, to other nodes.
        traffic_within: what it has sent to others of its node.
        measures: the energy that it has sent, and the seconds that parts of steps took.

    Raises:
        CfckError: InvalidArgumentError for values out of range, and for a mesh of other ranks than
            the group; UnsupportedError for parameters that are neither F32 nor BF16 nor F16.
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
        vectors: Literal["quantised", "f16", "dense"] | None = None,
        not_finite: Literal["send", "raise"] = "send",
        scaler: torch.amp.GradScaler | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        process_group: dist.ProcessGroup | None = None,
        mesh: DeviceMesh | None = None,
        chunk_elems: int | None = None,
    ) -> None:
        check_model(model)
        check_numbers(momentum=momentum, weight_decay=weight_decay)
        check_flags(nesterov=nesterov, masks_momentum=masks_momentum)
        if not 0 <= momentum < 1:
            raise InvalidArgumentError(f"momentum is at least 0 and below 1, not {momentum!r}")
        check_word("vectors", vectors, (None, "quantised", "f16", "dense"))
        if chunk_elems is not None:
            chunk_elems = _check_chunks(chunk_elems, vectors, mesh)
        check_word("not_finite", not_finite, ("send", "raise"))
        self._schedule = RatioSchedule(ratio, warmup_epochs)
        self._epoch = 0
        method = Method(
            float(momentum),
            nesterov,
            float(weight_decay),
            masks_momentum,
            vectors or ("quantised" if chunk_elems is None else "dense"),
            value_error,
            Clipping(clip_value, clip_norm, clip_global_norm),
            chunk_elems,
        )
        nodes = None if mesh is None else Nodes(mesh, process_group)
        self._replica = Replica(
            method,
            _accumulated_of(model, momentum > 0, nodes),
            raises=not_finite == "raise",
            scaler=scaler,
            group=process_group,
            nodes=nodes,
        )
        if optimizer is not None and momentum > 0:
            _warn_of_momentum(optimizer)

    @property
    def traffic(self) -> Traffic:
        return self._replica.traffic

    @property
    def traffic_within(self) -> Traffic:
        return self._replica.traffic_within

    @property
    def measures(self) -> Measures:
        return self._replica.measures

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch it is, the first one being 0: the ratio follows the warm-up."""
        epoch = integer("epoch", epoch)
        self._schedule.at(epoch)
        self._epoch = epoch

    @property
    def ratio(self) -> float:
        """The share of values that is sent in this epoch."""
        return self._schedule.at(self._epoch)

    def describe(self) -> str:
        """Lines of text: the ratio, and the bytes that this rank has sent; with ``mesh``, those
        that it has sent to others of its node; after the first step which share of the energy of
        what is accumulated is sent, and how long the parts of a step take."""
        lines = [f"epoch {self._epoch}, ratio {self.ratio:g}: {self.traffic.describe()}"]
        if self._replica.nodes is not None:
            lines.append(f"within the node: {self.traffic_within.describe()}")
        if self.measures.n_steps:
            lines.append(self.measures.describe())
        return "\n".join(lines)

    def hook(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """The communication hook, of DistributedDataParallel: it averages one bucket.

        Raises:
            CfckError: on all ranks, where ranks have other options, or values that are not finite
                and are not to be sent; for damaged bytes on the rank that receives them.
        """
        if not isinstance(self, GradientCompression):
            raise TypeError(
                "the state of the hook is a GradientCompression, not "
                f"{type(self).__name__}: register_comm_hook(state, GradientCompression.hook)"
            )
        replica = self._replica
        if bucket.index() == 0:
            replica.is_undone = False
            for tensor in replica.tensors.values():
                tensor.settle()  # what a step has left that failed
        if replica.is_undone:
            return completed(bucket.buffer().fill_(math.nan))
        return Step(replica, self.ratio, bucket).run()

    def _parts(self) -> dict[str, dict[str, torch.Tensor]]:
        """What the parameters that this rank owns have accumulated, by name."""
        own = [one for one in self._replica.tensors.values() if one.is_own]
        return {
            "velocity": {one.name: one.velocity for one in own},
            "momentum": {one.name: one.momentum for one in own if one.momentum is not None},
        }

    def state_dict(self) -> dict[str, Any]:
        """What this rank has accumulated, by parameter, and the epoch: for its checkpoint.

        With ``mesh`` each rank has some of the parameters, those that it owns.
        """
        copied = {
            part: {name: tensor.clone() for name, tensor in tensors.items()}
            for part, tensors in self._parts().items()
        }
        return {"epoch": self._epoch, **copied}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state_dict() of this rank, or from what merge_states() made of several.

        Raises:
            InvalidArgumentError: it is of another model, or of a rank with other parameters, or one
                with momentum is for one without. Nothing was changed then.
        """
        check_state(state, _PARTS, "epoch")
        all_names = {one.name for one in self._replica.tensors.values()}
        for part, own in self._parts().items():
            given = state[part]
            known = all_names if own or part == "velocity" else set()
            if other := (set(own) - set(given)) | (set(given) - known):
                names = ", ".join(sorted(other)[:5])
                raise InvalidArgumentError(
                    f"the state has other parameters in {part}: {names}; where the number of ranks "
                    "has changed, load what merge_states() makes of the states of all"
                )
            for name, tensor in own.items():
                if given[name].numel() != tensor.numel():
                    raise InvalidArgumentError(
                        f"{name} has {tensor.numel()} values, and in the state "
                        f"{given[name].numel()}"
                    )
        self.set_epoch(int(state["epoch"]))
        for part, own in self._parts().items():
            for name, tensor in own.items():
                tensor.copy_(state[part][name])

    @staticmethod
    def merge_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The state that every rank loads when their number changes, of the states of all ranks.

        Nothing is dropped: what ranks, or nodes, have accumulated counts by its mean, then as
        before.

        Raises:
            InvalidArgumentError: there are none, or some parameters are in fewer states than
                others: those of some ranks are missing, or of another model.
        """
        if not states:
            raise InvalidArgumentError("there are no states to merge")
        check_states(states, _PARTS, "epoch")
        merged: dict[str, Any] = {"epoch": states[0]["epoch"]}
        for part in ("velocity", "momentum"):
            found: dict[str, list[torch.Tensor]] = {}
            for state in states:
                for name, tensor in state[part].items():
                    found.setdefault(name, []).append(tensor.to("cpu", torch.float64))
            if len({len(tensors) for tensors in found.values()}) > 1:
                fewest, most = sorted(found, key=lambda name: len(found[name]))[:: len(found) - 1]
                raise InvalidArgumentError(
                    f"{most} is in {len(found[most])} states, and {fewest} in {len(found[fewest])}:"
                    " give the states of all ranks of one model"
                )
            merged[part] = {n: torch.stack(t).mean(0).float() for n, t in found.items()}
        return merged


# DistributedDataParallel compares these with classes, and not with their names.
GradientCompression.hook.__annotations__.clear()


def _check_chunks(chunk_elems: int, vectors: str | None, mesh: object) -> int:
    number = integer("chunk_elems", chunk_elems)
    if number < 1:
        raise InvalidArgumentError(f"chunk_elems is 1 or more, not {number}")
    if vectors == "quantised":
        raise InvalidArgumentError(
            "chunks are sent by all-reduces, and so are vectors then: with chunk_elems, vectors is "
            '"dense" or "f16"'
        )
    if mesh is not None:
        raise InvalidArgumentError(
            "chunks are sent by all-reduces, which know of nodes by themselves: give mesh or "
            "chunk_elems, not both"
        )
    return number


def _accumulated_of(
    model: nn.Module, has_momentum: bool, nodes: Nodes | None
) -> dict[torch.Tensor, Accumulated]:
    trained = trained_parameters(model)
    sizes = [parameter.numel() for parameter in trained.values()]
    owners = [0] * len(sizes) if nodes is None else nodes.owners(sizes)
    own = 0 if nodes is None else nodes.own
    return {
        parameter: Accumulated(name, parameter, has_momentum, owner, owner == own)
        for (name, parameter), owner in zip(trained.items(), owners, strict=True)
    }


def _warn_of_momentum(optimizer: torch.optim.Optimizer) -> None:
    is_plain = isinstance(optimizer, torch.optim.SGD) and not any(
        group["momentum"] for group in optimizer.param_groups
    )
    if not is_plain:
        warnings.warn(
            f"{type(optimizer).__name__} has momentum of its own, beside that of "
            "GradientCompression: take torch.optim.SGD without momentum; or give the state "
            "momentum=0, with which an adaptive optimizer loses more than SGD does",
            MomentumWarning,
            stacklevel=level_of_caller(),
        )
