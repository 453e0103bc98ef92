"""Lines of results: each table, iteration and encoder."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from .._embeddings.bounds import absolute_error, bounds_by_merging, homogenization_index
from .._embeddings.codec import RowCodec, Rows
from ..errors import InvalidArgumentError
from .dumps import ALL_TABLES, Lookup
from .encoders import OURS, Encoder, Measurement, measure_packet
from .formula import NO_COSTS, Costs, Figures, break_even, speed_up

Line = dict[str, Any]
_STAGES = ("quantise", "compress", "decompress", "dequantise")


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Fractions of the range of a batch by which its values may change.

    Attributes:
        default: of tables that are not named; None: found from how many rows of the first batch
            of a table merge.
        named: of tables.
    """

    default: float | None = 0.03
    named: Mapping[str, float] = dataclasses.field(default_factory=dict)
    _found: dict[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for bound in (*self.named.values(), 0.03 if self.default is None else self.default):
            if not 0 < bound < 1:
                raise InvalidArgumentError(
                    f"a bound is a fraction of the range of a batch, above 0 and below 1: {bound!r}"
                )

    def of(self, lookup: Lookup) -> float:
        """The bound of a batch."""
        if lookup.table in self.named:
            return self.named[lookup.table]
        if self.default is not None:
            return self.default
        if lookup.table not in self._found:
            self._found.update(bounds_by_merging({lookup.table: lookup.rows}))
        return self._found[lookup.table]


@dataclasses.dataclass(frozen=True)
class Setting:
    """How lookups are measured.

    Attributes:
        bounds: of their tables.
        encoders: by name.
        codec: ours.
        bandwidths: of networks, in GB a second.
        costs: of an exchange of each line.
    """

    bounds: Bounds
    encoders: Mapping[str, Encoder]
    codec: RowCodec
    bandwidths: tuple[float, ...]
    costs: Costs = NO_COSTS


def measure(iterations: Iterable[list[Lookup]], setting: Setting) -> Iterator[Line]:
    """Yields a line for each table and encoder, and for all tables of an iteration together.

    All tables of an iteration are one packet for row_dictionary; for others, the line of all has
    the sums over tables. Empty lookups have lines without figures.
    """
    for lookups in iterations:
        sums: dict[str, list[Measurement]] = {name: [] for name in setting.encoders}
        batches = []
        n_elems = 0
        for lookup in lookups:
            bound = setting.bounds.of(lookup)
            error = absolute_error(lookup.rows, bound)
            described = _described(lookup, bound)
            n_elems += lookup.rows.numel()
            batches.append(Rows(lookup.rows, error))
            for name, encoder in setting.encoders.items():
                found = encoder(lookup.rows, error) if lookup.rows.numel() else None
                if found:
                    sums[name].append(found)
                yield _line(lookup, name, described, found, setting)
        whole = Lookup(ALL_TABLES, lookups[0].iteration, torch.empty(n_elems, 0), None)
        described = {"n_rows": sum(len(each.rows) for each in lookups), "f32_bytes": 4 * n_elems}
        for name, parts in sums.items():
            is_ours = name == OURS and n_elems > 0
            found = measure_packet(batches, setting.codec) if is_ours else _total(parts)
            yield _line(whole, name, described, found, setting)


def _described(lookup: Lookup, bound: float) -> Line:
    """What a batch is, whatever encodes it."""
    n_rows = lookup.rows.shape[0]
    rows = lookup.rows.view(torch.int32)  # bits, so that NaN equals itself
    n_ids = None if lookup.ids is None else int(torch.unique(lookup.ids).numel())
    return {
        "bound": bound,
        "n_rows": n_rows,
        "f32_bytes": lookup.rows.nbytes,
        "unique_rows": int(torch.unique(rows, dim=0).shape[0]) if n_rows else 0,
        "unique_inputs": n_ids,
        "homogenization_index": homogenization_index(lookup.rows, bound) if n_rows else 0.0,
        "range": absolute_error(lookup.rows, 1.0),
    }


def _total(parts: list[Measurement]) -> Measurement | None:
    """The sum over tables; times where all have them."""
    if not parts:
        return None
    stages = set.intersection(*(set(part.seconds) for part in parts))
    errors = [part.largest_error for part in parts if part.largest_error is not None]
    return Measurement(
        sum(part.n_bytes for part in parts),
        {stage: sum(part.seconds[stage] for part in parts) for stage in stages},
        n_exceptions=sum(part.n_exceptions for part in parts),
        largest_error=max(errors, default=None),
    )


def _line(
    lookup: Lookup,
    name: str,
    described: Line,
    found: Measurement | None,
    setting: Setting,
) -> Line:
    line: Line = {"table": lookup.table, "iteration": lookup.iteration, "encoder": name}
    n_bytes = described["f32_bytes"]
    if found is None:
        empty = dict.fromkeys(("ratio", "encode_gbps", "decode_gbps"))
        return line | empty | described
    line["ratio"] = n_bytes / found.n_bytes
    line["encode_gbps"] = _gbps(n_bytes, found.encode_seconds())
    line["decode_gbps"] = _gbps(n_bytes, found.decode_seconds())
    for stage in _STAGES:
        line[f"{stage}_gbps"] = _gbps(n_bytes, found.seconds.get(stage))
    line |= {"bytes": found.n_bytes, "width": found.width or None}
    line["exceptions"] = found.n_exceptions
    # JSON has no infinities.
    largest = found.largest_error
    line["largest_error"] = largest if largest is None or math.isfinite(largest) else None
    line |= described
    return line | with_speed_up(line, setting.bandwidths, setting.costs)


def with_speed_up(line: Line, bandwidths: Iterable[float], costs: Costs) -> Line:
    """What follows from ratio and speeds: break-even, and the speed-up at each bandwidth.

    Nothing follows from them where an exchange has a latency, and its bytes are not known.
    """
    figures = Figures(line["ratio"], line["encode_gbps"], line["decode_gbps"])
    has_latency = costs.latency > 0 or costs.compressed_latency > 0
    n_bytes = line.get("f32_bytes", 0 if has_latency else 1e9)
    if not all((*figures, n_bytes)):
        return {"break_even_gbps": None, "speed_up": None}
    size = n_bytes / 1e9
    speed_ups = {f"{rate:g}": speed_up(figures, rate, costs, size) for rate in bandwidths}
    rate = break_even(figures, costs, size)
    # JSON has no infinities.
    return {"break_even_gbps": rate if math.isfinite(rate) else None, "speed_up": speed_ups}


def _gbps(n_bytes: int, seconds: float | None) -> float | None:
    return None if seconds is None else n_bytes / max(seconds, 1e-9) / 1e9
