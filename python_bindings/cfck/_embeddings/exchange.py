"""Looked-up rows between ranks: the all-to-all of embedding tables that are sharded over them."""

from __future__ import annotations

import dataclasses
import numbers
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from .._distributed.agreement import Offer, Operation, confirm_all, encode_all
from .._distributed.arguments import check_group, check_tensor, integer
from .._distributed.traffic import Traffic
from .._distributed.transport import exchange_frames
from .._frameworks.torch_graphs import outside_compiled_graphs
from ..errors import InvalidArgumentError
from .bounds import absolute_error
from .codec import RowCodec, Rows
from .quantise import quantize_and_dequantize

# Ranks trust each other with memory as far as this.
_MAX_DECODED_BYTES = 1 << 36

# How many exchanges a group has made: ranks call one backward pass by the same number.
_n_exchanges: weakref.WeakKeyDictionary[dist.ProcessGroup, int] = weakref.WeakKeyDictionary()


@dataclasses.dataclass(frozen=True)
class ExchangeOptions:
    """How rows are exchanged; the same on all ranks but for the bounds.

    Attributes:
        bounds: of each table of this rank: the most by which a value that is looked up may change,
            as a fraction of the range of the values that one rank is sent; 0.0: no bit is lost.
        backward_bounds: of the gradients of each table that comes from another rank, or one for
            all. Few gradients are large: a larger bound loses the many small ones.
        group: a process group; None: that of all ranks.
        simulated: values are changed as compression changes them, bit for bit, and sent as they
            are.
        codec: with which packets are made.
        traffic: is added to: bytes that were sent, and that would have been.
    """

    bounds: Sequence[float] | float = 0.03
    backward_bounds: Sequence[float] | float = 0.003
    group: dist.ProcessGroup | None = None
    simulated: bool = False
    codec: RowCodec = dataclasses.field(default_factory=RowCodec)
    traffic: Traffic = dataclasses.field(default_factory=Traffic)


# Keys have one tensor for each table, or None.
Keys = Sequence[torch.Tensor | None]


class RowKeys(NamedTuple):
    """By what both sides know which rows are equal, so that it is not sent.

    Rows of a slice with equal keys are equal: the indices by which they were looked up, where each
    bag has exactly one and no weight. Both sides give the same keys of a slice, or both None.

    Attributes:
        sent: for each rank, the keys of its samples, one for each table of this rank, of dtype
            int64.
        received: for each rank, the keys of the samples of this rank, one for each table that the
            rank owns.
    """

    sent: Sequence[Keys]
    received: Sequence[Keys]


@outside_compiled_graphs
def all_to_all_tables(
    tables: Sequence[torch.Tensor],
    split_sizes: Sequence[int] | None = None,
    options: ExchangeOptions | None = None,
    *,
    keys: RowKeys | None = None,
) -> list[torch.Tensor]:
    """Sends each rank its samples of the tables that this rank owns, compressed.

    All ranks of the group make this call. Gradients go the way back, compressed as well, as if
    values had not been changed (straight through). They are made backward in the same order on all
    ranks, and have no gradients of their own.

    Args:
        tables: looked-up rows of each table of this rank, for the samples of all ranks, one rank
            after the other: of shape (n_samples, row_elems) and dtype float32, float16 or bfloat16,
            on any device.
        split_sizes: how many samples each rank has; None: equally many.
        options: None: those of ExchangeOptions().
        keys: of all tables; None: the receiver has none.

    Returns:
        The rows of all tables of all ranks for the samples of this rank: those of rank 0 first, in
        the order in which their owners gave them, on the device of the tables (the host without
        any).

    Raises:
        CfckError: on all ranks, where one could not encode or decode, makes another call, or has
            other split sizes.
        TypeError: of another dtype or number of dimensions.
        RuntimeError: those of torch.distributed.
    """
    options = _checked_options(options)
    check_group(options.group)
    try:
        tables = list(tables)
        for table in tables:
            check_tensor(table)
    except TypeError as error:
        abandon(error, options)
    return exchange_tables(tables, split_sizes, options, keys, confirm=_check_samples)


def exchange_tables(
    tables: Sequence[torch.Tensor],
    split_sizes: Sequence[int] | None,
    options: ExchangeOptions,
    keys: RowKeys | None,
    confirm: Callable[[list[list[torch.Tensor]]], None] | None = None,
) -> list[torch.Tensor]:
    """Does what all_to_all_tables() does, with arguments that are checked.

    Args:
        confirm: raises a CfckError where ranks sent what does not belong together; ranks tell each
            other then whether they could decode. None: nothing of it can differ.
    """
    call = _Call(options, split_sizes, keys, confirm)
    # torch follows gradients through what depends on a tensor that needs them; a rank may own no
    # table and still be sent gradients.
    anchor = torch.zeros((), requires_grad=True)
    return list(_Exchange.apply(call, anchor, *tables))


def abandon(error: Exception, options: ExchangeOptions) -> NoReturn:
    """Raises an error, in place of all_to_all_tables(): so that the other ranks raise too."""

    def fail() -> list[_Part]:
        raise error

    _exchange(fail, [], options)
    raise error


def simulate_tables(
    tables: Sequence[torch.Tensor], n_ranks: int, options: ExchangeOptions
) -> list[torch.Tensor]:
    """Changes rows, and later their gradients, as an exchange would, in one process.

    Args:
        tables: of all tables of all ranks, as all_to_all_tables() takes those of one; the samples
            are equally many of each rank.
        n_ranks: of the exchange.
        options: bounds are for each of the tables.

    Returns:
        The rows of all samples, changed slice by slice.

    Raises:
        CfckError, TypeError: as all_to_all_tables().
    """
    sizes = _split_sizes(tables, None, n_ranks)
    forward = _bounds_of(options.bounds, len(tables), "bounds")
    backward = _bounds_of(options.backward_bounds, len(tables), "backward_bounds")
    return [
        _Simulated.apply(table, sizes, *of_table)
        for table, *of_table in zip(tables, forward, backward, strict=True)
    ]


@outside_compiled_graphs
def all_to_all_rows(
    rows: torch.Tensor,
    input_split_sizes: Sequence[int] | None = None,
    options: ExchangeOptions | None = None,
) -> torch.Tensor:
    """Sends each rank its rows, as torch.distributed.all_to_all_single() does, compressed.

    All ranks of the group make this call. How many rows come from the other ranks is sent along.

    Args:
        rows: of shape (n_rows, row_elems), those for rank 0 first.
        input_split_sizes: how many rows each rank is sent; None: equally many.
        options: None: those of ExchangeOptions().

    Returns:
        The rows that all ranks sent this one, one rank after the other.

    Raises:
        CfckError, TypeError, RuntimeError: as all_to_all_tables().
    """
    options = _checked_options(options)
    check_group(options.group)
    try:
        check_tensor(rows)
    except TypeError as error:
        abandon(error, options)
    return torch.cat(exchange_tables([rows], input_split_sizes, options, None))


@dataclasses.dataclass
class _Call:
    options: ExchangeOptions
    split_sizes: Sequence[int] | None
    keys: RowKeys | None
    confirm: Callable[[list[list[torch.Tensor]]], None] | None
    n_tables_of_ranks: list[int] = dataclasses.field(default_factory=list)
    number: int = 0


class _Part(NamedTuple):
    """What one rank is sent.

    Attributes:
        tensors: one for each table.
        bounds: one for each tensor.
        keys: one for each tensor, or None.
    """

    tensors: list[torch.Tensor]
    bounds: list[float]
    keys: Keys


class _Exchange(torch.autograd.Function):
    """Forward the rows, backward their gradients; values pass as if nothing had been lost."""

    @staticmethod
    def forward(ctx: Any, call: _Call, _: torch.Tensor, *tables: torch.Tensor) -> Any:
        ctx.call = call
        ctx.like = [(t.dtype, t.device) for t in tables]
        keys = call.keys.received if call.keys else None
        received = _exchange(
            lambda: _parts_of(tables, call), ctx.like, call.options, keys, call.confirm
        )
        call.number = _n_exchanges[_group_of(call.options)]
        call.n_tables_of_ranks = [len(of_rank) for of_rank in received]
        return tuple(rows for of_rank in received for rows in of_rank)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        call: _Call = ctx.call
        like = [(g.dtype, g.device) for g in gradients]
        received = _exchange(
            lambda: _parts_of_gradients(gradients, call), like, call.options, number=call.number
        )
        of_tables = [torch.cat(list(parts)) for parts in zip(*received, strict=True)]
        placed = [g.to(device) for g, (_, device) in zip(of_tables, ctx.like, strict=True)]
        return (None, None, *placed)


class _Simulated(torch.autograd.Function):
    """What an exchange does to one table, slice by slice, both ways."""

    @staticmethod
    def forward(
        ctx: Any, table: torch.Tensor, sizes: list[int], bound: float, backward_bound: float
    ) -> torch.Tensor:
        ctx.sizes, ctx.bound = sizes, backward_bound
        return _simulated_slices(table, sizes, bound)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return _simulated_slices(gradient, ctx.sizes, ctx.bound), None, None, None


def _simulated_slices(table: torch.Tensor, sizes: list[int], bound: float) -> torch.Tensor:
    return torch.cat([_simulated(part, bound) for part in torch.split(table.detach(), sizes)])


def _parts_of(tables: Sequence[torch.Tensor], call: _Call) -> list[_Part]:
    n_ranks = dist.get_world_size(call.options.group)
    sizes = _split_sizes(tables, call.split_sizes, n_ranks)
    bounds = _bounds_of(call.options.bounds, len(tables), "bounds")
    keys = _checked_keys(call.keys, n_ranks, len(tables))
    split = [torch.split(table.detach(), sizes) for table in tables]
    return [
        _Part([of_table[rank] for of_table in split], bounds, keys[rank]) for rank in range(n_ranks)
    ]


def _checked_keys(keys: RowKeys | None, n_ranks: int, n_tables: int) -> Sequence[Keys]:
    if keys is None:
        return [[None] * n_tables] * n_ranks
    if len(keys.sent) != n_ranks or len(keys.received) != n_ranks:
        raise InvalidArgumentError(
            f"there are keys that {len(keys.sent)} ranks are sent, and keys of what "
            f"{len(keys.received)} send, for {n_ranks} ranks"
        )
    if {len(of_rank) for of_rank in keys.sent} != {n_tables}:
        raise InvalidArgumentError(
            f"there are keys of {len(keys.sent[0])} tables that are sent, for {n_tables} tables"
        )
    for key in (key for of_rank in (*keys.sent, *keys.received) for key in of_rank):
        if key is not None and (not isinstance(key, torch.Tensor) or key.dtype != torch.int64):
            raise TypeError("keys are tensors of dtype int64, or None")
    return keys.sent


def _parts_of_gradients(gradients: Sequence[torch.Tensor], call: _Call) -> list[_Part]:
    bounds = _bounds_of(call.options.backward_bounds, len(gradients), "backward_bounds")
    parts = []
    at = 0
    for n_tables in call.n_tables_of_ranks:
        of_rank = slice(at, at + n_tables)
        sent = [g.contiguous() for g in gradients[of_rank]]
        parts.append(_Part(sent, bounds[of_rank], [None] * len(sent)))
        at += n_tables
    return parts


def _exchange(
    make_parts: Callable[[], list[_Part]],
    like: Sequence[tuple[torch.dtype, torch.device]],
    options: ExchangeOptions,
    received_keys: Sequence[Keys] | None = None,
    confirm: Callable[[list[list[torch.Tensor]]], None] | None = None,
    *,
    number: int = 0,
) -> list[list[torch.Tensor]]:
    """Sends each rank its part, and returns the tensors that each rank sent.

    Where a rank has no parts, since its arguments are wrong, all ranks raise.

    Args:
        make_parts: of this rank.
        like: dtypes and devices of tensors of this rank.
        options: of the exchange.
        received_keys: for each rank, those of what it sends.
        confirm: as that of exchange_tables().
        number: of the exchange whose gradients these are; 0: of none.
    """
    device = like[0][1] if like else torch.device("cpu")
    dense_bytes = 0

    def encode() -> list[torch.Tensor]:
        nonlocal dense_bytes
        parts = make_parts()
        dense_bytes = sum(
            t.nbytes for r, part in enumerate(parts) if r != own for t in part.tensors
        )
        return [
            options.codec.encode(
                [_bounded(*one, options.simulated) for one in zip(*part, strict=True)]
            )
            for part in parts
        ]

    own = dist.get_rank(options.group)
    n_ranks = dist.get_world_size(options.group)
    anchor = torch.empty(0, device=device)
    operation = Operation.ROW_GRADIENTS if number else Operation.ROWS
    variant = 2 * number + int(options.simulated)
    offer = Offer(operation, anchor, None, variant, may_differ=True)
    agreed = encode_all(offer, encode, options.group)
    if not number:  # as on all ranks: they agreed
        _n_exchanges[_group_of(options)] = _n_exchanges.get(_group_of(options), 0) + 1
    frames = exchange_frames(agreed.frames, agreed.lengths, options.group, device)
    sent_bytes = sum(f.numel() for rank, f in enumerate(agreed.frames) if rank != own)
    keys: Sequence[Keys | None] = received_keys or [None] * n_ranks
    received: list[list[torch.Tensor]] = []

    def decode() -> None:
        for frame, known in zip(frames, keys, strict=True):
            rows = options.codec.decode(frame, known, max_decoded_bytes=_MAX_DECODED_BYTES)
            received.append([values.to(device) for values in rows])
        if confirm is not None:
            confirm(received)

    if confirm is None:
        decode()
    else:
        sent_bytes += confirm_all(decode, "take what it was sent", options.group, device)
    options.traffic.add(sent_bytes + agreed.n_bytes, dense_bytes)
    return received


def _group_of(options: ExchangeOptions) -> dist.ProcessGroup:
    group = options.group or dist.group.WORLD
    assert group is not None
    return group


def _check_samples(received: list[list[torch.Tensor]]) -> None:
    """Raises where ranks sent this one tables of other numbers of samples."""
    numbers = {rank: int(tables[0].shape[0]) for rank, tables in enumerate(received) if tables}
    if len(set(numbers.values())) > 1:
        told = ", ".join(f"{n} by rank {rank}" for rank, n in numbers.items())
        raise InvalidArgumentError(
            f"this rank is sent other numbers of samples by each: {told}; give all ranks the same "
            "split_sizes"
        )


def _bounded(
    values: torch.Tensor, bound: float, keys: torch.Tensor | None, simulated: bool
) -> Rows:
    if simulated:
        return Rows(_simulated(values, bound), keys=keys)
    return Rows(values, absolute_error(values, bound), keys)


def _simulated(values: torch.Tensor, bound: float) -> torch.Tensor:
    return quantize_and_dequantize(values.clone(), absolute_error(values, bound))


def _checked_options(options: ExchangeOptions | None) -> ExchangeOptions:
    if options is not None and not isinstance(options, ExchangeOptions):
        raise TypeError(f"options is an ExchangeOptions, not {type(options).__name__}")
    return options or ExchangeOptions()


def _bounds_of(bounds: Sequence[float] | float, n: int, what: str) -> list[float]:
    found = (
        [float(bounds)] * n if isinstance(bounds, numbers.Real) else [float(one) for one in bounds]  # type: ignore[union-attr]
    )
    if len(found) != n:
        raise InvalidArgumentError(f"{what} has {len(found)} numbers for {n} tables")
    if not all(0 <= bound <= 1 for bound in found):
        raise InvalidArgumentError(
            f"{what} are fractions of the range of the values, from 0.0 to 1, not {bounds!r}"
        )
    return found


def _split_sizes(
    tables: Sequence[torch.Tensor], given: Sequence[int] | None, n_ranks: int
) -> list[int]:
    lengths = {int(table.shape[0]) if table.dim() else -1 for table in tables}
    if len(lengths) > 1:
        raise InvalidArgumentError(
            f"the tables have different numbers of samples: {sorted(lengths)}"
        )
    n = lengths.pop() if lengths else 0
    if given is None:
        if n % n_ranks:
            raise InvalidArgumentError(
                f"{n} samples are not equally many for each of {n_ranks} ranks; give split_sizes"
            )
        return [n // n_ranks] * n_ranks
    given = [integer("split_sizes", size) for size in given]
    if len(given) != n_ranks or sum(given) != n and tables or min(given) < 0:
        raise InvalidArgumentError(
            f"split_sizes has {len(given)} numbers that sum to {sum(given)}, for {n_ranks} ranks "
            f"and {n} samples"
        )
    return given
