"""save_pretrained() into .cfck files: what transformers would write as safetensors."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import json
import os
import re
from collections.abc import Container, Iterator, Mapping
from typing import Any, cast

import torch

from .._common.callers import called_through
from .._frameworks.torch_tensors import TorchFramework
from .._io.save import write_file
from .._options.kinds import SaveOptions
from .._options.signatures import instead, names_of
from ..errors import InvalidArgumentError, UnsupportedError

_FRAMEWORK = TorchFramework()
_INDEX = re.compile(r"model\.safetensors\.index(\.[^.]+)?\.json")


@dataclasses.dataclass
class _Saving:
    """A call of save_pretrained(format="cfck").

    Attributes:
        options: those of save_file().
        buffers: the names of the buffers of the model, which keep every bit.
        written: the names of files that were written.
    """

    options: SaveOptions
    buffers: dict[str, str]
    written: list[str] = dataclasses.field(default_factory=list)


_SAVING: contextvars.ContextVar[_Saving | None] = contextvars.ContextVar("saving", default=None)


def split_options(
    kwargs: Mapping[str, Any], arguments: Container[str]
) -> tuple[SaveOptions, dict[str, Any]]:
    """The options of save_file(), and the arguments that are left for transformers.

    Raises TypeError for others, which transformers would take no notice of.
    """
    known = names_of(SaveOptions)
    options = {name: value for name, value in kwargs.items() if name in known}
    rest = {name: value for name, value in kwargs.items() if name not in known}
    for name in rest:
        if name not in arguments:
            advice = instead(name, sorted(known))
            raise TypeError(f"unexpected keyword argument {name!r}{advice}")
    return cast(SaveOptions, options), rest


def refuse_options(kwargs: Mapping[str, Any], arguments: Container[str]) -> None:
    """Raises InvalidArgumentError for options of save_file(), of which transformers, which writes
    another format, would take no notice."""
    names = [name for name in kwargs if name in names_of(SaveOptions) and name not in arguments]
    if names:
        raise InvalidArgumentError(
            f'{", ".join(names)}: save_pretrained() takes options of cfck with format="cfck" alone'
        )


def check_request(model: Any, arguments: Mapping[str, Any]) -> None:
    """Raises UnsupportedError for what cannot be saved as .cfck files."""
    if arguments.get("push_to_hub"):
        raise UnsupportedError(
            'save_pretrained(format="cfck") does not upload: save, then pass the folder to '
            "huggingface_hub.upload_folder()"
        )
    if arguments.get("safe_serialization") is False or arguments.get("distributed_checkpoint"):
        raise UnsupportedError('format="cfck" excludes other formats')
    if getattr(model, "_hf_peft_config_loaded", False):
        raise UnsupportedError("adapters of peft are not saved as .cfck files")


@contextlib.contextmanager
def saving(model: torch.nn.Module, options: SaveOptions) -> Iterator[_Saving]:
    """In here save_tensors() of this thread writes .cfck files."""
    names = (name for name, _ in model.named_buffers(remove_duplicate=False))
    now = _Saving(options, dict.fromkeys(names, "buffer"))
    token = _SAVING.set(now)
    try:
        with called_through("transformers"):
            yield now
    finally:
        _SAVING.reset(token)


def save_tensors(
    tensors: dict[str, torch.Tensor], filename: str, metadata: Mapping[str, str] | None
) -> bool:
    """Writes a file as .cfck, under its name with this suffix; False: it is not to be one."""
    now = _SAVING.get()
    if now is None:
        return False
    path = os.fspath(filename).removesuffix(".safetensors") + ".cfck"
    write_file(_FRAMEWORK, tensors, path, metadata, now.options, now.buffers)
    now.written.append(os.path.basename(path))
    return True


def write_index(folder: str, variant: str | None, written: list[str]) -> None:
    """Makes the index of safetensors, if there are shards, one of .cfck files."""
    name = _index_name(variant, "safetensors")
    path = os.path.join(folder, name)
    if not any(re.search(r"-\d{5}-of-\d{5}\.cfck$", file) for file in written):
        return
    with open(path, encoding="utf-8") as file:
        index = json.load(file)
    index["weight_map"] = {
        tensor: file.removesuffix(".safetensors") + ".cfck"
        for tensor, file in index["weight_map"].items()
    }
    target = os.path.join(folder, _index_name(variant, "cfck"))
    with open(target + ".new", "w", encoding="utf-8") as file:
        file.write(json.dumps(index, indent=2, sort_keys=True) + "\n")
    os.replace(target + ".new", target)
    written.append(os.path.basename(target))


def remove_others(folder: str, variant: str | None, kept: list[str], suffixes: list[str]) -> None:
    """Removes weights of earlier calls, which would be loaded in place of those just written."""
    stem = "model" if variant is None else f"model.{variant}"
    for suffix in suffixes:
        weights = re.compile(rf"{re.escape(stem)}(-\d{{5}}-of-\d{{5}})?\.{suffix}")
        for name in os.listdir(folder):
            is_index = name == _index_name(variant, suffix)
            if name not in kept and (is_index or weights.fullmatch(name)):
                os.remove(os.path.join(folder, name))


def check_format(name: object) -> bool:
    """Whether a format is cfck.

    Raises InvalidArgumentError for formats that do not exist.
    """
    if name not in (None, "cfck", "safetensors"):
        raise InvalidArgumentError(f'format is "cfck" or "safetensors", not {name!r}')
    return name == "cfck"


def _index_name(variant: str | None, suffix: str) -> str:
    return (
        f"model.{suffix}.index.json"
        if variant is None
        else (f"model.{suffix}.index.{variant}.json")
    )
