"""The description of each tensor in a file."""

from __future__ import annotations

import dataclasses

from .. import _native

_KINDS = {kind: kind.name.lower() for kind in _native.RecordKind}


@dataclasses.dataclass(frozen=True)
class RecordInfo:
    """The description of one tensor in a file; the names are those of `cfck inspect --json`.

    Attributes:
        name: the tensor's name.
        kind: "chunked", "packed", "alias" (shares memory) or "duplicate" (equal to another one).
        shares_with: the tensor whose bytes an alias or a duplicate uses, if that has a name.
        dtype: "F32", "BF16", ..., as in safetensors.
        shape: dimensions, in elements.
        codec: "raw", "lossless", "direct", "spectral" or "rows".
        entropy: "none", "zstd" or "rans".
        n_elems: product of the shape.
        decoded_bytes: size of the contiguous tensor.
        stored_bytes: bytes of the file for this tensor alone; 0 for aliases and duplicates.
        bits_per_weight: 8 * stored_bytes / n_elems.
        digest: hash of the decoded bytes, in hexadecimal; empty in safetensors files.
        against_base: whether it is stored against the tensor of its name in the base of the file,
            and cannot be read without that; of an alias or a duplicate: whether what it shares is.
            The program says "base" of these, and whether they are unchanged.
        bound_kind: "abs", "rel" or "sigma": what the maximum error asked for is relative to;
            "none" where no maximum was asked for, and bound and per_row are None. This and all
            that follows is None where every bit was kept.
        bound: the maximum error asked for.
        per_row: whether it is relative to each row of axis 0.
        max_abs_error: the largest error of a finite value, in the units of the values.
        rmse: root mean square of the errors of the finite values.
        target_kind: "nmse" (a ratio), "psnr" (dB), "bits_per_weight" or "size" (bytes); None
            where no target was given. This and all that follows is for codec "spectral".
        target: its value.
        whole_file: whether it was for all tensors together.
        rms: root mean square of the finite values.
        nmse_db: the mean squared error over the mean square of the values, in dB.
    """

    name: str
    kind: str
    shares_with: str | None
    dtype: str
    shape: tuple[int, ...]
    codec: str
    entropy: str
    n_elems: int
    decoded_bytes: int
    stored_bytes: int
    bits_per_weight: float
    digest: str
    against_base: bool
    bound_kind: str | None
    bound: float | None
    per_row: bool | None
    max_abs_error: float | None
    rmse: float | None
    target_kind: str | None
    target: float | None
    whole_file: bool | None
    rms: float | None
    nmse_db: float | None


def record_info(record: _native.Record, base: _native.Record | None) -> RecordInfo:
    """``base``: the record whose bytes an alias or a duplicate uses."""
    return RecordInfo(
        name=record.name,
        kind=_KINDS[record.kind],
        shares_with=base.name if base is not None and not base.hidden else None,
        dtype=record.dtype,
        shape=tuple(record.shape),
        codec=record.codec,
        entropy=record.entropy,
        n_elems=record.n_elems,
        decoded_bytes=record.decoded_bytes,
        stored_bytes=record.stored_bytes,
        bits_per_weight=record.bits_per_weight,
        digest=record.digest,
        against_base=(record if base is None else base).is_difference,
        bound_kind=record.bound_kind,
        bound=record.bound,
        per_row=record.per_row,
        max_abs_error=record.max_abs_error,
        rmse=record.rmse,
        target_kind=record.target_kind,
        target=record.target,
        whole_file=record.whole_file,
        rms=record.rms,
        nmse_db=record.nmse_db,
    )
