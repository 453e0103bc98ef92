"""Who has which decoded weight, and which one comes next."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import torch

from .._io.archive import Archive
from .buffers import Buffers
from .graphs import outside_graphs
from .loan import Loan
from .weight import Weight
from .worker import Worker


class Decoding:
    """One weight on its way; whoever comes first decodes it, others wait."""

    def __init__(self, weight: Weight) -> None:
        self._weight: Weight | None = weight
        self._identity = weight.identity()
        self._lock = threading.Lock()
        self._tensor: torch.Tensor | None = None
        self._error: Exception | None = None

    def is_for(self, weight: Weight) -> bool:
        """Whether this is the weight, as it is to be now."""
        return self._identity == weight.identity()

    def run(self) -> None:
        """Decodes, unless that was done or is not wanted any more. Keeps an error."""
        with self._lock:
            weight = self._weight
            if weight is None:
                return
            try:
                self._tensor = weight.decode()
            except Exception as error:
                self._error = error
            self._weight = None

    def result(self) -> torch.Tensor:
        """The values, for one taker; an error of decoding is raised here, whoever met it."""
        self.run()
        if self._error is not None:
            raise self._error
        tensor, self._tensor = self._tensor, None  # this may wait in a queue for long
        assert tensor is not None
        return tensor

    def drop(self) -> None:
        """Forgets the weight: if nobody has begun to decode it, nobody will."""
        self._weight = None


class _Lane(threading.local):
    """The weights that one thread holds.

    Attributes:
        recent: the weight used last, kept for a module that asks for it again.
        group: weights of a module that needs all of them at once.
        ahead: the next one.
        last: whose use was the last that decoded something.
    """

    def __init__(self) -> None:
        self.recent: torch.Tensor | None = None
        self.group: list[Any] | None = None
        self.ahead: Decoding | None = None
        self.last: weakref.ref[Weight] | None = None


class Supply:
    """Decodes the weights of one model, the next one ahead.

    Every weight remembers which one was decoded after it. Each thread that runs the model has its
    own place in that order, and holds two weights at most.
    """

    def __init__(self, archive: Archive, prefetch: bool) -> None:
        self.archive = archive
        self.prefetch = prefetch
        self.buffers = Buffers()
        # Loans whose values are in tensors that nobody watches.
        self.pending: set[Loan] = set()
        self._lane = _Lane()
        self._worker = Worker()

    def __deepcopy__(self, memo: object) -> Supply:
        return Supply(self.archive, self.prefetch)

    @outside_graphs
    def use(self, weight: Weight) -> torch.Tensor:
        """The values of a weight as a parameter, for now: nobody keeps them but the caller and
        this thread, unless they are written into."""
        self._end_loans()
        lane = self._lane
        ahead = lane.ahead
        expected = ahead is not None and ahead.is_for(weight)
        if (not expected or weight.own() is not None) and (found := weight.lent()) is not None:
            lane.recent = found
            return found
        # Before memory is taken for another one.
        lane.recent = lane.ahead = None
        if ahead is not None and not expected:
            ahead.drop()
        decoding = ahead if ahead is not None and expected else Decoding(weight)
        tensor = decoding.result()
        own = weight.own()
        lane.recent = weight.lend(tensor).parameter() if own is None else own
        del tensor
        self._look_ahead(lane, weight)
        return lane.recent

    @outside_graphs
    def held(self, weight: Weight) -> torch.Tensor | None:
        """The values of a weight as a parameter, where they are in memory."""
        return weight.lent()

    @outside_graphs
    def whole(self, weight: Weight) -> torch.Tensor:
        """The values of a weight, outside of the order in which the model uses them."""
        self._end_loans()
        if (own := weight.own()) is not None:
            return own.detach()
        loan = weight.loan
        return (weight.lend(weight.decode()) if loan is None else loan).plain()

    def _end_loans(self) -> None:
        for loan in list(self.pending):
            loan.end()

    @outside_graphs
    def release(self) -> None:
        """Lets go of the weights that this thread used last."""
        self._lane.recent = self._lane.group = None
        self._end_loans()

    def hold(self, group: list[Any]) -> None:
        """Keeps several weights until this thread releases them."""
        self._lane.group = group

    def _look_ahead(self, lane: _Lane, weight: Weight) -> None:
        before = None if lane.last is None else lane.last()
        lane.last = weakref.ref(weight)
        if before is not None:
            before.next = lane.last
        following = None if weight.next is None else weight.next()
        if not self.prefetch or following is None or following is weight:
            return
        if following.lent() is None:
            lane.ahead = Decoding(following)
            self._worker.submit(lane.ahead)
