"""GradientCodec and select_largest(): exact, bounded, and with errors that say what is wrong."""

import math

import cfck
import pytest
import torch
from cfck.distributed import GradientCodec, SparseGradient, select_largest
from conftest import bits, weights


def largest(values, k):
    """k values of a tensor, as they are sent."""
    indices = select_largest(values, k)
    return SparseGradient(values.numel(), indices, values.reshape(-1)[indices])


@pytest.mark.parametrize("n, k", [(0, 0), (1, 1), (1000, 0), (1000, 10), (200_000, 2000)])
def test_selection_is_that_of_torch(n, k):
    values = weights(n)
    expected = values.abs().topk(k).indices.sort().values
    assert torch.equal(select_largest(values, k), expected)


def test_ties_go_by_index():
    values = torch.tensor([1.0, -2.0, 2.0, 2.0, float("nan"), 0.0])
    assert select_largest(values, 3).tolist() == [1, 2, 4]


@pytest.mark.parametrize("value_error", [0.0, 0.1, 0.5])
def test_round_trip(value_error):
    codec = GradientCodec(value_error)
    sent = [largest(weights(400, 500), 2000), largest(1e-9 * weights(64, 64), 41)]
    packet, decoded = codec.encode(sent)
    assert packet.dtype == torch.uint8
    for found, one, values in zip(codec.decode(packet), sent, decoded, strict=True):
        assert found.n_elems == one.n_elems and torch.equal(found.indices, one.indices)
        assert bits(found.values) == bits(values)
        rms = math.sqrt(float(one.values.double().square().mean()))
        error = (found.values.double() - one.values.double()).abs().max()
        assert error <= value_error * rms * (1 + 1e-6)
    sums = [torch.ones(400, 500), torch.ones(64, 64)]
    codec.add(packet.numpy().tobytes(), sums, 2.0)
    for total, one, values in zip(sums, sent, decoded, strict=True):
        expected = torch.ones(one.n_elems).index_add(0, one.indices, values, alpha=2.0)
        assert torch.equal(total.reshape(-1), expected)


def test_what_is_sent_and_what_is_left_is_all_there_was():
    velocity = weights(100_000)
    sent = largest(velocity, 1000)
    _, (decoded,) = GradientCodec().encode([sent])
    left = velocity.clone()
    left[sent.indices] -= decoded
    total = left.double()
    total[sent.indices] += decoded.double()
    spacing = 2.0**-23 * velocity.abs().double()
    assert ((total - velocity.double()).abs() <= spacing).all()


def test_a_packet_is_short():
    values = weights(1 << 20)
    packet, _ = GradientCodec().encode([largest(values, 10_486)])
    assert packet.numel() * 8 / 10_486 < 12.5  # of which 8.08 are those of random places


def test_a_default_device_does_not_count():
    values = weights(10_000)
    codec = GradientCodec()
    with torch.device("meta"):
        packet, (decoded,) = codec.encode([largest(values, 100)])
        (found,) = codec.decode(packet)
    assert bits(found.values) == bits(decoded)


def test_a_packet_that_claims_too_much():
    n = (1 << 24) + 1
    values = torch.full((n,), 0.5)
    packet, _ = GradientCodec().encode([SparseGradient(n, torch.arange(n), values)])
    with pytest.raises(cfck.LimitExceededError):
        GradientCodec().decode(packet)
    total = torch.zeros(n)
    GradientCodec().add(packet, [total])
    assert torch.allclose(total, values)


def test_damage():
    codec = GradientCodec()
    packet, _ = codec.encode([largest(weights(10_000), 100)])
    for at in range(0, packet.numel(), 5):
        bad = packet.clone()
        bad[at] ^= 4
        sums = torch.zeros(10_000)
        with pytest.raises(cfck.CfckError):
            codec.decode(bad)
        with pytest.raises(cfck.CfckError):
            codec.add(bad, [sums])
        assert not sums.any()
        with pytest.raises(cfck.CfckError):
            codec.decode(packet[:at])


def test_wrong_arguments():
    codec = GradientCodec()
    values = weights(10)
    for value_error in (-1, float("nan"), float("inf")):
        with pytest.raises(cfck.InvalidArgumentError, match="value_error"):
            GradientCodec(value_error)
    for k in (-1, 11):
        with pytest.raises(cfck.InvalidArgumentError, match="10 values"):
            select_largest(values, k)
    for wrong in (values.double(), values.to("meta"), weights(4, 6).t()):
        with pytest.raises(
            TypeError, match="contiguous tensors of float32, bfloat16 or float16 wi"
        ):
            select_largest(wrong, 1)
        with pytest.raises(TypeError, match="float32 on the host"):
            codec.encode([SparseGradient(10, torch.tensor([1]), wrong)])
        with pytest.raises(TypeError, match="float32 with data"):
            codec.add(codec.encode([largest(values, 2)])[0], [wrong])
    for indices in ([3, 3], [4, 3], [9, 10], [-1, 3]):
        for dtype in (torch.int32, torch.int64):
            with pytest.raises(cfck.InvalidArgumentError):
                given = torch.tensor(indices, dtype=dtype)
                codec.encode([SparseGradient(10, given, values[:2])])
    with pytest.raises(cfck.InvalidArgumentError, match="1 indices and 2 values"):
        codec.encode([SparseGradient(10, torch.tensor([1]), values[:2])])
    with pytest.raises(TypeError, match="indices are int32 or int64"):
        codec.encode([SparseGradient(10, torch.tensor([1.0]), values[:1])])
    with pytest.raises(cfck.LimitExceededError):
        codec.encode([SparseGradient(1 << 32, torch.tensor([1]), values[:1])])
    packet, _ = codec.encode([largest(values, 2)])
    for sums in ([], [torch.zeros(9)], [torch.zeros(10)] * 2):
        with pytest.raises(cfck.InvalidArgumentError):
            codec.add(packet, sums)
    with pytest.raises(cfck.TruncatedError):
        codec.decode(b"")
    with pytest.raises(cfck.CorruptError, match="no packet of gradients"):
        codec.decode(cfck.encode_message(values))


def test_indices_with_any_strides():
    values = torch.tensor([1.0, 2.0])
    for n_elems, indices in (
        (9, torch.tensor([3]).expand(1)),
        (9, torch.empty_strided((1,), (0,), dtype=torch.int64).fill_(3)),
        (1 << 32, torch.tensor([5, 9, (1 << 32) - 2, 9])[::2]),
    ):
        codec = GradientCodec(0.0)
        given = SparseGradient(n_elems - 1, indices, values[: len(indices)])
        (found,) = codec.decode(codec.encode([given])[0])
        assert found.indices.tolist() == indices.tolist()
