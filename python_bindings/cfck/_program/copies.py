"""The files of a folder that are no weights, copied, and those of an old folder that stay."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator

from ..errors import InvalidArgumentError
from .places import WEIGHTS, is_model_weights


def copy_others(source: str, folder: str) -> list[str]:
    """Copies everything but weights and what is hidden; links become what they lead to.

    Returns:
        The names of what was left out since it is neither a file nor a folder: links that lead
        nowhere or to a folder around them, pipes and sockets.
    """
    return list(_copy_entries(source, folder, "", (os.path.realpath(source),)))


def _copy_entries(source: str, folder: str, below: str, around: tuple[str, ...]) -> Iterator[str]:
    """Copies the folder ``below`` of both, and yields what is left out."""
    for entry in sorted(os.listdir(os.path.join(source, below))):
        if entry.startswith(".") or entry.endswith(WEIGHTS):
            continue
        name = os.path.join(below, entry)
        path, copy = os.path.join(source, name), os.path.join(folder, name)
        if os.path.isfile(path):
            shutil.copy2(path, copy)
        elif os.path.isdir(path) and os.path.realpath(path) not in around:
            os.mkdir(copy)
            yield from _copy_entries(source, folder, name, (*around, os.path.realpath(path)))
            shutil.copystat(path, copy)
        else:
            yield name


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
