"""torch's tensors, parameters, sizes, dtypes and devices in the tree of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from .._common.text import shown
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


class TorchValues:
    """Encodes and decodes what belongs to torch."""

    kind = "torch"
    record_tags = ("tensor", "parameter")

    def __init__(self) -> None:
        self.value_tags: Mapping[str, Callable[[Any], Any]] = {
            "torch.Size": _decode_size,
            "torch.dtype": _decode_dtype,
            "torch.device": _decode_device,
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
        name, requires_grad = expect_list(content, 2)
        if type(requires_grad) is not bool:
            raise bad_skeleton(f"requires_grad is {shown(repr(requires_grad))}, not a bool")
        return expect_text(name)

    def finish(self, tag: str, content: Any, tensor: Any) -> Any:
        if tag == "tensor":
            return tensor
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
            f"is a {type_name(tensor)}, whose type would be lost; store x.as_subclass(torch.Tensor)"
        )
    if kind is torch.nn.Parameter:
        return {"parameter": [add(tensor), tensor.requires_grad]}
    return {"tensor": add(tensor)}


def _decode_size(content: Any) -> torch.Size:
    sizes = [decode_int(size) for size in expect_list(content)]
    if any(not -(1 << 63) <= size < 1 << 63 for size in sizes):
        raise bad_skeleton("a torch.Size is out of range")
    return torch.Size(sizes)


def _decode_dtype(content: Any) -> torch.dtype:
    name = expect_text(content)
    if name not in _DTYPES:
        raise newer_skeleton(f"torch {torch.__version__} has no dtype {shown(name)}")
    return _DTYPES[name]


def _decode_device(content: Any) -> torch.device:
    name = expect_text(content)
    try:
        device = torch.device(name)
    except (RuntimeError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        raise bad_skeleton(f"{shown(name)} is not a device: {shown(first_line)}") from None
    if str(device) != name:  # torch lets numbers that are too large wrap around
        raise bad_skeleton(f"{shown(name)} is not a device: its number is out of range")
    return device
