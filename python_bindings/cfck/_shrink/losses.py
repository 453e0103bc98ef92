"""What each example loses of each outcome, and the outcome of all of them."""

from __future__ import annotations

import numpy as np
import torch

from .._evaluation.outputs import Output, log_probabilities, rows_of
from .._evaluation.run import Totals, examples_of_rows
from .confidence import Sample
from .goals import COUNTED

# Of a distribution p: 1 - sum of p^2. To first order, errors of one size in all logits lead to a
# divergence in proportion to that.
_UNCERTAINTY = "uncertainty"


class Losses(Totals):
    """Totals that remember examples.

    Args:
        of_original: whether the first output of each pair is looked at too.
    """

    def __init__(self, of_original: bool = False) -> None:
        super().__init__()
        self._of_original = of_original
        self._losses: dict[str, list[np.ndarray]] = {}
        self._rows: dict[str, list[np.ndarray]] = {}

    def note(self, name: str, losses: torch.Tensor, examples: torch.Tensor) -> None:
        """Adds the rows of a batch up, example by example."""
        n = int(examples.max()) + 1 if len(examples) else 0
        places = examples.numpy()
        rows = np.bincount(places, minlength=n).astype(np.float64)
        summed = np.bincount(places, losses.double().numpy(), n)
        self._losses.setdefault(name, []).append(summed)
        self._rows.setdefault(name, []).append(rows)

    def add(self, outputs: list[Output], distance: str, pool: str) -> None:
        super().add(outputs, distance, pool)
        if not self._of_original or distance != "kl":
            return
        rows = rows_of(outputs[0], distance, pool)
        if len(rows):
            chances = log_probabilities(rows).double().exp()
            owners = examples_of_rows(outputs[0], len(rows))
            self.note(_UNCERTAINTY, 1 - chances.square().sum(1), owners)

    def hardness(self, name: str) -> Sample | None:
        """How hard the examples are, of which an outcome was lost; None where that is not known."""
        return self.sample(_UNCERTAINTY) if name == "kl" and self._of_original else None

    def sample(self, name: str) -> Sample:
        """The examples so far, of an outcome by the name of its goal."""
        if name not in self._losses:
            return Sample(np.zeros(0), np.zeros(0))
        return Sample(
            np.concatenate(self._losses[name]),
            np.concatenate(self._rows[name]),
            name in COUNTED,
        )
