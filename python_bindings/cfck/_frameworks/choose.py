"""The framework that a call is for."""

from __future__ import annotations

from typing import Any

from ..errors import InvalidArgumentError
from .framework import Framework


def find_framework(name: str) -> Framework[Any]:
    """The framework a caller names, imported when first asked for."""
    if name in ("np", "numpy"):
        from .numpy_arrays import NumpyFramework

        return NumpyFramework()
    if name in ("pt", "torch", "pytorch"):
        from .torch_tensors import TorchFramework

        return TorchFramework()
    raise InvalidArgumentError(f'framework {name} is invalid; it is "pt" or "np"')


def framework_of(tensor: object) -> Framework[Any]:
    """The framework to which ``tensor`` belongs. Imports nothing else."""
    modules = {base.__module__.partition(".")[0] for base in type(tensor).__mro__}
    for name in ("torch", "numpy"):
        if name in modules:
            return find_framework(name)
    raise InvalidArgumentError(
        f"expected a torch.Tensor or a numpy.ndarray but received {type(tensor)}"
    )
