"""Tensors grouped by name, as the report groups them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from .._io.records import RecordInfo


def layer_of(name: str) -> str:
    """The beginning of a name up to its first number, else without its last part.

    "encoder.layer.3" of "encoder.layer.3.query.weight", "pooler.dense" of "pooler.dense.weight";
    parts end with a dot or a slash. tools/report/contents/layers.cpp has the same rule.
    """
    found = re.match(r"(?:.*?[./])??[0-9]+(?=[./])", name, re.DOTALL)
    if found:
        return found[0]
    last = max(name.rfind("."), name.rfind("/"))
    return name[:last] if last > 0 else name


@dataclasses.dataclass
class Layer:
    """Sums over the tensors of a layer."""

    name: str
    n_tensors: int = 0
    n_elems: int = 0
    stored_bytes: int = 0

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.stored_bytes / self.n_elems if self.n_elems else 0.0


def group_layers(records: Iterable[RecordInfo]) -> list[Layer]:
    """The layers, the largest first."""
    layers: dict[str, Layer] = {}
    for record in records:
        name = layer_of(record.name)
        layer = layers.setdefault(name, Layer(name))
        layer.n_tensors += 1
        layer.n_elems += record.n_elems
        layer.stored_bytes += record.stored_bytes
    return sorted(layers.values(), key=lambda layer: -layer.stored_bytes)
