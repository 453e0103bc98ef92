"""The parameters of a model whose values are in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any, cast

import numpy as np
import torch
from torch.nn import functional
from torch.utils._pytree import tree_map_only

from ..errors import UnsupportedError
from .graphs import outside_graphs
from .weight import Weight


class Placeholder(torch.nn.Parameter):
    """A parameter without memory: shape, dtype and device are known, and uses of it decode it.

    Operations see decoded values, embeddings decode the rows that they look up, and operations
    that would change the values raise UnsupportedError.
    """

    weight: Weight

    @staticmethod
    def __new__(cls, weight: Weight) -> Placeholder:
        wrap = cast(Any, torch.Tensor)._make_wrapper_subclass
        made: Placeholder = wrap(
            cls, weight.shape, dtype=weight.dtype, device=weight.device, requires_grad=False
        )
        made.weight = weight
        return made

    def __init__(self, weight: Weight) -> None:
        pass

    def __deepcopy__(self, memo: dict[int, Any]) -> Placeholder:
        return deepcopy(self.weight, memo).placeholder()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise UnsupportedError(
            f"parameter `{self.weight.name}` is compressed and cannot be pickled; save "
            "model.state_dict(), which has its values"
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return (
            f"Placeholder({self.weight.name!r}, shape={list(self.shape)}, dtype={self.dtype}, "
            f"device={str(self.device)!r})"
        )

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            special = _SPECIAL.get(func)
            return (func if special is None else special)(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        _check_unchanged(func, args, kwargs or {})
        args, kwargs = _decoded((args, dict(kwargs or {})))
        return func(*args, **kwargs)


def _decoded(arguments: Any) -> Any:
    """Arguments with values in place of placeholders."""
    return tree_map_only(
        Placeholder, lambda found: found.weight.supply.use(found.weight), arguments
    )


def _check_unchanged(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raises UnsupportedError for an operation that writes into a placeholder."""
    if not func._schema.is_mutable:
        return
    for position, argument in enumerate(func._schema.arguments):
        given = args[position] if position < len(args) else kwargs.get(argument.name)
        if argument.alias_info is not None and argument.alias_info.is_write:
            for one in given if isinstance(given, list | tuple) else [given]:
                if isinstance(one, Placeholder):
                    raise _no_change(one, f"{func._schema.name} would write into it")


def _no_change(placeholder: Placeholder, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"parameter `{placeholder.weight.name}` is compressed and cannot change ({why}); load the "
        "model with load_model to train or change it",
        record=placeholder.weight.name,
    )


def refuse_streamed_models(model: torch.nn.Module) -> None:
    """Raises UnsupportedError for models that run from a file: nothing can be loaded into them."""
    for name, parameter in model.named_parameters():
        if isinstance(parameter, Placeholder):
            raise UnsupportedError(
                f"the {type(model).__name__} runs from a file (compressed), and its weights cannot "
                f"change: load the other file into a model of its own (parameter `{name}`)",
                record=name,
            )


def _values(placeholder: Placeholder) -> torch.Tensor:
    """The values, for state_dict(): tied weights give one tensor."""
    return placeholder.weight.supply.whole(placeholder.weight)


@outside_graphs
def _linear(*args: Any, **kwargs: Any) -> Any:
    # The operations that it is made of might round in another way.
    args, kwargs = _decoded((args, kwargs))
    return functional.linear(*args, **kwargs)


def _require_grad(placeholder: Placeholder, requires_grad: bool = True) -> Placeholder:
    if requires_grad:
        raise _no_change(placeholder, "it has no gradient")
    return placeholder


def _set_data(placeholder: Placeholder, values: torch.Tensor) -> None:
    raise _no_change(placeholder, "its data would be others")


@outside_graphs
def _embedding(
    input: torch.Tensor,
    weight: torch.Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    *rest: Any,
    **others: Any,
) -> torch.Tensor:
    if max_norm is not None or not _by_rows(input, weight):
        weight = _decoded(weight)
        return functional.embedding(input, weight, padding_idx, max_norm, *rest, **others)
    ids = _row_numbers(input, cast(Placeholder, weight))
    rows = _read(ids, cast(Placeholder, weight).weight)
    return rows.reshape(*input.shape, rows.shape[-1])


@outside_graphs
def _embedding_bag(
    input: torch.Tensor,
    weight: torch.Tensor,
    offsets: torch.Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> torch.Tensor:
    if max_norm is not None or not _by_rows(input, weight):
        table = _decoded(weight)
    else:
        placeholder = cast(Placeholder, weight)
        ids, input, padding_idx = _renumbered(input, placeholder, padding_idx)
        table = _read(ids, placeholder.weight)
    return functional.embedding_bag(
        input,
        table,
        offsets,
        max_norm,
        norm_type,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )


def _renumbered(
    input: torch.Tensor, placeholder: Placeholder, padding_idx: int | None
) -> tuple[Any, torch.Tensor, int | None]:
    """The rows that are wanted, each once, and the input and the padding as places among them."""
    wanted = _row_numbers(input, placeholder)
    if padding_idx is not None:
        # Also where nobody asks for it: sums with padding are rounded in another way.
        wanted = np.append(wanted, padding_idx % placeholder.shape[0])
    ids, places = np.unique(wanted, return_inverse=True)
    if padding_idx is not None:
        padding_idx, places = int(places[-1]), places[:-1]
    moved = torch.from_numpy(places).to(input.device, input.dtype).reshape(input.shape)
    return ids, moved, padding_idx


def _by_rows(input: Any, weight: Any) -> bool:
    """Whether rows can be looked up one by one."""
    return (
        isinstance(weight, Placeholder)
        and weight.dim() == 2
        and type(input) in (torch.Tensor, torch.nn.Parameter)
        and not input.is_meta
        and not torch._C._functorch.is_functorch_wrapped_tensor(input)
    )


def _row_numbers(input: torch.Tensor, placeholder: Placeholder) -> Any:
    """The numbers of the rows, checked."""
    if input.dtype not in (torch.int32, torch.int64):
        raise RuntimeError(
            f"indices of an embedding are int32 or int64 tensors, and not {input.dtype}"
        )
    ids = input.detach().to("cpu", torch.int64).reshape(-1).numpy()
    if len(ids) and not 0 <= ids.min() <= ids.max() < placeholder.shape[0]:
        raise IndexError("index out of range in self")
    return ids


def _read(ids: Any, weight: Weight) -> torch.Tensor:
    with torch.inference_mode(False), torch.no_grad():
        return weight.cast(weight.rows().read(ids)).to(weight.device)


_TENSOR = cast(Any, torch.Tensor)
_SPECIAL: dict[Callable[..., Any], Callable[..., Any]] = {
    functional.embedding: _embedding,
    functional.embedding_bag: _embedding_bag,
    functional.linear: _linear,
    torch.Tensor.detach: _values,
    _TENSOR.data.__get__: lambda placeholder, *_: _values(placeholder),
    _TENSOR.data.__set__: _set_data,
    torch.Tensor.requires_grad_: _require_grad,
    _TENSOR.requires_grad.__set__: _require_grad,
}
