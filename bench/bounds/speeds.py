"""Speeds of codecs under an error bound: one matrix, one thread, all codecs taking turns."""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

from bounds import product
from bounds.peers import BoundedPeer
from common import data

SPEED_BYTES = 64 * 2**20
SPEED_BOUND = 1e-4
SPEED_BASE = "SZ3, no predictor"
SPEED_COLUMNS = ["data", "codec", "encode", "decode", "encode ratio", "decode ratio"]


def speed_data() -> dict[str, np.ndarray]:
    """Gaussian weights and the largest tensor of MiniLM."""
    values = np.random.default_rng(1).standard_normal(SPEED_BYTES // 4, np.float32)
    tensors = {"Gauss, 64 MB": (values * np.float32(0.02)).reshape(4096, -1)}
    try:
        matrices = data.matrices(data.build("minilm-f32").tensors)
    except data.MissingData as error:
        print(f"SKIPPED minilm-f32: {error}", file=sys.stderr)
        return tensors
    name, largest = max(matrices.items(), key=lambda item: item[1].size)
    tensors[f"MiniLM, {name}"] = np.ascontiguousarray(largest)
    return tensors


def peer_times(peer: BoundedPeer, tensor: np.ndarray) -> tuple[float, float]:
    """Seconds of one encoding and one decoding."""
    start = time.perf_counter()
    blob = peer.encode(tensor, SPEED_BOUND)
    middle = time.perf_counter()
    peer.decode(blob, tensor.shape, SPEED_BOUND)
    return middle - start, time.perf_counter() - middle


def all_speeds(peers: list[BoundedPeer], repetitions: int) -> list[list[str]]:
    """Encoding and decoding of one matrix, taking turns."""
    rows = []
    if product.is_installed():
        own = BoundedPeer(
            "cfck",
            "",
            product.encode,
            lambda blob, shape, bound: product.decode(blob),
        )
        peers = [own, *peers]
    for name, tensor in speed_data().items():
        print(f"speed, {name}", file=sys.stderr)
        times: dict[str, list[tuple[float, float]]] = {}
        for _ in range(repetitions):
            for peer in peers:
                times.setdefault(peer.name, []).append(peer_times(peer, tensor))
        rows += speed_rows(name, tensor.nbytes, times)
    return rows


def speed_rows(
    name: str, n_bytes: int, times: dict[str, list[tuple[float, float]]]
) -> list[list[str]]:
    """Medians in GB/s of decoded bytes, and the medians of what each run is of the base's."""
    base = times.get(SPEED_BASE)
    rows = []
    for codec, runs in times.items():
        rates = [n_bytes / statistics.median(run[i] for run in runs) / 1e9 for i in (0, 1)]
        ratios = ["", ""]
        if base is not None:
            pairs = list(zip(base, runs, strict=True))
            ratios = [f"{statistics.median(b[i] / r[i] for b, r in pairs):.2f}" for i in (0, 1)]
        rows.append([name, codec, *(f"{rate:.3f}" for rate in rates), *ratios])
    return rows
