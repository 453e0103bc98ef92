"""The bounds, the data sets they are tried on, and what a codec makes of tensors under one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bounds.peers import BoundedPeer

DATASETS = ["resnet20-f32", "resnet56-f32", "minilm-f32"]


def absolute(bound: float) -> Callable[[np.ndarray], float]:
    """One bound, which all tensors share."""
    return lambda tensor: bound


def of_range(part: float) -> Callable[[np.ndarray], float]:
    """A part of the value range of the tensor."""
    return lambda tensor: part * (float(tensor.max()) - float(tensor.min()))


# The request to cfck, and the bound that peers are given.
BOUNDS: dict[str, tuple[str, float, Callable[[np.ndarray], float]]] = {
    "ABS 1e-4": ("abs", 1e-4, absolute(1e-4)),
    "REL 1e-2": ("rel", 1e-2, of_range(1e-2)),
    "REL 1e-3": ("rel", 1e-3, of_range(1e-3)),
    "REL 1e-4": ("rel", 1e-4, of_range(1e-4)),
}


@dataclass
class Tally:
    """The outcome of a codec for the tensors of a data set."""

    n_bytes: int = 0
    n_values: int = 0
    worst: float = 0.0
    beyond: int = 0

    def add(self, peer: BoundedPeer, tensor: np.ndarray, bound: float) -> None:
        """Encodes, decodes and compares one tensor."""
        blob = peer.encode(tensor, bound)
        error = np.abs(peer.decode(blob, tensor.shape, bound).astype(np.float64) - tensor)
        self.n_bytes += len(blob)
        self.n_values += tensor.size
        self.worst = max(self.worst, float(error.max()) / bound)
        self.beyond += int(np.count_nonzero(error > bound))

    def row(self, name: str, label: str, peer: BoundedPeer) -> list[str]:
        """The line of the table of sizes."""
        bits = 8 * self.n_bytes / self.n_values
        cells = [f"{bits:.4f}", f"{self.worst:.7f}", str(self.beyond)]
        return [name, label, peer.name, peer.version, *cells]
