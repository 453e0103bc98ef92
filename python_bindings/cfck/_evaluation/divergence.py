"""Divergences of many distributions from the same ones, a few rows at a time."""

from __future__ import annotations

import torch

from .outputs import are_distributions, divergences, log_probabilities

# Values of the rows that are worked on together: they stay in a cache.
_PIECE_VALUES = 1 << 17


class Divergence:
    """Distances in nats from one set of distributions.

    Args:
        rows: logits, probabilities or their logarithms, (rows, classes).
    """

    def __init__(self, rows: torch.Tensor) -> None:
        self._step = max(1, _PIECE_VALUES // max(1, rows.shape[1]))
        self._are_distributions = are_distributions(rows)
        self.is_usable = True
        # sum p (log p - log q) = sum p (y - z) - (log sum e^y - log sum e^z), for logits y of p and
        # z of q; exactly 0 where they are equal.
        self._rows = self._pieces(rows)
        self._chances: list[torch.Tensor] = []
        self._common: list[torch.Tensor] = []
        for piece in self._rows:
            logs = log_probabilities(piece.double(), self._are_distributions)
            self.is_usable &= bool((torch.isfinite(logs) | (logs == -torch.inf)).all())
            self._chances.append(logs.exp())
            self._common.append(torch.logsumexp(piece.double(), 1))

    def to(self, rows: torch.Tensor) -> torch.Tensor:
        """The divergence of other rows, row by row."""
        found = []
        for piece, own, chances, common in zip(
            self._pieces(rows), self._rows, self._chances, self._common
        ):
            wide = piece.double()
            if not self._are_distributions:
                change = torch.einsum("rc,rc->r", chances, own.double() - wide)
                distance = change - (common - torch.logsumexp(wide, 1))
                if bool(torch.isfinite(distance).all()):
                    found.append(distance)
                    continue
            logs = log_probabilities(wide, self._are_distributions)
            before = log_probabilities(own.double(), self._are_distributions)
            found.append(divergences(before, logs))
        return torch.cat(found) if found else rows.new_zeros(0).double()

    def _pieces(self, rows: torch.Tensor) -> list[torch.Tensor]:
        return [rows[i : i + self._step] for i in range(0, len(rows), self._step)]
