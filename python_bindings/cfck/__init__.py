"""Compressed, checked files for model checkpoints.

``cfck.torch`` and ``cfck.numpy`` have the functions of safetensors, for files that are
smaller and prove that they are unharmed::

    from cfck.torch import load_file, save_file
    save_file(model.state_dict(), "model.cfck")
    state_dict = load_file("model.cfck")

All functions may be called from several threads at once, and release the GIL while they
encode and decode.

Inside, each sub-package imports from those to its left only, and ``torch``, ``train``,
``transformers``, ``numpy``, ``plot`` and this module from all of them::

    errors, _native <- _common <- _frameworks, _options <- _io <- _checkpoint
                       <- _evaluation <- _calibration <- _shrink <- _program
                                      <- _training
                       <- _report
                       <- _streaming <- _transformers
"""

from __future__ import annotations

import importlib
from types import ModuleType

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
from ._io.open import safe_open
from ._io.reading import LeftOutWarning
from ._io.records import RecordInfo
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
from ._native import library_version as _library_version
from ._options.kinds import RuleOptions, TensorOptions
from ._report.page import ReportSummary, report
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
    MissingFileError,
    NotFoundError,
    OutOfBoundsError,
    OutOfMemoryError,
    TruncatedError,
    UnsupportedError,
)

# The name of safetensors.
SafetensorError = CfckError

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
    "LossWarning",
    "MessageInfo",
    "MissingFileError",
    "NotFoundError",
    "OutOfBoundsError",
    "OutOfMemoryError",
    "RecordInfo",
    "ReportSummary",
    "RuleWarning",
    "SafetensorError",
    "SaveSummary",
    "SharedMemoryWarning",
    "ShrinkInterrupted",
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


__version__ = _library_version()


def __getattr__(name: str) -> ModuleType:
    # torch takes seconds to import; only who asks for it pays.
    if name in ("cuda", "hdf5", "numpy", "plot", "torch", "train", "transformers"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
