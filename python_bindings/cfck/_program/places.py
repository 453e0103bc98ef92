"""Where a folder is shrunk from and to, looked at before anything takes long."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence

from ..errors import ExistsError, InvalidArgumentError, MissingFileError

MODEL = "model.cfck"
_CONFIG = "config.json"
# The ends of the names of weights in any form, which the new folder has as model.cfck.
WEIGHTS = (
    ".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".pth", ".h5",
    ".msgpack", ".onnx", ".gguf", ".cfck", ".cfck.index.json",
)  # fmt: skip
# What transformers loads as the weights of a folder, and cfck in place of these.
_MODEL_WEIGHTS = re.compile(
    r"(model|pytorch_model)(-\d+-of-\d+)?\.(safetensors|bin|cfck)(\.index\.json)?"
)


@dataclasses.dataclass(frozen=True)
class Places:
    """Paths without links, the same for all checks and for what is done.

    Attributes:
        source, target: the folders.
        replaced: device and inode of the old folder that --force replaces, if there is one.
    """

    source: str
    target: str
    replaced: tuple[int, int] | None


def is_model_weights(name: str) -> bool:
    """Whether a file would be loaded as the weights of its folder."""
    return _MODEL_WEIGHTS.fullmatch(name) is not None


def identity(path: str) -> tuple[int, int]:
    """What stays the same when a folder is renamed."""
    found = os.lstat(path)
    return found.st_dev, found.st_ino


def find_places(source: str, target: str, texts: Sequence[str], force: bool) -> Places:
    """The folders of a call.

    Raises:
        InvalidArgumentError: an empty name, folders within each other, or an old folder that is
            not replaced even with ``force``.
        ExistsError: the target exists, without ``force``.
        MissingFileError: no folder to read from, or none to write into.
    """
    _check_names(source, target, texts)
    source_path, target_path = os.path.realpath(source), os.path.realpath(target)
    _check_source(source, source_path)
    if os.path.isdir(target_path) and os.path.samefile(source_path, target_path):
        raise InvalidArgumentError("the new folder is that of the model")
    if _lies_within(source_path, target_path) or _lies_within(target_path, source_path):
        raise InvalidArgumentError(
            f"the new folder {target} and the folder of the model must not contain each other"
        )
    if os.path.lexists(os.path.abspath(target)):
        if not force:
            raise ExistsError(f"{target} exists already; --force replaces it")
        _check_replaced(target, target_path)
        _check_not_within(target, target_path, source_path, texts)
        return Places(source_path, target_path, identity(target_path))
    parent = os.path.dirname(target_path)
    if not os.path.isdir(parent):
        raise MissingFileError(f"there is no folder {parent} to write to", filename=parent)
    return Places(source_path, target_path, None)


def _check_names(source: str, target: str, texts: Sequence[str]) -> None:
    for what, name in (
        ("folder of the model", source),
        ("new folder", target),
        *(("file of --text", text) for text in texts),
    ):
        if not name:
            raise InvalidArgumentError(f"the name of the {what} is empty")


def _check_source(source: str, path: str) -> None:
    if not os.path.isdir(path):
        raise MissingFileError(f"there is no folder {source}", filename=source)
    if not os.path.isfile(os.path.join(path, _CONFIG)):
        raise InvalidArgumentError(
            f"{source} has no {_CONFIG}; shrink takes folders of transformers. From Python, "
            "cfck.shrink(model, ...) takes any model"
        )
    if not any(name.endswith(WEIGHTS) for name in os.listdir(path)):
        raise InvalidArgumentError(
            f"{source} has no weights, such as model.safetensors; fetch them into the folder"
        )


def _check_replaced(target: str, path: str) -> None:
    """Only what an earlier call may have written, or a model of transformers, is replaced."""
    if not os.path.isdir(path):
        raise InvalidArgumentError(f"{target} is no folder")
    names = os.listdir(path)
    if names and not any(name == _CONFIG or is_model_weights(name) for name in names):
        raise InvalidArgumentError(
            f"{target} is not the folder of a model: it has neither {MODEL} nor {_CONFIG} nor "
            "weights, and --force replaces no other folders"
        )


def _check_not_within(target: str, path: str, source: str, texts: Sequence[str]) -> None:
    """Nothing that is read, nor the current folder, may be in the folder that is replaced."""
    if _lies_within(os.path.realpath(os.getcwd()), path):
        raise InvalidArgumentError(f"the current folder is in {target}, which would be replaced")
    for text in texts:
        if _lies_within(os.path.realpath(text), path):
            raise InvalidArgumentError(f"{text} is in {target}, which would be replaced")
    for folder, folders, files in os.walk(source):
        for name in (*folders, *files):
            if _lies_within(os.path.realpath(os.path.join(folder, name)), path):
                raise InvalidArgumentError(
                    f"{name} of the model is a link into {target}, which would be replaced"
                )


def _lies_within(inner: str, outer: str) -> bool:
    return os.path.commonpath([inner, outer]) == outer
