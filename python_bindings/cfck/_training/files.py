"""Files of models that were trained for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

from .._common.naming import naming
from .._frameworks.torch_tensors import TorchFramework
from .._io.archive import Archive
from .._io.message import decode_with, encode_learned
from .._io.opening import readable
from .._io.save import write_prepared_bytes
from .._io.summary import SaveSummary
from ..errors import CfckError, InvalidArgumentError
from .weight import FileSteps

_FRAMEWORK = TorchFramework()
_T = TypeVar("_T")
_FILE_MARK = bytes.fromhex("5c2a4d18")  # how files begin (spec/format.md, section 2)


@dataclasses.dataclass(frozen=True)
class Encoded:
    """A file in memory, and what save_file would return."""

    data: bytes
    summary: SaveSummary


def encode_exactly(
    tensors: Mapping[str, torch.Tensor],
    sources: Mapping[str, torch.Tensor],
    originals: Mapping[str, torch.Tensor],
    steps: Mapping[str, FileSteps],
    metadata: Mapping[str, str] | None = None,
    options: Any = None,
) -> Encoded:
    """Makes the file that decodes to ``tensors``, of ``sources``, and checks it.

    Values of 16 bits may be too far from multiples of fine steps to be quantised to the same ones
    again: then the file is made of the ``originals``. Where that does not help, which takes steps
    so fine that they save nothing, the values stay lossless.

    Raises:
        CfckError: a weight with a trellis would not come back; and as an encoder.
        FloatingPointError: a value is not finite.
    """

    def encode_file(sources: Mapping[str, torch.Tensor], steps: Mapping[str, FileSteps]) -> Encoded:
        return encode(sources, steps, metadata, options)

    return _until_exact(
        tensors, sources, originals, steps, encode_file, lambda encoded: decode(encoded.data)
    )


def message_exactly(
    name: str,
    tensor: torch.Tensor,
    source: torch.Tensor,
    original: torch.Tensor | None,
    steps: FileSteps | None,
) -> bytes:
    """Makes the message (spec/message.md) that decodes to ``tensor``, as encode_exactly() does."""

    def encode_one(sources: Mapping[str, torch.Tensor], steps: Mapping[str, FileSteps]) -> bytes:
        learned = steps[name].native() if name in steps else None
        return encode_learned(_FRAMEWORK, name, sources[name], learned)

    return _until_exact(
        {name: tensor},
        {name: source},
        {} if original is None else {name: original},
        {} if steps is None else {name: steps},
        encode_one,
        lambda data: {name: decode_with(_FRAMEWORK, data, None)},
    )


def _until_exact(
    tensors: Mapping[str, torch.Tensor],
    sources: Mapping[str, torch.Tensor],
    originals: Mapping[str, torch.Tensor],
    steps: Mapping[str, FileSteps],
    encode: Callable[[Mapping[str, torch.Tensor], Mapping[str, FileSteps]], _T],
    decode: Callable[[_T], Mapping[str, torch.Tensor]],
) -> _T:
    sources, steps = dict(sources), dict(steps)
    for name in steps:
        if not torch.isfinite(tensors[name]).all():
            raise FloatingPointError(f"weight `{name}` holds values beyond those of its dtype")
    while True:
        encoded = encode(sources, steps)
        wrong = _different(tensors, decode(encoded))
        if not wrong:
            return encoded
        for name in wrong:
            if name not in steps:
                raise CfckError(f"tensor `{name}` was changed while it was encoded", record=name)
            if steps[name].trellis_states > 1:
                raise CfckError(
                    f"tensor `{name}` would not come back as it was trained: a trellis was chosen "
                    "by finish() without the options of this file, or the model was changed since"
                )
            if sources[name] is originals[name]:
                sources[name] = tensors[name]
                del steps[name]
            else:
                sources[name] = originals[name]


def encode(
    tensors: Mapping[str, torch.Tensor],
    steps: Mapping[str, FileSteps],
    metadata: Mapping[str, str] | None = None,
    options: Any = None,
) -> Encoded:
    unknown = set(options or {}) - {*_OF_FILES, *_OF_ENCODERS}
    if unknown:
        raise InvalidArgumentError(
            f"{', '.join(sorted(unknown))}: training has chosen how tensors are stored; options of "
            f"this file are {', '.join((*_OF_ENCODERS, *_OF_FILES))}"
        )
    learned = {name: of.native() for name, of in steps.items()}
    known = {key: value for key, value in (options or {}).items() if key not in _OF_FILES}
    prepared = _FRAMEWORK.prepare(tensors)
    return Encoded(*write_prepared_bytes(prepared, metadata, known, learned))  # type: ignore[arg-type]


_OF_FILES = ("verify", "fsync", "replace_base")
_OF_ENCODERS = ("chunk_elems", "threads", "entropy", "level", "progress")


def decode(data: Any) -> dict[str, torch.Tensor]:
    return Archive.from_bytes(data, {}).load_all(_FRAMEWORK)


def decode_one(name: str, data: bytes) -> torch.Tensor:
    """The tensor of a message, or of a file that has nothing else."""
    with naming(name):
        view = readable(data)
        if view[:4].tobytes() != _FILE_MARK:
            return decode_with(_FRAMEWORK, view, None)
        tensors = decode(view)
        if set(tensors) != {""}:
            raise InvalidArgumentError("this is not what compress_weights() returns")
        return tensors[""]


def stored_bits(data: bytes) -> dict[str, int]:
    """Bits of the records of a file; of duplicates, none."""
    archive = Archive.from_bytes(data, {})
    return {name: 8 * archive.record(name).stored_bytes for name in archive.names()}


def _different(
    tensors: Mapping[str, torch.Tensor], decoded: Mapping[str, torch.Tensor]
) -> list[str]:
    """The names of the tensors that were not decoded bit for bit."""
    return [
        name
        for name, values in decoded.items()
        if not torch.equal(_bits(tensors[name].detach().cpu()), _bits(values))
    ]


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    # A conjugate or negative view has other bits in its memory.
    return tensor.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
