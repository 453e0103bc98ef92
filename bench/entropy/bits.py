"""The sizes of the benchmark of the entropy stage, beside those of peers in the same run."""

from __future__ import annotations

import numpy as np

from bounds import peers as bounded_peers
from bounds import product as bounded_product
from bounds import tally as bounds
from common import data, measure, peers
from common.targets import Goal
from entropy.run import Run
from lossless.context import tensor_by_tensor

LOSSLESS_ROW = "lossless, stored bytes"
LOSSLESS = {
    "minilm-2d-bf16": Goal(1.518, 1.524, text="{:.4f}".format),
    "minilm-f32": Goal(1.2265, 1.2285, text="{:.4f}".format),
    "resnet20-bf16": Goal(1.485, 1.496, text="{:.4f}".format),
    "resnet56-bf16": Goal(1.485, 1.496, text="{:.4f}".format),
}
LOSSLESS_PEERS = ["OpenZL FSE", "OpenZL Huffman", "pcodec", "ZipNN"]

DIRECT_ROW = "direct, bits per weight"
DIRECT_PEER = "SZ3, no predictor"
MINILM_GOALS = {
    "ABS 1e-4": Goal(10.14, 10.10, smaller=True, text="{:.3f}".format),
    "REL 1e-2": Goal(2.90, 2.87, smaller=True, text="{:.3f}".format),
    "REL 1e-3": Goal(6.18, 6.14, smaller=True, text="{:.3f}".format),
    "REL 1e-4": Goal(9.50, 9.47, smaller=True, text="{:.3f}".format),
}
RESNET_GOAL = Goal(0.07, 0.09, text="{:.2%}".format)
GAUSS_GOAL = Goal(8.72, 8.70, smaller=True, text="{:.4f}".format)
GAUSS_SIGMA = 0.02


def sizes(run: Run) -> None:
    """All sizes."""
    lossless(run)
    direct(run)


def lossless(run: Run) -> None:
    """Ratios of weights that come back bit for bit."""
    for name, goal in LOSSLESS.items():
        run.say(f"sizes, {name}")
        try:
            dataset = data.build(name)
        except data.MissingData as error:
            run.targets.skip(LOSSLESS_ROW, name, str(error))
            continue
        raw_bytes = dataset.joined().nbytes
        found = _peer_sizes(run, dataset)
        for peer, n_bytes in found.items():
            run.sizes.append([name, peer, str(n_bytes), f"{raw_bytes / n_bytes:.4f}", "-"])
        if run.context.product is None:
            run.targets.skip(LOSSLESS_ROW, name, "cfck is not installed")
            continue
        own = run.context.product_size(run.context.product, dataset)
        run.sizes.append([name, "cfck", str(own), f"{raw_bytes / own:.4f}", "-"])
        against = ", ".join(f"{peer} {raw_bytes / size:.4f}" for peer, size in found.items())
        run.targets.judge(LOSSLESS_ROW, name, "ratio", raw_bytes / own, goal, against or "no peer")


def _peer_sizes(run: Run, dataset: data.Dataset) -> dict[str, int]:
    """The smaller size of every peer: all in one buffer, or tensor by tensor."""
    found = {}
    for name in LOSSLESS_PEERS:
        peer = peers.make(name, dataset.dtype)
        if isinstance(peer, peers.Missing):
            run.miss(name, peer.reason)
            continue
        joined = measure.encoded_size(peer, dataset.joined())
        found[name] = min(joined, tensor_by_tensor(peer, dataset))
    return found


def direct(run: Run) -> None:
    """Bits per weight under error bounds."""
    peer = bounded_peers.make(DIRECT_PEER)
    if isinstance(peer, bounded_peers.Missing):
        run.miss(DIRECT_PEER, peer.reason)
        peer = None
    for name in bounds.DATASETS:
        try:
            tensors = data.matrices(data.build(name).tensors)
        except data.MissingData as error:
            run.targets.skip(DIRECT_ROW, name, str(error))
            continue
        for label in bounds.BOUNDS:
            _direct_size(run, name, label, tensors, peer)
    _direct_size(run, "gauss", "ABS 1e-4", {"gauss": gauss()}, peer)


def gauss() -> np.ndarray:
    """2^22 independent normal values."""
    values = np.random.default_rng(5).standard_normal(2**22, np.float32)
    return (values * np.float32(GAUSS_SIGMA)).reshape(2048, 2048)


def code_entropy(values: np.ndarray, step: float) -> float:
    """Bits per value of the multiples of `step` next to them, if each came by itself."""
    _, counts = np.unique(np.rint(values / step), return_counts=True)
    return float(-(counts * np.log2(counts / values.size)).sum() / values.size)


def _direct_size(
    run: Run,
    name: str,
    label: str,
    tensors: data.Tensors,
    peer: bounded_peers.BoundedPeer | None,
) -> None:
    """One data set under one bound: cfck and SZ3."""
    run.say(f"sizes, {name}, {label}")
    kind, value, bound_of = bounds.BOUNDS[label]
    theirs = None
    if peer is not None:
        tally = bounds.Tally()
        for tensor in tensors.values():
            tally.add(peer, np.ascontiguousarray(tensor), bound_of(tensor))
        theirs = 8 * tally.n_bytes / tally.n_values
        run.sizes.append([f"{name}, {label}", peer.name, str(tally.n_bytes), "-", f"{theirs:.4f}"])
    if run.context.product is None:
        run.targets.skip(DIRECT_ROW, f"{name}, {label}", "cfck is not installed")
        return
    own = bounded_product.tally(tensors, kind, value, **run.encoding)
    bits = own.bits_per_weight
    n_bytes = round(bits * sum(tensor.size for tensor in tensors.values()) / 8)
    run.sizes.append([f"{name}, {label}", "cfck", str(n_bytes), "-", f"{bits:.4f}"])
    _judge_direct(run, name, label, bits, theirs)
    if own.beyond:
        run.targets.fail(DIRECT_ROW, f"{name}, {label}", f"{own.beyond} values beyond the bound")


def _judge_direct(run: Run, name: str, label: str, bits: float, theirs: float | None) -> None:
    """The verdict: bits, or for the ResNets what is saved against SZ3."""
    where = f"{name}, {label}"
    against = "no peer" if theirs is None else f"{DIRECT_PEER} {theirs:.4f}"
    if name == "gauss":
        against += f", entropy of the codes {code_entropy(gauss(), 2e-4):.4f}"
        run.targets.judge(DIRECT_ROW, where, "bits per weight", bits, GAUSS_GOAL, against)
    elif name == "minilm-f32":
        run.targets.judge(DIRECT_ROW, where, "bits per weight", bits, MINILM_GOALS[label], against)
    elif theirs is None:
        run.targets.skip(DIRECT_ROW, where, f"{DIRECT_PEER} is not installed")
    else:
        saved = 1 - bits / theirs
        against = f"{bits:.4f} bits, {against}"
        run.targets.judge(DIRECT_ROW, where, "below the peer", saved, RESNET_GOAL, against)
