"""torch tensors. torch is reached through Python alone: any version of it will do."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .. import _native
from .._common.problems import Problems
from .._common.text import with_article
from ..errors import (
    CfckError,
    DeviceError,
    InvalidArgumentError,
    OutOfMemoryError,
    UnsupportedError,
)
from .framework import DeviceTensor, HostTensor, Prepared, named_tensors, row_major, unsupported
from .torch_memory import (
    byte_range,
    families_of,
    is_host,
    may_be_given,
    memory_on_cuda,
    moved_to_host,
)

_TYPE_NAMES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "C64": "complex64",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F4": "float4_e2m1fn_x2",  # two elements in each
}
_DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, type_name)
    for name, type_name in _TYPE_NAMES.items()
    if hasattr(torch, type_name)
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

# From this size on memory is asked for in huge pages, as numpy does.
_HUGE_PAGE_BYTES = 4 << 20


def dtype_of(name: str) -> torch.dtype:
    """The torch dtype for a dtype of a file."""
    try:
        return _DTYPES[name]
    except KeyError:
        raise UnsupportedError(
            f"torch {torch.__version__} has no dtype for {name}; cfck.numpy can load it"
        ) from None


def torch_shape(dtype: str, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of the torch tensor: for F4, torch counts pairs of elements."""
    if dtype != "F4":
        return tuple(shape)
    if not shape or shape[-1] % 2:
        raise UnsupportedError(
            f"torch cannot hold F4 of shape {list(shape)}: its last dimension is odd"
        )
    return (*shape[:-1], shape[-1] // 2)


class TorchFramework:
    """Framework of torch.Tensor."""

    def prepare(self, tensors: Mapping[str, torch.Tensor]) -> Prepared:
        prepared = Prepared()
        storable: list[tuple[str, torch.Tensor]] = []
        problems = Problems()
        for name, tensor in named_tensors(tensors, torch.Tensor, "torch.Tensor", problems):
            try:
                with torch._C.DisableTorchFunctionSubclass():
                    storable.append((name, _storable(name, tensor)))
            except CfckError as error:
                problems.add(error)
        problems.check()
        prepared.total_bytes = sum(t.nbytes for _, t in storable)
        families = [] if all(is_host(t) for _, t in storable) else list(families_of(storable))
        moved = moved_to_host(families)
        prepared.on_cuda = memory_on_cuda(families, moved)
        latest: dict[str, torch.Tensor] = {}
        unit: list[HostTensor | DeviceTensor] = []
        for name, tensor in storable:
            if name in moved or is_host(tensor):
                unit.append(_host_tensor(prepared, name, moved.get(name, tensor)))
            else:
                prepared.owners.append(tensor)
                unit.append(_device_tensor(name, tensor, latest))
        prepared.units.append(unit)
        return prepared

    def on_host(self, prepared: Prepared) -> list[HostTensor]:
        tensors: list[HostTensor] = []
        for tensor in (tensor for unit in prepared.units for tensor in unit):
            if len(tensor) == 5:
                tensors.append(tensor)
                continue
            name, dtype, shape, read, *_ = tensor
            memory, address, n_bytes = self.allocate(dtype, shape)
            read(0, address, n_bytes)
            prepared.owners.append(memory)
            tensors.append((name, dtype, shape, row_major(shape), address))
        return tensors

    def contiguous(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().clone(memory_format=torch.contiguous_format)

    def allocate(self, dtype: str, shape: Sequence[int]) -> tuple[torch.Tensor, int, int]:
        try:
            # device: a default device of the caller must not count.
            memory = torch.empty(torch_shape(dtype, shape), dtype=dtype_of(dtype), device="cpu")
        except RuntimeError as error:
            if "allocate memory" not in str(error):
                raise
            raise OutOfMemoryError(f"no memory for a tensor of shape {list(shape)}") from error
        if isinstance(memory, FakeTensor):
            raise UnsupportedError("tensors cannot be loaded inside FakeTensorMode")
        address, n_bytes = memory.data_ptr(), memory.numel() * memory.element_size()
        if n_bytes >= _HUGE_PAGE_BYTES:
            _native.advise_huge_pages(address, n_bytes)
        return memory, address, n_bytes

    def finish(self, memory: torch.Tensor, dtype: str, shape: Sequence[int]) -> torch.Tensor:
        return memory

    def view(
        self,
        base: torch.Tensor,
        dtype: str,
        shape: Sequence[int],
        strides: Sequence[int],
        offset: int,
    ) -> torch.Tensor | None:
        if dtype == "F4":
            in_pairs = strides[-1] == 1 and not any(step % 2 for step in (*strides[:-1], offset))
            if not in_pairs or shape[-1] % 2:
                return None
            strides, offset = [*(step // 2 for step in strides[:-1]), 1], offset // 2
        return base.as_strided(torch_shape(dtype, shape), strides, offset)

    def check_device(self, device: object) -> torch.device | None:
        if device is None:
            return None
        is_known = isinstance(device, str | torch.device) or (
            isinstance(device, int) and not isinstance(device, bool) and device >= 0
        )
        if not is_known:
            raise DeviceError(f"device {device!r} is invalid; it may be a str, an int or None")
        try:
            checked = torch.device(cast(Any, device))
        except RuntimeError as error:
            raise DeviceError(f"device {device} is invalid: {error}") from None
        return None if checked.type == "cpu" else checked

    def reach_device(self, device: torch.device) -> None:
        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).strip().split("\n", 1)[0]  # the rest is of PyTorch's own tables
            raise DeviceError(f"device {device} cannot be used: {reason}") from error

    def to_device(self, tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        return tensor.to(device)

    def target(
        self, out: object, dtype: str, shape: Sequence[int], name: str, called: str = "out"
    ) -> int | None:
        if not isinstance(out, torch.Tensor):
            raise InvalidArgumentError(
                f"{called} must be a torch.Tensor, not {type(out).__name__}", record=name
            )
        expected = torch_shape(dtype, shape)
        if out.dtype != dtype_of(dtype) or tuple(out.shape) != expected:
            raise InvalidArgumentError(
                f"{called} is {out.dtype}{list(out.shape)}, but tensor `{name}` is "
                f"{dtype_of(dtype)}{list(expected)}",
                record=name,
            )
        if out.is_meta or isinstance(out, FakeTensor):
            raise InvalidArgumentError(
                f"{called} has no memory: it is on the device meta", record=name
            )
        return out.data_ptr() if takes_in_place(out) else None

    def wrote(self, out: torch.Tensor) -> None:
        if not out.is_inference():
            torch.autograd.graph.increment_version(out)

    def describe(self, tensor: torch.Tensor) -> tuple[str, Sequence[int]]:
        is_meta = isinstance(tensor, torch.Tensor) and tensor.is_meta and tensor.dtype in _NAMES
        if not isinstance(tensor, torch.Tensor):
            self.prepare({"": tensor})  # raises
        if not is_meta or tensor.layout != torch.strided:
            with torch._C.DisableTorchFunctionSubclass():
                _storable("", tensor)
        return _file_shape(tensor)

    def device_of(self, out: torch.Tensor) -> torch.device | None:
        return device_of(out)

    def address(self, out: torch.Tensor) -> int:
        return out.data_ptr()

    def copy(self, out: torch.Tensor, tensor: torch.Tensor) -> None:
        # Tensors that were made in inference mode can be written to in that alone.
        with torch.inference_mode() if out.is_inference() else torch.no_grad():
            out.copy_(tensor)

    def has_bits_of(self, out: torch.Tensor, tensor: torch.Tensor) -> bool:
        found = out.detach().resolve_conj().resolve_neg().to("cpu")
        return _have_same_bits(found, tensor.detach())

    def steps(self, tensor: torch.Tensor) -> Sequence[int]:
        return tensor.stride()

    def span(self, tensor: torch.Tensor) -> tuple[str, int, int]:
        start, stop = byte_range(tensor)
        return str(tensor.device), tensor.data_ptr(), tensor.data_ptr() + stop - start

    def overwritten(
        self, outs: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]
    ) -> int | None:
        if len({(out.data_ptr(), out.dtype, out.shape, out.stride()) for out in outs}) == 1:
            differ = (n for n, t in enumerate(tensors) if not _have_same_bits(t, tensors[-1]))
            return next(differ, None)
        spans = [self.span(out) for out in outs]
        # Rounded down, so that tensors of any dtype stay aligned.
        first = min(start for _, start, _ in spans) // 16 * 16
        n_bytes = max(stop for _, _, stop in spans) - first
        memory = torch.empty(n_bytes, dtype=torch.uint8, device="cpu").untyped_storage()
        views = []
        for number, (out, (_, start, _)) in enumerate(zip(outs, spans, strict=True)):
            size = out.element_size()
            if (start - first) % size or out.is_conj() or out.is_neg():
                return number
            view = torch.empty(0, dtype=out.dtype, device="cpu")
            views.append(view.set_(memory, (start - first) // size, out.shape, out.stride()))
        for view, tensor in zip(views, tensors, strict=True):
            _bits(view).copy_(_bits(tensor))
        for number, (view, tensor) in enumerate(zip(views, tensors, strict=True)):
            if not _have_same_bits(view, tensor):
                return number
        return None


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as integers, which are compared by their bits."""
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.view(integers[tensor.element_size()])


def _have_same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(_bits(one), _bits(other))


def device_of(tensor: torch.Tensor) -> torch.device | None:
    """The device that the tensor is on; None: the host."""
    return None if is_host(tensor) else tensor.device


def has_plain_storage(tensor: torch.Tensor) -> bool:
    """False for subclasses whose values are elsewhere (DTensor, quantised weights, fakes)."""
    dispatch = type(tensor).__torch_dispatch__
    own_storage = dispatch in (
        torch.Tensor.__torch_dispatch__,
        torch._C._disabled_torch_dispatch_impl,
    )
    return own_storage and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def takes_in_place(tensor: torch.Tensor) -> bool:
    """Whether values can be decoded straight into this tensor."""
    return (
        has_plain_storage(tensor)
        and tensor.layout == torch.strided
        and is_host(tensor)
        and tensor.is_contiguous()
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def _storable(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """``tensor`` without what a file cannot hold, or an error that says what to do."""
    if isinstance(tensor, FakeTensor) or tensor.is_meta:
        what = "has no data (torch: Cannot copy out of meta tensor)"
        raise unsupported(name, what, "save a materialised model")
    if torch.nn.parameter.is_lazy(tensor):
        raise unsupported(
            name,
            "is an uninitialised parameter or buffer of a lazy module: it has no shape and no "
            "values yet",
            "run the model once on an input before you save it",
        )
    if tensor.is_nested:
        raise unsupported(name, "is nested", "save the tensors that unbind() returns")
    if tensor.layout != torch.strided:
        raise InvalidArgumentError(
            f"tensor `{name}` is sparse ({tensor.layout}) and cannot be stored; "
            "save its dense form, .to_dense(), or its indices and values separately",
            record=name,
        )
    if tensor.is_quantized:
        raise unsupported(name, f"is quantised ({tensor.dtype})", "save int_repr() and its scales")
    if not has_plain_storage(tensor):
        raise unsupported(
            name,
            f"is {with_article(type(tensor).__name__)}, whose values are not in its own memory",
            "save the plain tensors it is made of, or a plain copy (full_tensor(), dequantize())",
        )
    if tensor.dtype not in _NAMES:
        raise unsupported(
            name,
            f"has dtype {tensor.dtype}, which cannot be stored",
            "convert it, for complex128 with torch.view_as_real",
        )
    if tensor.requires_grad or type(tensor) is not torch.Tensor:
        tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.numel() and tensor.untyped_storage().nbytes() == 0:
        raise unsupported(name, "has no memory", "gather it first (FSDP frees sharded weights)")
    return tensor


def _file_shape(tensor: torch.Tensor) -> tuple[str, tuple[int, ...]]:
    dtype = _NAMES[tensor.dtype]
    shape = tuple(tensor.shape)
    if dtype == "F4":
        shape = (*shape[:-1], 2 * shape[-1]) if shape else (2,)
    return dtype, shape


def _host_tensor(prepared: Prepared, name: str, tensor: torch.Tensor) -> HostTensor:
    dtype, shape = _file_shape(tensor)
    if dtype == "F4" and not (tensor.dim() and tensor.stride(-1) == 1):
        tensor = tensor.view(torch.uint8).contiguous().view(tensor.dtype)
    strides = tuple(tensor.stride())
    if tensor.numel() == 0:
        strides = row_major(shape)
    elif dtype == "F4":
        strides = (*(2 * step for step in strides[:-1]), 1) if strides else (1,)
    prepared.owners.append(tensor)
    return name, dtype, shape, strides, tensor.data_ptr()


def _device_tensor(
    name: str, tensor: torch.Tensor, latest: dict[str, torch.Tensor]
) -> DeviceTensor:
    """A tensor that is copied to the host range by range, unless a device encodes it.

    ``latest`` holds one contiguous tensor, so that the device needs memory for one copy only.
    """
    dtype, shape = _file_shape(tensor)

    def read(offset_bytes: int, address: int, n_bytes: int) -> None:
        if n_bytes == 0:
            return  # torch makes no tensor of an empty buffer
        flat = latest.get(name)
        if flat is None:
            same = tensor.view(torch.uint8) if dtype == "F4" else tensor
            flat = same.contiguous().reshape(-1).view(torch.uint8)
            latest.clear()
            latest[name] = flat
        host = torch.frombuffer((ctypes.c_ubyte * n_bytes).from_address(address), dtype=torch.uint8)
        host.copy_(flat[offset_bytes : offset_bytes + n_bytes])

    is_given = tensor.device.type == "cuda" and may_be_given(tensor)
    cuda = (tensor.device.index or 0, tensor.nbytes) if is_given else None
    return name, dtype, shape, read, tensor.data_ptr(), cuda
