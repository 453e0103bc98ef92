"""The arguments of shrink(), looked at: what is to be kept, and on which examples."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from torch import nn

from .._common.checks import check_metadata
from .._evaluation.outputs import (
    POOLS,
    check_batches,
    check_choice,
    check_integer,
    undisturbed,
)
from .._io.replacing import check_replaceable
from .._options.native import check_threads
from ..errors import InvalidArgumentError, IoError, MissingFileError
from .batches import look_at
from .examples import Split, given_split, read_batches, split
from .goals import SCORE, Goal, goals_of
from .judge import Judge, Score
from .run import Job
from .wishes import check_confidence, targets_of


def job_of(model: nn.Module, filename: str, given: Mapping[str, Any]) -> Job:
    """Raises InvalidArgumentError for what makes no sense, before anything takes long."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a torch.nn.Module as the model, not {type(model).__name__}")
    folder = os.path.dirname(filename) or "."
    if not os.path.isdir(folder):
        raise MissingFileError(f"there is no folder {folder} to write to", filename=folder)
    if os.path.isdir(filename):
        raise InvalidArgumentError(f"{filename} is a folder; name the file to write")
    check_replaceable(filename, otherwise="give another name")
    if not os.access(folder, os.W_OK):
        raise IoError(f"no file can be written to {folder}: permission denied")
    check_choice("pool", given["pool"], POOLS)
    check_threads(given["threads"])
    check_integer("seed", given["seed"], None)
    check_integer("n_examples", given["n_examples"], 1)
    check_metadata(given["metadata"])
    for name in ("inputs", "labels", "output"):
        if given[name] is not None and not callable(given[name]):
            raise TypeError(f"{name} is a function, not {type(given[name]).__name__}")
    confidence = check_confidence(given["confidence"])
    targets = targets_of(given)
    score = _score(given, targets)
    goals = goals_of(given["keep"]) if isinstance(given["keep"], Mapping) else []
    for name in ("batches", "held_back"):
        if given[name] is not None:
            check_batches(given[name], name)
    data = None
    if given["batches"] is not None:
        data = _data(model, given, goals)
    elif goals:
        raise InvalidArgumentError("keep needs batches= to measure what is kept")
    elif given["held_back"] is not None:
        raise InvalidArgumentError("held_back= needs batches= too, to make files with")
    with undisturbed(model):
        judge = Judge(model, data, goals, score, given["output"], given["pool"], confidence)
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
        threads=check_threads(given["threads"]),
        notes=[] if data is None else data.notes,
    )


def _score(given: Mapping[str, Any], targets: Mapping[str, Any]) -> Score | None:
    keep, at_least, at_most = given["keep"], given["at_least"], given["at_most"]
    limits = [limit for limit in (at_least, at_most) if limit is not None]
    if callable(keep):
        if len(limits) != 1:
            raise InvalidArgumentError(
                "a function as keep= needs at_least=, the least number that it may give, or "
                "at_most=, the largest"
            )
        is_number = isinstance(limits[0], int | float) and not isinstance(limits[0], bool)
        if not is_number or not math.isfinite(limits[0]):
            raise InvalidArgumentError(
                f"at_least= and at_most= are finite numbers, not {limits[0]!r}"
            )
        return Score(keep, float(limits[0]), at_most is not None)
    if limits:
        raise InvalidArgumentError("at_least= and at_most= are for a function as keep=")
    if not targets and not isinstance(keep, Mapping):
        raise TypeError(
            f'keep is a dict, such as {{"cosine": 0.99}}, or a function, not {type(keep).__name__}'
        )
    return None


def _data(model: nn.Module, given: Mapping[str, Any], goals: list[Goal]) -> Split:
    batches, notes = read_batches(given["batches"], given["n_examples"])
    parts = [batches]
    if given["held_back"] is not None:
        try:
            others, more = read_batches(given["held_back"], given["n_examples"])
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"held_back= is like batches=: {error}") from None
        parts.append(others)
        notes = notes + [f"of held_back: {note}" for note in more]
    used, *held = look_at(model, parts, goals, given["inputs"], given["labels"])
    if held:
        return given_split(used, held[0], notes)
    return split(used, given["seed"], notes)
