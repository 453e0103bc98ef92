"""Folders of shards: their index, and whether somebody replaces them meanwhile."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from ..errors import (
    CorruptError,
    IoError,
    LimitExceededError,
    MissingFileError,
    UnsupportedError,
)

# Is in a folder while cfck-convert --force replaces its files one by one, and after it was
# interrupted in that (model/folder/replace_folder.hpp).
_UNFINISHED_MARK = ".cfck-convert-unfinished"
MAX_INDEX_BYTES = 64 << 20


def folder_state(index_path: str) -> list[tuple[int, int] | None]:
    """Changes when the folder or the index in it is replaced."""
    state: list[tuple[int, int] | None] = []
    for path in (os.path.dirname(index_path) or ".", index_path):
        try:
            info = os.stat(path)
            state.append((info.st_dev, info.st_ino))
        except OSError:
            state.append(None)
    return state


def check_unmarked(folder: str) -> None:
    if os.path.lexists(os.path.join(folder, _UNFINISHED_MARK)):
        raise CorruptError(
            f"{folder or '.'} may have files of two checkpoints: cfck-convert is replacing them, "
            "or was interrupted. Wait for it, or run the same conversion with --force again "
            f"(the mark is {_UNFINISHED_MARK})"
        )


def read_index(path: str, max_bytes: int) -> dict[str, str]:
    """The map from tensor to shard, with names checked to stay in the folder."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise UnsupportedError(f"{path} is not a regular file")
        n_bytes = os.path.getsize(path)
        if n_bytes > max_bytes:
            raise LimitExceededError(
                f"{path} has {n_bytes} bytes, more than the {max_bytes} allowed; "
                "raise the limit max_index_bytes to read it"
            )
        with open(path, encoding="utf-8") as file:
            index = json.load(file)
    except FileNotFoundError:
        raise MissingFileError(f"No such file or directory: {path}", filename=path) from None
    except OSError as error:
        raise IoError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"{path} is not valid JSON: {error}") from None
    weight_map = index.get("weight_map") if isinstance(index, Mapping) else None
    if not isinstance(weight_map, Mapping):
        raise CorruptError(f'{path} has no "weight_map" from tensors to files')
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or not _stays_in_folder(shard):
            raise CorruptError(
                f"{path}: tensor `{name}` is in {shard!r}, which is not a file of this folder",
                record=name,
            )
    return dict(weight_map)


def _stays_in_folder(shard: str) -> bool:
    parts = shard.replace("\\", "/").split("/")
    return all(part not in ("", ".", "..") for part in parts) and "\0" not in shard
