"""The rest of the package sees numpy and torch through the protocol Framework."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from .._common.checks import check_utf8
from .._common.problems import Problems
from ..errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    import torch

# name, dtype, shape, strides in elements, address of the first element
HostTensor = tuple[str, str, Sequence[int], Sequence[int], int]
# name, dtype, shape, read(offset_bytes, address, n_bytes), address of the first element on its
# device; number of the CUDA device and bytes there of a contiguous tensor in its memory
DeviceTensor = tuple[
    str, str, Sequence[int], Callable[[int, int, int], None], int, tuple[int, int] | None
]


class AnyTensor(Protocol):
    """A torch.Tensor or a numpy.ndarray, for signatures of modules that import neither."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> object: ...


TensorT = TypeVar("TensorT", bound=AnyTensor)


@dataclasses.dataclass(frozen=True)
class CudaMemory:
    """Memory of a CUDA device with the values of a tensor, or of several that share it.

    Attributes:
        device: its number.
        name: of the tensor, or of the first.
        n_bytes: of the values.
        is_given: the native writer gets the memory, and otherwise copies of it.
    """

    device: int
    name: str
    n_bytes: int
    is_given: bool


@dataclasses.dataclass
class Prepared:
    """Tensors as the native writer takes them: those of a unit may share memory. ``owners`` keeps
    their memory alive; ``on_cuda`` says what of it is on CUDA devices."""

    units: list[list[HostTensor | DeviceTensor]] = dataclasses.field(default_factory=list)
    owners: list[object] = dataclasses.field(default_factory=list)
    total_bytes: int = 0
    on_cuda: list[CudaMemory] = dataclasses.field(default_factory=list)

    def names(self) -> list[str]:
        """Names of the tensors, in the order of the file."""
        return [tensor[0] for unit in self.units for tensor in unit]


class Framework(Protocol[TensorT]):
    """Tensors of one library. ``dtype`` is a name of safetensors; shapes count elements."""

    def prepare(self, tensors: Mapping[str, TensorT]) -> Prepared:
        """Describes tensors for writing, in order."""

    def on_host(self, prepared: Prepared) -> list[HostTensor]:
        """Describes prepared tensors again, all of them in host memory."""

    def contiguous(self, tensor: TensorT) -> TensorT:
        """A copy in row-major order without gaps. Requires: prepare() takes the tensor."""

    def allocate(self, dtype: str, shape: Sequence[int]) -> tuple[TensorT, int, int]:
        """Uninitialised host memory for a tensor: its owner, its address, its bytes."""

    def finish(self, memory: TensorT, dtype: str, shape: Sequence[int]) -> TensorT:
        """The tensor in memory that was allocated and filled."""

    def view(
        self, base: TensorT, dtype: str, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> TensorT | None:
        """A tensor that shares memory with ``base``; None where that cannot be expressed."""

    def to_device(self, tensor: TensorT, device: torch.device) -> TensorT: ...

    def check_device(self, device: object) -> torch.device | None:
        """The device in the framework's own terms; None for host memory. Error: DeviceError."""

    def reach_device(self, device: torch.device) -> None:
        """Raises DeviceError if nothing can be put on a device, before anything is decoded."""

    def target(
        self, out: object, dtype: str, shape: Sequence[int], name: str, called: str = "out"
    ) -> int | None:
        """Address where ``out`` takes the tensor in place; None if it must be copied. Errors call
        it ``called``."""

    def wrote(self, out: TensorT) -> None:
        """Tells the library that ``out`` was written to through its address."""

    def describe(self, tensor: TensorT) -> tuple[str, Sequence[int]]:
        """The dtype and the shape of a tensor, whose values need not be there. Raises what
        prepare() raises for a tensor that cannot be stored."""

    def device_of(self, out: TensorT) -> torch.device | None:
        """Where ``out`` is; None: on the host."""

    def address(self, out: TensorT) -> int:
        """Of the first element, in the memory where it is."""

    def copy(self, out: TensorT, tensor: TensorT) -> None:
        """Copies ``tensor`` into ``out``, on whatever device it is."""

    def has_bits_of(self, out: TensorT, tensor: TensorT) -> bool:
        """Whether ``out``, on whatever device, has the elements of ``tensor``, bit for bit.
        Requires: ``tensor`` is on the host; they have the same dtype and shape."""

    def steps(self, tensor: TensorT) -> Sequence[int]:
        """The strides of a tensor, in its elements."""

    def span(self, tensor: TensorT) -> tuple[str, int, int]:
        """Where the memory of a tensor is: the device, and the addresses of its first byte and
        behind its last one. Requires: it has elements."""

    def overwritten(self, outs: Sequence[TensorT], tensors: Sequence[TensorT]) -> int | None:
        """The number of a tensor that would not keep its values if all ``tensors``, which are on
        the host, were copied into ``outs``, which may share memory; None if there is none. Nothing
        is written to ``outs``; memory is taken as they have, unless they are all the same."""


def named_tensors(
    tensors: object, kind: type | tuple[type, ...], kind_name: str, problems: Problems
) -> Iterator[tuple[str, Any]]:
    """Checks what a caller wants to save, and yields in order what can be; ``problems`` gets what
    is wrong with the rest."""
    if not isinstance(tensors, Mapping):
        raise InvalidArgumentError(
            f"Expected a dict of [str, {kind_name}] but received {type(tensors)}"
        )
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            problems.add(
                TypeError(f"names of tensors are str, not {type(name).__name__}: {name!r}")
            )
        elif not isinstance(tensor, kind):
            message = f"Key `{name}` is invalid, expected {kind_name} but received {type(tensor)}"
            problems.add(InvalidArgumentError(message, record=name))
        else:
            try:
                check_utf8(name)
            except InvalidArgumentError as error:
                problems.add(error)
                continue
            yield name, tensor


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a contiguous tensor."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(1, shape[axis + 1])
    return tuple(strides)


def unsupported(name: str, what: str, instead: str) -> UnsupportedError:
    return UnsupportedError(f"tensor `{name}` {what}; {instead}", record=name)


def overlapping(framework: Framework[Any], tensors: Mapping[str, Any]) -> Iterator[list[str]]:
    """Names of tensors whose memory overlaps, in groups of two and more."""
    spans = sorted(
        (*framework.span(tensor), name) for name, tensor in tensors.items() if 0 not in tensor.shape
    )
    family: list[str] = []
    last_place, last_stop = "", 0
    for place, start, stop, name in spans:
        if family and place == last_place and start < last_stop:
            family.append(name)
            last_stop = max(last_stop, stop)
            continue
        if len(family) > 1:
            yield family
        family, last_place, last_stop = [name], place, stop
    if len(family) > 1:
        yield family


def overlaps_itself(framework: Framework[TensorT], tensor: TensorT) -> bool:
    """Whether two elements of a tensor may be in one place, as those of an expanded one are."""
    reach = 1
    steps = zip(framework.steps(tensor), tensor.shape, strict=True)
    for step, size in sorted((abs(step), size) for step, size in steps):
        if size > 1:
            if step < reach:
                return True
            reach += step * (size - 1)
    return False
