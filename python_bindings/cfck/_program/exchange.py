"""A new folder that appears complete or not at all, and may take the place of an old one."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator

from ..errors import ExistsError
from .copies import keep
from .interrupts import undisturbed
from .places import Places, identity


@contextlib.contextmanager
def new_folder(places: Places) -> Iterator[str]:
    """A folder that takes the name of the target when all is in it.

    Raises:
        ExistsError: meanwhile there is another folder than the one that was to be replaced.
    """
    folder = ""
    try:
        with undisturbed():
            folder = _make_beside(places.target, "")
        yield folder
        os.chmod(folder, 0o777 & ~_umask())
        if places.replaced is not None:
            keep(places.target, folder)
        with undisturbed():
            _put_in_place(folder, places)
            folder = ""
    finally:
        with undisturbed():
            if folder:
                shutil.rmtree(folder, ignore_errors=True)


def _make_beside(target: str, kind: str) -> str:
    parent, name = os.path.split(target)
    return tempfile.mkdtemp(prefix=f".{name}.{kind}", dir=parent)


def _put_in_place(folder: str, places: Places) -> None:
    if places.replaced is None:
        if os.path.lexists(places.target):
            raise ExistsError(f"{places.target} exists by now; it was left as it is")
        os.rename(folder, places.target)
        return
    aside = _make_beside(places.target, "old.")
    old = os.path.join(aside, os.path.basename(places.target))
    try:
        os.rename(places.target, old)
        if identity(old) != places.replaced:
            raise ExistsError(f"{places.target} is another folder by now; it was left as it is")
        os.rename(folder, places.target)
    except BaseException:
        if os.path.lexists(old):
            os.rename(old, places.target)
        os.rmdir(aside)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
