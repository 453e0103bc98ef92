"""The payloads of lossless chunks, and Zstd frames."""

from __future__ import annotations

import numpy as np
import zstandard

from reference_container import Refused, require


def decompress_frame(frame: bytes, decoded_bytes: int) -> bytes:
    """One ordinary Zstd frame that fills `frame` and states its content size."""
    ordinary = frame[:4] == b"\x28\xb5\x2f\xfd"
    require(ordinary, "no ordinary Zstd frame")
    try:
        header = zstandard.get_frame_parameters(frame)
        require(header.dict_id == 0, "a Zstd frame with a dictionary")
        require(header.content_size == decoded_bytes, "another decoded length than stated")
        decompressor = zstandard.ZstdDecompressor()
        if decoded_bytes == 0:  # the one-shot call does not look into such a frame
            stream = decompressor.decompressobj()
            content = stream.decompress(frame)
            require(stream.eof and not stream.unused_data, "not exactly one Zstd frame")
        else:
            content = decompressor.decompress(
                frame, max_output_size=decoded_bytes, allow_extra_data=False
            )
    except zstandard.ZstdError as error:
        raise Refused("corrupt", f"Zstd: {error}") from None
    require(len(content) == decoded_bytes, "another decoded length than stated")
    return content


def decode_chunk(payload, dtype, bits, n_elems, entropy, body_bytes) -> np.ndarray:
    raise NotImplementedError
