"""How fast patches are made and applied with one thread, beside XOR and libzstd."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

import cfck.torch
import numpy as np
import zstandard

from common import measure
from delta.pairs import Pair, Tensors, numbers_of

OURS, PEER = "cfck", "XOR + zstd-1"
MAKE, APPLY = "make", "apply"
COLUMNS = ["GB/s", f"{PEER}: GB/s", "medians", PEER]


@dataclass
class Speed:
    """Seconds of all runs of one thing, ours and the peer's, in turns."""

    n_bytes: int  # dense
    seconds: dict[str, list[float]] = field(default_factory=lambda: {OURS: [], PEER: []})

    def rate(self, who: str, choice: Callable[[list[float]], float] = min) -> float:
        """GB/s of the best run, or of another `choice`."""
        return self.n_bytes / choice(self.seconds[who]) / 1e9

    @property
    def ours(self) -> float:
        """GB/s of the best run."""
        return self.rate(OURS)

    @property
    def peer(self) -> float:
        """GB/s of the best run of the peer."""
        return self.rate(PEER)

    def cells(self) -> list[str]:
        """The cells of COLUMNS."""
        medians = [self.rate(who, statistics.median) for who in (OURS, PEER)]
        return [f"{rate:.2f}" for rate in (self.ours, self.peer, *medians)]


class XorPeer:
    """Weights as slime and others send them: a frame of libzstd for the XOR of each tensor.

    Nothing is hashed. Memory for the XOR is there before the clock starts, and is used for all
    tensors, so that it stays in the cache where they are small.
    """

    def __init__(self, pair: Pair, model: dict[str, np.ndarray]) -> None:
        """`model` has the bytes that are changed in place."""
        self._old = {name: numbers_of(tensor).view(np.uint8) for name, tensor in pair.old.items()}
        self._new = {name: numbers_of(tensor).view(np.uint8) for name, tensor in pair.new.items()}
        self._model = model
        self._scratch = np.zeros(max(array.nbytes for array in self._old.values()), np.uint8)
        self._compressor = zstandard.ZstdCompressor(level=1)
        self._decompressor = zstandard.ZstdDecompressor()

    def make(self) -> dict[str, bytes]:
        """The frames."""
        frames = {}
        for name, old in self._old.items():
            differing = self._scratch[: old.nbytes]
            np.bitwise_xor(_words(old), _words(self._new[name]), out=_words(differing))
            frames[name] = self._compressor.compress(differing.data)
        return frames

    def apply(self, frames: dict[str, bytes]) -> None:
        """Changes the model in place."""
        for name, frame in frames.items():
            values = self._model[name]
            differing = self._scratch[: values.nbytes]
            self._decompressor.stream_reader(frame).readinto(differing.data)
            np.bitwise_xor(_words(values), _words(differing), out=_words(values))


def _words(array: np.ndarray) -> np.ndarray:
    """In eight bytes each where that is possible, which numpy combines faster."""
    return array.view(np.uint64) if array.nbytes % 8 == 0 else array


def compare(pair: Pair, repetitions: int) -> dict[str, Speed]:
    """Makes and applies the patch of a pair, in turns with the peer; raises where values differ."""
    model = {name: tensor.clone() for name, tensor in pair.old.items()}
    views = {name: numbers_of(tensor).view(np.uint8) for name, tensor in model.items()}
    peer = XorPeer(pair, views)
    patch, frames = cfck.torch.patch(pair.old, pair.new, threads=1), peer.make()
    actions: dict[str, dict[str, Callable[[], object]]] = {
        MAKE: {
            OURS: lambda: cfck.torch.patch(pair.old, pair.new, threads=1),
            PEER: peer.make,
        },
        APPLY: {
            OURS: lambda: cfck.torch.apply(model, patch, threads=1),
            PEER: lambda: peer.apply(frames),
        },
    }
    n_bytes = sum(view.nbytes for view in views.values())
    found = {what: Speed(n_bytes) for what in actions}
    gc.collect()
    for _ in range(repetitions):
        for who in (OURS, PEER):
            _give(pair.old, views)
            for what, action in actions.items():
                found[what].seconds[who].append(measure.timed(action[who])[0].wall)
            _check(pair.new, views, who)
    return found


def _give(values: Tensors, views: dict[str, np.ndarray]) -> None:
    for name, tensor in values.items():
        views[name][:] = numbers_of(tensor).view(np.uint8)


def _check(values: Tensors, views: dict[str, np.ndarray], who: str) -> None:
    for name, tensor in values.items():
        if not np.array_equal(views[name], numbers_of(tensor).view(np.uint8)):
            raise measure.RoundTripError(f"{who}: {name} has other values")
