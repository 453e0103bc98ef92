"""A model whose weights are trained as a file will have them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from .._io.summary import SaveSummary
from ..errors import InvalidArgumentError
from . import files
from .choose import Place
from .target import Target
from .weight import SpectralWeight

if TYPE_CHECKING:
    from .._options.kinds import SaveFileOptions

# Frequency tables are fitted anew at every so many calls of bits_per_weight().
FIT_INTERVAL = 20


class SpectralModel:
    """The handle of a model in training, which cfck.train.spectral returns.

    The model is parametrised in place: its weights are values that a file decodes to, and their
    originals, and the steps, are what optimizers change. See cfck.train.spectral.
    """

    def __init__(self, model: nn.Module, places: list[Place], wrapped: list[SpectralWeight]) -> None:
        self.model = model
        self._places = places
        self._weights = dict(zip((place.name for place in places), wrapped, strict=True))
        self._calls = 0
        self._target: Target | None = None
        self._lossless_bits = 0.0
        self._states: dict[str, int] = {}
        self._n_values = sum(t.numel() for t in self._counted().values())
        self.fit_rate()

    # What is learned.

    def parameters(self) -> Iterator[nn.Parameter]:
        """The steps alone."""
        for weight in self._weights.values():
            yield from weight.steps()

    def param_groups(
        self, lr: float, step_lr: float | None = None, weight_decay: float | None = None
    ) -> list[dict[str, Any]]:
        """Disjoint groups for an optimizer: what the model had, and the steps.

        Args:
            lr: of weights, biases and the like.
            step_lr: of steps, which are log2; None: ten times ``lr``. They have no weight decay.
            weight_decay: of the first group; None: that of the optimizer.
        """
        steps = {id(p) for p in self.parameters()}
        rest = [p for p in self.model.parameters() if id(p) not in steps and p.requires_grad]
        first: dict[str, Any] = {"params": rest, "lr": lr}
        if weight_decay is not None:
            first["weight_decay"] = weight_decay
        learned = [p for p in self.parameters() if p.requires_grad]
        step_lr = 10 * lr if step_lr is None else step_lr
        groups = [first, {"params": learned, "lr": step_lr, "weight_decay": 0.0}]
        return [group for group in groups if group["params"]]

    # The rate.

    def bits_per_weight(self) -> torch.Tensor:
        """Bits for each value of all float tensors of two or more dimensions, differentiable.

        Lossless tensors count with what they took when the tables were last fitted.
        """
        if self._calls % FIT_INTERVAL == 0:
            self.fit_rate()
        self._calls += 1
        total: torch.Tensor | float = self._lossless_bits
        for name, weight in self._weights.items():
            total = total + weight.bits(self._original(name)).cpu()
        rate = total / self._n_values
        assert isinstance(rate, torch.Tensor)
        return rate.float()

    def fit_rate(self) -> float:
        """Fits the estimate to the weights as they are; returns the bits per weight of a file."""
        stored = sum(
            weight.fit_rate(self._original(name)) for name, weight in self._weights.items()
        )
        lossless = {n: t for n, t in self._counted().items() if n not in self._all_names()}
        if lossless:
            self._lossless_bits = float(sum(files.stored_bits(files.encode(lossless, {})).values()))
        return (stored + self._lossless_bits) / self._n_values

    def target(self, bits_per_weight: float, by: int) -> None:
        """Sets the size to be reached, in ``by`` calls of rate_loss(); see there."""
        if not 0 < bits_per_weight < 64:
            raise InvalidArgumentError(f"bits_per_weight is above 0, not {bits_per_weight}")
        if isinstance(by, bool) or not isinstance(by, int) or by < 1:
            raise InvalidArgumentError(f"by is a number of training steps, not {by!r}")
        self._target = Target(bits_per_weight, by)

    def rate_loss(self) -> torch.Tensor:
        """The rate times a weight that is found in training, so that target() is reached.

        To be added to the loss of the task, once in each step of training.
        """
        if self._target is None:
            raise InvalidArgumentError("call target() first: rate_loss() needs a size to reach")
        rate = self.bits_per_weight()
        return self._target.advance(float(rate.detach())) * rate

    @property
    def rate_weight(self) -> float:
        """The weight that rate_loss() has found so far; 0 without a target."""
        return self._target.multiplier if self._target else 0.0

    # The end.

    def snap(self) -> None:
        """Rounds the steps to those of a file, and ends learning them; weights go on."""
        for weight in self._weights.values():
            if not bool(weight.is_snapped):
                weight.snap()

    @torch.no_grad()
    def finish(
        self,
        evaluate: Callable[[nn.Module], float] | None = None,
        trellis_states: tuple[int, ...] = (8,),
    ) -> None:
        """Gives the weights the values that a file has; they are no longer trained.

        Args:
            evaluate: returns how good the model is, more being better. With it the weights are also
                quantised by trellises, which takes as many bits and has smaller errors, and the
                best is kept.
            trellis_states: the trellises that are tried, 4, 8 or 64 states each.
        """
        self.snap()
        for name, weight in self._weights.items():
            original = self._original(name)
            if not torch.isfinite(original).all():
                raise FloatingPointError(f"weight `{name}` holds NaN or infinities")
            original.copy_(weight(original))
            original.requires_grad_(False)
        self.fit_rate()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The tensors of the plain model, weights as a file has them."""
        state: dict[str, torch.Tensor] = {}
        seen: dict[int, torch.Tensor] = {}
        names = {id(p): p for p in self._weights.values()}
        del names
        for name, tensor in self.model.state_dict(keep_vars=True).items():
            plain = _plain_name(name)
            if plain is None or not isinstance(tensor, torch.Tensor):
                continue
            first = self._first_name(tensor)
            if first is None:
                state[plain] = tensor.detach()
                continue
            if id(tensor) not in seen:
                with torch.no_grad():
                    seen[id(tensor)] = self._weights[first](tensor).detach()
            state[plain] = seen[id(tensor)]
        return state

    def save(
        self,
        filename: str | os.PathLike[str],
        metadata: Mapping[str, str] | None = None,
        **options: Any,
    ) -> SaveSummary:
        """Saves the model to a file that decodes to just these weights, which is checked.

        Arguments and errors as of cfck.torch.save_file. Snaps the steps if that was not done.
        """
        self.snap()
        return files.write(self.state_dict(), self._file_steps(), filename, metadata, options)

    def to_bytes(self, metadata: Mapping[str, str] | None = None, **options: Any) -> bytes:
        """The same as bytes."""
        self.snap()
        tensors = self.state_dict()
        data = files.encode(tensors, self._file_steps(), metadata, options)
        files.check_same(tensors, data)
        return data

    def remove(self) -> nn.Module:
        """Makes the model a plain one with the weights that a file has, and returns it."""
        for place in self._places:
            for each in (place, *place.tied):
                parametrize.remove_parametrizations(each.module, each.attribute)
        return self.model

    # What is in the model.

    def _original(self, name: str) -> torch.Tensor:
        place = next(p for p in self._places if p.name == name)
        lists: Any = place.module.parametrizations
        original: torch.Tensor = lists[place.attribute].original
        return original

    def _first_name(self, tensor: torch.Tensor) -> str | None:
        for place in self._places:
            if self._original(place.name) is tensor:
                return place.name
        return None

    def _all_names(self) -> set[str]:
        return {each.name for place in self._places for each in (place, *place.tied)}

    def _counted(self) -> dict[str, torch.Tensor]:
        """Float tensors of two or more dimensions by their plain names."""
        found = {}
        for name, tensor in self.state_dict().items():
            if tensor.is_floating_point() and tensor.dim() >= 2:
                found[name] = tensor
        for place in self._places:
            for tied in place.tied:
                found.pop(tied.name, None)
        return found

    def _file_steps(self) -> dict[str, files.FileSteps]:
        steps = {}
        for place in self._places:
            weight = self._weights[place.name]
            shape = self._original(place.name).shape
            for each in (place, *place.tied):
                steps[each.name] = weight.file_steps(shape, self._states.get(place.name, 1))
        return steps


def _plain_name(name: str) -> str | None:
    """The name of a tensor in the plain model; None for what only training has."""
    if ".parametrizations." not in "." + name:
        return name
    before, _, after = ("." + name).rpartition(".parametrizations.")
    attribute, _, rest = after.partition(".")
    return f"{before}.{attribute}".lstrip(".") if rest == "original" else None
