"""Compression of networks after their training, which learned compression is compared with."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import cfck
import torch
from cfck.torch import load_file, save_file
from torch import nn

from common import models
from training.images import top1
from training.loop import Outcome

# As in rate_distortion/presets.py: training images, and how many of them refine.
_IMAGES, _REFINING = 1000, 600
_HIGHEST, _FACTOR, _LOWEST = 2.4, 0.85, 0.5  # rates, in bits per weight


def refined(model: nn.Module, folder: Path, least_score: float) -> Iterator[Outcome]:
    """Files with refined calibrations, of fewer and fewer bits, until a score is below the least.

    The network is in evaluation mode, and stays as it is.
    """
    batches = models.image_batches("cifar10_calibration.npz", _IMAGES)[0]
    calibration = cfck.calibrate(model, batches, loss="sampled")
    rate = _HIGHEST
    while rate >= _LOWEST:
        target = {"steps": "feedback", "bits_per_weight": rate}
        better = cfck.refine(model, batches, calibration, n_examples=_REFINING, **target)
        path = folder / "refined.cfck"
        save_file(model.state_dict(), path, calibration=better, **target)
        decoded = copy.deepcopy(model)
        decoded.load_state_dict(load_file(path))
        yield (found := Outcome(score=top1(decoded), bits=_bits_per_weight(path)))
        if found.score < least_score:
            return
        rate *= _FACTOR


def _bits_per_weight(path: Path) -> float:
    with cfck.safe_open(path, framework="pt") as file:
        weights = [record for record in file.records() if len(record.shape) >= 2]
    n_values = sum(torch.Size(record.shape).numel() for record in weights)
    return 8 * sum(record.stored_bytes for record in weights) / n_values
