"""Models of Hugging Face's transformers, with weights in .cfck files.

Importing this module is enough: from then on ``from_pretrained`` of transformers, and of what calls
it, loads folders that ``cfck convert`` wrote, and ``save_pretrained(folder, format="cfck")`` writes
such folders::

    import cfck.transformers
    from transformers import AutoModel
    model = AutoModel.from_pretrained("folder")

``from_pretrained`` of this module does the same without a change to transformers, and ``disable()``
takes the changes back. docs/transformers.md has the rest.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from ._common.callers import level_of_caller
from ._transformers.installed import KNOWN_VERSIONS
from ._transformers.load import check_compressed, load, load_packed
from ._transformers.patch import disable as _disable
from ._transformers.patch import enable as _enable
from ._transformers.patch import is_enabled
from ._transformers.weights import StaleWeightsWarning
from .errors import UnsupportedError

__all__ = [
    "KNOWN_VERSIONS",
    "StaleWeightsWarning",
    "VersionWarning",
    "disable",
    "enable",
    "from_pretrained",
    "is_enabled",
]


class VersionWarning(UserWarning):
    """This version of transformers loads models in a way that cfck does not know."""


def from_pretrained(
    cls_or_path: Any,
    path: str | os.PathLike[str] | None = None,
    *model_args: Any,
    compressed: bool = False,
    **kwargs: Any,
) -> Any:
    """Loads a model of transformers, with .cfck weights or others, by what transformers promises to
    its callers alone: it needs no ``enable()``, and works with versions that this does not know.

    Args:
        cls_or_path: a class of models (BertModel), or one of those that find it (AutoModel). Or the
            path, and the class is the one that the configuration names.
        path: a folder, or the name of a repository of the hub.
        model_args: for the constructor of the model.
        compressed: the large weights stay packed in the file, and are decoded layer by layer, as
            cfck.torch.compressed() says. The model must then find all of its parameters there.
        kwargs: as for from_pretrained() of transformers: dtype or torch_dtype, device_map,
            subfolder, variant, revision, cache_dir, local_files_only, ...

    Returns:
        The model, in evaluation mode. With ``output_loading_info``, what was found beside it.

    Raises:
        ImportError: transformers or PyTorch are not installed.
        CfckError: MissingFileError (an OSError) where there are no weights, or not all that an
            index names; InvalidArgumentError (a ValueError) where the weights are of another model;
            damage, as load_file; UnsupportedError for arguments that exclude ``compressed``.
        TypeError: ``compressed`` is no bool.
        OSError, ValueError, RuntimeError: those of transformers.

    Not thread-safe: transformers changes the default dtype of PyTorch, and functions of its own,
    for the time of a call.
    """
    if isinstance(cls_or_path, str | os.PathLike):
        args = model_args if path is None else (path, *model_args)
        cls, where = None, cls_or_path
    elif path is None:
        raise TypeError("from_pretrained() takes a class and a path, or a path alone")
    else:
        args, cls, where = model_args, cls_or_path, path
    check_compressed(compressed)
    if compressed:
        return load_packed(cls, where, args, kwargs)
    return load(cls, where, args, kwargs)


def enable() -> None:
    """Makes transformers load and save .cfck files, as importing this module does.

    ``from_pretrained`` takes ``compressed=True`` then, and ``save_pretrained`` ``format="cfck"``
    with the options of cfck.torch.save_file. A second call changes nothing.

    Raises:
        ImportError: transformers or PyTorch are not installed.
        UnsupportedError: this version of transformers loads models in another way than those that
            are known. It names these, and nothing was changed.

    Thread-safe. Holds for all threads of the process.
    """
    _enable()


def disable() -> None:
    """Takes back all that ``enable()`` changed. Without it nothing happens. Thread-safe; calls that
    run meanwhile in other threads may end either way."""
    _disable()


try:
    _enable()
except UnsupportedError as error:
    warnings.warn(str(error), VersionWarning, stacklevel=level_of_caller())
