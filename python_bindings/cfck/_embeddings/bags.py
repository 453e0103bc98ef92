"""What is looked up in bags: checked, and as bytes that ranks send each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..errors import CorruptError, InvalidArgumentError

_INTEGERS = (torch.uint8, torch.int16, torch.int32, torch.int64)
# A frame has the samples of the rank, and of each table: indices, indices of each bag or _RAGGED,
# whether there are weights.
_HEAD, _RAGGED = 3, -1


class BagInput(NamedTuple):
    """What is looked up in one table, as torch.nn.EmbeddingBag takes it.

    Attributes:
        indices: of dtype int64 or int32: all of one dimension, with offsets; or of shape
            (n_samples, n_indices), without.
        offsets: where the indices of each sample begin; with ``include_last_offset`` of the table
            one more, where they end.
        weights: one for each index, of the dtype of the table; None: 1. For mode "sum".
    """

    indices: torch.Tensor
    offsets: torch.Tensor | None = None
    weights: torch.Tensor | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """What all ranks know of a table.

    Attributes:
        name: of the table, and of what is looked up in it.
        n_rows: of the whole table.
        row_elems: values of a row.
        dtype: of its values.
        mode: "sum", "mean" or "max".
        sparse: whether its gradients are.
        include_last_offset: as EmbeddingBag has it.
    """

    name: str
    n_rows: int
    row_elems: int
    dtype: torch.dtype
    mode: str
    sparse: bool
    include_last_offset: bool

    @staticmethod
    def of(name: str, bag: torch.nn.EmbeddingBag) -> Table:
        """Describes a table."""
        return Table(
            name, bag.num_embeddings, bag.embedding_dim, bag.weight.dtype, bag.mode, bag.sparse,
            bag.include_last_offset,
        )  # fmt: skip

    def describe(self) -> str:
        """A line of text."""
        what = f"{self.n_rows} rows of {self.row_elems} values of {self.dtype}, mode {self.mode}"
        return f"{what}, sparse gradients" if self.sparse else what


class Bags(NamedTuple):
    """What is looked up in one table, on the host.

    Attributes:
        indices: of all bags, of dtype int64.
        lengths: indices of each bag, of dtype int64.
        weights: one for each index, or None.
    """

    indices: torch.Tensor
    lengths: torch.Tensor
    weights: torch.Tensor | None

    @property
    def keys(self) -> torch.Tensor | None:
        """By what equal rows are known: the indices, where each bag has one and no weight."""
        is_plain = self.weights is None and bool((self.lengths == 1).all())
        return self.indices if is_plain else None

    def input_of(self, table: Table, device: torch.device) -> list[torch.Tensor | None]:
        """The arguments of its EmbeddingBag."""
        ends = self.lengths.cumsum(0)
        offsets = ends - self.lengths
        if table.include_last_offset:
            offsets = torch.cat([offsets.new_zeros(1), ends])
        weights = None if self.weights is None else self.weights.to(device)
        return [self.indices.to(device), offsets.to(device), weights]


def checked_bags(table: Table, given: BagInput | torch.Tensor) -> Bags:
    """Checks what is looked up in a table.

    Raises:
        InvalidArgumentError: an id is out of range, and others.
        TypeError: of another dtype.
    """
    indices, offsets, weights = given if isinstance(given, BagInput) else BagInput(given)
    where = f"feature {table.name!r}"
    for what, one in (("indices", indices), ("offsets", offsets)):
        if one is None and what == "offsets":
            continue
        if not isinstance(one, torch.Tensor) or one.dtype not in (torch.int64, torch.int32):
            kind = one.dtype if isinstance(one, torch.Tensor) else type(one).__name__
            raise TypeError(
                f"{where}: {what} are a tensor of dtype int64 or int32, not {kind}; indices with "
                "offsets are given as BagInput(indices, offsets)"
            )
    flat = indices.detach().reshape(-1).to("cpu", torch.int64)
    lengths = _lengths(table, indices, offsets, where)
    _check_range(table, flat, where)
    if weights is not None:
        weights = _checked_weights(table, indices, weights, where)
    return Bags(flat, lengths, weights)


def _lengths(
    table: Table, indices: torch.Tensor, offsets: torch.Tensor | None, where: str
) -> torch.Tensor:
    if indices.dim() == 2 and offsets is None:
        return torch.full((indices.shape[0],), indices.shape[1], dtype=torch.int64, device="cpu")
    if indices.dim() != 1 or offsets is None or offsets.dim() != 1:
        raise InvalidArgumentError(
            f"{where}: indices have the shape (n_samples, n_indices), or one dimension, with "
            f"offsets of one dimension: BagInput(indices, offsets); these have "
            f"{'no offsets' if offsets is None else 'offsets'} and the shape {list(indices.shape)}"
        )
    begins = offsets.detach().to("cpu", torch.int64)
    n = indices.new_tensor([indices.numel()], device="cpu").to(torch.int64)
    if not table.include_last_offset:
        begins = torch.cat([begins, n])
    lengths = begins.diff()
    if not begins.numel() or begins[0] != 0 or begins[-1] != n or bool((lengths < 0).any()):
        raise InvalidArgumentError(
            f"{where}: offsets begin with 0 and ascend to the number of indices, {int(n)}"
        )
    return lengths


def _check_range(table: Table, indices: torch.Tensor, where: str) -> None:
    is_wrong = (indices < 0) | (indices >= table.n_rows)
    if bool(is_wrong.any()):
        at = int(is_wrong.nonzero()[0])
        raise InvalidArgumentError(
            f"{where}: id {int(indices[at])} at place {at} is out of range: the table has "
            f"{table.n_rows} rows, 0 to {table.n_rows - 1}"
        )


def _checked_weights(
    table: Table, indices: torch.Tensor, weights: torch.Tensor, where: str
) -> torch.Tensor:
    if table.mode != "sum":
        raise InvalidArgumentError(
            f"{where}: weights are for tables of mode sum; this one has mode {table.mode}"
        )
    if not isinstance(weights, torch.Tensor) or weights.dtype != table.dtype:
        raise TypeError(f"{where}: weights are a tensor of the dtype of the table, {table.dtype}")
    if weights.shape != indices.shape:
        raise InvalidArgumentError(
            f"{where}: there are weights of shape {list(weights.shape)} for indices of shape "
            f"{list(indices.shape)}"
        )
    if weights.requires_grad and torch.is_grad_enabled():
        raise InvalidArgumentError(
            f"{where}: weights have no gradients here: give weights.detach()"
        )
    return weights.detach().reshape(-1).to("cpu")


def pack(n_samples: int, tables: Sequence[Table], bags: Sequence[Bags]) -> torch.Tensor:
    """The bytes of bags for a rank that owns the tables: ids as narrow as they go."""
    heads, parts = [n_samples], []
    for table, (indices, lengths, weights) in zip(tables, bags, strict=True):
        is_ragged = bool((lengths != lengths[:1]).any())
        length = _RAGGED if is_ragged else int(lengths[0]) if n_samples else 0
        heads += [indices.numel(), length, int(weights is not None)]
        parts.append(indices.to(_narrowest(table.n_rows)))
        if is_ragged:
            parts.append(lengths.to(_narrowest(indices.numel() + 1)))
        if weights is not None:
            parts.append(weights)
    head = torch.tensor(heads, dtype=torch.int64, device="cpu")
    return torch.cat([part.contiguous().view(torch.uint8) for part in (head, *parts)])


def unpack(frame: torch.Tensor, tables: Sequence[Table]) -> tuple[int, list[Bags]]:
    """Reads what pack() made: how many samples there are, and the bags of each table.

    Raises:
        CorruptError: the frame has another length.
    """
    at = 0

    def take(n: int, dtype: torch.dtype) -> torch.Tensor:
        nonlocal at
        part = frame[at : at + n * dtype.itemsize]
        at += n * dtype.itemsize
        if n < 0 or at > frame.numel():
            raise CorruptError(f"a frame of {frame.numel()} bytes ends before its ids")
        return part.clone().view(dtype)

    n_samples, *heads = take(1 + _HEAD * len(tables), torch.int64).tolist()
    bags = []
    for i, table in enumerate(tables):
        n, length, has_weights = heads[_HEAD * i : _HEAD * (i + 1)]
        indices = take(n, _narrowest(table.n_rows)).to(torch.int64)
        if length == _RAGGED:
            lengths = take(n_samples, _narrowest(n + 1)).to(torch.int64)
        else:
            lengths = torch.full((n_samples,), length, dtype=torch.int64, device="cpu")
        bags.append(Bags(indices, lengths, take(n, table.dtype) if has_weights else None))
    if at != frame.numel():
        raise CorruptError(f"a frame of {frame.numel()} bytes has {at} bytes of ids")
    return n_samples, bags


def joined(of_ranks: Sequence[Bags], dtype: torch.dtype) -> Bags:
    """The bags of several ranks, one after the other; weights that one does not have are 1."""
    weights = None
    if any(bags.weights is not None for bags in of_ranks):
        weights = torch.cat(
            [
                torch.ones(bags.indices.numel(), dtype=dtype, device="cpu")
                if bags.weights is None
                else bags.weights
                for bags in of_ranks
            ]
        )
    indices = torch.cat([bags.indices for bags in of_ranks])
    return Bags(indices, torch.cat([bags.lengths for bags in of_ranks]), weights)


def _narrowest(n_values: int) -> torch.dtype:
    return next(d for d in _INTEGERS if n_values - 1 <= torch.iinfo(d).max)
