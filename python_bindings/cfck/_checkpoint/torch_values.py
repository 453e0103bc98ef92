"""torch's tensors, parameters, sizes, dtypes and devices in the tree of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

from .._common.text import shown, with_article
from .._frameworks.torch_tensors import has_plain_storage
from .plain import (
    NotStorable,
    bad_skeleton,
    decode_int,
    encode_int,
    expect_list,
    expect_text,
    newer_skeleton,
    type_name,
)
from .skeleton_writer import AddTensor

# By the names that torch prints, without "torch.".
_DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype)
}
# By the names of dtypes that records do not have: the dtype of real and imaginary part.
_SPLIT_COMPLEX = {"complex128": torch.float64, "complex32": torch.float16}
_SPARSE_LAYOUTS = (
    torch.sparse_coo,
    torch.sparse_csr,
    torch.sparse_csc,
    torch.sparse_bsr,
    torch.sparse_bsc,
)
_LAYOUTS: dict[str, torch.layout] = {
    str(layout).removeprefix("torch."): layout for layout in (torch.strided, *_SPARSE_LAYOUTS)
}


_Known = TypeVar("_Known")


class TorchValues:
    """Encodes and decodes what belongs to torch."""

    kind = "torch"
    record_tags = ("tensor", "parameter", "torch.tensor")

    def __init__(self) -> None:
        self.value_tags: Mapping[str, Callable[[Any], Any]] = {
            "torch.Size": _decode_size,
            "torch.dtype": _decode_dtype,
            "torch.device": _decode_device,
            "torch.layout": _decode_layout,
            "torch.meta": _decode_meta,
        }
        self.container_tags: Mapping[str, Callable[[list[Any]], Any]] = {
            "attributes": _with_attributes,
            "torch.sparse": _sparse_tensor,
        }

    def encode(self, value: Any, add: AddTensor) -> Any | None:
        if isinstance(value, torch.Tensor):
            return _encode_tensor(value, add)
        if type(value) is torch.Size:
            return {"torch.Size": [encode_int(int(size)) for size in value]}
        if type(value) is torch.dtype:
            return {"torch.dtype": str(value).removeprefix("torch.")}
        if type(value) is torch.device:
            return {"torch.device": str(value)}
        return None

    def record_name(self, tag: str, content: Any) -> str:
        if tag == "tensor":
            return expect_text(content)
        if tag == "torch.tensor":
            name, dtype, *kind = expect_list(content, 4)
            if dtype is not None and expect_text(dtype) not in _SPLIT_COMPLEX:
                raise newer_skeleton(f"no tensor is stored as {shown(repr(dtype))}")
            _decode_class(*kind)
            return expect_text(name)
        name, requires_grad = expect_list(content, 2)
        if type(requires_grad) is not bool:
            raise bad_skeleton(f"requires_grad is {shown(repr(requires_grad))}, not a bool")
        return expect_text(name)

    def finish(self, tag: str, content: Any, tensor: Any) -> Any:
        if tag == "tensor":
            return tensor
        if tag == "torch.tensor":
            name, dtype, kind, requires_grad = content
            return _torch_tensor(name, dtype, kind, requires_grad, tensor)
        name, requires_grad = content
        if requires_grad and not (tensor.is_floating_point() or tensor.is_complex()):
            raise bad_skeleton(f"parameter `{name}` of {tensor.dtype} cannot require grad", name)
        return torch.nn.Parameter(tensor, requires_grad)


def _encode_tensor(tensor: torch.Tensor, add: AddTensor) -> Any:
    kind = type(tensor)
    if torch.nn.parameter.is_lazy(tensor):
        raise NotStorable(
            "is an uninitialised parameter or buffer of a lazy module: it has no shape and no "
            "values yet; run the model once on an input before you save it"
        )
    # Others without memory of their own are refused where tensors are prepared, with advice.
    if kind not in (torch.Tensor, torch.nn.Parameter) and has_plain_storage(tensor):
        raise NotStorable(
            f"is {with_article(type_name(tensor))}, whose type would be lost; "
            "store x.as_subclass(torch.Tensor)"
        )
    if kind is torch.nn.Parameter:
        return {"parameter": [add(tensor), tensor.requires_grad]}
    return {"tensor": add(tensor)}


def _decode_class(kind: Any, requires_grad: Any) -> tuple[bool, bool]:
    """Whether a tensor is a parameter, and whether it requires a gradient."""
    if kind not in ("tensor", "parameter") or type(requires_grad) is not bool:
        raise bad_skeleton(f"{shown(repr((kind, requires_grad)))} says no class of a tensor")
    return kind == "parameter", requires_grad


def _torch_tensor(
    name: str, dtype: str | None, kind: str, requires_grad: bool, tensor: torch.Tensor
) -> torch.Tensor:
    if dtype is not None:
        if tensor.dtype is not _SPLIT_COMPLEX[dtype] or tensor.shape[-1:] != (2,):
            raise bad_skeleton(
                f"record `{name}` of {tensor.dtype} and shape {list(tensor.shape)} does not have "
                f"the parts of {dtype}",
                name,
            )
        try:
            tensor = torch.view_as_complex(tensor)
        except RuntimeError as error:  # a view of another record, between its pairs
            raise bad_skeleton(f"record `{name}`: {_first_line(error)}", name) from None
    return _as_class(tensor, kind == "parameter", requires_grad)


def _as_class(tensor: torch.Tensor, is_parameter: bool, requires_grad: bool) -> torch.Tensor:
    if requires_grad and not (tensor.is_floating_point() or tensor.is_complex()):
        raise bad_skeleton(f"a tensor of {tensor.dtype} cannot require a gradient")
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _decode_layout(content: Any) -> torch.layout:
    return _known("layout", _LAYOUTS, content)


def _decode_meta(content: Any) -> torch.Tensor:
    name, shape, strides, *kind = expect_list(content, 5)
    is_parameter, requires_grad = _decode_class(*kind)
    dtype = _decode_dtype(name)
    sizes = [[decode_int(size) for size in expect_list(part)] for part in (shape, strides)]
    in_range = all(0 <= size < 1 << 63 for part in sizes for size in part)
    if not in_range or len(sizes[0]) != len(sizes[1]):
        raise bad_skeleton("a tensor without values has no valid shape")
    try:
        tensor = torch.empty_strided(*sizes, dtype=dtype, device="meta")
    except RuntimeError as error:
        raise bad_skeleton(f"a tensor without values: {_first_line(error)}") from None
    return _as_class(tensor, is_parameter, requires_grad)


def _with_attributes(parts: list[Any]) -> Any:
    tensor, attributes = parts
    if not all(type(name) is str for name in attributes):
        raise bad_skeleton("an attribute of a tensor has a name that is no string")
    if tensor is None:
        return None
    if not isinstance(tensor, torch.Tensor):
        raise bad_skeleton("something that is no tensor has attributes")
    # Not setattr(), which calls code of torch for some names.
    vars(tensor).update(attributes)
    return tensor


def _sparse_tensor(parts: list[Any]) -> Any:
    layout = parts[0] if parts else None
    is_coo = layout is torch.sparse_coo
    n_tensors = 2 if is_coo else 3
    kinds: list[Any] = [torch.layout, *[torch.Tensor | None] * n_tensors, torch.Size]
    kinds += [bool] if is_coo and len(parts) == n_tensors + 3 else []
    matches = len(parts) == len(kinds) and all(map(isinstance, parts, kinds))
    if not matches or layout not in _SPARSE_LAYOUTS:
        raise bad_skeleton("a sparse tensor does not have the parts of one")
    tensors = parts[1 : n_tensors + 1]
    if any(tensor is None for tensor in tensors):
        return None
    size = parts[n_tensors + 1]
    try:
        if not is_coo:
            return torch.sparse_compressed_tensor(  # type: ignore[call-arg]
                *tensors, size, layout=layout, check_invariants=True
            )
        is_coalesced = parts[4] if len(parts) == 5 else None
        return torch.sparse_coo_tensor(  # type: ignore[call-arg]
            *tensors, size, check_invariants=True, is_coalesced=is_coalesced
        )
    except (RuntimeError, ValueError) as error:
        raise bad_skeleton(f"a sparse tensor has bad parts: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return shown(str(error).partition("\n")[0])


def _decode_size(content: Any) -> torch.Size:
    sizes = [decode_int(size) for size in expect_list(content)]
    if any(not -(1 << 63) <= size < 1 << 63 for size in sizes):
        raise bad_skeleton("a torch.Size is out of range")
    return torch.Size(sizes)


def _decode_dtype(content: Any) -> torch.dtype:
    return _known("dtype", _DTYPES, content)


def _known(what: str, table: Mapping[str, _Known], content: Any) -> _Known:
    name = expect_text(content)
    if name not in table:
        raise newer_skeleton(f"torch {torch.__version__} has no {what} {shown(name)}")
    return table[name]


def _decode_device(content: Any) -> torch.device:
    name = expect_text(content)
    try:
        device = torch.device(name)
    except (RuntimeError, ValueError) as error:
        raise bad_skeleton(f"{shown(name)} is not a device: {_first_line(error)}") from None
    if str(device) != name:  # torch lets numbers that are too large wrap around
        raise bad_skeleton(f"{shown(name)} is not a device: its number is out of range")
    return device
