"""The parameters of a model whose values are in a file."""

from __future__ import annotations

import weakref
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

    Operations see decoded values, and embeddings decode the rows that they look up. Once an
    operation has changed the values, they are in memory, and this stands for them.
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

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.nn.Parameter:
        if (own := self.weight.own()) is not None:
            return deepcopy(own, memo)
        return placeholder_of(deepcopy(self.weight, memo))

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
            if (special := _SPECIAL.get(func)) is not None:
                return special(*args, **(kwargs or {}))
            if func not in _WITH_VIEWS and getattr(func, "__name__", "") in _WITHOUT_VALUES:
                return func(*args, **(kwargs or {}))
            return _with_values(func, args, dict(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        # Operations that come from PyTorch itself, with no function of Python in between. They do
        # not count versions.
        return _with_values(func, args, dict(kwargs or {}), func._schema.is_mutable)


def placeholder_of(weight: Weight) -> Placeholder:
    """The parameter that stands for a weight in all modules that have it."""
    found = None if weight.placeholder is None else weight.placeholder()
    if not isinstance(found, Placeholder) or (found.dtype, found.device) != (
        weight.dtype,
        weight.device,
    ):
        found = Placeholder(weight)
        weight.placeholder = weakref.ref(found)
    return found


@outside_graphs
def _with_values(
    func: Callable[..., Any], args: Any, kwargs: dict[str, Any], are_changed: bool = False
) -> Any:
    """Calls a function with the values; what it writes into them counts."""
    weights: list[Weight] = []
    args, kwargs = _decoded((args, kwargs), weights)
    try:
        return func(*args, **kwargs)
    finally:
        for weight in weights:
            weight.own(are_changed)


def _decoded(arguments: Any, weights: list[Weight] | None = None) -> Any:
    """Arguments with values in place of placeholders, whose weights are added to the list."""

    def values(found: Placeholder) -> torch.Tensor:
        if weights is not None:
            weights.append(found.weight)
        return found.weight.supply.use(found.weight)

    return tree_map_only(Placeholder, values, arguments)


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


def _require_grad(placeholder: Placeholder, requires_grad: bool = True) -> Placeholder:
    if (own := placeholder.weight.own()) is not None:
        own.requires_grad_(requires_grad)
    elif requires_grad:
        raise UnsupportedError(
            f"parameter `{placeholder.weight.name}` is compressed and cannot have gradients; load "
            "the model with load_model to train it",
            record=placeholder.weight.name,
        )
    return placeholder


def _address(placeholder: Placeholder) -> int:
    """Where the values are in memory, or 0: libraries look for ties by it."""
    held = placeholder.weight.supply.held(placeholder.weight)
    return 0 if held is None else held.data_ptr()


def _set_data(placeholder: Placeholder, values: torch.Tensor) -> None:
    placeholder.weight.become(values)


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
        and weight.weight.own() is None
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
    torch.Tensor.detach: _values,
    torch.Tensor.data_ptr: _address,
    _TENSOR.data.__get__: lambda placeholder, *_: _values(placeholder),
    _TENSOR.data.__set__: _set_data,
    torch.Tensor.requires_grad_: _require_grad,
    _TENSOR.requires_grad.__set__: _require_grad,
}
# Functions whose answer follows from the placeholder alone, without values.
_WITHOUT_VALUES = frozenset(
    """__get__ __set__ __delete__ __hash__ __len__ size stride dim ndimension numel nelement
    element_size storage_offset is_contiguous is_floating_point is_complex is_signed is_conj is_neg
    is_inference is_shared get_device untyped_storage has_names register_hook
    register_post_accumulate_grad_hook retain_grad result_type""".split()
)
_WITH_VIEWS = frozenset(
    getattr(_TENSOR, name).__get__ for name in ("T", "mT", "H", "mH", "real", "imag")
)
