"""RowCodec: within its error, equal rows once, and errors that say what is wrong."""

import copy
import pickle

import cfck
import pytest
import torch
from cfck.embeddings import RowCodec, Rows, absolute_error, quantize_and_dequantize
from conftest import bits, weights

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def looked_up(n_rows, n_table, row_elems=16, seed=1, dtype=torch.float32):
    """Rows of a table, those with low numbers more often, and their numbers."""
    generator = torch.Generator().manual_seed(seed)
    ids = (n_table * torch.rand(n_rows, generator=generator) ** 3).long()
    return weights(n_table, row_elems, seed=seed).to(dtype)[ids], ids


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bound", [0.0, 0.01, 0.2])
def test_round_trip(dtype, bound):
    rows, _ = looked_up(2000, 300, dtype=dtype)
    error = absolute_error(rows, bound)
    packet = RowCodec().encode([Rows(rows, error)])
    (found,) = RowCodec().decode(packet)
    assert found.dtype == dtype and found.shape == rows.shape
    assert (found.double() - rows.double()).abs().max() <= error
    (shape,) = RowCodec().shapes(packet)
    assert shape.n_unique < 300 and packet.numel() < rows.nbytes / 4


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bound", [0.0, 1e-6, 0.003, 0.03, 0.3])
def test_simulation_gives_the_same_bits(dtype, bound):
    rows, _ = looked_up(700, 150, dtype=dtype, seed=3)
    rows[5, 2], rows[9, 0], rows[11, 1] = float("nan"), float("inf"), -0.0
    rows[17] *= 1e4
    error = absolute_error(rows, bound)
    (found,) = RowCodec().decode(RowCodec().encode([Rows(rows, error)]))
    assert bits(quantize_and_dequantize(rows.clone(), error)) == bits(found)


def test_several_tables_and_a_tensor_without_loss():
    rows, ids = looked_up(1000, 100)
    ages = weights(20, 8)[ids % 20]
    packet = RowCodec().encode([Rows(rows, 0.01), ages, Rows(rows, 0.01, keys=ids)])
    first, second, third = RowCodec().decode(packet, [None, None, ids])
    assert bits(second) == bits(ages) and bits(first) == bits(third)
    assert [s.needs_keys for s in RowCodec().shapes(packet)] == [False, False, True]


def test_empty_batches():
    for shape in [(0, 4), (3, 0), (0, 0)]:
        (found,) = RowCodec().decode(RowCodec().encode([torch.zeros(shape)]))
        assert found.shape == shape
    assert RowCodec().decode(RowCodec().encode([])) == []


def test_packets_may_be_bytes_and_rows_need_not_be_contiguous():
    rows = weights(40, 30).t()
    packet = RowCodec().encode([rows]).numpy().tobytes()
    assert torch.equal(RowCodec().decode(packet)[0], rows)


def test_equal_calls_give_equal_bytes():
    rows, _ = looked_up(3000, 500)
    first = RowCodec().encode([Rows(rows, 0.01)])
    assert torch.equal(first, RowCodec().encode([Rows(rows.clone(), 0.01)]))
    again = pickle.loads(pickle.dumps(copy.deepcopy(RowCodec(1e6))))
    assert again.bytes_per_second == 1e6


@pytest.mark.parametrize(
    "batch, error, words",
    [
        (torch.zeros(2, 2, dtype=torch.float64), TypeError, "float64"),
        (torch.zeros(2), TypeError, "two dimensions"),
        ([[1.0]], TypeError, "tensor"),
        (Rows(torch.zeros(2, 2), -1.0), cfck.InvalidArgumentError, "max_abs_error"),
        (Rows(torch.zeros(2, 2), float("nan")), cfck.InvalidArgumentError, "max_abs_error"),
        (Rows(torch.zeros(2, 2), 0.0, torch.zeros(3).long()), cfck.InvalidArgumentError, "3 keys"),
        (Rows(torch.zeros(2, 2), 0.0, torch.zeros(2)), TypeError, "int64"),
        (Rows(weights(2, 2), 0.0, torch.zeros(2).long()), cfck.InvalidArgumentError, "differ"),
    ],
)
def test_what_is_no_batch(batch, error, words):
    with pytest.raises(error, match=words):
        RowCodec().encode([batch])


def test_batches_are_a_list():
    for batches in (torch.zeros(2, 2), Rows(torch.zeros(2, 2))):
        with pytest.raises(TypeError, match=r"the rows of each table: encode\(\[rows\]\)"):
            RowCodec().encode(batches)


def test_a_rate_is_positive():
    with pytest.raises(TypeError, match="bytes_per_second is a number, not str: '10G'"):
        RowCodec("10G")
    for rate in (0.0, -1.0, float("nan")):
        with pytest.raises(cfck.InvalidArgumentError, match="bytes_per_second"):
            RowCodec(rate)


def test_keys_that_are_missing_or_others():
    rows, ids = looked_up(100, 30)
    packet = RowCodec().encode([Rows(rows, 0.0, ids)])
    for keys in (None, [None], [ids // 2], [ids[:-1]], [ids, ids]):
        with pytest.raises(cfck.InvalidArgumentError):
            RowCodec().decode(packet, keys)


def test_damage_and_limits():
    rows, _ = looked_up(500, 90)
    packet = RowCodec().encode([Rows(rows, 0.01)])
    damaged = packet.clone()
    damaged[packet.numel() // 2] ^= 1
    with pytest.raises(cfck.ChecksumError, match="packet of rows"):
        RowCodec().decode(damaged)
    with pytest.raises(cfck.TruncatedError):
        RowCodec().decode(packet[:-1])
    with pytest.raises(cfck.LimitExceededError, match="max_decoded_bytes"):
        RowCodec().decode(packet, max_decoded_bytes=rows.nbytes - 1)
    with pytest.raises(cfck.CorruptError):
        RowCodec().decode(b"\xcf" * 100)


def test_rows_without_values_count_for_the_limit():
    """A packet of 5 kB can say that it has hundreds of millions, each of which takes memory."""
    packet = RowCodec().encode([torch.zeros(1000, 0)])
    assert RowCodec().decode(packet, max_decoded_bytes=4000)[0].shape == (1000, 0)
    with pytest.raises(cfck.LimitExceededError, match="max_decoded_bytes"):
        RowCodec().decode(packet, max_decoded_bytes=3999)
