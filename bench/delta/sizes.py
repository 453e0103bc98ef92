"""Bytes of patches beside those of peers, and how many times fewer they must be."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cfck
import cfck.torch
import torch

from common.measure import RoundTripError
from common.peers import Missing
from common.targets import Goal, Targets
from delta import peers
from delta.pairs import Pair, bytes_of, numbers_of

COLUMNS = ["data", "changed", "dense", "patch", "container", "dense / patch", "of aim"]
COLUMNS += peers.ALL
FEW_CHANGES = 0.1
NEAR_ENTROPY, BYTES_OF_TENSOR = 1.08, 60


@dataclass(frozen=True)
class Sizes:
    """Bytes of one pair; of `peers` those that were asked for."""

    name: str
    changed: float
    n_dense: int
    n_patch: int
    n_container: int  # of these: names, shapes, digests, index
    n_without_base: int
    of_entropy: float | None  # of what the aim allows
    peers: Mapping[str, int | Missing]

    def line(self) -> list[str]:
        """A row of the table: bytes, and those of peers for each byte of ours."""

        def cell(peer: str) -> str:
            found = self.peers.get(peer)
            if found is None:
                return "-"
            return "not available" if isinstance(found, Missing) else f"{found / self.n_patch:.2f}"

        return [
            self.name,
            f"{100 * self.changed:.2f} %",
            f"{self.n_dense:,}",
            f"{self.n_patch:,}",
            f"{self.n_container:,}",
            f"{self.n_dense / self.n_patch:.1f}",
            "-" if self.of_entropy is None else f"{self.of_entropy:.3f}",
            *map(cell, peers.ALL),
        ]


def patch_of(pair: Pair) -> bytes:
    """The patch; raises RoundTripError where it does not give back the bits of the new values."""
    patch = cfck.torch.patch(pair.old, pair.new)
    model = {name: tensor.clone() for name, tensor in pair.old.items()}
    cfck.torch.apply(model, patch)
    for name, new in pair.new.items():
        if not (numbers_of(model[name]) == numbers_of(new)).all():
            raise RoundTripError(f"cfck: {name} has other values")
    return patch


def _value_bytes(patch: bytes) -> int:
    """What the values take of a patch."""
    with tempfile.NamedTemporaryFile(suffix=".cfck") as file:
        Path(file.name).write_bytes(patch)
        with cfck.safe_open(file.name, "pt") as opened:
            return sum(record.stored_bytes for record in opened.records())


def measure(pair: Pair, wanted: Sequence[str]) -> Sizes:
    """The bytes of the whole patch, container and digests included, and of the peers `wanted`."""
    patch = patch_of(pair)
    n_patch = len(patch)
    of_entropy = None
    if all(tensor.dtype == torch.bfloat16 for tensor in pair.new.values()):
        allowed = NEAR_ENTROPY * peers.entropy_given_exponent(pair)
        of_entropy = n_patch / (allowed + BYTES_OF_TENSOR * len(pair.new))
    return Sizes(
        name=pair.name,
        changed=pair.changed(),
        n_dense=bytes_of(pair.new).size,
        n_patch=n_patch,
        n_container=n_patch - _value_bytes(patch),
        n_without_base=len(cfck.torch.save(dict(pair.new))),
        of_entropy=of_entropy,
        peers={peer: peers.SIZES[peer](pair) for peer in wanted},
    )


def musts_of_bf16(rate: float, changed: float) -> dict[str, float]:
    """How many times more bytes peers must take for casts to BF16, at a learning rate."""
    if rate >= 1e-4:
        return {peers.XOR_1: 1.9}
    return {
        peers.XOR_1: 2.4 if changed <= FEW_CHANGES else 2.2,
        peers.PLANES_19: 1.5,
        peers.INDEX: 5.0,
    }


# How many times more bytes peers must take.
MUSTS_OF_F32_STEP = {peers.XOR_19: 1 / 0.80, peers.PLANES_19: 1 / 0.93}
MUSTS_OF_F32_STEPS = {peers.XOR_19: 1 / 0.82, peers.PLANES_19: 1 / 0.96}
MUSTS_OF_CODES = {peers.XOR_1: 2.0}


def judge(row: str, sizes: Sizes, musts: Mapping[str, float], targets: Targets) -> None:
    """Adds the lines of a pair: each peer, the aim, and the file without a base."""
    for peer, must in musts.items():
        found = sizes.peers[peer]
        if isinstance(found, Missing):
            targets.skip(row, sizes.name, f"{peer}: {found.reason}")
            continue
        # The aim is the entropy, below; without one there is none beyond what must be reached.
        goal = Goal(must, must)
        targets.judge(row, sizes.name, "bytes / ours", found / sizes.n_patch, goal, peer)
    if sizes.of_entropy is not None:
        goal = Goal(None, 1.0, smaller=True)
        against = "entropy given the exponent + 8 % + 60 bytes a tensor"
        targets.judge(row, sizes.name, "ours / bytes", sizes.of_entropy, goal, against)
    share = sizes.n_patch / sizes.n_without_base
    goal = Goal(1.0, 1.0, smaller=True)
    targets.judge(row, sizes.name, "ours / bytes", share, goal, "the same without a base")
