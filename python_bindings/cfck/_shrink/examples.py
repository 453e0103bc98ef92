"""The caller's batches: read once, cut into examples, spread, and some of them held back."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from .._evaluation.outputs import check_batches, count_examples
from ..errors import InvalidArgumentError
from .batches import Batches
from .wishes import FEWEST_EXAMPLES

# One example of so many is held back.
_HELD_BACK = 4
# Sensitivities are measured on examples of so many shapes, where they are cut.
_MAX_SHAPES = 4
# The sensitivities are measured on the first so many of the examples that are used.
N_PROBED = 64


@dataclasses.dataclass(frozen=True)
class Split:
    """The examples of a call.

    Attributes:
        used: batches for calibration, refinement and the search; the first ones are a spread of
            all of them.
        held: batches that results are judged by, in the order in which they were read; no decision
            but the last, which file is kept, depends on them.
        notes: what there is to say about the batches.
        is_given: whether the caller said which examples are held back.
    """

    used: Batches
    held: Batches
    notes: list[str]
    is_given: bool = False

    @property
    def n_used(self) -> int:
        return self.used.n_examples

    @property
    def n_held(self) -> int:
        return self.held.n_examples


@dataclasses.dataclass(frozen=True)
class _Example:
    """An example of a batch; or all of a batch that cannot be cut, with ``row`` None."""

    batch: int
    row: int | None


def read_batches(batches: Iterable[Any], n_examples: int) -> tuple[list[Any], list[str]]:
    """At most about so many examples: of a sequence a spread of its batches, of anything else the
    first ones; and what there is to say about that."""
    check_batches(batches)
    if isinstance(batches, Sequence):
        return _spread_batches(batches, n_examples)
    kept: list[Any] = []
    n_kept = 0
    for batch in batches:
        kept.append(batch)
        n_kept += count_examples(batch)
        if n_kept >= n_examples:
            return kept, [f"the first {n_kept} examples were read (n_examples={n_examples})"]
    if not kept:
        raise InvalidArgumentError(
            "batches has no batches; a generator can be read only once: pass a list, or a new one"
        )
    return kept, []


def _spread_batches(batches: Sequence[Any], n_examples: int) -> tuple[list[Any], list[str]]:
    if not len(batches):
        raise InvalidArgumentError("batches is empty")
    size = max(1, count_examples(batches[0]))
    wanted = max(1, -(-n_examples // size))
    if len(batches) <= wanted:
        return list(batches), []
    chosen = [batches[i * len(batches) // wanted] for i in range(wanted)]
    note = f"{wanted} of {len(batches)} batches were read, spread evenly (n_examples={n_examples})"
    return chosen, [note]


def split(batches: Batches, seed: int, notes: list[str]) -> Split:
    """Cuts batches into examples, holds a fourth of them back, and puts the others into an order
    in which the first ones are a spread of all."""
    examples = _examples(batches)
    if len(examples) < FEWEST_EXAMPLES:
        raise InvalidArgumentError(
            f"batches has {batches.n_examples} examples in {len(batches.inputs)} batches, too few "
            f"to calibrate with some and to judge with others; pass {FEWEST_EXAMPLES} at the very "
            "least, better a few hundred"
        )
    draw = random.Random(seed)
    held: list[_Example] = []
    used: list[_Example] = []
    for first in range(0, len(examples), _HELD_BACK):
        part = examples[first : first + _HELD_BACK]
        chosen = draw.randrange(_HELD_BACK)
        for position, example in enumerate(part):
            (held if position == chosen else used).append(example)
    return Split(_used(batches, used), _chosen(batches, held), notes)


def given_split(used: Batches, held: Batches, notes: list[str]) -> Split:
    """All batches are used, and results are judged by the others that the caller gave."""
    return Split(_used(used, _examples(used)), held, notes, is_given=True)


def _examples(batches: Batches) -> list[_Example]:
    return [
        _Example(number, row)
        for number, (batch, size) in enumerate(zip(batches.inputs, batches.sizes))
        for row in (range(size) if _is_cut(batch) else [None])
    ]


def _used(batches: Batches, used: list[_Example]) -> Batches:
    """Batches of examples, the first of which are a spread of all."""
    probed = _spread(batches.inputs, used)
    chosen = set(probed)
    others = [example for example in used if example not in chosen]
    return _chosen(batches, probed).followed_by(_chosen(batches, others))


def _spread(batches: list[Any], examples: list[_Example]) -> list[_Example]:
    """Examples from all along, of a few shapes only, since the model runs once for each shape."""
    groups: dict[Any, list[_Example]] = {}
    signatures: dict[int, Any] = {}
    for example in examples:
        number = example.batch
        if number not in signatures:
            signatures[number] = number if example.row is None else _signature(batches[number])
        groups.setdefault(signatures[number], []).append(example)
    chosen = list(groups.values())
    if all(example.row is not None for example in examples):
        chosen = [chosen[i] for i in _evenly(len(chosen), _MAX_SHAPES)]
    found = [example for group in chosen for example in group]
    return [found[i] for i in _evenly(len(found), N_PROBED)]


def _evenly(total: int, wanted: int) -> list[int]:
    return [i * total // wanted for i in range(wanted)] if total > wanted else list(range(total))


def _chosen(batches: Batches, chosen: list[_Example]) -> Batches:
    """Batches of these examples, none larger than the largest of the given ones."""
    size = max(batches.sizes)
    if batches.labels is None:
        return Batches.of(_batches(batches.inputs, chosen, size), None, batches.is_text)
    pairs = list(zip(batches.inputs, batches.labels))
    joined = _batches(pairs, chosen, size)
    return Batches.of([given for given, _ in joined], [labels for _, labels in joined])


def _batches(batches: list[Any], chosen: list[_Example], size: int) -> list[Any]:
    """Batches of these examples: those of equal shapes together, up to ``size`` in each."""
    rows: dict[int, list[int]] = {}
    for example in chosen:
        rows.setdefault(example.batch, [])
        if example.row is not None:
            rows[example.batch].append(example.row)
    groups: dict[Any, list[Any]] = {}
    result: list[Any] = []
    for number, wanted in rows.items():
        if not wanted:
            result.append(batches[number])
            continue
        part = _map(batches[number], _rows(torch.tensor(wanted, device="cpu")))
        groups.setdefault(_signature(part), []).append(part)
    for parts in groups.values():
        whole = _join(parts)
        n = count_examples(whole)
        for first in range(0, n, size):
            result.append(_map(whole, _rows(slice(first, first + size))))
    return result


def _rows(which: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: tensor[which]


def _tensors(batch: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []

    def look(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    _map(batch, look)
    return found


def _is_cut(batch: Any) -> bool:
    """Whether all tensors of a batch have the same examples along their first axis."""
    tensors = _tensors(batch)
    if not tensors or any(tensor.dim() == 0 for tensor in tensors):
        return False
    return len({len(tensor) for tensor in tensors}) == 1 and len(tensors[0]) > 0


def _map(batch: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        return {name: _map(value, change) for name, value in batch.items()}
    if type(batch) in (tuple, list):
        return type(batch)(_map(value, change) for value in batch)
    return batch


def _signature(batch: Any) -> Any:
    """Equal for batches that can be joined."""
    if isinstance(batch, torch.Tensor):
        return "tensor", batch.dtype, batch.device, tuple(batch.shape[1:])
    if isinstance(batch, Mapping):
        return "dict", tuple((name, _signature(value)) for name, value in batch.items())
    if type(batch) in (tuple, list):
        return type(batch).__name__, tuple(_signature(value) for value in batch)
    return "value", repr(batch)


def _join(parts: list[Any]) -> Any:
    """Batches of one signature as one."""
    first = parts[0]
    if isinstance(first, torch.Tensor):
        return torch.cat(parts)
    if isinstance(first, Mapping):
        return {name: _join([part[name] for part in parts]) for name in first}
    if type(first) in (tuple, list):
        return type(first)(_join(list(values)) for values in zip(*parts))
    return first


def is_sorted(classes: torch.Tensor) -> bool:
    """Whether examples come class by class: neighbours are of one class much more often than
    those of a shuffled set would be."""
    n = len(classes)
    counts = torch.bincount(classes - classes.min()) if n else classes
    if n < 24 or int((counts > 0).sum()) < 2:
        return False
    chances = counts.double() / n
    expected = (n - 1) * float(1 - chances.square().sum())
    changes = int((classes[1:] != classes[:-1]).sum())
    return changes < 0.4 * expected
