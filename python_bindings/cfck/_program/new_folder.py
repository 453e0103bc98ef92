"""A new folder that appears complete or not at all, and may take the place of an old one."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
from collections.abc import Iterator

from .. import _native
from ..errors import ExistsError
from .interrupts import undisturbed
from .places import MODEL, Places, identity, is_model_weights


@contextlib.contextmanager
def new_folder(places: Places) -> Iterator[str]:
    """A folder that takes the name of the target when all is in it.

    Until then nobody else can look into it. It gets the permissions of the old folder, or else
    those of the folder of the model; its model those of the old model, or of the source's weights.

    Raises:
        ExistsError: meanwhile there is another folder than the one that was to be replaced.
        InvalidArgumentError: a file has the name of a folder of the old one, or the other way.
        OSError: of the folders and files.
    """
    folder = None
    try:
        with undisturbed():
            folder = _native.TemporaryFolder.create(os.fsencode(places.target))
        path = os.fsdecode(folder.path)
        yield path
        _protect_model(path, places)
        with undisturbed():
            _check_target(places)
            folder.put_in_place(
                os.fsencode(places.target),
                os.fsencode(places.target if places.replaced is not None else places.source),
                [os.fsencode(name) for name in _files_of(path)],
                [os.fsencode(name) for name in _dropped(path, places)],
                places.replaced is not None,
            )
    finally:
        if folder is not None:
            with undisturbed():
                folder.remove()


def _check_target(places: Places) -> None:
    if places.replaced is None:
        if os.path.lexists(places.target):
            raise ExistsError(f"{places.target} exists by now; it was left as it is")
    elif not os.path.lexists(places.target) or identity(places.target) != places.replaced:
        raise ExistsError(f"{places.target} is another folder by now; it was left as it is")


def _protect_model(folder: str, places: Places) -> None:
    """Gives the model the permissions of what it replaces, or else those that all files have which
    it was made from."""
    old = os.path.join(places.target, MODEL)
    sources = [old] if os.path.isfile(old) else _weights_of(places.source)
    modes = [os.stat(path).st_mode & 0o777 for path in sources if os.path.isfile(path)]
    if modes:
        # Not every file system can.
        with contextlib.suppress(OSError):
            os.chmod(os.path.join(folder, MODEL), functools.reduce(operator.and_, modes))


def _weights_of(folder: str) -> list[str]:
    names = sorted(name for name in os.listdir(folder) if is_model_weights(name))
    # An index says less than the weights.
    return [os.path.join(folder, name) for name in names if not name.endswith(".json")]


def _files_of(folder: str) -> list[str]:
    """The files in a folder and those below it, the model last: then all others are there."""
    names = []
    for below, _, files in os.walk(folder):
        names += [os.path.relpath(os.path.join(below, name), folder) for name in files]
    return sorted(names, key=lambda name: (name == MODEL, name))


def _dropped(folder: str, places: Places) -> list[str]:
    """The weights of the old model."""
    if places.replaced is None:
        return []
    return [
        name
        for name in sorted(os.listdir(places.target))
        if is_model_weights(name)
        and not os.path.lexists(os.path.join(folder, name))
        and not os.path.isdir(os.path.join(places.target, name))
    ]
