"""Writes the Zstd frame of a list of streams, as codec/entropy/spec.md says.

An encoder made from that page alone: the library must write the same bytes.
"""

from __future__ import annotations

import collections
import math
import struct

MAX_LENGTH = 11
BLOCK = 1 << 17


class Bits:
    """A string of bits, the first in the least significant place."""

    def __init__(self):
        self.value, self.count = 0, 0

    def put(self, value: int, count: int) -> None:
        self.value |= value << self.count
        self.count += count

    def bytes(self) -> bytes:
        return self.value.to_bytes(-(-self.count // 8), "little")


def code_lengths(counts: dict[int, int]) -> dict[int, int]:
    """Section 3: package-merge. Elements are (count, symbol) or (count, None) for a pair."""
    leaves = sorted((count, symbol) for symbol, count in counts.items())
    lists = [leaves]
    for _ in range(MAX_LENGTH - 1):
        before = lists[-1]
        pairs = [(before[i][0] + before[i + 1][0], None) for i in range(0, len(before) - 1, 2)]
        # The sort is stable and leaves come first, so that they win ties.
        lists.append(sorted(leaves + pairs, key=lambda element: element[0]))
    lengths = collections.Counter()
    take = 2 * len(leaves) - 2
    for elements in reversed(lists):
        taken = elements[:take]
        lengths.update(symbol for _, symbol in taken if symbol is not None)
        take = 2 * sum(symbol is None for _, symbol in taken)
    return dict(lengths)


def tree_description(lengths: dict[int, int]) -> bytes | None:
    """Section 4."""
    top, last = max(lengths.values()), max(lengths)
    weights = [top + 1 - lengths[s] if s in lengths else 0 for s in range(last)]
    forms = []
    if last <= 128:
        nibbles = [*weights, 0]
        pairs = (nibbles[i] << 4 | nibbles[i + 1] for i in range(0, last, 2))
        forms.append(bytes([127 + last, *pairs]))
    if len(weights) >= 3 and len(set(weights)) >= 2:
        coded = [fse_weights(weights, log) for log in (5, 6)]
        forms += [bytes([len(form)]) + form for form in coded if len(form) <= 127]
    return min(forms, key=len, default=None)


def fse_weights(weights: list[int], log: int) -> bytes:
    """Section 6, without the first byte."""
    counts = collections.Counter(weights)
    shares = [
        max(1, counts[w] * 2**log // len(weights)) if w in counts else 0
        for w in range(max(weights) + 1)
    ]
    if sum(shares) < 2**log:
        shares[shares.index(max(shares))] += 2**log - sum(shares)
    while sum(shares) > 2**log:
        shares[shares.index(max(shares))] -= 1
    return fse_description(shares, log) + fse_stream(weights, shares, log)


def fse_description(shares: list[int], log: int) -> bytes:
    """RFC 8878, 4.1.1."""
    bits = Bits()
    bits.put(log - 5, 4)
    left, i = 2**log, 0
    while left:
        width = (left + 1).bit_length()
        short = 2**width - (left + 2)
        value = shares[i] + 1
        if value < short:
            bits.put(value, width - 1)
        else:
            bits.put(value if value < 2 ** (width - 1) else value + short, width)
        left -= shares[i]
        i += 1
        if value == 1:
            zeros = next(j for j, share in enumerate(shares[i:]) if share)
            i += zeros
            while zeros >= 3:
                bits.put(3, 2)
                zeros -= 3
            bits.put(zeros, 2)
    return bits.bytes()


def fse_states(shares: list[int], log: int) -> list[tuple[int, int, int]]:
    """RFC 8878, 4.1.1: for each state its symbol, number of bits and baseline."""
    size = 2**log
    symbols, position = [0] * size, 0
    for symbol, share in enumerate(shares):
        for _ in range(share):
            symbols[position] = symbol
            position = (position + (size >> 1) + (size >> 3) + 3) % size
    following, states = list(shares), []
    for symbol in symbols:
        number = following[symbol]
        following[symbol] += 1
        n_bits = log - (number.bit_length() - 1)
        states.append((symbol, n_bits, (number << n_bits) - size))
    return states


def fse_stream(weights: list[int], shares: list[int], log: int) -> bytes:
    states = fse_states(shares, log)
    bits = Bits()
    current = [0, 0]  # by parity of the weight's index
    for i in reversed(range(len(weights))):
        for number, (symbol, n_bits, baseline) in enumerate(states):
            if symbol != weights[i]:
                continue
            if i >= len(weights) - 2:
                current[i % 2] = number
                break
            if baseline <= current[i % 2] < baseline + 2**n_bits:
                bits.put(current[i % 2] - baseline, n_bits)
                current[i % 2] = number
                break
    bits.put(current[1], log)
    bits.put(current[0], log)
    bits.put(1, 1)
    return bits.bytes()


def code_words(lengths: dict[int, int]) -> dict[int, tuple[int, int]]:
    words, number, before = {}, 0, max(lengths.values())
    for symbol in sorted(lengths, key=lambda s: (-lengths[s], s)):
        number >>= before - lengths[symbol]
        before = lengths[symbol]
        words[symbol] = (number, before)
        number += 1
    return words


class Run:
    """Section 5: neighbouring streams that share a coding."""

    def __init__(self, symbols: bytes):
        self.symbols = symbols
        n = len(symbols)
        sizes = [min(BLOCK, n - i) for i in range(0, n, BLOCK)]
        counts = collections.Counter(symbols)
        self.coding, self.estimate = "raw", n + 3 * len(sizes)
        if n > 3 and len(counts) == 1:
            self.coding, self.estimate = "one symbol", 4 * len(sizes)
        elif len(counts) > 1:
            self.lengths = code_lengths(counts)
            self.tree = tree_description(self.lengths)
            if self.tree is not None:
                bits = sum(counts[symbol] * length for symbol, length in self.lengths.items())
                overhead = sum(8 if v < 1024 else 18 if v < 16384 else 19 for v in sizes)
                estimate = len(self.tree) + math.ceil(bits / 8) + overhead
                if estimate < self.estimate:
                    self.coding, self.estimate = "Huffman", estimate

    def blocks(self, first_of_frame: bool):
        """(block type, size in the header, contents)"""
        pending_tree = self.tree if self.coding == "Huffman" else b""
        words = code_words(self.lengths) if self.coding == "Huffman" else {}
        for start in range(0, len(self.symbols), BLOCK):
            part = self.symbols[start : start + BLOCK]
            if self.coding == "raw":
                yield 0, len(part), part
            elif self.coding == "one symbol":
                if first_of_frame and start == 0:
                    contents = rle_literals(part)
                    yield 2, len(contents), contents
                else:
                    yield 1, len(part), part[:1]
            else:
                contents = huffman_literals(part, words, pending_tree)
                if len(contents) >= len(part):
                    yield 0, len(part), part
                else:
                    pending_tree = b""
                    yield 2, len(contents), contents


def rle_literals(part: bytes) -> bytes:
    n = len(part)
    if n < 32:
        header = bytes([1 | n << 3])
    elif n < 4096:
        header = struct.pack("<H", 1 | 1 << 2 | n << 4)
    else:
        header = (1 | 3 << 2 | n << 4).to_bytes(3, "little")
    return header + part[:1] + b"\0"


def bit_stream(part: bytes, words: dict[int, tuple[int, int]]) -> bytes:
    bits = Bits()
    for symbol in reversed(part):
        bits.put(*words[symbol])
    bits.put(1, 1)
    return bits.bytes()


def huffman_literals(part: bytes, words, tree: bytes) -> bytes:
    n = len(part)
    if n < 1024:
        streams, size_format, width, header_bytes = bit_stream(part, words), 0, 10, 3
    else:
        quarter = -(-n // 4)
        four = [bit_stream(part[i * quarter : (i + 1) * quarter], words) for i in range(4)]
        streams = struct.pack("<HHH", *map(len, four[:3])) + b"".join(four)
        size_format, width, header_bytes = (2, 14, 4) if n < 16384 else (3, 18, 5)
    kind = 2 if tree else 3
    size = len(tree) + len(streams)
    header = kind | size_format << 2 | n << 4 | size << 4 + width
    return header.to_bytes(header_bytes, "little") + tree + streams + b"\0"


def encode(streams: list[bytes]) -> bytes:
    runs: list[Run] = []
    for stream in filter(None, streams):
        alone = Run(stream)
        if runs:
            both = Run(runs[-1].symbols + stream)
            if both.estimate <= runs[-1].estimate + alone.estimate:
                runs[-1] = both
                continue
        runs.append(alone)
    n = sum(len(run.symbols) for run in runs)
    if n < 256:
        size_flag, size = 0, bytes([n])
    elif n < 65792:
        size_flag, size = 1, struct.pack("<H", n - 256)
    else:
        size_flag, size = 2, struct.pack("<I", n)
    parts = [b"\x28\xb5\x2f\xfd", bytes([size_flag << 6 | 1 << 5]), size]
    blocks = [block for i, run in enumerate(runs) for block in run.blocks(i == 0)]
    for i, (kind, size_field, contents) in enumerate(blocks):
        header = (i == len(blocks) - 1) | kind << 1 | size_field << 3
        parts.append(header.to_bytes(3, "little") + contents)
    return b"".join(parts)
