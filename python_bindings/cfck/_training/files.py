"""Files of models that were trained for them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from .._frameworks.torch_tensors import TorchFramework
from .._io.archive import Archive
from .._io.save import write_prepared, write_prepared_bytes
from .._io.summary import SaveSummary
from ..errors import CfckError, InvalidArgumentError
from .weight import FileSteps

_FRAMEWORK = TorchFramework()


def write(
    tensors: Mapping[str, torch.Tensor],
    sources: Mapping[str, torch.Tensor],
    steps: Mapping[str, FileSteps],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None,
    options: Any,
) -> SaveSummary:
    """Writes a file of ``sources``, which must decode to ``tensors``: that is checked first."""
    check_same(tensors, encode(sources, steps, metadata, options))
    learned = {name: of.native() for name, of in steps.items()}
    prepared = _FRAMEWORK.prepare(sources)
    return write_prepared(prepared, filename, metadata, {}, options, None, learned)


def encode(
    tensors: Mapping[str, torch.Tensor],
    steps: Mapping[str, FileSteps],
    metadata: Mapping[str, str] | None = None,
    options: Any = None,
) -> bytes:
    unknown = set(options or {}) - {*_OF_FILES, *_OF_ENCODERS}
    if unknown:
        raise InvalidArgumentError(
            f"{', '.join(sorted(unknown))}: training has chosen how tensors are stored; options of "
            f"this file are {', '.join((*_OF_ENCODERS, *_OF_FILES))}"
        )
    learned = {name: of.native() for name, of in steps.items()}
    known = {key: value for key, value in (options or {}).items() if key not in _OF_FILES}
    return write_prepared_bytes(_FRAMEWORK.prepare(tensors), metadata, known, learned)[0]  # type: ignore[arg-type]


_OF_FILES = ("verify", "fsync")
_OF_ENCODERS = ("chunk_elems", "threads", "entropy", "level", "progress")


def decode(data: bytes) -> dict[str, torch.Tensor]:
    return Archive.from_bytes(data, {}).load_all(_FRAMEWORK)


def stored_bits(data: bytes) -> dict[str, int]:
    """Bits of the records of a file; of duplicates, none."""
    archive = Archive.from_bytes(data, {})
    return {name: 8 * archive.record(name).stored_bytes for name in archive.names()}


def check_same(tensors: Mapping[str, torch.Tensor], data: bytes) -> None:
    """The promise that the file has the values which the last evaluation saw."""
    for name, values in decode(data).items():
        given = tensors[name].detach().cpu()
        if not torch.equal(_bits(given), _bits(values)):
            raise CfckError(
                f"tensor `{name}` would not come back as it was trained: its steps are too small "
                "for numbers of its dtype (exclude it, or learn fewer bits), or a trellis was "
                "chosen by finish() without the options of this file"
            )


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)
