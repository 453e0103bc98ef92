"""Bits per weight of every codec under error bounds, and of 16-bit types against lossless."""

from __future__ import annotations

import sys

import numpy as np

from bounds import product
from bounds.peers import BoundedPeer
from bounds.tally import BOUNDS, DATASETS, Tally
from common import data

CASTS = ["minilm-2d-bf16", "minilm-2d-f16"]
CAST_BOUNDS = [1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2]
CAST_COLUMNS = ["data", "bound", "bits per weight", "lossless", "largest error / bound", "verdict"]
COLUMNS = [
    "data", "bound", "codec", "version", "bits per weight", "largest error / bound",
    "values beyond it",
]  # fmt: skip


def all_sizes(peers: list[BoundedPeer]) -> list[list[str]]:
    """Bits per weight of every peer on every data set."""
    rows = []
    for name in DATASETS:
        try:
            tensors = data.matrices(data.build(name).tensors)
        except data.MissingData as error:
            print(f"SKIPPED {name}: {error}", file=sys.stderr)
            continue
        for label, (kind, value, bound_of) in BOUNDS.items():
            print(f"{name}, {label}", file=sys.stderr)
            if product.is_installed():
                rows.append(product_row(name, label, tensors, (kind, value)))
            for peer in peers:
                tally = Tally()
                for tensor in tensors.values():
                    tally.add(peer, np.ascontiguousarray(tensor), bound_of(tensor))
                rows.append(tally.row(name, label, peer))
    return rows


def product_row(
    name: str, label: str, tensors: dict[str, np.ndarray], asked: tuple[str, float]
) -> list[str]:
    """The line of cfck, from one file."""
    found = product.tally(tensors, *asked)
    cells = [f"{found.bits_per_weight:.4f}", f"{found.worst:.7f}", str(found.beyond)]
    return [name, label, "cfck", found.version, *cells]


def casts() -> list[list[str]]:
    """16-bit types near their own resolution: a bound must never cost bytes."""
    rows = []
    for name in CASTS:
        try:
            tensors = data.build(name).tensors
        except data.MissingData as error:
            print(f"SKIPPED {name}: {error}", file=sys.stderr)
            continue
        print(name, file=sys.stderr)
        lossless = product.tally(tensors, "sigma", 0).bits_per_weight
        for value in CAST_BOUNDS:
            found = product.tally(tensors, "sigma", value)
            good = found.bits_per_weight <= lossless and found.beyond == 0
            cells = [f"{bits:.4f}" for bits in (found.bits_per_weight, lossless)]
            cells += [f"{found.worst:.7f}", "pass" if good else "fail"]
            rows.append([name, f"{value:g} sigma", *cells])
    return rows
