"""Compressed collectives for all modules of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ..errors import InvalidArgumentError, UnsupportedError
from .arguments import check_model
from .fsdp import CompressedAllGather, CompressedReduceScatter
from .traffic import Traffic


class FsdpCompression:
    """The compressed collectives of a model; compress_fsdp() makes it.

    Attributes:
        weights: what all-gathers of this rank have sent.
        gradients: what its reduce-scatters have sent.
    """

    def __init__(
        self, gather: CompressedAllGather, reduce: Mapping[str, CompressedReduceScatter]
    ) -> None:
        self._gather = gather
        self._reduce = dict(reduce)

    @property
    def weights(self) -> Traffic:
        return self._gather.traffic

    @property
    def gradients(self) -> Traffic:
        return sum((one.traffic for one in self._reduce.values()), Traffic())

    def describe(self) -> str:
        """Two lines: bytes that this rank has sent, as a share of those without compression."""
        return f"weights: {self.weights.describe()}\ngradients: {self.gradients.describe()}"

    def state_dict(self) -> dict[str, dict[str, torch.Tensor]]:
        """What gradients have lost and not yet sent, by module, for a checkpoint of this rank."""
        return {name: one.state_dict() for name, one in self._reduce.items()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
        """Goes on from a state_dict() of this rank; InvalidArgumentError for other modules."""
        if set(state) != set(self._reduce):
            other = ", ".join(sorted(set(state) ^ set(self._reduce))[:5])
            raise InvalidArgumentError(f"the state is of a model with other modules: {other}")
        for name, one in self._reduce.items():
            one.load_state_dict(state[name])


def compress_fsdp(model: nn.Module, max_error: float = 0.0) -> FsdpCompression:
    """Compresses what FSDP2 sends for a model: weights without loss, gradients as told.

    To be called on all ranks, after fully_shard() has wrapped the modules and before the first
    step.

    Args:
        model: with modules that fully_shard() has wrapped.
        max_error: as for CompressedReduceScatter; 0.0: gradients lose nothing.

    Returns:
        What counts the bytes, and has the state of the gradients.

    Raises:
        CfckError: InvalidArgumentError where fully_shard() has wrapped nothing, or for max_error;
            UnsupportedError where this version of torch has no FSDP2 whose collectives can be
            replaced.
        TypeError: the model is no module, or max_error no number.
        ValueError: that of torch, for a module with several groups of parameters.
    """
    check_model(model)
    wrapped = [(n, m) for n, m in model.named_modules() if isinstance(m, _fsdp_module())]
    if not wrapped:
        raise InvalidArgumentError("no module of the model is wrapped by fully_shard()")
    gather = CompressedAllGather()
    reduce = {name: CompressedReduceScatter(max_error) for name, _ in wrapped}
    for name, module in wrapped:
        module.set_custom_all_gather(gather)
        module.set_custom_reduce_scatter(reduce[name])
    return FsdpCompression(gather, reduce)


def _fsdp_module() -> Any:
    try:
        from torch.distributed.fsdp import FSDPModule
    except ImportError:
        found = None
    else:
        found = FSDPModule if hasattr(FSDPModule, "set_custom_reduce_scatter") else None
    if found is None:
        raise UnsupportedError(
            f"torch {torch.__version__} has no FSDP2 with set_custom_reduce_scatter(): install 2.8 "
            "or newer"
        )
    return found
