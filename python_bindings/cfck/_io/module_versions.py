"""The versions that modules of torch give to the layout of their state, beside the tensors."""

from __future__ import annotations

import collections
import json
from collections.abc import Mapping
from typing import Any

import torch

from .._common.checks import check_metadata
from .._common.text import shown
from ..errors import CorruptError

# See docs/formats.md. Modules whose version is not named have version 1.
KEY = "cfck.module_versions"


def with_versions(metadata: Mapping[str, str] | None, state_dict: Any) -> dict[str, str]:
    """Metadata of a file, with the versions of a state dict's modules if not all are 1.

    They replace those in ``metadata``, which may be of the file that the model was loaded from.
    """
    complete = check_metadata(metadata)
    modules = getattr(state_dict, "_metadata", None)
    if not isinstance(modules, Mapping) or not modules:
        return complete
    versions = {
        name: module["version"]
        for name, module in modules.items()
        if isinstance(name, str) and isinstance(module, Mapping) and _is_other(module)
    }
    complete.pop(KEY, None)
    if versions:
        complete[KEY] = json.dumps(versions, ensure_ascii=False, separators=(",", ":"))
    return complete


def versioned(
    state: Mapping[str, Any], metadata: Mapping[str, str], model: torch.nn.Module
) -> Mapping[str, Any]:
    """A state dict for ``load_state_dict``, which asks modules to read the version of the file.

    Without versions in the file, the modules are told of none, as by any file of tensors alone, and
    so is a module of whose own tensors some are not there: it may know how to do without them.
    """
    text = metadata.get(KEY)
    if text is None:
        return state
    try:
        versions = json.loads(text)
    except (ValueError, RecursionError):
        versions = None
    if not isinstance(versions, dict) or not all(type(v) is int for v in versions.values()):
        raise CorruptError(
            f"the metadata {KEY} is {shown(repr(text))}, no JSON object of names and integers; "
            "remove it or write the file again"
        )
    named: Any = collections.OrderedDict(state)
    named._metadata = {
        name: {"version": versions.get(name, 1)}
        for name, module in model.named_modules(remove_duplicate=False)
        if _own_names(name, module) <= state.keys()
    }
    return named  # type: ignore[no-any-return]


def _own_names(name: str, module: torch.nn.Module) -> set[str]:
    """Names in a state dict of what the module has itself, without its children."""
    prefix = f"{name}." if name else ""
    own = {**module._parameters, **module._buffers}
    left_out = module._non_persistent_buffers_set
    return {prefix + key for key, value in own.items() if value is not None and key not in left_out}


def _is_other(module: Mapping[str, Any]) -> bool:
    version = module.get("version")
    return type(version) is int and version != 1
