"""The models that are judged, and what each quality must keep of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from safetensors.numpy import load_file

from common import data, models
from common.targets import Goal
from rate_distortion import subjects
from rate_distortion.points import Tensors
from rate_distortion.subjects import Subject

IMAGES, SENTENCES, CONTEXTS = 10000, 200, 64
CONTEXT = models.GPT_POSITIONS

# A goal names an effect of the table of results and its limit, by quality or bits per weight.
Goals = dict[str, tuple[str, Goal]]


@dataclass
class Judged:
    """A model, all of its tensors, and its goals."""

    subject: Subject
    state: Tensors
    effect: str  # what the picture shows, smaller is better
    goals: Goals

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.subject.name


def _goal(must: float, aim: float | None = None) -> Goal:
    return Goal(must, must if aim is None else aim, smaller=True)


def minilm() -> Judged:
    """Embeddings of sentences."""
    goals: Goals = {
        "high": ("1 - cosine", _goal(0.001)),
        "balanced": ("1 - cosine", _goal(0.01)),
        "3 bits": ("1 - cosine", _goal(0.03, 0.02)),
        "3 bits each": ("1 - cosine", _goal(0.1)),
    }
    state = load_file(data.minilm_path())
    return Judged(subjects.minilm(SENTENCES), state, "1 - cosine", goals)


def resnet(depth: int) -> Judged:
    """Classes of test images. A loss of top-1 is a positive number."""
    goals: Goals = {
        "high": ("top-1 lost, points", _goal(0.2)),
        "balanced": ("top-1 lost, points", _goal(0.5)),
    }
    subject = subjects.resnet(depth, IMAGES)
    measure = subject.measure
    assert measure is not None

    def losses(model: torch.nn.Module) -> dict[str, float]:
        effects = measure(model)
        return {"KL": effects["KL"], "top-1 lost, points": -effects["top-1"]}

    subject.measure = losses
    return Judged(subject, load_file(data.data_path(f"resnet{depth}.safetensors")), "KL", goals)


def gpt() -> Judged:
    """The next words of a text that the model was not trained on."""
    prefix = "model."
    stored = load_file(data.data_path("gpt_step01000.safetensors"))
    state = {name.removeprefix(prefix): v for name, v in stored.items() if name.startswith(prefix)}
    with np.load(data.data_path("wikitext2_tokens.npz")) as tokens:
        words = torch.from_numpy(tokens["valid"][: CONTEXTS * CONTEXT].astype(np.int64))
    texts = words.view(CONTEXTS, CONTEXT).split(16)
    subject = Subject("GPT", state, models.load_gpt)

    def of_words(model: torch.nn.Module) -> torch.Tensor:
        return torch.cat([model(text) for text in texts]).double().log_softmax(-1)

    def loss(after: torch.Tensor) -> float:
        return float(-after[:, :-1].gather(-1, torch.cat(texts)[:, 1:, None]).mean())

    model = subject.model
    with torch.inference_mode():
        before = of_words(model)
    own = loss(before)
    subject.facts = {"words": float(words.numel()), "perplexity": float(np.exp(own))}

    def measure(model: torch.nn.Module) -> dict[str, float]:
        after = of_words(model)
        divergence = (before.exp() * (before - after)).sum(-1).mean()
        return {"KL": float(divergence), "perplexity, times": float(np.exp(loss(after) - own))}

    subject.measure = measure
    return Judged(subject, state, "KL", {})


MODELS: dict[str, Callable[[], Judged]] = {
    "minilm": minilm,
    "resnet20": lambda: resnet(20),
    "resnet56": lambda: resnet(56),
    "gpt": gpt,
}
