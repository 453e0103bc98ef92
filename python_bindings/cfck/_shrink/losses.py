"""What each example loses of each outcome, and the outcome of all of them."""

from __future__ import annotations

import numpy as np
import torch

from .._evaluation.run import Totals
from .confidence import Sample

# Outcomes of which a row is lost or not.
_COUNTED = ("agreement", "top1")


class Losses(Totals):
    """Totals that remember examples."""

    def __init__(self) -> None:
        super().__init__()
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

    def sample(self, name: str) -> Sample:
        """The examples so far, of an outcome by the name of its goal."""
        if name not in self._losses:
            return Sample(np.zeros(0), np.zeros(0))
        return Sample(
            np.concatenate(self._losses[name]),
            np.concatenate(self._rows[name]),
            name in _COUNTED,
        )
