"""The chunks of mode 2 in the vectors are those that the pages of the codec describe."""

import numpy as np
import pytest
import reference_codec
import reference_container as container
import symbol_encoder
from lossless_payloads import lossless_payloads

SIZES = {name: bits // 8 for name, bits, *_ in container.DTYPES.values()}
SPECIALS = {"F64", "F32", "C64", "BF16", "F16", "F8_E5M2"}


def symbol_chunks(stage: int):
    for dtype, n_elems, payload in lossless_payloads("handmade", stage):
        if payload[0] == 2:
            n_values, size = (2 * n_elems, 4) if dtype == "C64" else (n_elems, SIZES[dtype])
            yield dtype, n_values, size, payload


def decoded(chunk: reference_codec.SymbolChunk, rest: bytes) -> np.ndarray:
    if chunk.entropy == reference_codec.RANS:
        return chunk.decode_lanes()
    return chunk.decode(reference_codec.decompress_frame(rest, sum(chunk.stream_lengths)))


def encoded_again(dtype: str, n_values: int, size: int, payload: bytes, stage: int) -> bytes:
    is_rans = stage == reference_codec.RANS
    format = (reference_codec.FORMATS_OF_RANS if is_rans else reference_codec.FORMATS)[dtype]
    body = reference_codec.Body(payload)
    body.byte()
    chunk = reference_codec.SymbolChunk(body, format, n_values, size, stage)
    in_section = 0 if chunk.segments else len(chunk.raw)
    values = decoded(chunk, payload[body.position :])
    mask, mask_header = b"", None
    if chunk.masked is not None:
        header = reference_codec.Body(payload[2:])
        header.varint()
        mask_bytes, n_masked = header.varint(), header.varint()
        signs = (
            b"" if chunk.signs is None else np.packbits(chunk.signs, bitorder="little").tobytes()
        )
        rest = len(signs) + 2 * len(chunk.bin_escapes) + size * len(chunk.escapes)
        end = body.position - in_section - len(chunk.coded) - rest
        mask = payload[end - mask_bytes : end] + signs
        mask_header = (mask_bytes, n_masked, chunk.signs is not None)
        values = values[~chunk.masked]
    return symbol_encoder.encode(values, format, dtype in SPECIALS, mask, mask_header)


@pytest.mark.parametrize("stage", (reference_codec.ZSTD, reference_codec.RANS))
def test_chunks_of_the_vectors(stage):
    n_chunks = 0
    for dtype, n_values, size, payload in symbol_chunks(stage):
        again = encoded_again(dtype, n_values, size, payload, stage)
        assert again == payload, (dtype, n_values, payload[:20].hex(), again[:20].hex())
        n_chunks += 1
    assert n_chunks > 60
