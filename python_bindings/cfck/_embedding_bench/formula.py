"""What compression does to the time on the wire."""

from __future__ import annotations


def speed_up(ratio: float, encode_gbps: float, decode_gbps: float, bandwidth: float) -> float:
    """The time of the plain values over that of encoding, sending and decoding.

    S = 1 / (1 / ratio + bandwidth * (1 / encode + 1 / decode)), where the speeds include
    quantising and dequantising.

    Args:
        ratio: bytes of F32 over bytes that are sent.
        encode_gbps: GB of F32 a second.
        decode_gbps: the same.
        bandwidth: of the network, in GB a second.
    """
    return 1 / (1 / ratio + bandwidth * (1 / encode_gbps + 1 / decode_gbps))


def break_even(ratio: float, encode_gbps: float, decode_gbps: float) -> float:
    """The bandwidth in GB a second up to which compression saves time; 0.0 if it never does."""
    return max(0.0, (1 - 1 / ratio) / (1 / encode_gbps + 1 / decode_gbps))
