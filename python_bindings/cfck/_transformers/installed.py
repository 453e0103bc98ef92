"""The library transformers, as it is installed: imported when it is needed."""

from __future__ import annotations

import importlib
from typing import Any

# Those that the tests ran with; what lies between has the same loading code.
KNOWN_VERSIONS = "4.51 to 5.24"


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
