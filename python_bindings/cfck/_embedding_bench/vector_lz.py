"""The size of vector-LZ, the published method's own encoder: a whole row is the symbol."""

from __future__ import annotations

import numpy as np

from .entropy import huffman_bytes

WINDOW = 2048
# Numbers of rows and of matches, and how literals are coded.
_HEADER_BYTES = 9


def previous_equal(codes: np.ndarray) -> np.ndarray:
    """The nearest row before that is equal, for each row; -1 where there is none.

    Args:
        codes: integers of shape (n_rows, row_elems).
    """
    n_rows = codes.shape[0]
    before = np.full(n_rows, -1, dtype=np.int64)
    if n_rows == 0 or codes.shape[1] == 0:
        return before
    whole = np.ascontiguousarray(codes)
    # A row is one item of bytes, which sorts faster.
    items = whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).reshape(-1)
    _, numbers = np.unique(items, return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    is_same = numbers[order][1:] == numbers[order][:-1]
    before[order[1:][is_same]] = order[:-1][is_same]
    return before


def vector_lz_bytes(codes: np.ndarray, window: int = WINDOW) -> int:
    """The size: a bit for each row, an offset for one that occurs in the window, else the row.

    Args:
        codes: integers of shape (n_rows, row_elems).
        window: how many rows back a match may lie; a power of two.

    Literal rows take the width of ``codes``, or order-0 Huffman codes where these are fewer bytes.
    """
    before = previous_equal(codes)
    matches = (before >= 0) & (np.arange(codes.shape[0]) - before <= window)
    literals = codes[~matches]
    offset_bits = (window - 1).bit_length() * int(matches.sum())
    literal_bytes = min(int(literals.nbytes), huffman_bytes(literals))
    n_flag_bytes = -(-int(codes.shape[0]) // 8)
    return _HEADER_BYTES + n_flag_bytes + -(-offset_bits // 8) + literal_bytes
