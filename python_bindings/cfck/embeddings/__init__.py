"""Rows of embedding tables that travel between ranks, compressed (docs/embeddings.md)."""

from __future__ import annotations

from .._embeddings.bags import BagInput
from .._embeddings.bounds import (
    ErrorSchedule,
    absolute_error,
    bounds_by_merging,
    homogenization_index,
)
from .._embeddings.codec import RowCodec, Rows, RowShape
from .._embeddings.exchange import ExchangeOptions, RowKeys, all_to_all_rows, all_to_all_tables
from .._embeddings.quantise import quantize_and_dequantize
from .._embeddings.sharded import ShardedEmbeddingBags

__all__ = [
    "BagInput",
    "ErrorSchedule",
    "ExchangeOptions",
    "RowCodec",
    "RowKeys",
    "RowShape",
    "Rows",
    "ShardedEmbeddingBags",
    "absolute_error",
    "all_to_all_rows",
    "all_to_all_tables",
    "bounds_by_merging",
    "homogenization_index",
    "quantize_and_dequantize",
]
