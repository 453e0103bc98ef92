"""The symbol frames in the vectors are those that codec/entropy/spec.md describes."""

import entropy_encoder
import reference_codec
import reference_container as container
from lossless_payloads import lossless_payloads

OTHER = "handmade"

SIZES = {name: bits // 8 for name, bits, *_ in container.DTYPES.values()}


def symbol_frames():
    """(streams, frame) of every chunk of mode 2."""
    for dtype, n_elems, payload in lossless_payloads(
        "handmade_lossless.cfck", reference_codec.ZSTD
    ):
        if payload[0] != 2:
            continue
        n_values, size = (2 * n_elems, 4) if dtype == "C64" else (n_elems, SIZES[dtype])
        body = reference_codec.Body(payload[1:])
        format = reference_codec.FORMATS[dtype]
        lengths = reference_codec.SymbolChunk(body, format, n_values, size).stream_lengths
        frame = body.rest()
        symbols = reference_codec.decompress_frame(frame, sum(lengths))
        ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
        yield [symbols[end - n : end] for end, n in zip(ends, lengths, strict=True)], frame


def test_frames_of_the_vectors():
    frames = list(symbol_frames())
    assert len(frames) > 90
    for streams, frame in frames:
        assert entropy_encoder.encode(streams) == frame, [len(stream) for stream in streams]
