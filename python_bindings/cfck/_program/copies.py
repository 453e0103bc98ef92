"""The files of a folder that are no weights, copied, and those of an old folder that stay."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator
from typing import NamedTuple

from ..errors import InvalidArgumentError
from .places import WEIGHTS, is_model_weights


class Copies(NamedTuple):
    """What copy_others() left out.

    Attributes:
        odd: what is neither a file nor a folder: links that lead nowhere or to a folder around
            them, pipes and sockets.
        weights: in the folders below; those of the folder itself are the model's.
    """

    odd: list[str]
    weights: list[str]


def copy_others(source: str, folder: str) -> Copies:
    """Copies everything but weights and what is hidden; links become what they lead to. Weights of
    modules that sentence-transformers loads by itself (2_Dense/model.safetensors) are copied."""
    copies = Copies([], [])
    _copy_entries(source, folder, "", (os.path.realpath(source),), _modules(source), copies)
    return copies


def _modules(source: str) -> frozenset[str]:
    """The folders of modules beside the model, as modules.json of sentence-transformers names
    them."""
    try:
        with open(os.path.join(source, "modules.json"), encoding="utf-8") as file:
            paths = [module["path"] for module in json.load(file)]
        return frozenset(os.path.normpath(path) for path in paths if path)
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()


def _copy_entries(
    source: str,
    folder: str,
    below: str,
    around: tuple[str, ...],
    modules: frozenset[str],
    copies: Copies,
) -> None:
    """Copies the folder ``below`` of both."""
    for entry in sorted(os.listdir(os.path.join(source, below))):
        name = os.path.join(below, entry)
        if entry.startswith("."):
            continue
        if entry.endswith(WEIGHTS) and below not in modules:
            if below:
                copies.weights.append(name)
            continue
        path, copy = os.path.join(source, name), os.path.join(folder, name)
        if os.path.isfile(path):
            shutil.copy2(path, copy)
        elif os.path.isdir(path) and os.path.realpath(path) not in around:
            os.mkdir(copy)
            inside = (*around, os.path.realpath(path))
            _copy_entries(source, folder, name, inside, modules, copies)
            shutil.copystat(path, copy)
        else:
            copies.odd.append(name)


def kept_names(old: str, folder: str) -> list[str]:
    """What the old folder has and the new one has not, but for the weights of the old model.

    Folders come before what is in them.

    Raises:
        InvalidArgumentError: a file has the name of a folder with files.
    """
    return list(_kept_entries(old, folder, ""))


def _kept_entries(old: str, folder: str, below: str) -> Iterator[str]:
    for entry in sorted(os.listdir(os.path.join(old, below))):
        name = os.path.join(below, entry)
        path, new = os.path.join(old, name), os.path.join(folder, name)
        is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
        if not below and not is_folder and is_model_weights(entry):
            continue
        if not os.path.lexists(new):
            yield name
        elif is_folder and not os.path.isdir(new) or not is_folder and os.path.isdir(new):
            raise InvalidArgumentError(
                f"{name} is a folder in one of {old} and the folder of the model, and none in the "
                "other; remove it, or choose another new folder"
            )
        if is_folder:
            yield from _kept_entries(old, folder, name)
