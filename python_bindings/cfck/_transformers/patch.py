"""The places of transformers at which .cfck files come in, replaced and put back.

Three functions of the module transformers.modeling_utils: the one that finds the files of a model,
the one that reads a file, and the one that writes a file. And two methods of the class of all
models, for the arguments ``compressed`` and ``format``.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .._common.callers import called_through
from ..errors import UnsupportedError
from .installed import FIND, KNOWN_VERSIONS, READ, WRITE, modeling, transformers, unknown_part
from .lazy import Weights
from .load import check_compressed, load_packed, refuse_other_model
from .save import (
    check_format,
    check_request,
    refuse_options,
    remove_others,
    save_tensors,
    saving,
    split_options,
    write_index,
)
from .weights import (
    HUB_ARGUMENTS,
    Place,
    hub_weights,
    is_cfck,
    local_weights,
    no_weights,
    refuse_renamed,
)

_LOCK = threading.Lock()
# What was replaced: the object, the name, what was there, and what is there now.
_replaced: list[tuple[Any, str, Any, Any]] = []
# The weights that a call of from_pretrained() opened, by path.
_OPENED: contextvars.ContextVar[dict[str, Weights] | None] = contextvars.ContextVar(
    "opened", default=None
)


def enable() -> None:
    """Makes transformers load and save .cfck files.

    Raises:
        ImportError: transformers or PyTorch are not installed.
        UnsupportedError: this version loads models in another way than those that are known.
    """
    with _LOCK:
        if _replaced:
            return
        module = modeling()
        unknown = unknown_part(module)
        if unknown is not None:
            raise UnsupportedError(
                f"transformers {transformers().__version__} does not load models as versions "
                f"{KNOWN_VERSIONS} do ({unknown}): install one of these, or call "
                "cfck.transformers.from_pretrained(), which needs nothing of it"
            )
        model = module.PreTrainedModel
        _replace(module, FIND, _finding(getattr(module, FIND)))
        _replace(module, READ, _reading(getattr(module, READ)))
        _replace(module, WRITE, _writing(getattr(module, WRITE)))
        _replace(model, "from_pretrained", _from_pretrained(vars(model)["from_pretrained"]))
        _replace(model, "save_pretrained", _save_pretrained(vars(model)["save_pretrained"]))


def disable() -> None:
    """Puts back what enable() replaced. What others replaced meanwhile stays, and calls ours, which
    then does nothing of its own."""
    with _LOCK:
        for place, name, before, now in reversed(_replaced):
            if vars(place).get(name) is now:
                setattr(place, name, before)
        _replaced.clear()


def is_enabled() -> bool:
    """Whether transformers loads and saves .cfck files."""
    return bool(_replaced)


def _replace(place: Any, name: str, now: Any) -> None:
    _replaced.append((place, name, vars(place)[name], now))
    setattr(place, name, now)


def _finding(original: Callable[..., Any]) -> Callable[..., Any]:
    """Finds .cfck files first in folders, and in repositories if they have no others."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def find(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        place = _place(given) if is_enabled() else None
        if place is None:
            return original(*args, **kwargs)
        is_local = os.path.exists(place.path)
        found = local_weights(place) if is_local else hub_weights(place, only_cached=True)
        if found is not None:
            return [_open(found)], None
        try:
            files, metadata = original(*args, **kwargs)
            if files and files[0] is None:  # of some versions, where a cache has no weights
                raise no_weights(place)
        except OSError:
            if os.path.isdir(place.path):
                raise no_weights(place) from None
            found = None if is_local else hub_weights(place)
            if found is None:
                raise
            return [_open(found)], None
        refuse_renamed(files or [])
        return files, metadata

    return find


def _open(path: str) -> str:
    """Begins to decode a file, for the call that will read it."""
    opened = _OPENED.get()
    if opened is not None:
        opened[path] = Weights(path).start()
    return path


def _place(given: dict[str, Any]) -> Place | None:
    """Where the weights of a call are; None: it asks for others."""
    path = given.get("pretrained_model_name_or_path")
    others = ("gguf_file", "from_tf", "from_flax")
    if path is None or any(given.get(name) for name in others):
        return None
    where = given.get("download_kwargs") or given
    hub = {name: where[name] for name in HUB_ARGUMENTS if name in where}
    named = given.get("transformers_explicit_filename")
    variant, use_safetensors = given.get("variant"), given.get("use_safetensors")
    return Place(os.fspath(path), variant, named, hub, use_safetensors)


def _reading(original: Callable[..., Any]) -> Callable[..., Any]:
    """Reads .cfck files."""
    signature = inspect.signature(original)
    # Before version 5 the caller gives "cpu", and takes tensors one after another.
    takes_lazy = "is_quantized" in signature.parameters

    @functools.wraps(original)
    def read(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        path = os.fspath(given["checkpoint_file"])
        if not is_enabled() or not is_cfck(path):
            return original(*args, **kwargs)
        opened = _OPENED.get() or {}
        weights = opened.get(path) or Weights(path)
        device = given.get("map_location")
        if str(device) == "meta":
            return weights.on_meta()
        if takes_lazy or "map_location" not in given:
            weights.was_read = True
            return weights.lazy()
        return {name: tensor.to(device) for name, tensor in weights.decoded().items()}

    return read


def _writing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Writes .cfck files where save_pretrained() was asked for them."""

    @functools.wraps(original)
    def write(tensors: Any, filename: Any, metadata: Any = None) -> Any:
        if not save_tensors(tensors, filename, metadata):
            original(tensors, filename, metadata)

    return write


def _from_pretrained(original: Any) -> Any:
    def from_pretrained(cls: Any, /, *args: Any, compressed: bool = False, **kwargs: Any) -> Any:
        call = original.__get__(None, cls)
        if not is_enabled():
            return call(*args, **kwargs, **({"compressed": True} if compressed else {}))
        check_compressed(compressed)
        if compressed:
            path = args[0] if args else kwargs.pop("pretrained_model_name_or_path")
            return load_packed(cls, path, args[1:], kwargs)
        with _opened() as opened:
            result = call(*args, **kwargs)
        for weights in opened.values():
            refuse_other_model(result[0] if isinstance(result, tuple) else result, weights)
        return result

    functools.update_wrapper(from_pretrained, original.__func__)
    return classmethod(from_pretrained)


@contextlib.contextmanager
def _opened() -> Iterator[dict[str, Weights]]:
    opened: dict[str, Weights] = {}
    token = _OPENED.set(opened)
    try:
        with called_through("transformers"):
            yield opened
    finally:
        _OPENED.reset(token)


def _save_pretrained(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def save_pretrained(self: Any, *args: Any, format: str | None = None, **kwargs: Any) -> Any:
        if not is_enabled():
            return original(self, *args, **kwargs, **({"format": format} if format else {}))
        if not check_format(format):
            refuse_options(kwargs, signature.parameters)
            result = original(self, *args, **kwargs)
            _remove_others(signature.bind(self, *args, **kwargs).arguments, [], ["cfck"])
            return result
        options, rest = split_options(kwargs, signature.parameters)
        given = signature.bind(self, *args, **rest).arguments
        check_request(self, given)
        with saving(self, options) as now:
            result = original(self, *args, **rest)
        if now.written:
            write_index(os.fspath(given["save_directory"]), given.get("variant"), now.written)
            _remove_others(given, now.written, ["cfck", "safetensors"])
        return result

    return save_pretrained


def _remove_others(given: dict[str, Any], kept: list[str], suffixes: list[str]) -> None:
    folder = os.fspath(given["save_directory"])
    if given.get("is_main_process", True) and os.path.isdir(folder):
        remove_others(folder, given.get("variant"), kept, suffixes)
