"""Compressed, checked files for model checkpoints.

``cfck.torch`` and ``cfck.numpy`` have the functions of safetensors, for files that are
smaller and prove that they are unharmed::

    from cfck.torch import load_file, save_file
    save_file(model.state_dict(), "model.cfck")
    state_dict = load_file("model.cfck")

All functions may be called from several threads at once, and release the GIL while they
encode and decode.

Inside, each sub-package imports from those to its left only, and ``torch``, ``train``,
``transformers``, ``distributed``, ``numpy``, ``plot``, ``sync`` and this module from all of them::

    errors, _native <- _common <- _frameworks, _options <- _io <- _checkpoint
                       <- _evaluation <- _calibration <- _shrink <- _program
                                      <- _training
                       <- _distributed <- _embeddings <- _embedding_bench <- embeddings
                       <- _report
                       <- _streaming <- _transformers
                       <- _sync
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import errors
    from ._calibration.calibrate import calibrate
    from ._calibration.calibration import Calibration, load_calibration
    from ._calibration.refine import refine
    from ._calibration.tensor import CalibratedTensor
    from ._evaluation.evaluate import evaluate
    from ._evaluation.result import Evaluation
    from ._io.message import (
        MessageInfo,
        decode_message,
        encode_message,
        max_message_bytes,
        message_info,
    )
    from ._io.on_device import DeviceWarning
    from ._io.reading import LeftOutWarning
    from ._io.records import RecordInfo
    from ._io.replacing import dependents_of
    from ._io.safe_open import safe_open
    from ._io.serialize import TensorSpec, deserialize, serialize, serialize_file
    from ._io.single import compress, decompress, update
    from ._io.slices import TensorSlice
    from ._io.summary import (
        EmptyFileWarning,
        LossWarning,
        RuleWarning,
        SaveSummary,
        SharedMemoryWarning,
    )
    from ._options.kinds import LoadOptions, RuleOptions, SaveOptions, TensorOptions
    from ._report.page import ReportSummary, report
    from ._shrink.options import ShrinkOptions
    from ._shrink.result import ShrinkInterrupted, ShrinkResult, ShrinkTrial
    from ._shrink.shrink import shrink
    from .errors import (
        CfckError,
        ChecksumError,
        CorruptError,
        DeviceError,
        ExistsError,
        InternalError,
        InvalidArgumentError,
        IoError,
        LimitExceededError,
        MissingBaseError,
        MissingFileError,
        NotFoundError,
        OutOfBoundsError,
        OutOfMemoryError,
        SafetensorError,
        TruncatedError,
        UnsupportedError,
    )

    __version__: str

__all__ = [
    "CalibratedTensor",
    "Calibration",
    "CfckError",
    "ChecksumError",
    "CorruptError",
    "DeviceError",
    "DeviceWarning",
    "EmptyFileWarning",
    "Evaluation",
    "ExistsError",
    "InternalError",
    "InvalidArgumentError",
    "IoError",
    "LeftOutWarning",
    "LimitExceededError",
    "LoadOptions",
    "LossWarning",
    "MessageInfo",
    "MissingBaseError",
    "MissingFileError",
    "NotFoundError",
    "OutOfBoundsError",
    "OutOfMemoryError",
    "RecordInfo",
    "ReportSummary",
    "RuleWarning",
    "SafetensorError",
    "SaveOptions",
    "SaveSummary",
    "SharedMemoryWarning",
    "ShrinkInterrupted",
    "ShrinkOptions",
    "ShrinkResult",
    "ShrinkTrial",
    "RuleOptions",
    "TensorOptions",
    "TensorSlice",
    "TensorSpec",
    "TruncatedError",
    "UnsupportedError",
    "__version__",
    "calibrate",
    "compress",
    "decode_message",
    "decompress",
    "dependents_of",
    "deserialize",
    "encode_message",
    "errors",
    "evaluate",
    "load_calibration",
    "max_message_bytes",
    "message_info",
    "refine",
    "report",
    "safe_open",
    "serialize",
    "serialize_file",
    "shrink",
    "update",
]

# The modules that have these names. They are imported when somebody asks for one: numpy takes a
# tenth of a second, and a program that prints its help needs none of them.
_HOMES = {
    "._calibration.calibrate": "calibrate",
    "._calibration.calibration": "Calibration load_calibration",
    "._calibration.refine": "refine",
    "._calibration.tensor": "CalibratedTensor",
    "._evaluation.evaluate": "evaluate",
    "._evaluation.result": "Evaluation",
    "._io.message": "MessageInfo decode_message encode_message max_message_bytes message_info",
    "._io.on_device": "DeviceWarning",
    "._io.replacing": "dependents_of",
    "._io.safe_open": "safe_open",
    "._io.reading": "LeftOutWarning",
    "._io.records": "RecordInfo",
    "._io.serialize": "TensorSpec deserialize serialize serialize_file",
    "._io.single": "compress decompress update",
    "._io.slices": "TensorSlice",
    "._io.summary": "EmptyFileWarning LossWarning RuleWarning SaveSummary SharedMemoryWarning",
    "._options.kinds": "RuleOptions TensorOptions",
    "._options.signatures": "LoadOptions SaveOptions",  # with the docstrings of their bases
    "._report.page": "ReportSummary report",
    "._shrink.options": "ShrinkOptions",
    "._shrink.result": "ShrinkInterrupted ShrinkResult ShrinkTrial",
    "._shrink.shrink": "shrink",
    ".errors": (
        "CfckError ChecksumError CorruptError DeviceError ExistsError InternalError "
        "InvalidArgumentError IoError LimitExceededError MissingBaseError MissingFileError "
        "NotFoundError OutOfBoundsError OutOfMemoryError SafetensorError TruncatedError "
        "UnsupportedError"
    ),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}
# torch takes seconds.
_SUBMODULES = (
    "cuda",
    "distributed",
    "errors",
    "hdf5",
    "numpy",
    "plot",
    "sync",
    "torch",
    "train",
    "transformers",
)


def __getattr__(name: str) -> ModuleType:  # for type checkers, which see all others above
    value: Any
    if name in _MODULES:
        module = importlib.import_module(_MODULES[name], __name__)
        value = getattr(module, name)
    elif name == "__version__":
        value = importlib.import_module("._native", __name__).library_version()
    elif name in _SUBMODULES:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value  # type: ignore[no-any-return]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
