"""Folders of models, as the library knows them, with the errors that Python code expects."""

from __future__ import annotations

import os

from .. import _native
from .._common.paths import native_path
from ..errors import MissingFileError, NotFoundError


def find_in_folder(folder: str) -> str:
    """The path of the file or index that stands for the folder.

    Raises:
        MissingFileError: there is none.
        InvalidArgumentError: there are several, and none comes first.
        CorruptError: the folder may have files of two checkpoints.
    """
    try:
        return os.fsdecode(_native.find_model(native_path(folder)))
    except NotFoundError as error:
        message = f"No such file or directory: {error}"
        raise MissingFileError(message, filename=folder) from None


def watch(index_path: str) -> _native.FolderWatch:
    """Notices that the folder or the index in it is replaced."""
    folder, index = os.path.split(native_path(index_path))
    return _native.FolderWatch(folder or b".", index)


def read_index(path: str, max_bytes: int | None) -> dict[str, str]:
    """The map from tensor to shard, with names checked to stay in the folder.

    Raises:
        CorruptError: the folder may have files of two checkpoints, or the index is no such map.
        MissingFileError: there is no such file.
    """
    try:
        return dict(_native.read_weight_map(native_path(path), max_bytes))
    except NotFoundError:
        raise MissingFileError(f"No such file or directory: {path}", filename=path) from None
