"""Embedding tables that are sharded over ranks: ids go to the owners, pooled rows come back."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist

from .._distributed.agreement import Offer, Operation, encode_all
from .._distributed.arguments import check_group, check_numbers, integer
from .._distributed.collectives import all_gather
from .._distributed.traffic import Traffic
from .._distributed.transport import exchange_frames
from .._frameworks.torch_graphs import outside_compiled_graphs
from ..errors import CfckError, InvalidArgumentError
from .bags import BagInput, Bags, Table, checked_bags, joined, pack, unpack
from .bounds import ErrorSchedule, check_mapping
from .codec import RowCodec
from .exchange import ExchangeOptions, RowKeys, abandon, exchange_tables, simulate_tables

Bounds = float | Mapping[str, float]


class ShardedEmbeddingBags(torch.nn.Module):
    """Tables of torch.nn.EmbeddingBag, each of them on one rank of a group.

    forward() sends the ids of the samples of this rank to the owners of the tables, who look up and
    pool for the samples of all ranks; the rows come back compressed, and gradients go the other
    way, compressed too. A table gets the sum of the gradients of all ranks, as if their samples
    were one batch. All ranks of the group make the same calls, backward() included.

    Args:
        tables: the same on all ranks, by name: of any mode, width, and dtype float32, float16 or
            bfloat16. A rank keeps those it owns, and gives up the others. Those on the meta device
            are filled with new values (``reset_parameters()``) by their owners, on the host.
        bounds: the most by which a looked-up value may change, as a fraction of the range of the
            values that one rank is sent of one table: one for all tables, or by table. 0.0: no bit
            is lost.
        backward_bounds: the same for gradients; None: a tenth of ``bounds``. Few of them are large,
            and the many small ones would be lost (docs/embeddings.md has what that costs).
        schedule: by how much bounds are larger early in training, see set_iteration().
        placement: the rank that owns each table; None: tables go to the rank with the fewest bytes,
            the largest first.
        group: a process group; None: that of all ranks.
        simulated: values are changed as compression changes them, bit for bit, and sent as they
            are.
        simulated_ranks: in one process without a group: that many ranks are simulated. forward()
            is given the samples of all of them, equally many of each, one rank after the other.
            Every table is here.
        codec: with which packets are made.

    Attributes:
        tables: a torch.nn.ModuleDict of those of this rank: state_dict() and parameters() have
            these and no others.
        placement: the rank of each table.
        traffic: what rows and gradients took that this rank sent.
        id_traffic: what ids took; nothing would have been saved there.

    Raises:
        CfckError: on all ranks: InvalidArgumentError where arguments are wrong, or ranks disagree
            about them.
    """

    def __init__(
        self,
        tables: Mapping[str, torch.nn.EmbeddingBag],
        *,
        bounds: Bounds = 0.03,
        backward_bounds: Bounds | None = None,
        schedule: ErrorSchedule | None = None,
        placement: Mapping[str, int] | None = None,
        group: dist.ProcessGroup | None = None,
        simulated: bool = False,
        simulated_ranks: int | None = None,
        codec: RowCodec | None = None,
    ) -> None:
        super().__init__()
        self._group = group
        self._simulated, self._simulated_ranks = simulated, simulated_ranks
        self._codec = codec or RowCodec()
        self._schedule, self._factor = schedule, 1.0
        self.traffic, self.id_traffic = Traffic(), Traffic()
        if simulated_ranks is None:
            check_group(group)
        error: Exception | None = None
        try:
            self._describe(tables, placement)
            self.set_bounds(bounds, backward_bounds)
        except Exception as found:
            error = found
        if simulated_ranks is None:
            _agree(None if error else self._agreed(), group)
        if error is not None:
            raise error
        self.set_iteration(0)
        self.tables = torch.nn.ModuleDict(
            {table.name: _filled(tables[table.name]) for table in self._of_rank(self._rank)}
        )

    def _describe(
        self, tables: Mapping[str, torch.nn.EmbeddingBag], placement: Mapping[str, int] | None
    ) -> None:
        check_mapping("tables", tables)
        if self._schedule is not None and not isinstance(self._schedule, ErrorSchedule):
            kind = type(self._schedule).__name__
            raise TypeError(f"schedule is an ErrorSchedule, not {kind}: {self._schedule!r}")
        _check_tables(tables)
        if self._simulated_ranks is not None:
            if (
                integer("simulated_ranks", self._simulated_ranks) < 1
                or placement is not None
                or self._group is not None
            ):
                raise InvalidArgumentError(
                    "simulated_ranks is at least 1, and goes without group and placement"
                )
            self._rank, self._n_ranks = 0, 1
        else:
            self._rank = dist.get_rank(self._group)
            self._n_ranks = dist.get_world_size(self._group)
        self._all = [Table.of(name, bag) for name, bag in tables.items()]
        self.placement = (
            _greedy(self._all, self._n_ranks)
            if placement is None
            else _checked_placement(placement, self._all, self._n_ranks)
        )

    def _agreed(self) -> dict[str, list[str]]:
        """What must be the same on all ranks, in the words of an error, for each table."""
        return {
            t.name: [
                t.describe(),
                f"rank {self.placement[t.name]}",
                f"bounds {self._bounds[t.name]} and {self._backward_bounds[t.name]}",
            ]
            for t in self._all
        }

    def set_bounds(self, bounds: Bounds, backward_bounds: Bounds | None = None) -> None:
        """Changes the bounds, on all ranks: those of bounds_by_merging(), for instance.

        Args:
            bounds: as that of the constructor.
            backward_bounds: None: a tenth of ``bounds``.

        Raises:
            InvalidArgumentError: a table has none, or there is no such table, or one is no bound.
        """
        self._bounds, self._backward_bounds = _both_bounds(bounds, backward_bounds, self._all)

    def set_iteration(self, iteration: int) -> None:
        """Says which iteration of training comes, from 0, on all ranks: bounds follow the schedule.

        After the last one of the schedule, and without one, they are those that were given.
        """
        iteration = integer("iteration", iteration)
        if self._schedule is not None:
            self._factor = self._schedule.factor_at(iteration)

    @outside_compiled_graphs
    def forward(self, inputs: Mapping[str, BagInput | torch.Tensor]) -> dict[str, torch.Tensor]:
        """Looks up the samples of this rank in all tables.

        Args:
            inputs: for each table, equally many samples; a tensor stands for indices of shape
                (n_samples, n_indices). Ranks may have different numbers of samples, and none.

        Returns:
            The pooled rows of each table, in the order of the tables, of shape
            (n_samples, row_elems) and the dtype of the table.

        Raises:
            CfckError: on all ranks: InvalidArgumentError where a table has no input, an id is out
                of range, the numbers of samples differ; or where ranks have other bounds or
                iterations.
            TypeError: of another dtype.
            RuntimeError: those of torch.distributed.
        """
        if self._simulated_ranks is not None:
            return self._simulate(inputs, self._simulated_ranks)
        own, received = self._exchange_ids(inputs)
        sizes = [n_samples for n_samples, _ in received]
        owned = self._of_rank(self._rank)
        options = self._options(owned, [t for r in range(self._n_ranks) for t in self._of_rank(r)])
        try:
            pooled = [
                self._look_up(table, joined([bags[i] for _, bags in received], table.dtype))
                for i, table in enumerate(owned)
            ]
        except Exception as error:
            abandon(error, options)
        keys = RowKeys(
            [[of_table.keys for of_table in bags] for _, bags in received],
            [[own[t.name].keys for t in self._of_rank(r)] for r in range(self._n_ranks)],
        )
        rows = iter(self._exchange_rows(pooled, sizes, options, keys))
        found = {t.name: next(rows) for r in range(self._n_ranks) for t in self._of_rank(r)}
        return self._placed(found, inputs)

    def extra_repr(self) -> str:
        """The tables of all ranks, for repr()."""
        return "\n".join(
            f"{t.name}: {t.describe()}, on rank {self.placement[t.name]}" for t in self._all
        )

    def _of_rank(self, rank: int) -> list[Table]:
        return [table for table in self._all if self.placement[table.name] == rank]

    def _options(self, sent: Sequence[Table], received: Sequence[Table]) -> ExchangeOptions:
        return ExchangeOptions(
            bounds=[min(1.0, self._factor * self._bounds[t.name]) for t in sent],
            backward_bounds=[
                min(1.0, self._factor * self._backward_bounds[t.name]) for t in received
            ],
            group=self._group,
            simulated=self._simulated,
            codec=self._codec,
            traffic=self.traffic,
        )

    def _check(self, inputs: Mapping[str, BagInput | torch.Tensor]) -> tuple[int, dict[str, Bags]]:
        names = [table.name for table in self._all]
        if not isinstance(inputs, Mapping) or set(inputs) != set(names):
            given = sorted(inputs) if isinstance(inputs, Mapping) else type(inputs).__name__
            raise InvalidArgumentError(f"inputs are for tables {sorted(names)}, not {given}")
        found = {table.name: checked_bags(table, inputs[table.name]) for table in self._all}
        numbers = {name: bags.lengths.numel() for name, bags in found.items()}
        if len(set(numbers.values())) > 1:
            raise InvalidArgumentError(f"features have different numbers of samples: {numbers}")
        return next(iter(numbers.values()), 0), found

    def _exchange_ids(
        self, inputs: Mapping[str, BagInput | torch.Tensor]
    ) -> tuple[dict[str, Bags], list[tuple[int, list[Bags]]]]:
        """The bags of this rank, and what each rank looks up in the tables of this one."""
        found: dict[str, Bags] = {}

        def encode() -> list[torch.Tensor]:
            n_samples, bags = self._check(inputs)
            found.update(bags)
            return [
                pack(n_samples, tables, [bags[t.name] for t in tables])
                for tables in map(self._of_rank, range(self._n_ranks))
            ]

        device = next((weight.device for weight in self.parameters()), torch.device("cpu"))
        bounds = repr((self._factor, self._agreed()))
        anchor = torch.empty(0, device=device)
        variant = zlib.crc32(bounds.encode())
        offer = Offer(Operation.ROW_IDS, anchor, None, variant, may_differ=True)
        agreed = encode_all(offer, encode, self._group)
        frames = exchange_frames(agreed.frames, agreed.lengths, self._group, anchor.device)
        sent = sum(f.numel() for rank, f in enumerate(agreed.frames) if rank != self._rank)
        self.id_traffic.add(sent + agreed.n_bytes, sent)
        owned = self._of_rank(self._rank)
        return found, [unpack(frame, owned) for frame in frames]

    def _exchange_rows(
        self, pooled: list[torch.Tensor], sizes: list[int], options: ExchangeOptions, keys: RowKeys
    ) -> list[torch.Tensor]:
        """What all_to_all_tables() returns: the rows of this rank, those of rank 0 first."""
        return exchange_tables(pooled, sizes, options, keys)

    def _look_up(self, table: Table, bags: Bags) -> torch.Tensor:
        bag = self.tables[table.name]
        rows: torch.Tensor = bag(*bags.input_of(table, next(bag.parameters()).device))
        return rows

    def _simulate(
        self, inputs: Mapping[str, BagInput | torch.Tensor], n_ranks: int
    ) -> dict[str, torch.Tensor]:
        _, bags = self._check(inputs)
        pooled = [self._look_up(table, bags[table.name]) for table in self._all]
        changed = simulate_tables(pooled, n_ranks, self._options(self._all, self._all))
        named = zip((t.name for t in self._all), changed, strict=True)
        return self._placed(dict(named), inputs)

    def _placed(
        self, rows: Mapping[str, torch.Tensor], inputs: Mapping[str, BagInput | torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """The rows in the order of the tables, each where its indices are."""
        placed = {}
        for table in self._all:
            given = inputs[table.name]
            indices = given.indices if isinstance(given, BagInput) else given
            placed[table.name] = rows[table.name].to(indices.device)
        return placed


class _Reported(NamedTuple):
    """What a rank said of its tables.

    Attributes:
        rank: which said it.
        tables: by name; None: its arguments are wrong.
    """

    rank: int
    tables: dict[str, list[str]] | None


def _agree(own: dict[str, list[str]] | None, group: dist.ProcessGroup | None) -> None:
    """Raises on all ranks where they do not have the same tables.

    A rank whose own arguments are wrong says so with None, and raises what is wrong itself.
    """
    text = torch.frombuffer(bytearray(json.dumps(own).encode()), dtype=torch.uint8)
    told = [
        _Reported(rank, json.loads(bytes(one.tolist())))
        for rank, one in enumerate(all_gather(text, group=group))
    ]
    if own is None:
        return
    rank = dist.get_rank(group)
    for other in told:
        if other.tables is None:
            raise CfckError(f"rank {other.rank} could not make its tables; its own error says why")
        if list(other.tables) != list(own):
            raise InvalidArgumentError(
                f"ranks {rank} and {other.rank} disagree about tables: they have {list(own)} and "
                f"{list(other.tables)}"
            )
        for name, facts in own.items():
            if facts != other.tables[name]:
                raise InvalidArgumentError(
                    f"ranks {rank} and {other.rank} disagree about table {name!r}: "
                    f"{', '.join(facts)}; and {', '.join(other.tables[name])}"
                )


def _check_tables(tables: Mapping[str, torch.nn.EmbeddingBag]) -> None:
    names: dict[int, str] = {}
    for name, bag in tables.items():
        _check_table(name, bag)
        # On two ranks they would be two tables.
        if (other := names.setdefault(id(bag.weight), name)) != name:
            raise InvalidArgumentError(
                f"tables {other!r} and {name!r} have the same weight: give it once, and look up "
                "the ids of both features in it"
            )


def _check_table(name: str, bag: object) -> None:
    if not isinstance(bag, torch.nn.EmbeddingBag):
        raise TypeError(f"table {name!r} is a torch.nn.EmbeddingBag, not {type(bag).__name__}")
    # torch keeps modules under names as it keeps attributes.
    if not isinstance(name, str) or not name or "." in name or hasattr(torch.nn.ModuleDict, name):
        raise InvalidArgumentError(
            f"{name!r} cannot be the name of a table: it is empty, has a dot, or is an attribute "
            "of torch.nn.ModuleDict"
        )
    if bag.weight.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise TypeError(
            f"table {name!r} is of float32, float16 or bfloat16, not {bag.weight.dtype}"
        )
    if bag.sparse and bag.mode == "max":
        raise InvalidArgumentError(
            f"table {name!r} has mode max, of which torch has no sparse gradients"
        )


def _filled(bag: torch.nn.EmbeddingBag) -> torch.nn.EmbeddingBag:
    if bag.weight.is_meta:
        bag = bag.to_empty(device="cpu")
        bag.reset_parameters()
    return bag


def _greedy(tables: Sequence[Table], n_ranks: int) -> dict[str, int]:
    """Tables go to the rank with the fewest bytes, the largest first; the same on all ranks."""
    placement: dict[str, int] = {}
    held = [0] * n_ranks

    def size(table: Table) -> int:
        return table.n_rows * table.row_elems * table.dtype.itemsize

    for table in sorted(tables, key=size, reverse=True):
        rank = held.index(min(held))
        held[rank] += size(table)
        placement[table.name] = rank
    return {table.name: placement[table.name] for table in tables}


def _checked_placement(
    given: Mapping[str, int], tables: Sequence[Table], n_ranks: int
) -> dict[str, int]:
    _check_names(given, tables, "placement")
    placement = {t.name: integer(f"rank of table {t.name!r}", given[t.name]) for t in tables}
    for name, rank in placement.items():
        if not 0 <= rank < n_ranks:
            raise InvalidArgumentError(
                f"table {name!r} is placed on rank {rank}, and there are {n_ranks} ranks"
            )
    return placement


def _bounds_by_table(given: Bounds, tables: Sequence[Table], what: str) -> dict[str, float]:
    if isinstance(given, Mapping):
        _check_names(given, tables, what)
        check_numbers(**{f"{what} of table {name!r}": bound for name, bound in given.items()})
    else:
        check_numbers(**{what: given})
    found = {t.name: float(given[t.name] if isinstance(given, Mapping) else given) for t in tables}
    for name, bound in found.items():
        if not 0 <= bound < 1:
            raise InvalidArgumentError(
                f"{what}: that of table {name!r} is a fraction of the range of the values, from "
                f"0.0 to less than 1, not {bound!r}"
            )
    return found


def _both_bounds(
    forward: Bounds, backward: Bounds | None, tables: Sequence[Table]
) -> tuple[dict[str, float], dict[str, float]]:
    found = _bounds_by_table(forward, tables, "bounds")
    if backward is None:
        return found, {name: bound / 10 for name, bound in found.items()}
    return found, _bounds_by_table(backward, tables, "backward_bounds")


def _check_names(given: Mapping[str, object], tables: Sequence[Table], what: str) -> None:
    names = {table.name for table in tables}
    if set(given) != names:
        lacking, unknown = sorted(names - set(given)), sorted(set(given) - names)
        faults = [f"lacks tables {lacking}"] if lacking else []
        faults += [f"has tables {unknown}, of which there are none"] if unknown else []
        raise InvalidArgumentError(f"{what} {', and '.join(faults)}")
