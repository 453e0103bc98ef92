"""How fast patches are made and applied with one thread, beside XOR and libzstd."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import cfck.torch
import numpy as np
import zstandard
from torch import Tensor

from common import measure
from delta.pairs import Pair, numbers_of

OURS, PEER = "cfck", "XOR + zstd-1"
MAKE, APPLY = "make", "apply"
COLUMNS = ["GB/s", f"{PEER}: GB/s", "medians", PEER]


@dataclass
class Speed:
    """Seconds of all runs of one thing, ours and the peer's, for each part of a model."""

    n_bytes: int = 0  # dense, of all parts
    seconds: dict[str, list[list[float]]] = field(default_factory=lambda: {OURS: [], PEER: []})

    def rate(self, who: str, choice: Callable[[list[float]], float] = min) -> float:
        """GB/s of all parts, from the best run of each, or another `choice`."""
        return self.n_bytes / sum(map(choice, self.seconds[who])) / 1e9

    @property
    def ours(self) -> float:
        """GB/s of the best runs."""
        return self.rate(OURS)

    @property
    def peer(self) -> float:
        """GB/s of the best runs of the peer."""
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
        self._old = {name: _bytes(tensor) for name, tensor in pair.old.items()}
        self._new = {name: _bytes(tensor) for name, tensor in pair.new.items()}
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


class Part:
    """Some tensors of a model, and what is measured with them."""

    def __init__(self, pair: Pair) -> None:
        """Makes what is applied."""
        self._pair = pair
        self._model = {name: tensor.clone() for name, tensor in pair.old.items()}
        self._views = {name: _bytes(tensor) for name, tensor in self._model.items()}
        self._peer = XorPeer(pair, self._views)
        self._patch = self._make()
        self._frames = self._peer.make()
        self.n_bytes = sum(view.nbytes for view in self._views.values())

    def _make(self) -> bytes:
        return cfck.torch.patch(self._pair.old, self._pair.new, threads=1)

    def make(self, who: str) -> float:
        """Seconds."""
        return measure.timed(self._make if who == OURS else self._peer.make)[0].wall

    def apply(self, who: str) -> float:
        """Seconds; raises RoundTripError where the new values are others."""
        for name, tensor in self._pair.old.items():
            self._views[name][:] = _bytes(tensor)
        if who == OURS:
            taken = measure.timed(lambda: cfck.torch.apply(self._model, self._patch, threads=1))[0]
        else:
            taken = measure.timed(lambda: self._peer.apply(self._frames))[0]
        for name, tensor in self._pair.new.items():
            if not np.array_equal(self._views[name], _bytes(tensor)):
                raise measure.RoundTripError(f"{who}: {name} has other values")
        return taken.wall


def compare(pairs: Sequence[Pair], repetitions: int) -> dict[str, Speed]:
    """Makes and applies patches of the parts of a model, in turns with the peer.

    All parts have their turn before one has it again, so that nothing of it is in the cache then.
    Raises RoundTripError where applying gives other values.
    """
    parts = [Part(pair) for pair in pairs]
    found = {
        what: Speed(
            sum(part.n_bytes for part in parts), {who: [[] for _ in parts] for who in (OURS, PEER)}
        )
        for what in (MAKE, APPLY)
    }
    gc.collect()
    for _ in range(repetitions):
        for what in found:
            for who in (OURS, PEER):
                for i, part in enumerate(parts):
                    run = part.make if what == MAKE else part.apply
                    found[what].seconds[who][i].append(run(who))
    return found


def _bytes(tensor: Tensor) -> np.ndarray:
    return numbers_of(tensor).view(np.uint8)
