"""A judge measures what a changed model keeps, on examples that were held back."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from .._evaluation.outputs import (
    Output,
    choose_distance,
    kept_buffers,
    model_device,
    moved,
)
from .._evaluation.result import Evaluation
from .._evaluation.run import next_tokens, output_of
from ..errors import InvalidArgumentError
from .confidence import Hardness, Sample, examples_needed, upper_bound
from .examples import Split, is_sorted
from .goals import SCORE, Goal, ratio_of
from .losses import Losses
from .memorised import Certainty, certainty, memorised_note
from .pooled import Measured, near, pooled

# Outputs of the original that are kept; of larger ones the original runs again each time.
_MAX_BYTES = 1 << 30
# Fewer examples say little about other ones.
_FEW_HELD = 32
# Examples that a file was made with lose less of it than others: about so many times less.
_OPTIMISM = 1.25
# Of several files together the bound is so much nearer.
_POOLED_BOUND = 0.6


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a model was measured to lose.

    Attributes:
        evaluation: on the examples that were held back; None without any.
        held, used: the losses of these, and of the examples that are used, by the names of the
            goals.
        score: a caller's number.
    """

    evaluation: Evaluation | None
    held: dict[str, Sample]
    used: dict[str, Sample]
    score: float | None


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What follows from an outcome.

    Attributes:
        ratio: what is lost, with the confidence that was asked for, over what is allowed, of the
            goal where it is largest: 1 or less is met. A caller's number counts as it is.
        kept: the numbers by the names of the goals, as measured on the examples held back.
        bounds: what these are at least or at most over all examples there are, with the confidence
            that was asked for; without a caller's own number.
        needed: about how many examples would show the goals with what was measured; None where that
            is not known.
    """

    ratio: float
    kept: dict[str, float]
    bounds: dict[str, float]
    needed: int | None = None


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
        confidence: of what is promised of other examples.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Split | None,
        goals: Sequence[Goal],
        score: Score | None,
        output: Callable[..., torch.Tensor] | None,
        pool: str,
        confidence: float,
    ) -> None:
        self._model = model
        self._data = data
        self._goals = goals
        self._score = score
        self._output = output
        self._pool = pool
        self._confidence = confidence
        self.notes: list[str] = []
        self._hardness: dict[str, Hardness] = {}
        # Outputs of the original for the held-back batches, and for those that are used.
        self._before: dict[bool, list[Output]] = {}
        if data is not None:
            self._distance = self._choose_distance(data)
            self._run_original(data)
            self._check_goals(data)
        if score is not None:
            self._own_score = score.value(model)
            self._check_score(score)

    @property
    def can_pool(self) -> bool:
        """Whether files may be judged together: losses of examples, none of them counted, are all
        that is judged by."""
        has_goals = self._data is not None and bool(self._goals) and self._score is None
        return has_goals and not any(goal.is_counted for goal in self._goals)

    def measure(self, model: nn.Module, with_used: bool = True) -> Outcome:
        """What the model loses. Buffers that it changes meanwhile are set back.

        Args:
            model: compared with the original.
            with_used: measure the examples that are used too, where there are goals.
        """
        evaluation, held, used = None, {}, {}
        with kept_buffers(self._model, model):
            if self._data is not None:
                losses = self._losses(model, self._data, is_held=True)
                evaluation = losses.result()
                held = self._samples(losses)
                if with_used and self._goals:
                    used = self._samples(self._losses(model, self._data, is_held=False))
            score = None if self._score is None else self._score.value(model)
        return Outcome(evaluation, held, used, score)

    def verdict(
        self, outcome: Outcome, step: float = 0.0, tried: Sequence[tuple[float, Outcome]] = ()
    ) -> Verdict:
        """What the outcome is worth.

        Args:
            outcome: of a model.
            step: of its file.
            tried: steps and outcomes of files to judge it together with, its own among them, where
                ``can_pool``. No goal is met, though, by a file that itself loses more than is
                allowed of the examples held back.
        """
        ratio, needed = 0.0, 0
        kept: dict[str, float] = {}
        bounds: dict[str, float] = {}
        for goal in self._goals if outcome.evaluation is not None else ():
            sample = outcome.held[goal.name]
            bound = self._bound_at(goal, step, tried) if tried else self._bound(goal, sample)
            bound = max(bound, sample.mean)
            ratio = max(ratio, goal.ratio(bound))
            kept[goal.name] = goal.measured(outcome.evaluation)  # type: ignore[arg-type]
            bounds[goal.name] = goal.outcome_of(bound)
            enough = examples_needed(sample, goal.row_limit, self._confidence)
            needed = max(needed, enough) if enough and needed >= 0 else -1
        if self._score is not None and outcome.score is not None:
            sign = 1 if self._score.is_cost else -1
            loss = sign * (outcome.score - self._own_score)
            allowed = sign * (self._score.limit - self._own_score)
            ratio, kept = max(ratio, ratio_of(loss, allowed)), kept | {SCORE: outcome.score}
        return Verdict(ratio, kept, bounds, needed if needed > 0 else None)

    def ratio_at(self, step: float, tried: Sequence[tuple[float, Outcome]]) -> float:
        """The ratio that a file with this step is likely to have, by files near it."""
        return max(goal.ratio(self._bound_at(goal, step, tried)) for goal in self._goals)

    def _bound_at(self, goal: Goal, step: float, tried: Sequence[tuple[float, Outcome]]) -> float:
        """The bound of the mean loss of files with this step; infinite without files near it."""
        name = goal.name
        files = near([Measured(at, one.held[name], one.used[name]) for at, one in tried], step)
        return self._bound(goal, pooled(files, step)) if files else math.inf

    def _bound(self, goal: Goal, sample: Sample) -> float:
        return upper_bound(sample, self._confidence, hardness=self._hardness.get(goal.name))

    def predicted(self, outcome: Outcome) -> float:
        """The ratio that a verdict might have, told by the examples that are used alone: to search
        by, without a look at what was held back. Of a caller's number the ratio itself."""
        if self._data is None or not self._goals:
            return self.verdict(outcome).ratio
        scale = math.sqrt(self._data.n_used / max(1, self._data.n_held))
        scale *= _POOLED_BOUND if self.can_pool else 1.0
        ratio = 0.0
        for goal in self._goals:
            sample = outcome.used[goal.name]
            above = (upper_bound(sample, self._confidence) - sample.mean) * scale
            ratio = max(ratio, goal.ratio(_OPTIMISM * sample.mean + above))
        return ratio

    def lost(self, model: nn.Module) -> float:
        """What the examples that are used lose, as measured, over what is allowed. Of a caller's
        number the ratio."""
        if self._data is None or not self._goals:
            return self.verdict(self.measure(model)).ratio
        with kept_buffers(self._model, model):
            samples = self._samples(self._losses(model, self._data, is_held=False))
        return max(goal.ratio(samples[goal.name].mean) for goal in self._goals)

    def _samples(self, losses: Losses) -> dict[str, Sample]:
        return {goal.name: losses.sample(goal.name) for goal in self._goals}

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
        with kept_buffers(self._model):
            held, used = (self._losses(self._model, data, one) for one in (True, False))
        own = held.result()
        for goal in self._goals:
            judging, others = held.hardness(goal.name), used.hardness(goal.name)
            # Examples given apart may be of another kind.
            if judging is not None and others is not None and not data.is_given:
                self._hardness[goal.name] = Hardness(judging, others)
            if math.isnan(goal.measured(own)):
                raise InvalidArgumentError(
                    f"keep={{{goal.name!r}: ...}} cannot be measured: {self._why_unknown(goal)}"
                )

    def _why_unknown(self, goal: Goal) -> str:
        is_classifier = self._data is not None and self._data.held.classes is not None
        if goal.name == "perplexity" and is_classifier:
            return (
                "perplexities are of language models; for a classifier keep kl, agreement or top1"
            )
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
        batch = moved(data.held.inputs[0], model_device(self._model))
        distance = choose_distance(self._model, batch, self._output)
        wanting = [goal.name for goal in self._goals if goal.is_logits]
        if not wanting or distance == "kl":
            return distance
        values = output_of(self._model, data.held.inputs[0], self._output)
        if values.role == "hidden" or values.values.dim() > 3 or values.values.shape[-1] < 2:
            raise InvalidArgumentError(
                f"keep={{{wanting[0]!r}: ...}} is for logits, and the model's outputs are none: "
                f"shape {list(values.values.shape)}; keep a cosine, or choose others with output="
            )
        return "kl"

    def _run_original(self, data: Split) -> None:
        classes = []
        used = data.used.inputs if self._goals else []
        for is_held, batches in ((True, data.held.inputs), (False, used)):
            kept: list[Output] = []
            n_bytes = 0
            for position, batch in enumerate(batches):
                found = output_of(self._model, batch, self._output)
                if not bool(torch.isfinite(found.values).all()):
                    where = "held-back batch" if is_held else "batch"
                    raise InvalidArgumentError(
                        f"the outputs of the model as it is hold NaN or infinities ({where} "
                        f"{position + 1}): nothing can be compared with these"
                    )
                n_bytes += found.values.nbytes
                if n_bytes <= _MAX_BYTES:
                    kept.append(found)
                if is_held and found.values.dim() == 2 and self._distance == "kl":
                    classes.append(found.values.argmax(1))
            if n_bytes <= _MAX_BYTES:
                self._before[is_held] = kept
        if not data.is_given:
            self._look_at_classes(data, classes)
        self._look_at_certainty(data)
        if data.n_held < _FEW_HELD:
            self.notes.append(
                f"only {data.n_held} examples were held back to judge by: what is kept on others "
                "may differ much; give a few hundred"
            )

    def _look_at_certainty(self, data: Split) -> None:
        """A note where the model seems to have been trained on the examples."""
        if self._distance != "kl":
            return
        found: dict[bool, Certainty] = {}
        for is_held, outputs in self._before.items():
            batches = data.held if is_held else data.used
            labels = batches.labels
            if batches.is_text:
                pairs = [next_tokens([one], batch) for one, batch in zip(outputs, batches.inputs)]
                outputs, labels = [one[0] for one, _ in pairs], [truth for _, truth in pairs]
            found[is_held] = certainty(outputs, labels, self._pool)
        used = found.get(False, found.get(True))
        if used is not None:
            note = memorised_note(used, found.get(True) if data.is_given else None)
            self.notes += [] if note is None else [note]

    def _look_at_classes(self, data: Split, classes: list[torch.Tensor]) -> None:
        classes = data.held.classes or classes
        if not classes:
            return
        found = torch.cat([part.reshape(-1).cpu() for part in classes])
        if is_sorted(found):
            self.notes.append(
                "the batches come sorted by class; a spread of all of them was used and held back"
            )

    def _losses(self, model: nn.Module, data: Split, is_held: bool) -> Losses:
        """What each example loses, of those held back or of those used."""
        is_original = model is self._model
        losses = Losses(of_original=is_original)
        batches = data.held if is_held else data.used
        labels: Any = batches.labels or [None] * len(batches.inputs)
        known = self._before.get(is_held)
        for position, (batch, truth) in enumerate(zip(batches.inputs, labels)):
            if known is not None:
                before = known[position]
            else:
                before = output_of(self._model, batch, self._output)
            after = before if is_original else output_of(model, batch, self._output)
            outputs = [before, after]
            if batches.is_text:
                outputs, truth = next_tokens(outputs, batch)
            losses.n_examples += batches.sizes[position]
            losses.add(outputs, self._distance, self._pool)
            if truth is not None:
                losses.add_labels(outputs, truth, position)
        return losses
