"""What the index of a .cfck file says of a record, and the rules that a record keeps by itself:
spec/format.md, sections 4, 5.1, 5.4 and 7."""

from __future__ import annotations

import dataclasses
import math

import ml_dtypes
import numpy as np
from reference_fields import require

MAX_CHUNK_BYTES = 1 << 26
RAW_FRAME_BYTES = 2**32 - 128

CHUNKED, PACKED, ALIAS, DUPLICATE = range(4)
KINDS = ("chunked", "packed", "alias", "duplicate")
RAW = 0
LOSSLESS = 1
DIRECT = 2
SPECTRAL = 3
ROWS = 4
DELTA = 5
CODECS = {0: "raw", 1: "lossless", 2: "direct", 3: "spectral", 4: "rows", 5: "delta"}
BOUND_KINDS = {0: "none", 1: "abs", 2: "rel", 3: "sigma"}
TARGET_KINDS = {0: "none", 1: "nmse", 2: "psnr", 3: "bits_per_weight", 4: "size"}
ENTROPY_STAGES = {0: "none", 1: "zstd", 2: "rans"}
SCANS = {0: "storage order"}

# id: name, bits, numpy dtype of Tensor.array(), numpy dtype in the npz
DTYPES = {
    1: ("BOOL", 8, np.bool_, np.uint8),
    2: ("F4", 4, None, np.uint8),
    3: ("F6_E2M3", 6, None, np.uint8),
    4: ("F6_E3M2", 6, None, np.uint8),
    5: ("U8", 8, np.uint8, np.uint8),
    6: ("I8", 8, np.int8, np.int8),
    7: ("F8_E5M2", 8, ml_dtypes.float8_e5m2, np.uint8),
    8: ("F8_E4M3", 8, ml_dtypes.float8_e4m3fn, np.uint8),
    9: ("F8_E8M0", 8, ml_dtypes.float8_e8m0fnu, np.uint8),
    10: ("F8_E4M3FNUZ", 8, ml_dtypes.float8_e4m3fnuz, np.uint8),
    11: ("F8_E5M2FNUZ", 8, ml_dtypes.float8_e5m2fnuz, np.uint8),
    12: ("I16", 16, np.int16, np.int16),
    13: ("U16", 16, np.uint16, np.uint16),
    14: ("F16", 16, np.float16, np.float16),
    15: ("BF16", 16, ml_dtypes.bfloat16, np.uint16),
    16: ("I32", 32, np.int32, np.int32),
    17: ("U32", 32, np.uint32, np.uint32),
    18: ("F32", 32, np.float32, np.float32),
    19: ("C64", 64, np.complex64, np.complex64),
    20: ("F64", 64, np.float64, np.float64),
    21: ("I64", 64, np.int64, np.int64),
    22: ("U64", 64, np.uint64, np.uint64),
}


@dataclasses.dataclass
class RecordQuality:
    """Section 5.4."""

    target: float
    rms: float
    minimum: float
    maximum: float
    kind: int
    whole_file: bool


@dataclasses.dataclass
class RecordError:
    """Section 5.4."""

    bound: float
    max_abs_error: float
    rmse: float
    kind: int
    per_row: bool
    quality: RecordQuality | None = None


@dataclasses.dataclass
class Record:
    number: int
    name: str
    hidden: bool
    kind: int
    dtype: int
    codec: int
    entropy: int
    scan: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # alias
    base: int  # alias, duplicate: number of the base record
    first_element: int  # alias
    chunk_elems: int
    pack: int  # packed
    payload: tuple[int, int]  # packed: offset in the pack's frame, length
    preamble: tuple[int, int, int] | None  # offset, length, hash
    extents: list[tuple[int, int, int]]  # chunked: offset, length, hash of each chunk
    digest: bytes
    base_digest: bytes | None = None  # of the tensor of the base that it is stored against
    error: RecordError | None = None

    @property
    def n_elems(self) -> int:
        return math.prod(self.shape)

    @property
    def decoded_bytes(self) -> int:
        return self.n_elems * DTYPES[self.dtype][1] // 8 if self.dtype in DTYPES else 0


def check_shape(record: Record, place: int) -> None:
    """Section 9, and sub-byte tensors fill whole bytes (section 7)."""
    what = f"record {record.number}"
    require(all(d < 2**48 for d in record.shape), f"{what}: a dimension is too large", place)
    product = math.prod(d for d in record.shape if d)
    bits = DTYPES[record.dtype][1] if record.dtype in DTYPES else 8
    require(product < 2**63, f"{what}: too many elements", place)
    require(record.n_elems * bits < 8 * 2**63, f"{what}: too many bytes", place)
    whole = record.dtype not in DTYPES or record.n_elems * bits % 8 == 0
    require(whole, f"{what}: does not fill whole bytes", place)


def check_chunk_elems(record: Record, chunk_elems: int, place: int) -> None:
    """Section 4; a packed record has one chunk."""
    what = f"record {record.number}"
    require(1 <= chunk_elems <= max(record.n_elems, 1), f"{what}: wrong chunk_elems", place)
    if record.dtype not in DTYPES:
        return
    bits = DTYPES[record.dtype][1]
    require(chunk_elems * bits <= 8 * MAX_CHUNK_BYTES, f"{what}: a chunk is too large", place)
    whole = bits >= 8 or chunk_elems % 8 == 0 or chunk_elems >= record.n_elems
    require(whole, f"{what}: a chunk does not fill whole bytes", place)


def raw_start_bytes(record: Record, chunk: int, offset: int) -> int:
    """Section 4.1: frame header, tag and zeros before chunk `chunk`, if a frame starts there."""
    chunk_bytes = record.chunk_elems * DTYPES[record.dtype][1] // 8
    return 0 if chunk % (RAW_FRAME_BYTES // chunk_bytes) else 12 + -(offset + 12) % 64


def check_extents(record: Record, place: int) -> None:
    what = f"record {record.number}"
    if record.codec != RAW or record.dtype not in DTYPES:
        whole = all(length >= 12 for _, length, _ in record.extents)
        require(whole, f"{what}: a chunk is shorter than its header", place)
        return
    chunk_bytes = record.chunk_elems * DTYPES[record.dtype][1] // 8
    left = record.decoded_bytes
    for number, (offset, length, _) in enumerate(record.extents):
        expected = raw_start_bytes(record, number, offset) + min(chunk_bytes, left)
        require(length == expected, f"{what}: a raw chunk of the wrong length", place)
        left -= chunk_bytes
