"""Tasks that networks are trained for: CIFAR-10 images, words of wikitext-2."""

from __future__ import annotations

import functools
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from common import data
from training.images import TrainingImages, top1

TOKENS_TOGETHER = 64
# Epochs that are trained have lower numbers.
NORM_EPOCH, N_NORM_BATCHES = 1000, 50


class Task(ABC):
    """Batches, a loss, and a score, of which more is better."""

    n_batches: int  # in an epoch
    weight_decay: float

    def __init__(self, in_bfloat16: bool) -> None:
        """`in_bfloat16`: losses are computed under autocast, scores never."""
        self.autocast = functools.partial(
            torch.autocast, "cpu", torch.bfloat16, enabled=in_bfloat16
        )

    @abstractmethod
    def epoch(self, number: int) -> Iterator[Any]:
        """The batches of an epoch, the same for the same number."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """The loss of a batch."""

    def norm_batches(self) -> list[torch.Tensor]:
        """Inputs on which statistics of batch norms are measured at the end; may be none."""
        return []

    @abstractmethod
    def score(self, model: nn.Module) -> float:
        """On data that the model was not trained on."""


class Images(Task):
    """CIFAR-10, cropped and mirrored; the score is top-1 of the test images, in percent."""

    weight_decay = 1e-4

    def __init__(self, scratch: Path, in_bfloat16: bool, batch: int) -> None:
        """Decoded images are kept in `scratch`; `batch` of them are trained on together."""
        super().__init__(in_bfloat16)
        self._images = TrainingImages(scratch, batch)
        self.n_batches = len(self._images)

    def epoch(self, number: int) -> Iterator[Any]:
        """Images and labels."""
        return self._images.epoch(number)

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """Cross entropy."""
        images, labels = batch
        return functional.cross_entropy(self._logits(model, images), labels)

    def _logits(self, model: nn.Module, images: torch.Tensor) -> torch.Tensor:
        with self.autocast():
            logits: torch.Tensor = model(images.to(memory_format=torch.channels_last))
        return logits.float()

    def norm_batches(self) -> list[torch.Tensor]:
        """Training images, varied as in an epoch."""
        batches = itertools.islice(self._images.epoch(NORM_EPOCH), N_NORM_BATCHES)
        return [images for images, _ in batches]

    def score(self, model: nn.Module) -> float:
        """Percent of the test images."""
        return top1(model)


class TaughtImages(Images):
    """CIFAR-10 with a teacher, a trained network whose softened outputs are half of the loss.

    Hinton et al. 2015, "Distilling the Knowledge in a Neural Network".
    """

    temperature = 2.0

    def __init__(
        self, scratch: Path, in_bfloat16: bool, batch: int, teacher: Callable[[], nn.Module]
    ) -> None:
        """`teacher` is called with the first batch."""
        super().__init__(scratch, in_bfloat16, batch)
        self._teacher = functools.cache(teacher)

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """Half cross entropy, half divergence from the teacher."""
        images, labels = batch
        logits = self._logits(model, images)
        with torch.no_grad():
            wanted = self._logits(self._teacher(), images)
        divergence = functional.kl_div(
            (logits / self.temperature).log_softmax(1),
            (wanted / self.temperature).log_softmax(1),
            reduction="batchmean",
            log_target=True,
        )
        labelled = functional.cross_entropy(logits, labels)
        return 0.5 * (labelled + self.temperature**2 * divergence)


class Words(Task):
    """Wikitext-2; the score is minus the logarithm of the perplexity of the validation part."""

    weight_decay = 0.1
    batch = 32

    def __init__(self, in_bfloat16: bool = False) -> None:
        """Both parts are in one file."""
        super().__init__(in_bfloat16)
        with np.load(data.data_path("wikitext2_tokens.npz")) as stored:
            self._train = torch.from_numpy(stored["train"].astype(np.int64))
            self._valid = torch.from_numpy(stored["valid"].astype(np.int64))
        self.n_batches = (len(self._train) - 1) // (TOKENS_TOGETHER * self.batch)

    def epoch(self, number: int) -> Iterator[torch.Tensor]:
        """Texts of one token more than the context, at other places in each epoch."""
        random = torch.Generator().manual_seed(number)
        first = int(torch.randint(0, TOKENS_TOGETHER, (), generator=random))
        starts = torch.arange(first, len(self._train) - TOKENS_TOGETHER - 1, TOKENS_TOGETHER)
        order = starts[torch.randperm(len(starts), generator=random)]
        for places in order[: self.n_batches * self.batch].split(self.batch):
            yield self._train[places[:, None] + torch.arange(TOKENS_TOGETHER + 1)]

    def loss(self, model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        """Cross entropy of the next word."""
        with self.autocast():
            logits = model(batch[:, :-1])
        return functional.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())

    @torch.no_grad()
    def score(self, model: nn.Module) -> float:
        """Minus the mean cross entropy, in natural units."""
        was_training = model.training
        model.eval()
        starts = torch.arange(0, len(self._valid) - TOKENS_TOGETHER - 1, TOKENS_TOGETHER)
        total = 0.0
        for places in starts.split(64):
            texts = self._valid[places[:, None] + torch.arange(TOKENS_TOGETHER + 1)]
            logits = model(texts[:, :-1]).flatten(0, 1)
            total += float(functional.cross_entropy(logits, texts[:, 1:].flatten())) * len(places)
        model.train(was_training)
        return -total / len(starts)


def perplexity(score: float) -> float:
    """The perplexity for a score of Words."""
    return math.exp(-score)
