"""What the rest of the package needs of numpy and of torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from .errors import InvalidArgumentError, UnsupportedError

Progress = Callable[[int, int, str], object]

# name, dtype, shape, strides in elements, address of the first element
HostTensor = tuple[str, str, Sequence[int], Sequence[int], int]
# name, dtype, shape, read(offset_bytes, address, n_bytes)
DeviceTensor = tuple[str, str, Sequence[int], Callable[[int, int, int], None]]


@dataclasses.dataclass
class Prepared:
    """Tensors as the native writer takes them. ``owners`` keeps their memory alive."""

    units: list[list[HostTensor] | DeviceTensor] = dataclasses.field(default_factory=list)
    owners: list[Any] = dataclasses.field(default_factory=list)
    total_bytes: int = 0

    def names(self) -> list[str]:
        """Names of the tensors, in the order of the file."""
        return [
            tensor[0]
            for unit in self.units
            for tensor in (unit if isinstance(unit, list) else [unit])
        ]


class Framework(Protocol):
    """Tensors of one library. ``dtype`` is a name of safetensors; shapes count elements."""

    def prepare(self, tensors: Mapping[str, Any]) -> Prepared:
        """Describes tensors for writing, in order."""

    def on_host(self, prepared: Prepared) -> list[HostTensor]:
        """The same tensors, all of them in host memory."""

    def allocate(self, dtype: str, shape: Sequence[int]) -> tuple[Any, int, int]:
        """Uninitialised host memory for a tensor: what owns it, its address, its bytes."""

    def finish(self, memory: Any, dtype: str, shape: Sequence[int]) -> Any:
        """The tensor in memory that was allocated and filled."""

    def view(
        self, base: Any, dtype: str, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> Any | None:
        """A tensor that shares memory with ``base``; None where that cannot be expressed."""

    def to_device(self, tensor: Any, device: Any) -> Any: ...

    def check_device(self, device: Any) -> Any:
        """The device in the framework's own terms; None for host memory. Error: DeviceError."""

    def reach_device(self, device: Any) -> None:
        """Raises DeviceError if nothing can be put on a device, before anything is decoded."""

    def target(self, out: Any, dtype: str, shape: Sequence[int], name: str) -> int | None:
        """Address where ``out`` takes the tensor in place; None if it must be copied."""

    def copy(self, out: Any, tensor: Any) -> None:
        """Copies ``tensor`` into ``out``, on whatever device it is."""


def named_tensors(
    tensors: Any, kind: type | tuple[type, ...], kind_name: str
) -> Iterator[tuple[str, Any]]:
    """Checks what a caller wants to save, and yields it in order."""
    if not isinstance(tensors, Mapping):
        raise InvalidArgumentError(
            f"Expected a dict of [str, {kind_name}] but received {type(tensors)}"
        )
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"names of tensors are str, not {type(name).__name__}: {name!r}")
        if not isinstance(tensor, kind):
            raise InvalidArgumentError(
                f"Key `{name}` is invalid, expected {kind_name} but received {type(tensor)}",
                record=name,
            )
        yield check_utf8(name), tensor


def check_utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{text!r} is not valid Unicode: {error.reason}") from None
    return text


def check_metadata(metadata: Any) -> dict[str, str]:
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata is a dict of str to str, not {type(metadata).__name__}")
    for key, value in metadata.items():
        for text in (key, value):
            if not isinstance(text, str):
                raise TypeError(
                    f"metadata is a dict of str to str; {text!r} is {type(text).__name__}"
                )
            check_utf8(text)
    return dict(metadata)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a contiguous tensor."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(1, shape[axis + 1])
    return tuple(strides)


def find_framework(name: str) -> Framework:
    """The framework a caller names, imported when first asked for."""
    if name in ("np", "numpy"):
        from ._arrays import NumpyFramework

        return NumpyFramework()
    if name in ("pt", "torch", "pytorch"):
        from ._tensors import TorchFramework

        return TorchFramework()
    raise InvalidArgumentError(f"framework {name} is invalid; it may be pt or numpy")


def framework_of(tensor: Any) -> Framework:
    """The framework to which ``tensor`` belongs. Imports nothing."""
    modules = {base.__module__.partition(".")[0] for base in type(tensor).__mro__}
    for name in ("torch", "numpy"):
        if name in modules:
            return find_framework(name)
    raise InvalidArgumentError(
        f"expected a torch.Tensor or a numpy.ndarray but received {type(tensor)}"
    )


def unsupported(name: str, what: str, instead: str) -> UnsupportedError:
    return UnsupportedError(f"tensor `{name}` {what}; {instead}", record=name)
