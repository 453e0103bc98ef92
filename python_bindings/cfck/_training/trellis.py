"""Trellis-coded quantisation of trained weights."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import nn

from .._common.progress import Counter
from .._evaluation.outputs import undisturbed
from ..errors import InvalidArgumentError
from . import files
from .contents import file_steps, originals, plain_tensors
from .norms import reestimate_norms
from .places import Place, check_present, copied
from .weight import TRELLISES

# Levels of a trellis are half as far apart at about the same rate; steps are searched above that.
_OCTAVES_FINER = 1.0
_SEARCH_OCTAVES = 0.5
_SEARCH_ROUNDS = 6


@dataclasses.dataclass
class Trellised:
    """Values that a trellis leads to, by name, and the log2 of their steps."""

    scales: dict[str, float]
    values: dict[str, torch.Tensor]


def check_states(trellis_states: Iterable[int]) -> tuple[int, ...]:
    """The trellises to try, as numbers of states."""
    states = tuple(trellis_states)
    for n in states:
        if isinstance(n, bool) or not isinstance(n, int) or n not in TRELLISES:
            raise InvalidArgumentError(f"trellis_states are among {TRELLISES}, not {n!r}")
    return states


def n_trials(trellis_states: tuple[int, ...]) -> int:
    """What try_trellises() counts: evaluations and encoded files."""
    return 1 + len(trellis_states) * (_SEARCH_ROUNDS + 1)


def try_trellises(
    model: nn.Module,
    places: Sequence[Place],
    trellis_states: tuple[int, ...],
    evaluate: Callable[[nn.Module], float],
    norm_batches: Any,
    counter: Counter,
) -> None:
    """Leaves the model as it is, or with the trellis that makes it better at no more bytes.

    If this fails, the model may have one of them.
    """
    plain = copied(model.state_dict())
    most_bytes = len(files.encode(plain_tensors(model, places), file_steps(places)).data)
    counter.tell("evaluating")
    best, kept = _score(model, places, evaluate), plain
    counter.finish("evaluating")
    for states in trellis_states:
        found = at_no_more_bytes(model, places, states, most_bytes, counter)
        if found is None:
            counter.finish(f"no steps fit a trellis of {states} states")
            continue
        counter.tell(f"evaluating a trellis of {states} states")
        for place in places:
            name = place.name
            place.weight.take_trellis(found.scales[name], states, found.values[name])
        if norm_batches is not None:
            reestimate_norms(model, norm_batches)
        score = _score(model, places, evaluate)
        counter.finish(f"evaluated a trellis of {states} states")
        if score > best:
            best, kept = score, copied(model.state_dict())
        model.load_state_dict(plain)
    model.load_state_dict(kept)


def _score(
    model: nn.Module, places: Sequence[Place], evaluate: Callable[[nn.Module], float]
) -> float:
    with undisturbed(model):
        returned = evaluate(model)
    check_present(places)
    try:
        score = float(returned)
    except (TypeError, ValueError):
        raise TypeError(
            f"evaluate returns a number, more being better; it has returned {returned!r}"
        ) from None
    if math.isnan(score):
        raise InvalidArgumentError("evaluate returned NaN, which says nothing of what is better")
    return score


def at_no_more_bytes(
    model: nn.Module, places: Sequence[Place], states: int, most_bytes: int, counter: Counter
) -> Trellised | None:
    """Encodes with the finest steps, relative to those learned, that take no more bytes."""
    steps = file_steps(places)
    sources = plain_tensors(model, places) | originals(places)
    fine, coarse = -_OCTAVES_FINER, -_OCTAVES_FINER + _SEARCH_OCTAVES
    best = None
    for _ in range(_SEARCH_ROUNDS):
        shift = (fine + coarse) / 2
        scales, finer = {}, {}
        for place in places:
            shifted = place.weight.log2_in_use()[0].detach() + shift
            scale = scales[place.name] = float(shifted.float())
            for name in place.names:
                finer[name] = dataclasses.replace(
                    steps[name], step=2.0**scale, trellis_states=states
                )
        counter.tell(f"encoding with a trellis of {states} states")
        data = files.encode(sources, finer).data
        counter.finish(f"encoded with a trellis of {states} states")
        if len(data) > most_bytes:
            fine = shift
            continue
        coarse = shift
        decoded = files.decode(data)
        best = Trellised(scales, {place.name: decoded[place.name] for place in places})
    return best
