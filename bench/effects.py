#!/usr/bin/env python3
"""Measures what error bounds do to real models and makes a table in bench/results/.

    CFCK_DATA=/path/to/data python bench/effects.py -o bench/results/

Every setting goes through the product: the tensors are saved with cfck, loaded again, and the model
runs with what came back. bench/README.md says what to install.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cfck.numpy
import numpy as np
import torch
from safetensors.numpy import load_file

import bounds
import cifar_resnet
import data
import models
import report

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


def resnet(depth: int, images: np.ndarray, labels: np.ndarray) -> Subject:
    """Top-1, agreement and divergence on test images."""
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


def measure(subject: Subject, settings: list[tuple[str, dict]]) -> list[list[str]]:
    """One line for every setting."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.cfck")
        for label, options in settings:
            summary = cfck.numpy.save_file(subject.weights, path, **options)
            effect = subject.effect(cfck.numpy.load_file(path))
            rows.append([label, f"{summary.file_bytes:,}", f"{stored_bits(path):.3f}", *effect])
            print(subject.name, *rows[-1], file=sys.stderr)
    return rows


def subjects(n_images: int, n_sentences: int) -> list[Subject]:
    """Those whose data and packages are here; the others are named on stderr."""
    found = []
    try:
        test = np.load(data.data_path("cifar10_test.npz"))
        images, labels = test["images"][:n_images], test["labels"][:n_images]
        found += [resnet(depth, images, labels) for depth in (20, 56)]
    except data.MissingData as error:
        print(f"SKIPPED ResNets: {error}", file=sys.stderr)
    try:
        found.append(minilm(n_sentences))
    except (data.MissingData, ImportError) as error:
        print(f"SKIPPED MiniLM: {error}", file=sys.stderr)
    return found


def main(arguments: list[str]) -> int:
    """Runs everything and writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the table")
    parser.add_argument("--images", type=int, default=10000, help="test images of CIFAR-10")
    parser.add_argument("--sentences", type=int, default=500)
    options = parser.parse_args(arguments)
    facts = report.machine()
    text = ["# What error bounds do to models", ""]
    text += ["Made by `python bench/effects.py -o bench/results`; bench/README.md explains it.", ""]
    text += [f"- {key}: {value}" for key, value in facts.items()]
    text += [f"- sentences: {options.sentences} from Python {sys.version.split()[0]}"]
    for subject in subjects(options.images, options.sentences):
        columns = ["options", "file, bytes", "bits per weight", *subject.columns]
        rows = measure(subject, SETTINGS)
        text += ["", f"## {subject.name}", "", bounds.table(columns, rows)]
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"effects-{report.file_stem(facts)}.md"
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
