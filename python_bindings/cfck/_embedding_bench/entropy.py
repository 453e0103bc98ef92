"""Exact sizes of entropy coders without their code: order-0 Huffman and ANS."""

from __future__ import annotations

import heapq

import numpy as np

# Frequencies of a table of ANS add up to this.
_FREQUENCY_BITS = 12
_LENGTH_BITS = 5
# The first symbol, how many the table spans, and the length of the stream.
_HEADER_BYTES = 8
# ANS ends with its state.
_STATE_BYTES = 4


def huffman_bytes(symbols: np.ndarray) -> int:
    """The size of an order-0 Huffman code with its table.

    Args:
        symbols: integers of any shape.

    The table has the length of each code between the smallest symbol and the largest, 5 bits each.
    A stream of one symbol has no bits.
    """
    span, counts = _counts(symbols)
    bits = int((counts * code_lengths(counts)).sum())
    return _HEADER_BYTES + -(-_LENGTH_BITS * span // 8) + -(-bits // 8)


def code_lengths(counts: np.ndarray) -> np.ndarray:
    """The length of the Huffman code of each symbol, in bits, for positive counts."""
    if counts.size < 2:
        return np.zeros(counts.size, dtype=np.int64)
    parents = np.zeros(2 * counts.size - 1, dtype=np.int64)
    heap = [(int(count), i) for i, count in enumerate(counts)]
    heapq.heapify(heap)
    for node in range(counts.size, parents.size):
        first, one = heapq.heappop(heap)
        second, other = heapq.heappop(heap)
        parents[one] = parents[other] = node
        heapq.heappush(heap, (first + second, node))
    depths = np.zeros(parents.size, dtype=np.int64)
    for node in range(parents.size - 2, -1, -1):
        depths[node] = depths[parents[node]] + 1
    return depths[: counts.size]


def ans_bytes(symbols: np.ndarray) -> int:
    """The size of order-0 ANS with frequencies of 12 bits, with its table.

    Args:
        symbols: integers of any shape. Where more than 4,096 differ, their low and their high bytes
            are streams of their own.

    The table has 12 bits for each symbol between the smallest and the largest.
    """
    span, counts = _counts(symbols)
    if counts.size > 1 << _FREQUENCY_BITS:
        planes = np.ascontiguousarray(symbols).reshape(-1).view(np.uint8)
        width = symbols.dtype.itemsize
        return sum(ans_bytes(planes[i::width]) for i in range(width))
    if counts.size < 2:
        return _HEADER_BYTES + -(-_FREQUENCY_BITS * span // 8)
    shares = normalised(counts) / (1 << _FREQUENCY_BITS)
    bits = float(-(counts * np.log2(shares)).sum())
    table = -(-_FREQUENCY_BITS * span // 8)
    return _HEADER_BYTES + table + _STATE_BYTES + int(np.ceil(bits / 8))


def normalised(counts: np.ndarray) -> np.ndarray:
    """Positive frequencies that add up to 4,096, as near to the counts as integers are."""
    total = 1 << _FREQUENCY_BITS
    exact = counts * (total / counts.sum())
    found: np.ndarray = np.maximum(np.round(exact).astype(np.int64), 1)
    # The rest changes the frequencies at which it costs least.
    while excess := int(found.sum()) - total:
        if excess > 0:
            cost = np.where(found > 1, counts * np.log2(found / np.maximum(found - 1, 1)), np.inf)
            found[int(cost.argmin())] -= 1
        else:
            found[int((counts * np.log2((found + 1) / found)).argmax())] += 1
    return found


def _counts(symbols: np.ndarray) -> tuple[int, np.ndarray]:
    """How many symbols a table spans, and the counts of those that occur."""
    if symbols.size == 0:
        return 0, np.zeros(0, dtype=np.int64)
    found, counts = np.unique(symbols, return_counts=True)
    return int(found[-1]) - int(found[0]) + 1, counts
