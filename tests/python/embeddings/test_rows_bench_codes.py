"""What the benchmark of lookups gives to peers, and the sizes that it computes."""

import math

import numpy as np
import pytest
import torch
from cfck._embedding_bench.codes import dequantise, largest_error, quantise
from cfck._embedding_bench.entropy import ans_bytes, code_lengths, huffman_bytes, normalised
from cfck._embedding_bench.formula import Costs, Figures, break_even, speed_up
from cfck._embedding_bench.vector_lz import previous_equal, vector_lz_bytes
from conftest import weights

WIDTHS = [torch.int8, torch.int16, torch.int32]


@pytest.mark.parametrize("width", WIDTHS, ids=str)
@pytest.mark.parametrize("error", [1e-2, 1e-4, 1e-6, 1e-9, 1e-42])
def test_codes_never_wrap(width, error):
    rows = weights(200, 16)
    codes = quantise(rows, error, width)
    assert codes.values.dtype == width and codes.values.shape == rows.shape
    assert largest_error(rows, dequantise(codes)) <= error
    beyond = int((rows.abs() > 2 * error * (torch.iinfo(width).max + 1)).sum())
    assert codes.places.numel() >= beyond
    assert codes.side_bytes() == 20 + 8 * codes.places.numel()
    if error == 1e-2:
        assert codes.places.numel() == 0


@pytest.mark.parametrize("width", WIDTHS, ids=str)
def test_rows_without_a_range_and_rows_with_nan(width):
    rows = torch.full((5, 4), -0.3)
    rows[2, 1] = float("nan")
    codes = quantise(rows, 0.0, width)
    assert codes.places.tolist() == [9] and largest_error(rows, dequantise(codes)) == 0
    holed = weights(50, 4)
    holed[7, 3], holed[8, 0] = float("-inf"), float("nan")
    codes = quantise(holed, 0.01, width)
    assert codes.places.tolist() == [31, 32]
    assert largest_error(holed, dequantise(codes)) <= 0.01


def test_values_that_did_not_stay_what_they_were():
    before, after = torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 0.0])
    assert largest_error(before, after) == float("inf")


def test_huffman_codes_are_optimal():
    counts = np.array([1, 1, 2, 4, 8])
    assert code_lengths(counts).tolist() == [4, 4, 3, 2, 1]
    assert code_lengths(np.array([5])).tolist() == [0]
    symbols = np.repeat(np.arange(5, dtype=np.int8), counts)
    assert huffman_bytes(symbols) == 8 + 4 + 4  # header, 25 bits of lengths, 30 bits
    lengths = code_lengths(np.arange(1, 300))
    assert sum(2.0**-lengths) == pytest.approx(1)


def test_sizes_of_ans_follow_the_entropy():
    counts = np.array([1, 3, 1000, 50_000])
    assert normalised(counts).sum() == 4096 and normalised(counts).min() >= 1
    symbols = np.repeat(np.array([-3, 0, 1, 2], np.int16), counts)
    shares = counts / counts.sum()
    entropy = -(counts * np.log2(shares)).sum() / 8
    assert entropy + 20 <= ans_bytes(symbols) <= 1.02 * entropy + 30
    assert ans_bytes(np.zeros(100, np.int8)) == 8 + 2
    assert ans_bytes(np.zeros(0, np.int8)) == 8
    many = np.arange(20_000, dtype=np.int16)
    assert 0.7 * many.nbytes < ans_bytes(many) < 1.1 * many.nbytes + 1000


def test_matches_lie_in_the_window():
    rows = np.array([[1, 2], [3, 4], [1, 2], [1, 2], [3, 4]], np.int8)
    assert previous_equal(rows).tolist() == [-1, -1, 0, 2, 1]
    everything = np.arange(4096, dtype=np.int16).repeat(4).reshape(-1, 4)
    twice = np.concatenate([everything, everything])
    far, near = vector_lz_bytes(twice, 2048), vector_lz_bytes(twice, 4096)
    assert near == pytest.approx(vector_lz_bytes(everything, 2048) + 512 + 4096 * 12 / 8, abs=8)
    assert far > 1.5 * near
    assert vector_lz_bytes(np.zeros((0, 4), np.int8)) > 0


def test_speed_ups():
    assert speed_up(Figures(4.0, 1e9, 1e9), 1.0) == pytest.approx(4.0)
    assert speed_up(Figures(2.0, 1.0, 1.0), 1.0) == pytest.approx(0.4)
    figures = Figures(4.0, 2.0, 6.0)
    assert speed_up(figures, break_even(figures)) == pytest.approx(1.0)
    assert break_even(Figures(0.9, 1.0, 1.0)) == 0


def test_speed_ups_with_latencies_and_shared_cores():
    figures = Figures(10.0, 5.0, 20.0)
    costs = Costs(latency=1e-3, compressed_latency=3e-3, ranks_per_core=2.0)
    # 1 MB at 12.5 MB/s: 80 ms and a latency; 8 ms, twice 0.25 ms of work and a latency.
    assert speed_up(figures, 0.0125, costs, 1e-3) == pytest.approx(81 / (8 + 0.5 + 3))
    # Latencies count less the more is sent at once; shared cores do not.
    assert speed_up(figures, 0.0125, costs, 1e3) == pytest.approx(80 / (8 + 0.5))
    rate = break_even(figures, costs, 1e-3)
    assert rate == pytest.approx(1e-3 * 0.9 / (0.5e-3 + 2e-3))
    assert speed_up(figures, rate, costs, 1e-3) == pytest.approx(1.0)
    assert break_even(figures, Costs(latency=1.0), 1e-3) == math.inf
