"""Models that learn to be small: compression in training, for torch (docs/training.md)."""

from __future__ import annotations

from ._training.by_name import compress_weights, decompress_weights, quantization_loss
from ._training.model import SpectralModel
from ._training.spectral import spectral

__all__ = [
    "SpectralModel",
    "compress_weights",
    "decompress_weights",
    "quantization_loss",
    "spectral",
]
