"""Measures what error bounds do to real models.

    CFCK_DATA=/path/to/data python bench effects -o bench/results

Every setting goes through the product: the tensors are saved with cfck, loaded again, and the model
runs with what came back.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import cfck.numpy
import numpy as np
import torch
from safetensors.numpy import load_file

from common import cifar_resnet, data, models, report
from common.driver import Benchmark

# What is asked of save(): every tensor by rule, or the plain options with their exemptions.
SETTINGS: list[tuple[str, dict]] = [
    ("lossless", {}),
    ("max_abs_error=1e-4", {"max_abs_error": 1e-4}),
    ("max_abs_error=1e-3", {"max_abs_error": 1e-3}),
    ("max_rel_error=1e-4", {"max_rel_error": 1e-4}),
    ("max_rel_error=1e-3", {"max_rel_error": 1e-3}),
    ("max_rel_error=1e-2", {"max_rel_error": 1e-2}),
    ("max_rel_error=1e-2, per_row", {"max_rel_error": 1e-2, "per_row": True}),
    ("max_sigma_error=1e-3", {"max_sigma_error": 1e-3}),
    ("max_sigma_error=1e-2", {"max_sigma_error": 1e-2}),
    ("max_sigma_error=3e-2", {"max_sigma_error": 3e-2}),
    ("max_sigma_error=1e-1", {"max_sigma_error": 1e-1}),
    ("max_sigma_error=1e-1, per_row", {"max_sigma_error": 1e-1, "per_row": True}),
    ("max_sigma_error=3e-1", {"max_sigma_error": 3e-1}),
]
Effect = Callable[[dict[str, np.ndarray]], list[str]]


@dataclass(frozen=True)
class Subject:
    """A model and how to tell what became of it."""

    name: str
    weights: dict[str, np.ndarray]
    columns: list[str]
    effect: Effect


def resnet(depth: int, n_images: int) -> Subject:
    """Top-1, agreement and divergence on test images."""
    test = np.load(data.data_path("cifar10_test.npz"))
    images, labels = test["images"][:n_images], test["labels"][:n_images]
    weights = load_file(data.data_path(f"resnet{depth}.safetensors"))
    before = cifar_resnet.logits(depth, weights, images)
    truth = torch.from_numpy(labels.astype(np.int64))

    def effect(changed: dict[str, np.ndarray]) -> list[str]:
        after = cifar_resnet.logits(depth, changed, images)
        top = after.argmax(1)
        change = (top == truth).double().mean() - (before.argmax(1) == truth).double().mean()
        agreement = (top == before.argmax(1)).double().mean()
        p, q = before.double().log_softmax(1), after.double().log_softmax(1)
        divergence = (p.exp() * (p - q)).sum(1).mean()
        return [f"{100 * change:+.2f}", f"{100 * agreement:.2f}", f"{divergence:.2e}"]

    columns = ["top-1 change, points", "same class, %", "KL, nats"]
    return Subject(f"ResNet-{depth}", weights, columns, effect)


def minilm(count: int) -> Subject:
    """Cosine between the embeddings of sentences before and after."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    path = data.minilm_path()
    weights = load_file(path)
    tokenizer = AutoTokenizer.from_pretrained(path.parent)
    model = AutoModel.from_config(AutoConfig.from_pretrained(path.parent)).eval()
    tokens = [
        tokenizer(sentence, return_tensors="pt", truncation=True)
        for sentence in models.sentences(count)
    ]

    @torch.inference_mode()
    def embeddings(state: dict[str, np.ndarray]) -> torch.Tensor:
        tensors = {name: torch.from_numpy(np.array(values)) for name, values in state.items()}
        missing = model.load_state_dict(tensors, strict=False).missing_keys
        assert not missing, missing
        means = [model(**one).last_hidden_state.mean(1) for one in tokens]
        return torch.nn.functional.normalize(torch.cat(means).double(), dim=1)

    before = embeddings(weights)

    def effect(changed: dict[str, np.ndarray]) -> list[str]:
        cosines = (before * embeddings(changed)).sum(1)
        return [f"{cosines.mean():.6f}", f"{cosines.min():.6f}"]

    return Subject("MiniLM", weights, ["cosine, mean", "cosine, least"], effect)


def stored_bits(path: Path) -> float:
    """Bits per weight over the float tensors of two or more dimensions."""
    with cfck.safe_open(path, framework="np") as file:
        records = file.records()
    weights = [r for r in records if r.dtype == "F32" and len(r.shape) >= 2]
    n_elems = sum(record.n_elems for record in weights)
    return 8 * sum(record.stored_bytes for record in weights) / n_elems


class Effects(Benchmark):
    """A table for each model."""

    name = "effects"

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """Nothing is measured yet."""
        super().__init__(options, scratch)
        self.tables: dict[str, tuple[list[str], list[list[str]]]] = {}
        self.missing: dict[str, str] = {}
        self.errors: dict[str, str] = {}

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """How much the models are fed."""
        super().add_options(parser)
        parser.add_argument("--images", type=int, help="of CIFAR-10 (default: 10000; quick 2000)")
        parser.add_argument("--sentences", type=int, help="(default: 500; quick 100)")

    @property
    def n_images(self) -> int:
        """Test images."""
        return self.options.images or (2000 if self.options.quick else 10000)

    @property
    def n_sentences(self) -> int:
        """Sentences."""
        return self.options.sentences or (100 if self.options.quick else 500)

    def measure(self, make: Callable[[], Subject]) -> None:
        """One line for every setting; without data or packages, the reason why there are none."""
        try:
            subject = make()
        except (data.MissingData, ImportError) as error:
            self.say(f"SKIPPED {error}")
            self.missing[str(error).split(":")[0]] = str(error)
            return
        rows = []
        path = self.scratch / "model.cfck"
        for label, options in SETTINGS:
            summary = cfck.numpy.save_file(subject.weights, path, **options)
            effect = subject.effect(cfck.numpy.load_file(path))
            rows.append([label, f"{summary.file_bytes:,}", f"{stored_bits(path):.3f}", *effect])
            self.say(" ".join([subject.name, *rows[-1]]))
        columns = ["options", "file, bytes", "bits per weight", *subject.columns]
        self.tables[subject.name] = columns, rows

    rows: ClassVar[Mapping[str, Callable[[Effects], None]]] = {
        "resnet20": lambda self: self.measure(lambda: resnet(20, self.n_images)),
        "resnet56": lambda self: self.measure(lambda: resnet(56, self.n_images)),
        "minilm": lambda self: self.measure(lambda: minilm(self.n_sentences)),
    }

    def fail(self, row: str, reason: str) -> None:
        """Errors stand among what was skipped."""
        self.errors[row] = reason

    def failed(self) -> bool:
        """Effects are not judged."""
        return bool(self.errors)

    def facts(self) -> dict[str, str]:
        """The sentences."""
        return {"sentences": f"{self.n_sentences} from Python {sys.version.split()[0]}"}

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """One page."""
        title = "What error bounds do to models"
        lines = report.page_head(title, command, facts, self.missing | self.errors)
        for name, (columns, rows) in self.tables.items():
            lines += ["", f"## {name}", "", report.markdown_table(columns, rows).rstrip()]
        return {f"effects-{report.file_stem(facts)}.md": "\n".join(lines) + "\n"}


COMMAND = Effects
