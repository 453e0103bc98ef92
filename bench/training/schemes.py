"""Ways to train a network further: as it is, for a rate, or with few fixed levels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn.utils import parametrize


@dataclass
class Recipe:
    """Rates of learning, for AdamW; they fall as a cosine to 0."""

    lr: float = 1e-3
    step_lr: float = 1e-2
    weight_decay: float = 1e-4
    bits: float = 6.0
    reach: float = 0.7  # the part of training after which the rate is to be reached
    options: dict = field(default_factory=dict)


class Plain:
    """The float32 network."""

    def __init__(self, model: nn.Module, recipe: Recipe, n_steps: int) -> None:
        self.model, self.recipe = model, recipe

    def groups(self) -> list[dict]:
        return [{"params": list(self.model.parameters()), "lr": self.recipe.lr}]

    def extra_loss(self) -> torch.Tensor | float:
        return 0.0

    def advance(self, done: float) -> None:
        """`done` is the part of training that is over."""

    def note(self) -> str:
        return ""

    def bits(self) -> float:
        return 32.0


class Spectral(Plain):
    """Compression that is learned, at `bits_per_weight`."""

    def __init__(
        self, model: nn.Module, recipe: Recipe, n_steps: int, bits_per_weight: float
    ) -> None:
        from cfck.train import spectral

        super().__init__(model, recipe, n_steps)
        self.q = spectral(model, bits=recipe.bits, **recipe.options)
        self.q.target(bits_per_weight=bits_per_weight, by=int(recipe.reach * n_steps))

    def groups(self) -> list[dict]:
        return self.q.param_groups(lr=self.recipe.lr, step_lr=self.recipe.step_lr)

    def extra_loss(self) -> torch.Tensor:
        return self.q.rate_loss()

    def advance(self, done: float) -> None:
        if done >= 0.9:
            self.q.snap()

    def note(self) -> str:
        return self.q.describe()

    def bits(self) -> float:
        return self.q.fit_rate()


class _Uniform(nn.Module):
    """Learned step size quantisation to `levels` each side of zero (Esser et al. 2020)."""

    def __init__(self, weight: torch.Tensor, low: int, high: int) -> None:
        super().__init__()
        self.low, self.high = low, high
        step = 2 * weight.detach().abs().mean() / math.sqrt(high)
        self.step = nn.Parameter(step)
        self.factor = 1 / math.sqrt(weight.numel() * high)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        step = self.step * self.factor + (self.step * (1 - self.factor)).detach()
        t = (weight / step).clamp(self.low, self.high)
        return (t + (t.round() - t).detach()) * step


class Lsq(Plain):
    """Steps learned for each layer; the first and the last layer have 8 bits, as is usual."""

    def __init__(
        self, model: nn.Module, recipe: Recipe, n_steps: int, low: int, high: int, width: float
    ) -> None:
        super().__init__(model, recipe, n_steps)
        layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        self._total = self._n = 0.0
        for layer in layers:
            is_end = layer in (layers[0], layers[-1])
            span = (-128, 127) if is_end else (low, high)
            self._total += layer.weight.numel() * (8 if is_end else width) + 32
            self._n += layer.weight.numel()
            parametrize.register_parametrization(layer, "weight", _Uniform(layer.weight, *span))

    def groups(self) -> list[dict]:
        steps = [m.step for m in self.model.modules() if isinstance(m, _Uniform)]
        known = {id(step) for step in steps}
        rest = [p for p in self.model.parameters() if id(p) not in known]
        return [
            {"params": rest, "lr": self.recipe.lr},
            {"params": steps, "lr": self.recipe.lr, "weight_decay": 0.0},
        ]

    def bits(self) -> float:
        return self._total / self._n
