"""The tensors of a model that a calibration knows, tied ones once."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from .._frameworks.framework import unsupported
from .._frameworks.torch_tensors import TorchFramework, has_plain_storage
from ..errors import InvalidArgumentError
from .calibration import fingerprint
from .moments import Accumulator
from .tensor import CalibratedTensor

FLOATS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
}
# Tensors are gone through in pieces of so many values.
_PIECE_VALUES = 1 << 22


@dataclasses.dataclass(frozen=True)
class Measured:
    """The result of the probes of one tensor."""

    sensitivity: float
    linearity: float


class Weights:
    """The tensors of a model under the names of its state_dict, tied ones once."""

    def __init__(self, model: torch.nn.Module) -> None:
        storages = {
            tensor.untyped_storage().data_ptr()
            for tensor in (*model.parameters(), *model.buffers())
            if _has_memory(tensor)
        }
        self.tensors: dict[str, torch.Tensor] = {}
        self.tied_to: dict[str, str] = {}
        self._first: dict[Any, str] = {}
        for name, tensor in model.state_dict(keep_vars=True).items():
            if not isinstance(tensor, torch.Tensor):
                continue
            if not _has_memory(tensor):
                raise unsupported(
                    name, "has no memory of its own to perturb", "calibrate a plain, filled model"
                )
            self.tensors[name] = tensor
            if tensor.untyped_storage().data_ptr() not in storages or not tensor.numel():
                continue
            first = self._first.setdefault(_place(tensor), name)
            if first != name:
                self.tied_to[name] = first

    def name_of(self, tensor: torch.Tensor) -> str | None:
        """The first name of a tensor of the model that can be probed."""
        if not _has_memory(tensor) or not _is_weight(tensor):
            return None
        return self._first.get(_place(tensor))

    def to_probe(self) -> list[str]:
        return [
            name
            for name, tensor in self.tensors.items()
            if _is_weight(tensor) and self._first.get(_place(tensor)) == name
        ]

    def trainable(self) -> list[torch.Tensor]:
        """Floating weights, once each."""
        return [self.tensors[name] for name in self.to_probe()]

    def describe(
        self, measured: dict[str, Measured], accumulators: dict[str, Accumulator]
    ) -> dict[str, CalibratedTensor]:
        framework = TorchFramework()
        result: dict[str, CalibratedTensor] = {}
        for name, tensor in self.tensors.items():
            shape = tuple(tensor.shape)
            if name in self.tied_to:
                tied_to = self.tied_to[name]
                result[name] = dataclasses.replace(result[tied_to], tied_to=tied_to)
                continue
            dtype = FLOATS.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
            known = CalibratedTensor(shape, dtype)
            if name in measured or name in accumulators:
                dtype, digest = fingerprint(framework, tensor)
                facts = dataclasses.asdict(measured[name]) if name in measured else {}
                facts |= _arrays(name, accumulators.get(name))
                sigma = root_mean_square(tensor)
                known = CalibratedTensor(shape, dtype, digest=digest, sigma=sigma, **facts)
            result[name] = known
        return result


def _has_memory(tensor: torch.Tensor) -> bool:
    return (
        not torch.nn.parameter.is_lazy(tensor)
        and has_plain_storage(tensor)
        and tensor.layout == torch.strided
        and not tensor.is_meta
        and not tensor.is_quantized
        and (not tensor.numel() or tensor.untyped_storage().nbytes() > 0)
    )


def _is_weight(tensor: torch.Tensor) -> bool:
    repeats = any(step == 0 and n > 1 for n, step in zip(tensor.shape, tensor.stride()))
    return tensor.dtype in FLOATS and tensor.dim() >= 2 and tensor.numel() > 0 and not repeats


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (
        tensor.device,
        tensor.dtype,
        tensor.untyped_storage().data_ptr(),
        tensor.storage_offset(),
        tuple(tensor.shape),
        tuple(tensor.stride()),
    )


def _arrays(name: str, sums: Accumulator | None) -> dict[str, Any]:
    """Means out of sums."""
    facts: dict[str, Any] = {}
    if sums is None:
        return facts
    if sums.second is not None and sums.n_positions:
        facts["second_moment"] = (sums.second / sums.n_positions).float().numpy()
        facts["n_positions"] = sums.n_positions
        facts["input_axis"] = sums.input_axis
    if sums.counts is not None and float(sums.counts.sum()) > 0:
        facts["row_frequency"] = (sums.counts / sums.counts.sum()).numpy()
        facts.setdefault("n_positions", int(sums.counts.sum()))
    if sums.energy is not None and sums.n_gradients:
        facts["gradient_energy"] = (sums.energy / sums.n_gradients).numpy()
    for kind, array in facts.items():
        if isinstance(array, np.ndarray) and not np.isfinite(array).all():
            raise InvalidArgumentError(
                f"the {kind.replace('_', ' ')} of tensor `{name}` is not finite: the inputs of its "
                "layer, or its gradients, hold NaN or infinities",
                record=name,
            )
    return facts


def root_mean_square(tensor: torch.Tensor) -> float:
    """The root mean square of the finite values; 0 where there are none."""
    total, count = 0.0, 0
    for piece in slabs(tensor.data):
        values = piece.double()
        values = values[torch.isfinite(values)]
        total += float(values.square().sum())
        count += values.numel()
    return math.sqrt(total / count) if count else 0.0


def slabs(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Views of whole rows, together the tensor, which has values and dimensions."""
    rows = max(1, _PIECE_VALUES // tensor[:1].numel())
    for first in range(0, len(tensor), rows):
        yield tensor[first : first + rows]
