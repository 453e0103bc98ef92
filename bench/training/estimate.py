"""How far the estimate of the bits is from those of encoded records, while networks are trained."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from cfck.train import SpectralModel, spectral
from torch import nn

from training.schemes import Recipe
from training.tasks import Images

# The estimate is fitted to records at every so many steps, or earlier: see docs/training.md.
FIT_INTERVAL = 20
LARGE = 4096  # values of a record, of which errors are looked at by themselves


@dataclass
class Errors:
    """The largest relative errors, at steps that a fit follows."""

    of_model: float = 0.0
    of_large_record: float = 0.0

    def add(self, q: SpectralModel) -> None:
        """Those of now. Fits the estimate."""
        estimated = [float(p.weight.bits(p.original()).detach()) for p in q.places]
        stored = [p.weight.fit_rate(p.original()) for p in q.places]
        self.of_model = max(self.of_model, abs(sum(estimated) / sum(stored) - 1))
        for place, bits, true_bits in zip(q.places, estimated, stored, strict=True):
            if place.original().numel() >= LARGE:
                self.of_large_record = max(self.of_large_record, abs(bits / true_bits - 1))


def errors_of_estimate(
    model: nn.Module, task: Images, recipe: Recipe, rate: float, n_steps: int
) -> Errors:
    """Trains the model for some steps at a rate."""
    q = spectral(model, bits=rate)
    q.target(bits_per_weight=rate, by=1)
    optimizer = torch.optim.AdamW(q.param_groups(lr=recipe.lr, step_lr=recipe.step_lr))
    errors = Errors()
    for step, batch in zip(range(1, n_steps + 1), task.epoch(0), strict=False):
        loss = task.loss(model, batch) + q.rate_loss()
        if step % FIT_INTERVAL == 0:
            errors.add(q)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return errors
