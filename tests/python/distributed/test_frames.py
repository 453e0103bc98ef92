"""Frames: any bytes come back, also as the dtype of which they are, and damage is found."""

import cfck
import pytest
import torch
from cfck._distributed import frames
from conftest import bits, random_bits, weights


def round_trip(values):
    frame = frames.encode_frame(values, {})
    assert frame.dtype == torch.uint8 and frame.numel() % 8 == 0
    out = torch.empty_like(values)
    frames.decode_frame(frame, out)
    assert bits(out) == bits(values)
    return frame.numel()


@pytest.mark.parametrize("n", [0, 1, 7, 1000, 1_500_001])
def test_sizes(n):
    round_trip(weights(n))
    round_trip(random_bits((n,), torch.uint8))


def test_several_pieces_on_several_threads(monkeypatch):
    monkeypatch.setattr(frames, "_threads_of_rank", lambda: 3)
    monkeypatch.setattr(frames, "_PIECE_BYTES", 4000)
    round_trip(weights(30_001))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float16], ids=str)
def test_bytes_of_floats_are_as_short_as_floats(dtype):
    values = weights(300_000).to(dtype)
    assert round_trip(values.view(torch.uint8)) < 1.01 * round_trip(values)


def test_bytes_of_two_dtypes_at_odd_places():
    parts = [weights(200_001).bfloat16(), weights(300_001), weights(3).bfloat16()]
    mixed = torch.cat([part.view(torch.uint8) for part in parts])
    assert round_trip(mixed) < 0.9 * mixed.numel()
    base = torch.cat([mixed.new_zeros(1), mixed])
    assert round_trip(base[1:].contiguous()) == round_trip(mixed)
    out = torch.empty(mixed.numel() + 1, dtype=torch.uint8)
    frames.decode_frame(frames.encode_frame(base[1:], {}), out[1:])
    assert torch.equal(out[1:], mixed)


def test_a_default_device_does_not_count():
    values = weights(5000).bfloat16()
    with torch.device("meta"):
        frame = frames.encode_frame(values, {})
    assert frame.device.type == "cpu"
    round_trip(values)


def test_every_damaged_byte_is_found():
    values = weights(2000).bfloat16()
    frame = frames.encode_frame(values, {})
    end = 8 + int(frame[:8].clone().view(torch.int64))
    out = torch.empty_like(values)
    for at in range(0, end, 7):
        bad = frame.clone()
        bad[at] ^= 1 << (at % 8)
        with pytest.raises(cfck.CfckError):
            frames.decode_frame(bad, out)


@pytest.mark.parametrize("n_bytes", [0, 4, 8, 16, 100])
def test_frames_that_end_early(n_bytes):
    frame = frames.encode_frame(weights(2000), {})
    with pytest.raises(cfck.CfckError):
        frames.decode_frame(frame[:n_bytes], torch.empty(2000))


def test_a_frame_of_another_size():
    frame = frames.encode_frame(weights(2000), {})
    with pytest.raises(cfck.CfckError):
        frames.decode_frame(frame, torch.empty(1999))
