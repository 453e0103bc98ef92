"""The arguments of shrink(), looked at: what is to be kept, and on which examples."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from .. import _native
from .._common.checks import check_metadata
from .._evaluation.outputs import (
    POOLS,
    check_choice,
    check_has_examples,
    check_integer,
    count_examples,
    undisturbed,
)
from .._options.native import check_threads
from ..errors import InvalidArgumentError, MissingFileError
from .examples import Split, given_split, is_integer, looks_like_pair, read_batches, split
from .goals import SCORE, Goal, goals_of
from .judge import Judge, Score, is_language_model
from .run import Job

_LABELS = "labels"


def job_of(model: nn.Module, filename: str, given: Mapping[str, Any]) -> Job:
    """Raises InvalidArgumentError for what makes no sense, before anything takes long."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a torch.nn.Module as the model, not {type(model).__name__}")
    folder = os.path.dirname(filename) or "."
    if not os.path.isdir(folder):
        raise MissingFileError(f"there is no folder {folder} to write to", filename=folder)
    check_choice("pool", given["pool"], POOLS)
    check_threads(given["threads"])
    check_integer("seed", given["seed"], None)
    check_integer("n_examples", given["n_examples"], 1)
    check_metadata(given["metadata"])
    confidence = _confidence(given["confidence"])
    targets = _targets(given)
    score = _score(given, targets)
    goals = goals_of(given["keep"]) if isinstance(given["keep"], Mapping) else []
    data, language_model = None, False
    if given["batches"] is not None:
        data, language_model = _data(model, given, goals)
    elif goals:
        raise InvalidArgumentError("keep needs batches= to measure what is kept")
    elif given["held_back"] is not None:
        raise InvalidArgumentError("held_back= needs batches= too, to make files with")
    with undisturbed(model):
        judge = Judge(
            model, data, goals, score, given["output"], given["pool"], language_model, confidence
        )
    goal = {one.name: one.value for one in goals}
    if score is not None:
        goal[SCORE] = score.limit
    return Job(
        model=model,
        filename=filename,
        data=data,
        judge=judge,
        goal=goal,
        confidence=confidence if goals else None,
        targets=targets,
        output=given["output"],
        pool=given["pool"],
        metadata=given["metadata"],
        seed=given["seed"],
        threads=given["threads"],
        notes=[] if data is None else data.notes,
    )


def _targets(given: Mapping[str, Any]) -> dict[str, Any]:
    named = [name for name in ("keep", "size", "bits_per_weight") if given[name] is not None]
    if len(named) != 1:
        found = " and ".join(named) if named else "none of them"
        were = "were" if named else "was"
        raise InvalidArgumentError(
            f"shrink takes keep, size or bits_per_weight, and {found} {were} given"
        )
    targets = {name: given[name] for name in named if name != "keep"}
    if isinstance(targets.get("size"), str):
        targets["size"] = _native.parse_size(targets["size"])
    for name, value in targets.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value < math.inf:
            raise InvalidArgumentError(f"{name} is a finite number above 0, not {value!r}")
    return targets


def _score(given: Mapping[str, Any], targets: Mapping[str, Any]) -> Score | None:
    keep, at_least, at_most = given["keep"], given["at_least"], given["at_most"]
    limits = [limit for limit in (at_least, at_most) if limit is not None]
    if callable(keep):
        if len(limits) != 1:
            raise InvalidArgumentError(
                "a function as keep= needs at_least=, the least number that it may give, or "
                "at_most=, the largest"
            )
        if not math.isfinite(limits[0]):
            raise InvalidArgumentError(f"at_least= and at_most= are finite, not {limits[0]}")
        return Score(keep, float(limits[0]), at_most is not None)
    if limits:
        raise InvalidArgumentError("at_least= and at_most= are for a function as keep=")
    if not targets and not isinstance(keep, Mapping):
        raise TypeError(
            f'keep is a dict, such as {{"cosine": 0.99}}, or a function, not {type(keep).__name__}'
        )
    return None


def _confidence(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.5 <= value <= 0.999:
        raise InvalidArgumentError(
            "confidence is a number from 0.5 (what is measured counts as it is) to 0.999, such as "
            f"0.95, not {value!r}"
        )
    return float(value)


def _check_apart(used: list[Any], held: list[Any]) -> None:
    """Raises InvalidArgumentError for batches that would judge files that were made with them."""
    known = {_digest(batch) for batch in used}
    for position, batch in enumerate(held):
        if _digest(batch) in known:
            raise InvalidArgumentError(
                f"batch {position} of held_back= is one of batches= too, and would flatter files "
                "that were made with it; give others, or leave held_back= out: then a fourth of "
                "batches= judges"
            )


def _digest(batch: Any) -> tuple[Any, ...]:
    """Equal for inputs with the same values; different for nearly all others."""
    parts = tree_leaves(batch)
    if not all(isinstance(part, torch.Tensor) and not part.is_meta for part in parts):
        return (id(batch),)
    values = [part.detach().to("cpu").reshape(-1).contiguous() for part in parts]
    contents = [hash(one.view(torch.uint8).numpy().tobytes()) for one in values]
    return tuple(zip((part.shape for part in parts), contents))


def _data(model: nn.Module, given: Mapping[str, Any], goals: list[Goal]) -> tuple[Split, bool]:
    """The examples, and whether labels are the next tokens."""
    batches, notes = read_batches(given["batches"], given["n_examples"])
    others: list[Any] = []
    if given["held_back"] is not None:
        try:
            others, more = read_batches(given["held_back"], given["n_examples"])
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"held_back= is like batches=: {error}") from None
        notes = notes + [f"of held_back: {note}" for note in more]
    wanting = [goal.name for goal in goals if goal.needs_labels]
    is_pair = _are_pairs(model, batches[0], bool(wanting))
    take_input = given["inputs"] or (_first if is_pair else _whole)
    take_labels = given["labels"] or _own_labels(batches[0], is_pair)
    found, found_others = ([take_input(batch) for batch in part] for part in (batches, others))
    for part in (found, found_others):
        for position, batch in enumerate(part):
            check_has_examples(batch, position)
    _check_apart(found, found_others)

    def labels_of(is_needed: bool) -> list[list[torch.Tensor] | None]:
        pairs = ((batches, found), (others, found_others))
        return [_labels_of(take_labels, *pair, is_needed=is_needed) for pair in pairs]

    def parted(labels: list[list[torch.Tensor] | None]) -> Split:
        if given["held_back"] is not None:
            return given_split(found, found_others, (labels[0], labels[1]), notes)
        return split(found, labels[0], given["seed"], notes)

    if not wanting:
        return parted(labels_of(is_needed=False)), False
    if take_labels is None or given["labels"] is None and "perplexity" in wanting and not is_pair:
        if wanting == ["perplexity"] and is_language_model(found[0]):
            return parted([None, None]), True
        raise InvalidArgumentError(
            f"keep={{{wanting[0]!r}: ...}} needs labels: batches yield (inputs, labels), or "
            "labels= takes them out of a batch"
        )
    return parted(labels_of(is_needed=True)), False


def _first(batch: Any) -> Any:
    return batch[0]


def _whole(batch: Any) -> Any:
    """The input; labels of a dict are not what a model computes outputs from."""
    if isinstance(batch, Mapping) and _LABELS in batch:
        return {name: value for name, value in batch.items() if name != _LABELS}
    return batch


def _are_pairs(model: nn.Module, batch: Any, needs_labels: bool) -> bool:
    """Whether batches are (inputs, labels) rather than positional arguments."""
    if not looks_like_pair(batch):
        return False
    return needs_labels or _most_arguments(model) < 2


def _most_arguments(model: nn.Module) -> float:
    """How many positional arguments the model takes."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return math.inf
    if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters):
        return math.inf
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in kinds for one in parameters)


def _own_labels(batch: Any, is_pair: bool) -> Callable[[Any], Any] | None:
    if is_pair:
        return lambda one: one[1]
    if isinstance(batch, Mapping) and is_integer(batch.get(_LABELS)):
        return lambda one: one[_LABELS]
    return None


def _labels_of(
    take: Callable[[Any], Any] | None, batches: list[Any], inputs: list[Any], is_needed: bool
) -> list[torch.Tensor] | None:
    """The labels of all batches; where they are not needed they show the order of the classes."""
    if take is None:
        return None
    labels = []
    for position, (batch, given) in enumerate(zip(batches, inputs)):
        try:
            label = take(batch)
        except (IndexError, KeyError, TypeError):
            label = None
        if label is not None and not isinstance(label, torch.Tensor):
            label = torch.as_tensor(label, device="cpu")
        if not is_integer(label) or label.dim() < 1 or len(label) != count_examples(given):
            if not is_needed:
                return None
            raise InvalidArgumentError(
                f"batch {position + 1} has no labels: integers, one for each of its "
                f"{count_examples(given)} examples"
            )
        labels.append(label)
    return labels
