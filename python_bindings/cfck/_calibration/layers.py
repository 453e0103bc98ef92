"""Values of layers that make up for what the errors of earlier layers do to their inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from .._common.progress import Counter
from .._evaluation.outputs import attention_mask, hooks, kept_buffers, run_model
from .._evaluation.prefix import Prefix
from ..errors import InvalidArgumentError
from .calibration import Calibration
from .moments import input_columns, layer_input, pieces, where_it_counts
from .rounded import RoundedCopy, with_tensors

# A layer with fewer inputs than these, for each column, is corrected with caution: MiniLM with 240
# sentences loses 17 % less at the same step, and without caution 9 % more than uncorrected.
_FEW_INPUTS = 30
_CAUTIOUS_DAMPING = 0.2
_CAUTIOUS_DOUBT = 8


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer of the model, and the same one of the copy that has the decoded weights."""

    name: str  # of its weight
    exact: nn.Module
    rounded: nn.Module


class Corrector:
    """Goes through the layers in the order in which they run.

    Args:
        rounded: the copy; its layers get the values that are found.
        batches: inputs.
        calibration: without corrected values.
        damping: added to the diagonal of second moments, in units of its mean.
        counter: its total is set to the number of layers.
        is_cautious: whether layers with few inputs are corrected by less.
    """

    def __init__(
        self,
        rounded: RoundedCopy,
        batches: Sequence[Any],
        calibration: Calibration,
        damping: float,
        counter: Counter,
        is_cautious: bool = False,
    ) -> None:
        self._rounded = rounded
        self._batches = batches
        self._calibration = calibration
        self._damping = damping
        self._counter = counter
        self._is_cautious = is_cautious
        # A first guess, as long as it is not known which tensors are lossy.
        counter.total = len(self.layers(set(rounded.weights.tensors)))

    def layers(self, lossy: set[str]) -> list[Layer]:
        """The layers whose weights are lossy tensors that can be corrected."""
        weights = self._rounded.weights
        shared = set(weights.tied_to.values())
        layers = []
        for exact, rounded in zip(self._rounded.original.modules(), self._rounded.model.modules()):
            geometry = input_columns(exact)
            if geometry is None or geometry[0] != 1 or geometry[2] != 1:
                continue
            if isinstance(exact, nn.MultiheadAttention):
                continue
            weight: Any = exact.weight
            name = weights.name_of(weight)
            known = self._calibration.get(name) if name is not None else None
            if name is None or known is None or name not in lossy or name in shared:
                continue
            if known.second_moment is not None and known.second_moment.ndim == 3:
                layers.append(Layer(name, exact, rounded))
        return layers

    def families(self, lossy: set[str]) -> list[list[Layer]]:
        """The layers to correct, in the order in which they run, with those of the same input."""
        layers = self.layers(lossy)
        seen: list[tuple[Layer, torch.Tensor]] = []  # inputs stay alive: none shares memory

        def listen(layer: Layer) -> Callable[..., None]:
            def hook(_: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
                given = layer_input(args, kwargs)
                if given is not None:
                    seen.append((layer, given))

            return hook

        with hooks() as handles:
            for layer in layers:
                hook = listen(layer)
                handles.append(layer.exact.register_forward_pre_hook(hook, with_kwargs=True))
            run_model(self._rounded.original, self._batches[0])
        counts = [layer.name for layer, _ in seen]
        families: list[list[Layer]] = []
        last: tuple[Any, ...] = ()
        for layer, given in seen:
            if counts.count(layer.name) != 1:
                continue
            place = (*_place(given), _geometry(layer.exact))
            if place == last and not given.is_inference():
                families[-1].append(layer)
            else:
                families.append([layer])
            last = place
        self._counter.total = sum(len(family) for family in families)
        return families

    def correct(self, families: Sequence[Sequence[Layer]], step: float) -> Calibration:
        """The calibration with values for the layers, each with those before it rounded in the
        copy, which has the values of a file with this step."""
        corrected: dict[str, np.ndarray] = {}
        self._counter.done = 0
        exact = Prefix(self._rounded.original, self._batches)
        rounded = Prefix(self._rounded.model, self._batches)
        # Files are of the original, buffers included.
        with kept_buffers(self._rounded.original), exact.installed(), rounded.installed():
            for family in families:
                sums = self._moments(family[0], exact, rounded)
                for layer in family:
                    values = self._corrected(layer.name, *sums)
                    corrected[layer.name] = values
                    self._rounded.round_one(self._calibration, layer.name, values, step)
                    self._counter.finish(layer.name)
        return self.corrected_by(corrected, step)

    def corrected_by(self, corrected: Mapping[str, np.ndarray], step: float) -> Calibration:
        """The calibration with these values, for this step."""
        tensors = {
            name: dataclasses.replace(tensor, corrected=corrected.get(tensor.tied_to or name))
            for name, tensor in self._calibration.items()
        }
        return with_tensors(self._calibration, tensors, step)

    def _moments(
        self, layer: Layer, exact: Prefix, rounded: Prefix
    ) -> tuple[int, torch.Tensor, torch.Tensor]:
        """How many inputs x the layer had; the sums of x y^T and of y y^T, y being what x has
        become in the copy."""
        n_inputs = 0
        n = input_columns(layer.exact)[1]  # type: ignore[index]
        mixed = torch.zeros((n, n), dtype=torch.float64, device="cpu")
        squares = torch.zeros((n, n), dtype=torch.float64, device="cpu")
        for position, batch in enumerate(self._batches):
            before = _vectors(layer.exact, _input_of(exact, position, layer.exact), batch)
            after = _vectors(layer.exact, _input_of(rounded, position, layer.rounded), batch)
            for x, y in zip(before, after):
                mixed += (x.T @ y).cpu()
                squares += (y.T @ y).cpu()
                n_inputs += len(x)
            self._counter.tell(layer.name)
        return n_inputs, mixed, squares

    def _corrected(
        self, name: str, n_inputs: int, mixed: torch.Tensor, rounded: torch.Tensor
    ) -> np.ndarray:
        """The weight w + d with the least sum of ((w + d) y - w x)^2 + l d^2, d being shrunk where
        there are few inputs."""
        weight = self._rounded.weights.tensors[name].data
        rows = weight.reshape(len(weight), -1).double().cpu()
        rows = torch.where(torch.isfinite(rows), rows, 0.0)
        n = len(rounded)
        damping, doubt = self._damping, 1
        if self._is_cautious and n_inputs < _FEW_INPUTS * n:
            damping, doubt = max(damping, _CAUTIOUS_DAMPING), _CAUTIOUS_DOUBT
        ridge = damping * float(rounded.diagonal().mean())
        if ridge > 0 and np.isfinite(ridge):
            damped = rounded + ridge * torch.eye(n, dtype=torch.float64, device="cpu")
            added = torch.linalg.solve(damped, (mixed - rounded).T @ rows.T).T
            rows = rows + added * (n_inputs / (n_inputs + doubt * n))
        return rows.reshape(weight.shape).float().numpy()


def _place(given: torch.Tensor) -> tuple[Any, ...]:
    """The memory of an input, and how often it was changed."""
    version = None if given.is_inference() else given._version
    return given.data_ptr(), given.shape, given.stride(), version


def _geometry(layer: nn.Module) -> tuple[Any, ...]:
    """Layers that agree in this take the same vectors out of an input."""
    names = ("kernel_size", "stride", "padding", "dilation", "padding_mode")
    return (input_columns(layer), *(getattr(layer, name, None) for name in names))


def _input_of(prefix: Prefix, position: int, layer: nn.Module) -> torch.Tensor:
    """The input of a layer that runs once."""
    try:
        found = layer_input(*prefix.reach(position, layer))
    except LookupError:
        found = None
    if found is None:
        raise InvalidArgumentError("a layer runs for some batches only, and cannot be refined")
    return found


def _vectors(layer: nn.Module, given: torch.Tensor, batch: Any) -> Iterator[torch.Tensor]:
    """The vectors that the rows of the weight are multiplied by, where a mask lets them count."""
    given = where_it_counts(layer, given, attention_mask(batch))
    for piece in pieces(layer, given, given):
        yield piece[0]
