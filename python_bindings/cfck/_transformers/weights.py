"""Which .cfck file holds the weights of a model: in a folder, or in the cache of the hub."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .._common.callers import level_of_caller
from ..errors import InvalidArgumentError, MissingFileError

# The name that transformers gives to the weights of a model.
_SAFETENSORS = ".safetensors"
_CFCK = ".cfck"
# What a .cfck file begins with: a frame of Zstd that is skipped, and in it a tag.
_MAGIC_BYTES = 12
_TAG = b"CFCK"

# Arguments of from_pretrained() that say where in the hub a file is.
HUB_ARGUMENTS = (
    "cache_dir",
    "force_download",
    "proxies",
    "token",
    "revision",
    "local_files_only",
    "subfolder",
)


class StaleWeightsWarning(UserWarning):
    """A folder has .cfck weights, which are loaded, and newer ones of safetensors."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a call of from_pretrained() looks for weights.

    Attributes:
        path: a folder, a file, or the name of a repository of the hub.
        variant: of the weights, such as "fp16".
        named: the file that the configuration of the model names, if it does.
        hub: those of HUB_ARGUMENTS that were given.
        use_safetensors: the argument; False leaves out .cfck files as well.
    """

    path: str
    variant: str | None = None
    named: str | None = None
    hub: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    use_safetensors: bool | None = None

    def subfolder(self) -> str:
        """The folder in ``path`` or in the repository."""
        return self.hub.get("subfolder") or ""

    def folder(self) -> str:
        """The folder, where ``path`` is one."""
        return os.path.join(self.path, self.subfolder())

    def names(self) -> list[str]:
        """Names of .cfck files, the first one first."""
        if self.use_safetensors is False:
            return []
        if self.named is not None:
            return [self.named.replace(_SAFETENSORS, _CFCK)]
        if self.variant is None:
            return ["model.cfck.index.json", "model.cfck"]
        return [
            f"model.cfck.index.{self.variant}.json",
            f"model.{self.variant}.cfck.index.json",
            f"model.{self.variant}.cfck",
        ]

    def other_names(self) -> list[str]:
        """Names of files of safetensors and PyTorch, in the order of transformers."""
        if self.named is not None:
            return [self.named]
        middle = "" if self.variant is None else f".{self.variant}"
        safetensors = [f"model{middle}.safetensors", f"model.safetensors.index{middle}.json"]
        pytorch = [f"pytorch_model{middle}.bin", f"pytorch_model.bin.index{middle}.json"]
        if self.use_safetensors is None:
            return safetensors + pytorch
        return safetensors if self.use_safetensors else pytorch


def is_cfck(path: str) -> bool:
    """Whether a path is that of a .cfck file, or of an index of some, by its name."""
    return path.endswith(_CFCK) or (path.endswith(".json") and ".cfck.index." in path)


def find_weights(place: Place) -> str:
    """The weights that from_pretrained() of transformers loads, of cfck or any other format.

    Raises:
        CfckError: MissingFileError where there are none, or a link or an index leads to none;
            InvalidArgumentError for .cfck files with the suffix of safetensors.
        OSError: that of transformers.
    """
    if os.path.exists(place.path):
        found = local_weights(place) or _other_local_weights(place)
    else:
        found = (
            hub_weights(place, only_cached=True)
            or _from_hub(place, place.other_names())
            or hub_weights(place)
        )
    if found is None:
        raise no_weights(place)
    refuse_renamed(_files_of(found))
    return found


def _other_local_weights(place: Place) -> str | None:
    paths = (os.path.join(place.folder(), name) for name in place.other_names())
    return next(filter(os.path.isfile, paths), None)


def _files_of(path: str) -> list[str]:
    """The file, or the shards that an index names."""
    if not path.endswith(".json"):
        return [path]
    try:
        with open(path, encoding="utf-8") as file:
            shards = sorted(set(json.load(file)["weight_map"].values()))
        return [os.path.join(os.path.dirname(path), shard) for shard in shards]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []  # the index is damaged, and who opens it says how


def local_weights(place: Place) -> str | None:
    """The weights in a folder, or the file that was given; None: there are none of cfck.

    Raises:
        MissingFileError: they are a link to a file that is not there.
    """
    if is_cfck(place.path) and os.path.isfile(place.path):
        return place.path
    if not os.path.isdir(place.path):
        return None
    for name in place.names():
        path = os.path.join(place.folder(), name)
        if os.path.isfile(path):
            _warn_of_newer(path)
            return path
        _refuse_broken_link(path)
    return None


def hub_weights(place: Place, only_cached: bool = False) -> str | None:
    """The weights in a repository of the hub, which are fetched into its cache.

    Args:
        only_cached: look into the cache alone, and fetch nothing if they are not there.

    Raises:
        MissingFileError: the cache has a link to a file that is neither there nor can be fetched.
        OSError: that of transformers.
    """
    names = place.names()
    return _from_hub(place, [n for n in names if _is_cached(place, n)] if only_cached else names)


def _from_hub(place: Place, names: Sequence[str]) -> str | None:
    hub = importlib.import_module("transformers.utils.hub")
    for name in names:
        found = _cached_file(hub, place, name)
        if found is None:
            _refuse_broken_links(place, name)
            continue
        if found.endswith(".json"):
            _fetch_shards(hub, place, found)
        return str(found)
    return None


def no_weights(place: Place) -> MissingFileError:
    """The error where there are no weights of any kind."""
    folder = place.folder()
    wanted = " or ".join(reversed(place.names())) or place.other_names()[0]
    if not os.path.isdir(folder):
        return MissingFileError(
            f"{place.path} is no folder with weights, and the cache of the hub has no {wanted} of "
            "such a repository, and no file of safetensors or PyTorch; offline they would have to "
            "be there",
            filename=place.path,
        )
    others = sorted(
        name
        for name in os.listdir(folder)
        if name.endswith((_CFCK, _SAFETENSORS)) and name not in place.names()
    )
    advice = f"; it has {', '.join(others[:5])}: rename it, or name its variant" if others else ""
    if place.use_safetensors is False and others:
        advice = f"; use_safetensors=False leaves out {', '.join(others[:5])}"
    return MissingFileError(
        f"{folder} has no weights that transformers would load: no {wanted}, and none of "
        f"safetensors or PyTorch{advice}",
        filename=folder,
    )


def refuse_renamed(paths: list[str]) -> None:
    """Raises InvalidArgumentError for .cfck files with the suffix of safetensors."""
    for path in paths:
        if not path.endswith(_SAFETENSORS):
            continue
        try:
            with open(path, "rb") as file:
                begin = file.read(_MAGIC_BYTES)
        except OSError:
            continue
        if begin.endswith(_TAG):
            name = os.path.basename(path)
            raise InvalidArgumentError(
                f"{path} is a .cfck file under the name of a safetensors file: rename it to "
                f"{name.replace(_SAFETENSORS, _CFCK)}, or turn it back with `cfck convert`"
            )


def _warn_of_newer(path: str) -> None:
    other = path.replace(_CFCK, _SAFETENSORS)
    if os.path.isfile(other) and os.path.getmtime(other) > os.path.getmtime(path):
        warnings.warn(
            f"{path} is loaded, although {os.path.basename(other)} beside it is newer: remove the "
            "one that is not wanted",
            StaleWeightsWarning,
            stacklevel=level_of_caller(),
        )


def _refuse_broken_link(path: str) -> None:
    if os.path.islink(path) and not os.path.exists(path):
        raise MissingFileError(
            f"{path} is a link to {os.path.realpath(path)}, which is not there: remove the link, "
            "and fetch or convert the model again",
            filename=path,
        )


def _is_cached(place: Place, name: str) -> bool:
    hub = importlib.import_module("huggingface_hub")
    found = hub.try_to_load_from_cache(
        place.path,
        os.path.join(place.subfolder(), name),
        cache_dir=_cache_folder(place),
        revision=_revision(place),
    )
    return isinstance(found, str)


def _cached_file(hub: Any, place: Place, name: str) -> str | None:
    """The file, from the cache or the hub; None: the repository has none of this name."""
    given = {key: value for key, value in place.hub.items() if value is not None}
    try:
        found: str | None = hub.cached_file(
            place.path,
            name,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
            **given,
        )
    except OSError:
        _refuse_broken_links(place, name)
        raise
    return found


def _fetch_shards(hub: Any, place: Place, index: str) -> None:
    """Fetches the shards of an index into the folder where it is."""
    given = {key: value for key, value in place.hub.items() if value is not None}
    try:
        hub.get_checkpoint_shard_files(place.path, index, **given)
    except (KeyError, TypeError, AttributeError):
        return  # the index is damaged, and who opens it says how
    except OSError as error:
        for name in sorted(os.listdir(os.path.dirname(index))):
            _refuse_broken_link(os.path.join(os.path.dirname(index), name))
        lost = [path for path in _files_of(index) if not os.path.exists(path)]
        if not lost:
            raise
        raise MissingFileError(
            f"{lost[0]} is not there, which {os.path.basename(index)} names, and could not be "
            f"fetched: {error}",
            filename=lost[0],
        ) from error


def _refuse_broken_links(place: Place, name: str) -> None:
    """Looks into the folder of the cache where the configuration of the model is."""
    hub = importlib.import_module("huggingface_hub")
    config = hub.try_to_load_from_cache(
        place.path,
        os.path.join(place.subfolder(), "config.json"),
        cache_dir=_cache_folder(place),
        revision=_revision(place),
    )
    if isinstance(config, str):
        _refuse_broken_link(os.path.join(os.path.dirname(config), name))


def _cache_folder(place: Place) -> str | None:
    folder = place.hub.get("cache_dir")
    if folder is not None:
        return str(os.fspath(folder))
    # Older versions of transformers have a variable of their own for it.
    hub = importlib.import_module("transformers.utils.hub")
    default: str | None = getattr(hub, "TRANSFORMERS_CACHE", None)
    return default


def _revision(place: Place) -> str | None:
    revision = place.hub.get("revision")
    return None if revision is None else str(revision)
