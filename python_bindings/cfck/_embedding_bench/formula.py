"""What compression does to the time of an exchange between ranks."""

from __future__ import annotations

import math
from typing import NamedTuple


class Figures(NamedTuple):
    """What an encoder makes of rows.

    Attributes:
        ratio: bytes of F32 over bytes that are sent.
        encode_gbps: GB of F32 a second on one core, with quantising.
        decode_gbps: the same, with dequantising.
    """

    ratio: float
    encode_gbps: float
    decode_gbps: float


class Costs(NamedTuple):
    """What an exchange takes beside bytes on the wire and the work of one core.

    Attributes:
        latency: seconds of an exchange of almost nothing, without compression.
        compressed_latency: the same with compression, where lengths go before the bytes.
        ranks_per_core: ranks that encode and decode at the same time on one core.
    """

    latency: float = 0.0
    compressed_latency: float = 0.0
    ranks_per_core: float = 1.0


# That of the published formula.
NO_COSTS = Costs()


def plain_seconds(gigabytes: float, bandwidth: float, costs: Costs = NO_COSTS) -> float:
    """An exchange of rows as they are: V / B + L.

    Args:
        gigabytes: V, of F32: what the rank with the most bytes sends or receives.
        bandwidth: B, of the link of a rank, in GB a second.
        costs: whose ``latency`` is L.
    """
    return gigabytes / bandwidth + costs.latency


def compressed_seconds(
    gigabytes: float, figures: Figures, bandwidth: float, costs: Costs = NO_COSTS
) -> float:
    """The same with compression: V / (ratio B) + n V (1 / encode + 1 / decode) + L'.

    Args:
        gigabytes: as that of plain_seconds().
        figures: of the encoder.
        bandwidth: as that of plain_seconds().
        costs: whose ``compressed_latency`` is L', and ``ranks_per_core`` n.
    """
    on_the_wire = gigabytes / (figures.ratio * bandwidth)
    return on_the_wire + _working_seconds(gigabytes, figures, costs) + costs.compressed_latency


def speed_up(
    figures: Figures, bandwidth: float, costs: Costs = NO_COSTS, gigabytes: float = 1.0
) -> float:
    """The time of plain rows over that of compressed ones.

    Without costs, S = 1 / (1 / ratio + B (1 / encode + 1 / decode)) whatever the bytes.
    """
    compressed = compressed_seconds(gigabytes, figures, bandwidth, costs)
    return plain_seconds(gigabytes, bandwidth, costs) / compressed


def break_even(figures: Figures, costs: Costs = NO_COSTS, gigabytes: float = 1.0) -> float:
    """The bandwidth in GB a second up to which compression saves time.

    0.0 if it never does, infinity if it always does.
    """
    saved = gigabytes * (1 - 1 / figures.ratio)
    later = costs.compressed_latency - costs.latency
    slower = _working_seconds(gigabytes, figures, costs) + later
    if saved <= 0:
        return 0.0
    return saved / slower if slower > 0 else math.inf


def _working_seconds(gigabytes: float, figures: Figures, costs: Costs) -> float:
    on_a_core = gigabytes * (1 / figures.encode_gbps + 1 / figures.decode_gbps)
    return costs.ranks_per_core * on_a_core
