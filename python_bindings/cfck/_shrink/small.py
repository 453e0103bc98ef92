"""Rules for the tensors that a target for all tensors leaves alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .._calibration.calibration import Calibration
from .._calibration.tensor import MIN_VALUES

# The error of matrices and kernels that are too small for the common step, such as the first
# convolution of an image network: they matter more than they take. Not bits: of few values what
# describes them takes most.
_SMALL_NMSE = 1e-4
# Significant bits of vectors (norms, biases) that are tried, the fewest first.
_BITS = (4, 5, 6, 7, 8, 10, 12)
_FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

Rules = dict[str, dict[str, Any]]


class SmallTensors:
    """Decides what becomes of vectors, of small tensors and of buffers.

    Args:
        state: the tensors of the model.
        buffers: names of those that are buffers.
        calibration: of the model.
    """

    def __init__(
        self, state: Mapping[str, torch.Tensor], buffers: set[str], calibration: Calibration
    ) -> None:
        self._fixed: Rules = {}
        self._vectors: dict[str, torch.Tensor] = {}
        for name, tensor in state.items():
            if tensor.dtype not in _FLOATS or not tensor.numel():
                continue
            known = calibration.get(name)
            if known is not None and known.tied_to is not None:
                continue
            if tensor.dim() < 2:
                self._vectors[name] = tensor.detach()
            elif name in buffers:
                self._fixed[name] = {"codec": "lossless"}
            elif tensor.numel() < MIN_VALUES:
                self._fixed[name] = {
                    "codec": "spectral",
                    "nmse": _SMALL_NMSE,
                    "steps": "flat",
                }

    @property
    def rules(self) -> list[tuple[str, dict[str, Any]]]:
        """For tensors of two or more dimensions."""
        return [(_literal(name), {**rule, "force": True}) for name, rule in self._fixed.items()]

    def rounded(self) -> Iterator[tuple[int, dict[str, torch.Tensor]]]:
        """The vectors with fewer and fewer errors: significant bits, and the rounded tensors.

        They are stored without loss: codecs with a bound would need more for their own numbers
        than such short tensors have.
        """
        for bits in _BITS if self._vectors else ():
            yield bits, {name: _rounded(vector, bits) for name, vector in self._vectors.items()}


def _literal(name: str) -> str:
    """A pattern that matches this name only."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def _rounded(values: torch.Tensor, bits: int) -> torch.Tensor:
    """The values with so many significant bits; what is not finite stays."""
    fractions, exponents = torch.frexp(values.double())
    scale = float(1 << bits)
    wide = torch.ldexp((fractions * scale).round() / scale, exponents)
    return torch.where(torch.isfinite(values), wide, values.double()).to(values.dtype)
