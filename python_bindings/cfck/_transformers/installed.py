"""The library transformers, as it is installed: imported when it is needed."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

# Those that the tests ran with; what lies between has the same loading code.
KNOWN_VERSIONS = "4.51 to 5.24"

# Functions of its module modeling_utils by which files are found, read and written.
FIND, READ, WRITE = "_get_resolved_checkpoint_files", "load_state_dict", "safe_save_file"
# Functions of transformers that call those above, and the arguments that these take.
_CALLERS = {FIND: "from_pretrained", READ: "_load_pretrained_model", WRITE: "save_pretrained"}
_ARGUMENTS = {
    FIND: ("pretrained_model_name_or_path", "variant", "gguf_file", "use_safetensors"),
    READ: ("checkpoint_file", "map_location"),
    WRITE: ("tensors", "filename", "metadata"),
}


def transformers() -> Any:
    """The library itself.

    Raises:
        ImportError: it is not installed, or PyTorch is not.
    """
    return _imported("transformers")


def modeling() -> Any:
    """Its module with the class of all models, and the functions that load them."""
    module = _imported("transformers.modeling_utils")
    if not hasattr(module, "PreTrainedModel"):
        raise ImportError("this installation of transformers has no models: pip install torch")
    return module


def unknown_part(module: Any) -> str | None:
    """What is other in this version of transformers; None: nothing that matters."""
    model = module.PreTrainedModel
    for name, arguments in _ARGUMENTS.items():
        function = getattr(module, name, None)
        if function is None:
            return f"it has no {name}"
        lacking = set(arguments) - set(inspect.signature(function).parameters)
        if lacking:
            return f"{name} does not take {', '.join(sorted(lacking))}"
        caller = inspect.unwrap(getattr(model, _CALLERS[name]))
        code = getattr(caller, "__code__", None)
        if code is None or name not in code.co_names:
            return f"{_CALLERS[name]} does not call {name}"
    return None


def takes_dtype() -> bool:
    """Whether from_pretrained() has an argument dtype; before, its name was torch_dtype."""
    return _version() >= (4, 56)


def _version() -> tuple[int, int]:
    major, minor = str(transformers().__version__).split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def _imported(name: str) -> Any:
    try:
        importlib.import_module("torch")
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"cfck.transformers needs PyTorch and transformers ({error}): "
            "pip install torch transformers"
        ) from error
