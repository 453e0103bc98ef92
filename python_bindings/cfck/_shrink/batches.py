"""The caller's batches, looked at once: what the model is given, and what the labels are."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from .._evaluation.outputs import check_has_examples, count_examples, first_tensor
from ..errors import InvalidArgumentError
from .goals import Goal

_LABELS = "labels"


@dataclasses.dataclass(frozen=True)
class Batches:
    """Inputs of a model, batch by batch.

    Attributes:
        inputs: what the model is given.
        labels: of each batch, integers, one or more for each example; None: there are none.
        sizes: the examples of each batch.
        is_text: whether the labels are the next tokens of the inputs.
    """

    inputs: list[Any]
    labels: list[torch.Tensor] | None
    sizes: list[int]
    is_text: bool = False

    @classmethod
    def of(
        cls, inputs: list[Any], labels: list[torch.Tensor] | None = None, is_text: bool = False
    ) -> Batches:
        """Counts the examples."""
        return cls(inputs, labels, [count_examples(batch) for batch in inputs], is_text)

    @property
    def n_examples(self) -> int:
        return sum(self.sizes)

    @property
    def classes(self) -> list[torch.Tensor] | None:
        """The labels, where they are one class for each example."""
        labels = self.labels
        return labels if labels and all(label.dim() == 1 for label in labels) else None

    def followed_by(self, others: Batches) -> Batches:
        """These batches and others of their kind."""
        labels = None
        if self.labels is not None and others.labels is not None:
            labels = self.labels + others.labels
        inputs, sizes = self.inputs + others.inputs, self.sizes + others.sizes
        return Batches(inputs, labels, sizes, self.is_text)


def look_at(
    model: nn.Module,
    given: Sequence[list[Any]],
    goals: list[Goal],
    take_input: Callable[[Any], Any] | None,
    take_labels: Callable[[Any], Any] | None,
) -> list[Batches]:
    """Finds out from the first one what the caller's batches are.

    Args:
        model: what they are for.
        given: the batches, and those held back, if there are any, which are of the same kind.
        goals: some need labels.
        take_input, take_labels: of the caller, or None.

    Raises:
        InvalidArgumentError: a batch without examples; one that is held back and used; no labels
            where a goal needs them.
    """
    first = given[0][0]
    wanting = [goal.name for goal in goals if goal.needs_labels]
    is_pair = _are_pairs(model, first, bool(wanting))
    input_of = take_input or (_first if is_pair else _whole)
    labels_of = take_labels or _own_labels(first, is_pair)
    found = [Batches.of([input_of(batch) for batch in part]) for part in given]
    for batches in found:
        for position, batch in enumerate(batches.inputs):
            check_has_examples(batch, position)
    for others in found[1:]:
        _check_apart(found[0].inputs, others.inputs)
    has_own = take_labels is not None or is_pair
    if wanting and (labels_of is None or "perplexity" in wanting and not has_own):
        if wanting == ["perplexity"] and _is_text(found[0].inputs[0]):
            return [dataclasses.replace(batches, is_text=True) for batches in found]
        raise InvalidArgumentError(
            f"keep={{{wanting[0]!r}: ...}} needs labels: batches yield (inputs, labels), or "
            "labels= takes them out of a batch"
        )
    if labels_of is None:
        return found
    return [
        dataclasses.replace(
            batches, labels=_labels_of(labels_of, part, batches.sizes, is_needed=bool(wanting))
        )
        for part, batches in zip(given, found)
    ]


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


def _first(batch: Any) -> Any:
    return batch[0]


def _whole(batch: Any) -> Any:
    """The input; labels of a dict are not what a model computes outputs from."""
    if isinstance(batch, Mapping) and _LABELS in batch:
        return {name: value for name, value in batch.items() if name != _LABELS}
    return batch


def _are_pairs(model: nn.Module, batch: Any, needs_labels: bool) -> bool:
    """Whether batches are (inputs, labels) rather than positional arguments."""
    if not _looks_like_pair(batch):
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
    if isinstance(batch, Mapping) and _is_integer(batch.get(_LABELS)):
        return lambda one: one[_LABELS]
    return None


def _labels_of(
    take: Callable[[Any], Any], given: list[Any], sizes: list[int], is_needed: bool
) -> list[torch.Tensor] | None:
    """The labels of all batches; where they are not needed they show the order of the classes."""
    labels = []
    for position, (batch, size) in enumerate(zip(given, sizes)):
        try:
            label = take(batch)
        except (IndexError, KeyError, TypeError):
            label = None
        if label is not None and not isinstance(label, torch.Tensor):
            label = torch.as_tensor(label, device="cpu")
        if not _is_integer(label) or label.dim() < 1 or len(label) != size:
            if not is_needed:
                return None
            raise InvalidArgumentError(
                f"batch {position + 1} has no labels: integers, one for each of its {size} examples"
            )
        labels.append(label)
    return labels


def _is_integer(tensor: Any) -> bool:
    return (
        isinstance(tensor, torch.Tensor)
        and not tensor.is_floating_point()
        and not tensor.is_complex()
        and tensor.dtype != torch.bool
    )


def _looks_like_pair(batch: Any) -> bool:
    """Whether a batch may be (inputs, labels)."""
    if type(batch) not in (tuple, list) or len(batch) != 2 or not _is_integer(batch[1]):
        return False
    given = first_tensor(batch[0])
    return given is not None and batch[1].dim() >= 1 and len(batch[1]) == len(given)


def _is_text(batch: Any) -> bool:
    """Whether a batch has labels of its own, as a language model takes it: the next tokens."""
    given = batch.get("input_ids") if isinstance(batch, Mapping) else batch
    if type(given) in (tuple, list) and given:
        given = given[0]
    return isinstance(given, torch.Tensor) and given.dim() == 2 and not given.is_floating_point()
