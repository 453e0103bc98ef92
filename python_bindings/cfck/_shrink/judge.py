"""A judge measures what a changed model keeps, on examples that were held back."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from .._evaluation.evaluate import Evaluation
from .._evaluation.outputs import (
    Output,
    choose_distance,
    count_examples,
    kept_buffers,
    model_device,
    moved,
)
from .._evaluation.run import Totals, next_tokens, output_of
from ..errors import InvalidArgumentError
from .examples import Split, is_sorted
from .goals import SCORE, Goal, ratio_of

# Outputs of the original that are kept; of larger ones the original runs again each time.
_MAX_BYTES = 1 << 30
# Fewer examples say little about other ones.
_FEW_HELD = 32


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of a model.

    Attributes:
        ratio: the loss over what is allowed, of the goal where it is largest: 1 or less is met.
        kept: the numbers by the names of the goals.
        evaluation: None without held-back examples.
    """

    ratio: float
    kept: dict[str, float]
    evaluation: Evaluation | None


@dataclasses.dataclass(frozen=True)
class Score:
    """A caller's number of a model, and its limit.

    Attributes:
        of: gives the number.
        limit: the least, or the largest where ``is_cost``.
        is_cost: whether less is better.
    """

    of: Callable[[nn.Module], float]
    limit: float
    is_cost: bool

    def value(self, model: nn.Module) -> float:
        """The number of a model, checked."""
        found = self.of(model)
        try:
            value = float(found)
        except (TypeError, ValueError):
            raise InvalidArgumentError(
                f"keep= is a function that gives a number, not {type(found).__name__}"
            ) from None
        if math.isnan(value):
            raise InvalidArgumentError("keep= gave NaN for a model; it has to give a number")
        return value


class Judge:
    """Compares models with the original.

    Args:
        model: the original.
        data: held-back examples, or None where a score alone counts.
        goals: by name.
        score: of the caller, or None.
        output, pool: as for evaluate().
        language_model: whether labels are the next tokens.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Split | None,
        goals: Sequence[Goal],
        score: Score | None,
        output: Callable[..., torch.Tensor] | None,
        pool: str,
        language_model: bool,
    ) -> None:
        self._model = model
        self._data = data
        self._goals = goals
        self._score = score
        self._output = output
        self._pool = pool
        self._language_model = language_model
        self.notes: list[str] = []
        self._before: list[Output] | None = None
        if data is not None:
            self._distance = self._choose_distance(data)
            self._run_original(data)
            self._check_goals(data)
        if score is not None:
            self._own_score = score.value(model)
            self._check_score(score)

    def of(self, model: nn.Module) -> Verdict:
        """Measures what the model keeps. Buffers that it changes meanwhile are set back."""
        with kept_buffers(self._model, model):
            return self._judged(model)

    def _judged(self, model: nn.Module) -> Verdict:
        evaluation = None
        ratio, kept = 0.0, {}
        if self._data is not None:
            evaluation = self._evaluate(model, self._data)
            for goal in self._goals:
                ratio = max(ratio, goal.ratio(evaluation))
                kept[goal.name] = goal.measured(evaluation)
        if self._score is not None:
            value = self._score.value(model)
            sign = 1 if self._score.is_cost else -1
            loss = sign * (value - self._own_score)
            allowed = sign * (self._score.limit - self._own_score)
            ratio, kept = max(ratio, ratio_of(loss, allowed)), kept | {SCORE: value}
        return Verdict(ratio, kept, evaluation)

    def _check_score(self, score: Score) -> None:
        sign = 1 if score.is_cost else -1
        if sign * (score.limit - self._own_score) < 0:
            name = "at_most" if score.is_cost else "at_least"
            raise InvalidArgumentError(
                f"keep= gives {self._own_score:g} for the model as it is, which does not meet "
                f"{name}={score.limit:g}"
            )

    def _check_goals(self, data: Split) -> None:
        """Raises for goals of which not even the original has a number."""
        if not self._goals:
            return
        own = self._evaluate(self._model, data)
        for goal in self._goals:
            if math.isnan(goal.measured(own)):
                raise InvalidArgumentError(
                    f"keep={{{goal.name!r}: ...}} cannot be measured: {self._why_unknown(goal)}"
                )

    def _why_unknown(self, goal: Goal) -> str:
        if goal.needs_labels:
            return (
                "no label of the held-back examples counts, since all are below 0, or the model "
                "as it is has no finite outcome for them"
            )
        return (
            "the outputs of the model have a single column, and any two such rows have the same "
            "direction and the same largest entry; give a function as keep=, such as one that "
            "returns the mean squared error, with at_most="
        )

    def _choose_distance(self, data: Split) -> str:
        batch = moved(data.held[0], model_device(self._model))
        distance = choose_distance(self._model, batch, self._output)
        wanting = [goal.name for goal in self._goals if goal.is_logits]
        if not wanting or distance == "kl":
            return distance
        values = output_of(self._model, data.held[0], self._output)
        if values.role == "hidden" or values.values.dim() > 3 or values.values.shape[-1] < 2:
            raise InvalidArgumentError(
                f"keep={{{wanting[0]!r}: ...}} is for logits, and the model's outputs are none: "
                f"shape {list(values.values.shape)}; keep a cosine, or choose others with output="
            )
        return "kl"

    def _run_original(self, data: Split) -> None:
        kept: list[Output] = []
        n_bytes = 0
        classes = []
        for position, batch in enumerate(data.held):
            found = output_of(self._model, batch, self._output)
            if not bool(torch.isfinite(found.values).all()):
                raise InvalidArgumentError(
                    f"the outputs of the model as it is hold NaN or infinities (held-back batch "
                    f"{position + 1}): nothing can be compared with these"
                )
            n_bytes += found.values.nbytes
            if n_bytes <= _MAX_BYTES:
                kept.append(found)
            if found.values.dim() == 2 and self._distance == "kl":
                classes.append(found.values.argmax(1))
        self._before = kept if n_bytes <= _MAX_BYTES else None
        self._look_at_classes(data, classes)
        if data.n_held < _FEW_HELD:
            self.notes.append(
                f"only {data.n_held} examples were held back to judge by: what is kept on others "
                "may differ much; give a few hundred"
            )

    def _look_at_classes(self, data: Split, classes: list[torch.Tensor]) -> None:
        if data.labels is not None and all(label.dim() == 1 for label in data.labels):
            classes = data.labels
        if not classes:
            return
        found = torch.cat([part.reshape(-1).cpu() for part in classes])
        if is_sorted(found):
            self.notes.append(
                "the batches come sorted by class; a spread of all of them was used and held back"
            )

    def _evaluate(self, model: nn.Module, data: Split) -> Evaluation:
        totals = Totals()
        labels: Any = data.labels if data.labels is not None else [None] * len(data.held)
        for position, (batch, truth) in enumerate(zip(data.held, labels)):
            if self._before is not None:
                before = self._before[position]
            else:
                before = output_of(self._model, batch, self._output)
            is_original = model is self._model
            after = before if is_original else output_of(model, batch, self._output)
            outputs = [before, after]
            if self._language_model:
                outputs, truth = next_tokens(outputs, batch)
            totals.n_examples += count_examples(batch)
            totals.add(outputs, self._distance, self._pool)
            if truth is not None:
                totals.add_labels(outputs, truth, position)
        return totals.result()


def is_language_model(batch: Any) -> bool:
    """Whether a batch of a language model has its own labels, the next tokens."""
    given = batch.get("input_ids") if isinstance(batch, Mapping) else batch
    if type(given) in (tuple, list) and given:
        given = given[0]
    return isinstance(given, torch.Tensor) and given.dim() == 2 and not given.is_floating_point()
