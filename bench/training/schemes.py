"""Ways to train a network further: as it is, for a rate, or with few fixed levels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

BITS_OF_ENDS = 8  # first and last layers of networks with few levels, as is usual


@dataclass(frozen=True)
class Recipe:
    """Rates of learning and, for rates of files, where training begins and is to arrive."""

    lr: float = 1e-3
    step_lr: float = 1e-2
    bits: float = 6.0
    reach: float = 0.2  # the part of training after which the rate is reached
    snap: float = 0.7  # the part after which steps are those of a file, and weights adapt to them
    batch: int = 128  # images
    options: dict[str, Any] = field(default_factory=dict)


class Scheme:
    """The float32 network, trained on as it is."""

    def __init__(self, model: nn.Module, recipe: Recipe) -> None:
        """Changes the model."""
        self.model, self.recipe = model, recipe

    def groups(self) -> list[dict[str, Any]]:
        """Parameters for an optimizer."""
        return [{"params": list(self.model.parameters()), "lr": self.recipe.lr}]

    def extra_loss(self) -> torch.Tensor | float:
        """A term that is added to the loss of the task."""
        return 0.0

    def advance(self, done: float) -> None:
        """Called after each step; `done` is the part of training that is over."""

    def note(self) -> str:
        """A remark for the log."""
        return type(self).__name__

    def bits(self) -> float:
        """Bits for each value of all weights."""
        return 32.0

    def estimate(self) -> float:
        """The bits that the loss of the last step had."""
        return self.bits()

    def finish(self, norm_batches: list[torch.Tensor]) -> None:
        """Called at the end, with inputs on which statistics of batch norms are measured anew."""
        if norm_batches:
            torch.optim.swa_utils.update_bn(norm_batches, self.model)

    def state(self) -> Any:
        """All that training goes on from."""
        return self.model.state_dict()

    def load_state(self, state: Any) -> None:
        """Takes what state() has returned."""
        self.model.load_state_dict(state)


class Spectral(Scheme):
    """Compression that is learned, to `bits_per_weight`."""

    def __init__(
        self, model: nn.Module, recipe: Recipe, n_steps: int, bits_per_weight: float
    ) -> None:
        """Reached in a part of `n_steps`."""
        from cfck.train import spectral

        super().__init__(model, recipe)
        self.q = spectral(model, bits=recipe.bits, **recipe.options)
        self.q.target(bits_per_weight=bits_per_weight, by=int(recipe.reach * n_steps))

    def groups(self) -> list[dict[str, Any]]:
        """Weights and steps."""
        return self.q.param_groups(lr=self.recipe.lr, step_lr=self.recipe.step_lr)

    def extra_loss(self) -> torch.Tensor:
        """The rate, weighted."""
        return self.q.rate_loss()

    def advance(self, done: float) -> None:
        """Snaps steps in time."""
        if done >= self.recipe.snap:
            self.q.snap()

    def note(self) -> str:
        """Rate and target."""
        return self.q.describe()

    def bits(self) -> float:
        """Bits of a file."""
        return self.q.fit_rate()

    def estimate(self) -> float:
        """As rate_loss() has had it."""
        return self.q.history[-1][1]

    def finish(self, norm_batches: list[torch.Tensor]) -> None:
        """Weights become those of the file."""
        self.q.finish(norm_batches=norm_batches or None)

    def state(self) -> Any:
        """With steps, tables and the target."""
        return self.q.training_state_dict()

    def load_state(self, state: Any) -> None:
        """Takes what state() has returned."""
        self.q.load_training_state_dict(state)


class _Levels(nn.Module):
    """Learned step size quantisation to the levels from `low` to `high` (Esser et al. 2020)."""

    def __init__(self, weight: torch.Tensor, low: int, high: int) -> None:
        super().__init__()
        self.low, self.high = low, high
        self.step = nn.Parameter(2 * weight.detach().abs().mean() / math.sqrt(high))
        self.factor = 1 / math.sqrt(weight.numel() * high)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        step = self.step * self.factor + (self.step * (1 - self.factor)).detach()
        t = (weight / step).clamp(self.low, self.high)
        return (t + (t.round() - t).detach()) * step


class FewLevels(Scheme):
    """Learned step size quantisation with a step for each layer."""

    def __init__(self, model: nn.Module, recipe: Recipe, low: int, high: int) -> None:
        """Levels from `low` to `high`; 8 bits in the first and the last layer."""
        super().__init__(model, recipe)
        layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        self._bits = self._n_values = 0.0
        for layer in layers:
            is_end = layer in (layers[0], layers[-1])
            most = 1 << (BITS_OF_ENDS - 1)
            span = (-most, most - 1) if is_end else (low, high)
            width = math.log2(span[1] - span[0] + 1)
            self._bits += layer.weight.numel() * width + 32
            self._n_values += layer.weight.numel()
            parametrize.register_parametrization(layer, "weight", _Levels(layer.weight, *span))

    def groups(self) -> list[dict[str, Any]]:
        """Steps have no weight decay."""
        steps = [m.step for m in self.model.modules() if isinstance(m, _Levels)]
        known = {id(step) for step in steps}
        rest = [p for p in self.model.parameters() if id(p) not in known]
        return [
            {"params": rest, "lr": self.recipe.lr},
            {"params": steps, "lr": self.recipe.lr, "weight_decay": 0.0},
        ]

    def bits(self) -> float:
        """Without entropy coding: log2 of the number of levels, and steps."""
        return self._bits / self._n_values
