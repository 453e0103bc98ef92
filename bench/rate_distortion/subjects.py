"""The models of the rate-distortion curves, and what is measured of a decoded one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file
from torch import nn

from common import data, models
from rate_distortion.points import Tensors
from rate_distortion.product import LEAST_VALUES, float_matrices

MINILM = "MiniLM"
IMAGE_BATCH = 50
CALIBRATION_IMAGES, CALIBRATION_TEXTS = 1000, 1000
SUBSET_LAYER, SUBSET_ROWS, WORDS_APART = ".layer.3.", 3000, 10
Measure = Callable[[nn.Module], dict[str, float]]


@dataclass
class Subject:
    """Tensors to code, and, if `measure` is there, the model they belong to."""

    name: str
    tensors: Tensors
    load: Callable[[], nn.Module] | None = None
    measure: Measure | None = None
    batches: Callable[[], list[Any]] | None = None  # to calibrate with
    calibration: Any = None  # with these, once it was made
    input_shape: tuple[int, ...] | None = None
    loss: str | None = None  # whose gradients a calibration with data gathers
    n_others: int = 0  # values of the model that are not coded
    # Tensors that a plain target leaves alone are coded as the others are, as peers code them;
    # else they stay without loss.
    codes_small: bool = False
    facts: dict[str, float] = field(default_factory=dict)

    @property
    def has_small(self) -> bool:
        """Whether some of the tensors to code are below what a plain target reaches."""
        return self.codes_small and any(
            values.size < LEAST_VALUES for values in self.tensors.values()
        )

    @cached_property
    def model(self) -> nn.Module:
        """The model, for what decoded tensors do to it."""
        assert self.load is not None
        return self.load()

    def effects(self, decoded: Tensors) -> dict[str, float]:
        """What the model does with decoded tensors in place of its own."""
        assert self.measure is not None
        state = {name: torch.from_numpy(np.array(values)) for name, values in decoded.items()}
        wrong = self.model.load_state_dict(state, strict=False).unexpected_keys
        if wrong:
            raise RuntimeError(f"{self.name} has no {', '.join(wrong)}")
        with torch.inference_mode():
            return self.measure(self.model)


def resnet(depth: int, n_images: int) -> Subject:
    """Divergence of the classes, top-1 and agreement on test images."""
    stored = load_file(data.data_path(f"resnet{depth}.safetensors"))
    tensors = float_matrices(stored)
    images, labels = models.image_batches(count=n_images, size=IMAGE_BATCH)
    truth = torch.cat(labels)
    subject = Subject(f"ResNet-{depth}", tensors, lambda: models.load_resnet(depth))
    subject.codes_small = True
    subject.batches = lambda: models.image_batches("cifar10_calibration.npz", CALIBRATION_IMAGES)[0]
    subject.input_shape, subject.loss = (3, 32, 32), "sampled"
    subject.n_others = sum(v.size for name, v in stored.items() if name not in tensors)

    def logits(model: nn.Module) -> torch.Tensor:
        return torch.cat([model(batch) for batch in images]).double()

    model = subject.model  # made outside inference mode, to be loaded with other weights later
    with torch.inference_mode():
        before = logits(model)
    expected, own = before.log_softmax(1), before.argmax(1)
    right = float((own == truth).double().mean())
    subject.facts = {"images": len(truth), "top-1, %": 100 * right}

    def measure(model: nn.Module) -> dict[str, float]:
        after = logits(model)
        top = after.argmax(1)
        divergence = (expected.exp() * (expected - after.log_softmax(1))).sum(1).mean()
        return {
            "KL": float(divergence),
            "top-1": 100 * (float((top == truth).double().mean()) - right),
            "agreement": 100 * float((top == own).double().mean()),
        }

    subject.measure = measure
    return subject


def minilm_subset() -> Subject:
    """The matrices of one layer and every tenth row of the word embeddings; no model."""
    stored = float_matrices(load_file(data.minilm_path()))
    chosen = {name: values for name, values in stored.items() if SUBSET_LAYER in name}
    word = next(name for name in stored if "word_embeddings" in name)
    chosen[word] = np.ascontiguousarray(stored[word][::WORDS_APART][:SUBSET_ROWS])
    return Subject("MiniLM, layer 3 and 3,000 words", chosen)


def minilm(n_sentences: int) -> Subject:
    """The cosine between the embeddings of sentences before and after."""
    stored = load_file(data.minilm_path())
    tensors = float_matrices(stored)
    batches = models.sentence_batches(models.sentences(n_sentences))
    subject = Subject(MINILM, tensors, models.load_minilm)
    subject.batches = lambda: models.sentence_batches(
        models.other_sentences(CALIBRATION_TEXTS, n_sentences)
    )
    floats = [v for v in stored.values() if v.dtype == np.float32]
    subject.n_others = sum(v.size for v in floats) - sum(v.size for v in tensors.values())

    def embeddings(model: nn.Module) -> torch.Tensor:
        parts = []
        for batch in batches:
            states = model(**batch).last_hidden_state.double()
            mask = batch["attention_mask"][..., None].double()
            parts.append((states * mask).sum(1) / mask.sum(1))
        return nn.functional.normalize(torch.cat(parts), dim=1)

    model = subject.model
    with torch.inference_mode():
        before = embeddings(model)
    subject.facts = {"sentences": len(before)}

    def measure(model: nn.Module) -> dict[str, float]:
        cosines = (before * embeddings(model)).sum(1)
        return {"1 - cosine": float(1 - cosines.mean()), "least cosine": float(cosines.min())}

    subject.measure = measure
    return subject
