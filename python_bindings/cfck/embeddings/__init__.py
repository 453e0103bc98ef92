"""Rows of embedding tables that travel between ranks, compressed (docs/embeddings.md)."""

from __future__ import annotations

from .._embeddings.bounds import (
    ErrorSchedule,
    absolute_error,
    bounds_by_merging,
    homogenization_index,
)
from .._embeddings.codec import RowCodec, Rows, RowShape
from .._embeddings.exchange import ExchangeOptions, all_to_all_rows, all_to_all_tables
from .._embeddings.quantise import quantize_and_dequantize

__all__ = [
    "ErrorSchedule",
    "ExchangeOptions",
    "RowCodec",
    "RowShape",
    "Rows",
    "absolute_error",
    "all_to_all_rows",
    "all_to_all_tables",
    "bounds_by_merging",
    "homogenization_index",
    "quantize_and_dequantize",
]
