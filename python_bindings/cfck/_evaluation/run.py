"""The comparison itself, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from ..errors import InvalidArgumentError
from .outputs import (
    POOLS,
    Output,
    angles,
    attention_mask,
    check_batches,
    check_choice,
    check_has_examples,
    choose_distance,
    count_examples,
    divergences,
    find_output,
    first_tensor,
    log_probabilities,
    model_device,
    moved,
    rows_of,
    run_model,
    undisturbed,
)
from .result import Evaluation

KINDS = ("auto", "logits", "embeddings")


def run_evaluation(
    model_a: torch.nn.Module,
    model_b: torch.nn.Module,
    batches: Iterable[Any],
    inputs: Callable[[Any], Any] | None,
    labels: Any,
    language_model: bool,
    output: Callable[[Any], torch.Tensor] | None,
    kind: str,
    pool: str,
) -> Evaluation:
    """Arguments as of evaluate()."""
    check_batches(batches)
    check_choice("kind", kind, KINDS)
    check_choice("pool", pool, POOLS)
    for model in (model_a, model_b):
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"expected a torch.nn.Module as the model, not {type(model).__name__}")
    if language_model and labels is not None:
        raise InvalidArgumentError("language_model takes labels from the inputs; give no labels")
    totals = Totals()
    distance = {"auto": None, "logits": "kl", "embeddings": "cosine"}[kind]
    if labels is not None or language_model:
        distance = "kl"
    with undisturbed(model_a, model_b):
        for position, (batch, truth) in enumerate(_labelled(batches, labels)):
            given = inputs(batch) if inputs is not None else batch
            check_has_examples(given, position)
            if distance is None:
                distance = choose_distance(model_a, moved(given, model_device(model_a)), output)
            outputs = [output_of(model, given, output) for model in (model_a, model_b)]
            if outputs[0].values.shape != outputs[1].values.shape:
                raise InvalidArgumentError(
                    f"batch {position}: the outputs have shapes {list(outputs[0].values.shape)} "
                    f"and {list(outputs[1].values.shape)}"
                )
            if language_model:
                outputs, truth = next_tokens(outputs, given)
            totals.n_examples += count_examples(given)
            totals.add(outputs, distance, pool)
            if truth is not None:
                totals.add_labels(outputs, torch.as_tensor(truth, device="cpu"), position)
    return totals.result()


def _labelled(batches: Iterable[Any], labels: Any) -> Iterator[tuple[Any, Any]]:
    if labels is None:
        for batch in batches:
            yield batch, None
    elif callable(labels):
        for batch in batches:
            yield batch, labels(batch)
    else:
        if (
            not isinstance(labels, Iterable)
            or isinstance(labels, torch.Tensor)
            and labels.dim() < 2
        ):
            kind = "one tensor" if isinstance(labels, torch.Tensor) else type(labels).__name__
            raise InvalidArgumentError(
                f"labels is an iterable with one entry, a tensor, for each batch, not {kind}; put "
                "the labels of a single batch into a list"
            )
        given = iter(labels)
        for position, batch in enumerate(batches):
            try:
                yield batch, next(given)
            except StopIteration:
                raise InvalidArgumentError(
                    f"there are labels for only {position} batches"
                ) from None


def output_of(model: torch.nn.Module, given: Any, choose: Any) -> Output:
    batch = moved(given, model_device(model))
    found = find_output(run_model(model, batch), batch, choose)
    mask = None if found.mask is None else found.mask.cpu()
    return Output(found.values.cpu(), found.role, mask)


def next_tokens(outputs: list[Output], given: Any) -> tuple[list[Output], torch.Tensor]:
    """The outputs without the last position, and the tokens that they predict."""
    tokens = given.get("input_ids") if isinstance(given, Mapping) else first_tensor(given)
    values = outputs[0].values
    if (
        tokens is None
        or tokens.is_floating_point()
        or values.dim() != 3
        or tokens.shape != values.shape[:2]
    ):
        raise InvalidArgumentError(
            "a language model takes integers of shape (examples, positions) and gives logits of "
            f"shape (examples, positions, tokens), not {list(values.shape)}"
        )
    truth = tokens[:, 1:].cpu().long()
    mask = attention_mask(given)
    if mask is not None:
        truth = torch.where(mask[:, 1:].cpu(), truth, -1)
    shorter = [
        Output(one.values[:, :-1], one.role, None if one.mask is None else one.mask[:, :-1])
        for one in outputs
    ]
    return shorter, truth


class Totals:
    """Sums over all batches, in double precision. Subclasses may note more of each row."""

    def __init__(self) -> None:
        self.n_examples = 0
        self.n_rows = 0
        self.n_labels = 0
        self.is_logits = False
        self.is_language_model = False
        self.angle = 0.0
        self.largest_angle = -math.inf
        self.divergence = 0.0
        self.agreeing = 0.0
        self.hits = [0.0, 0.0]
        self.cross_entropy = [0.0, 0.0]

    def note(self, name: str, losses: torch.Tensor, examples: torch.Tensor) -> None:
        """Is called with what each row has lost of an outcome, and the example of each row."""

    def add(self, outputs: list[Output], distance: str, pool: str) -> None:
        a, b = (rows_of(one, distance, pool) for one in outputs)
        self.n_rows += len(a)
        if not len(a):
            return
        owners = examples_of_rows(outputs[0], len(a))
        # Numbers have no direction, and one class is no choice: nothing is known of such rows.
        is_known = a.shape[1] > 1
        turned = angles(a, b) if is_known else a.new_full((len(a),), math.nan).double()
        self.note("cosine", turned, owners)
        self.angle += float(turned.sum())
        # Python's max() would let a NaN pass.
        self.largest_angle = float(
            torch.maximum(turned.new_tensor(self.largest_angle), turned.max())
        )
        if distance == "kl":
            self.is_logits = True
            if not is_known or bool((a.isnan() | b.isnan()).any()):
                self.agreeing = math.nan
            agreeing = a.argmax(1) == b.argmax(1)
            self.agreeing += int(agreeing.sum())
            self.note("agreement", 1 - agreeing.double(), owners)
            divergence = divergences(log_probabilities(a), log_probabilities(b))
            self.note("kl", divergence, owners)
            self.divergence += float(divergence.sum()) if is_known else math.nan

    def add_labels(self, outputs: list[Output], truth: torch.Tensor, batch: int) -> None:
        shape = outputs[0].values.shape
        if truth.is_floating_point() or truth.shape != shape[:-1]:
            raise InvalidArgumentError(
                f"batch {batch}: labels for outputs of shape {list(shape)} are integers of shape "
                f"{list(shape[:-1])}, not {truth.dtype} of {list(truth.shape)}"
            )
        self.is_language_model |= truth.dim() == 2
        flat = truth.reshape(-1).cpu().long()
        counts = flat >= 0
        flat = flat[counts]
        if len(flat) and int(flat.max()) >= shape[-1]:
            raise InvalidArgumentError(
                f"batch {batch}: label {int(flat.max())}, but the outputs have {shape[-1]} classes"
            )
        self.n_labels += len(flat)
        owners = examples_of_rows(Output(outputs[0].values, "", None), len(counts))[counts]
        hits, chances = [], []
        for which, one in enumerate(outputs):
            rows = one.values.double().reshape(-1, shape[-1])[counts]
            if bool(rows.isnan().any()):
                self.hits[which] = math.nan
            hits.append((rows.argmax(1) == flat).double())
            self.hits[which] += int(hits[-1].sum())
            if len(flat):
                chances.append(log_probabilities(rows).gather(1, flat.unsqueeze(1))[:, 0])
                self.cross_entropy[which] -= float(chances[-1].sum())
        if len(flat):
            self.note("top1", hits[0] - hits[1], owners)
            self.note("perplexity", chances[0] - chances[1], owners)

    def result(self) -> Evaluation:
        if not self.n_rows:
            raise InvalidArgumentError("there are no batches with any rows to compare")
        result: dict[str, Any] = {
            "n_examples": self.n_examples,
            "n_rows": self.n_rows,
            "cosine_mean": 1 - self.angle / self.n_rows,
            "cosine_min": 1 - self.largest_angle,
        }
        if self.is_logits:
            result["agreement"] = self.agreeing / self.n_rows
            result["kl"] = self.divergence / self.n_rows
        if self.n_labels:
            a, b = (hits / self.n_labels for hits in self.hits)
            result |= {"top1_a": a, "top1_b": b, "top1_change": b - a}
        if self.n_labels and self.is_language_model:
            a, b = (_perplexity(total / self.n_labels) for total in self.cross_entropy)
            result |= {"perplexity_a": a, "perplexity_b": b, "perplexity_change": b - a}
        return Evaluation(**result)


def examples_of_rows(output: Output, n_rows: int) -> torch.Tensor:
    """The example of its batch that each row of an output is of."""
    n = len(output.values)
    if output.mask is not None and int(output.mask.sum()) == n_rows != n:
        return output.mask.nonzero()[:, 0]
    if n == 0 or n_rows % n:
        return torch.zeros(n_rows, dtype=torch.int64, device="cpu")
    return torch.arange(n, device="cpu").repeat_interleave(n_rows // n)


def _perplexity(cross_entropy: float) -> float:
    return math.inf if cross_entropy >= 700 else math.exp(cross_entropy)
