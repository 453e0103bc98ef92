"""What one rank of the row `speed_up` does: a DLRM with compressed rows and with plain ones.

Times of exchanges and of steps are taken in turns, in a network of limited rate; what the formula
needs is measured apart: how long a rank alone encodes and decodes what it is about to send and has
been sent, how long exchanges of almost nothing take, and the rate of a link.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch.distributed as dist
from cfck.embeddings import RowCodec, Rows, ShardedEmbeddingBags, absolute_error

from distributed import network

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "distributed"))
import dlrm
from dlrm_data import generated, movielens

BOUND = 0.03
BOUND_OF_GRADIENTS = BOUND * dlrm.Settings().gradient_share
WARM_STEPS = 40
WARM_ROUNDS = 2
# Bytes that are sent through one link to find its rate.
RATE_BYTES = 4_000_000
RATE_ROUNDS = 7
REPETITIONS = 15
# What else the machine does would delay ranks by more than the exchanges take.
PRIORITY = 10
PLAIN, COMPRESSED = "plain", "compressed"


@dataclass
class Direction:
    """Rows forward, or gradients backward.

    Attributes:
        dense: bytes that each rank sends, without compression.
        packed: bytes that it sends with it.
        dense_received: bytes that each rank receives.
        packed_received: the same with compression.
        encode: seconds of each rank alone, more than for an exchange of almost nothing.
        decode: the same.
    """

    dense: list[int]
    packed: list[int]
    dense_received: list[int]
    packed_received: list[int]
    encode: list[float]
    decode: list[float]


@dataclass
class Timed:
    """At one rate; seconds are those of the slowest rank, of each round, by how rows are exchanged.

    Attributes:
        steps: of training.
        exchanges: of the rows of one step, and of their gradients.
        nothing: of exchanges of the rows of one sample for each rank.
        rate: bytes a second that a link carries, without the headers of TCP and IP.
        burst: bytes that a link lets through at once, after which it keeps the rate.
    """

    steps: dict[str, list[float]]
    exchanges: list[dict[str, list[float]]]
    nothing: dict[str, list[float]]
    rate: float
    burst: int


class _Exchange(torch.autograd.Function):
    """Rows as they are, by one call of torch.distributed: all ranks have equally many samples."""

    @staticmethod
    def forward(ctx: Any, n_tables: list[int], *tables: torch.Tensor) -> Any:
        ctx.n_tables, ctx.n_own = n_tables, len(tables)
        n_ranks = len(n_tables)
        n_samples = tables[0].shape[0] // n_ranks
        width = n_samples * tables[0].shape[1]
        going = torch.stack([t.detach().view(n_ranks, width) for t in tables], 1)
        coming = going.new_empty(sum(n_tables) * width)
        dist.all_to_all_single(coming, going.view(-1), [n * width for n in n_tables])
        return coming.view(-1, n_samples, tables[0].shape[1]).unbind()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        going = torch.stack(gradients)
        width = going[0].numel()
        coming = going.new_empty(len(ctx.n_tables), ctx.n_own, *going[0].shape)
        sizes = [n * width for n in ctx.n_tables]
        dist.all_to_all_single(coming.view(-1), going.view(-1), input_split_sizes=sizes)
        return (None, *coming.transpose(0, 1).flatten(1, 2).unbind())


class _Meet(torch.autograd.Function):
    """Ranks wait for each other before they send gradients."""

    @staticmethod
    def forward(ctx: Any, *rows: torch.Tensor) -> Any:
        return tuple(one.view_as(one) for one in rows)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        dist.barrier()
        return gradients


class CompressedBags(ShardedEmbeddingBags):
    """Keeps what it has exchanged last.

    Ranks wait for each other before both exchanges of a step: those that share a core compute one
    after the other, and the first would send while others compute.
    """

    exchanged: tuple[Any, ...] = ()

    def _exchange_rows(self, *arguments: Any) -> list[torch.Tensor]:
        self.exchanged = arguments
        return self.exchange(*arguments)

    def exchange(self, *arguments: Any) -> list[torch.Tensor]:
        """Exchanges rows."""
        return super()._exchange_rows(*arguments)


class PlainBags(CompressedBags):
    """Rows and gradients are sent as they are."""

    def exchange(self, *arguments: Any) -> list[torch.Tensor]:
        """Exchanges rows."""
        pooled, sizes, *_ = arguments
        return list(_Exchange.apply([len(self._of_rank(r)) for r in range(len(sizes))], *pooled))


class Kept(NamedTuple):
    """What the codec was given: batches to encode, or a frame and its keys."""

    what: Any
    keys: Any = None


class KeepingCodec(RowCodec):
    """Keeps what it encodes and decodes while it is told to."""

    def __init__(self) -> None:
        """Keeps nothing yet."""
        super().__init__()
        self.is_keeping = False
        self.encoded: list[Kept] = []
        self.decoded: list[Kept] = []

    def encode(self, batches: Any) -> torch.Tensor:
        """As that of RowCodec."""
        if self.is_keeping:
            self.encoded.append(Kept(batches))
        return super().encode(batches)

    def decode(self, packet: Any, keys: Any = None, **options: Any) -> list[torch.Tensor]:
        """As that of RowCodec."""
        if self.is_keeping:
            self.decoded.append(Kept(packet, keys))
        return super().decode(packet, keys, **options)


def measure(
    rank: int, store: str, folder: str | None, out: str, spaces: list[str], limits: list[int],
    batch: int, n_rounds: int,
) -> None:  # fmt: skip
    """Rank 0 writes the file `out`: `directions`, `other_bytes`, and `timed` by limit.

    Args:
        rank: this one.
        store: the file where ranks meet.
        folder: of MovieLens-100k; None: interactions are generated.
        out: the file.
        spaces: the namespaces of all ranks.
        limits: in Mbit/s.
        batch: samples of a step of all ranks.
        n_rounds: that count.
    """
    torch.set_num_threads(1)
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))
    network.enter(spaces[rank])
    os.environ["GLOO_SOCKET_IFNAME"] = network.INTERFACE
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=len(spaces)
    )
    both = _Both(folder, batch)
    directions, other_bytes = both.directions(), both.other_bytes()
    timed = {}
    for megabits in limits:
        dist.barrier()
        burst = network.burst_of(megabits)
        if rank == 0:
            network.limit(spaces, megabits)
        dist.barrier()
        timed[megabits] = both.time(n_rounds, burst)
    if rank == 0:
        found = {
            "directions": [asdict(one) for one in directions],
            "other_bytes": other_bytes,
            "timed": {limit: asdict(one) for limit, one in timed.items()},
        }
        Path(out).write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


class _Both:
    """The two trainings of one rank."""

    def __init__(self, folder: str | None, batch: int) -> None:
        log = movielens(Path(folder)) if folder else generated(100_000, 1)
        self.codec = KeepingCodec()
        # Bounds are those that training ends with.
        settings = dlrm.Settings(bound=BOUND, factor=1.0, batch=batch)
        makers: dict[str, Callable[..., CompressedBags]] = {
            PLAIN: PlainBags,
            COMPRESSED: functools.partial(CompressedBags, codec=self.codec),
        }
        self.trainers = {}
        for way, maker in makers.items():
            with mock.patch.object(dlrm, "ShardedEmbeddingBags", maker):
                self.trainers[way] = dlrm.Trainer(log, settings)
        learned = log.split(settings.seed)[0]
        generator = torch.Generator().manual_seed(1)
        self.n_ranks, self.rank = dist.get_world_size(), dist.get_rank()
        for _ in range(WARM_STEPS):
            self.samples = learned[torch.randint(len(learned), (batch,), generator=generator)]
            for trainer in self.trainers.values():
                trainer.step(self.samples)
        # From now on all steps are the same one.
        for trainer in self.trainers.values():
            for group in trainer.optimizer.param_groups:
                group["lr"] = 0.0

    def directions(self) -> list[Direction]:
        """Forward and backward, of one step."""
        self.codec.is_keeping = True
        self.trainers[COMPRESSED].step(self.samples)
        self.codec.is_keeping = False
        n = self.n_ranks
        self.gradients = [rows.values for one in self.codec.encoded[n:] for rows in one.what]
        kept = zip(
            (BOUND, BOUND_OF_GRADIENTS),
            (self.codec.encoded[:n], self.codec.encoded[n:]),
            (self.codec.decoded[:n], self.codec.decoded[n:]),
            strict=True,
        )
        return [self._direction(*one) for one in kept]

    def other_bytes(self) -> int:
        """What the rank with most of it sends in a step beside rows and their gradients: ids, and
        gradients of what all ranks have."""
        trainer = self.trainers[PLAIN]
        before = trainer.bags.id_traffic.sent_bytes
        trainer.step(self.samples)
        n_values = sum(p.numel() for p in trainer.model.parameters()) + 1
        own = trainer.bags.id_traffic.sent_bytes - before + 4 * n_values * (self.n_ranks - 1)
        of_ranks: list[Any] = [None] * self.n_ranks
        dist.all_gather_object(of_ranks, own)
        return max(of_ranks)

    def _direction(self, bound: float, encoded: list[Kept], decoded: list[Kept]) -> Direction:
        parts = [one.what for one in encoded]
        tiny = [[_first(rows) for rows in part] for part in parts]
        frames = [self.codec.encode(part) for part in parts]
        answers = [Kept(self.codec.encode(part), [rows.keys for rows in part]) for part in tiny]
        others = [rank for rank in range(self.n_ranks) if rank != self.rank]
        dense = [sum(rows.values.nbytes for rows in part) for part in parts]
        received = [sum(t.nbytes for t in self._decoded(one)) for one in decoded]
        seconds = []
        for rank in range(self.n_ranks):
            dist.barrier()  # one after the other: each has a core
            if rank == self.rank:
                actions = [
                    lambda: [self._encoded(part, bound) for part in parts],
                    lambda: [self._encoded(part, bound) for part in tiny],
                    lambda: [self._decoded(one) for one in decoded],
                    lambda: [self._decoded(one) for one in answers],
                ]
                seconds = [_median_seconds(action, self._compute) for action in actions]
        own = [
            sum(dense[rank] for rank in others),
            sum(frames[rank].numel() for rank in others),
            sum(received[rank] for rank in others),
            sum(decoded[rank].what.numel() for rank in others),
            max(0.0, seconds[0] - seconds[1]),
            max(0.0, seconds[2] - seconds[3]),
        ]
        of_ranks: list[Any] = [None] * self.n_ranks
        dist.all_gather_object(of_ranks, own)
        return Direction(*map(list, zip(*of_ranks, strict=True)))

    def _encoded(self, part: Sequence[Rows], bound: float) -> torch.Tensor:
        """As an exchange does it: it finds the range of the values first."""
        rows = [Rows(one.values, absolute_error(one.values, bound), one.keys) for one in part]
        return self.codec.encode(rows)

    def _decoded(self, kept: Kept) -> list[torch.Tensor]:
        return self.codec.decode(kept.what, kept.keys)

    def time(self, n_rounds: int, burst: int) -> Timed:
        """Times all, in turns; directions() was called before."""
        actions = {
            way: [functools.partial(trainer.step, self.samples), *self._exchanges(trainer.bags)]
            for way, trainer in self.trainers.items()
        }
        seconds = {way: [[] for _ in of_way] for way, of_way in actions.items()}
        for _ in range(WARM_ROUNDS + n_rounds):
            for way, of_way in actions.items():
                for times, action in zip(seconds[way], of_way, strict=True):
                    times.append(self._slowest(action))
        steps, forward, backward, nothing = (
            {way: seconds[way][i][WARM_ROUNDS:] for way in actions} for i in range(4)
        )
        rate = self._rate(statistics.median(nothing[PLAIN]), burst)
        return Timed(steps, [forward, backward], nothing, rate, burst)

    def _exchanges(self, bags: CompressedBags) -> list[Callable[[], object]]:
        """Those of rows and of gradients of a step, and that of one sample for each rank."""
        given = []
        for samples in (self.samples, self.samples[: self.n_ranks]):
            own = samples.chunk(self.n_ranks)[self.rank]
            bags(self.trainers[PLAIN].log.inputs(own))
            pooled, *others = bags.exchanged
            given.append(([one.detach() for one in pooled], *others))
        whole, tiny = given
        leaves = [one.clone().requires_grad_() for one in whole[0]]
        rows = bags.exchange(leaves, *whole[1:])
        return [
            functools.partial(bags.exchange, *whole),
            lambda: torch.autograd.grad(rows, leaves, self.gradients, retain_graph=True),
            functools.partial(bags.exchange, *tiny),
        ]

    def _compute(self) -> None:
        """What a step does between exchanges, which then find caches full of other things."""
        trainer = self.trainers[PLAIN]
        own = self.samples.chunk(self.n_ranks)[self.rank]
        rows = [torch.zeros(len(own), trainer.settings.dim)] * len(trainer.log.n_rows())
        trainer.model(trainer.log.dense[own], rows).sum().backward()

    def _slowest(self, action: Callable[[], object]) -> float:
        """Seconds of the slowest rank."""
        self._compute()
        dist.barrier()
        begin = time.perf_counter()
        action()
        seconds = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
        return float(seconds)

    def _rate(self, latency: float, burst: int) -> float:
        """Rank 0 sends rank 1 zeros, and nobody else sends anything."""
        going = torch.zeros(RATE_BYTES if self.rank == 0 else 0, dtype=torch.uint8)
        coming = torch.zeros(RATE_BYTES if self.rank == 1 else 0, dtype=torch.uint8)
        sent, received = ([0] * self.n_ranks for _ in range(2))
        sent[1], received[0] = len(going), len(coming)
        send = functools.partial(dist.all_to_all_single, coming, going, received, sent)
        seconds = statistics.median(self._slowest(send) for _ in range(RATE_ROUNDS))
        return (RATE_BYTES - burst) / max(1e-9, seconds - latency)


def _first(rows: Rows) -> Rows:
    return Rows(rows.values[:1], rows.max_abs_error, None if rows.keys is None else rows.keys[:1])


def _median_seconds(action: Callable[[], object], compute: Callable[[], None]) -> float:
    seconds = []
    for _ in range(REPETITIONS):
        compute()
        begin = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)
