"""One tensor as bare bytes, without a file around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, overload

import numpy as np

from .. import _native
from .._common.naming import naming
from .._common.problems import without_name
from .._frameworks.choose import find_framework, framework_of
from .._frameworks.framework import AnyTensor, Framework, Prepared, TensorT, row_major
from .._options.kinds import MessageOptions, Unpack
from .._options.native import native_options
from .._options.signatures import chosen, complete, takes
from ..errors import CfckError, InvalidArgumentError, LimitExceededError, UnsupportedError
from .message_on_device import (
    Described,
    check_wants_device,
    encode_all_for_host,
    encode_all_there,
    encode_for_host,
    encode_there,
    is_on_device,
    not_on_device,
)
from .opening import flat_bytes, readable

if TYPE_CHECKING:
    import torch
    from typing_extensions import Buffer

_Out = TypeVar("_Out", bound=AnyTensor)
# So much is allocated for a message without being told to, as for files.
_MAX_BYTES = 16 << 30
_MAX_RATIO = 64


class MessageInfo(NamedTuple):
    """What a message says of its tensor.

    Attributes:
        dtype: its name in files, such as "F32".
        shape: its dimensions.
        n_bytes: the bytes of its decoded values.
    """

    dtype: str
    shape: tuple[int, ...]
    n_bytes: int


@overload
def encode_message(
    array: AnyTensor,
    *,
    options: MessageOptions | None = None,
    **fields: Unpack[MessageOptions],
) -> bytes: ...


@overload
def encode_message(
    array: AnyTensor,
    *,
    out: Buffer | torch.Tensor,
    options: MessageOptions | None = None,
    **fields: Unpack[MessageOptions],
) -> int: ...


@overload
def encode_message(
    array: torch.Tensor,
    *,
    out: Literal["device"],
    options: MessageOptions | None = None,
    **fields: Unpack[MessageOptions],
) -> torch.Tensor: ...


@takes(MessageOptions)
def encode_message(
    array: AnyTensor,
    *,
    out: Buffer | torch.Tensor | Literal["device"] | None = None,
    options: MessageOptions | None = None,
    **fields: Unpack[MessageOptions],
) -> bytes | int | torch.Tensor:
    """Encodes one tensor as bare bytes, at most 24 more than its values if it has one dimension.

    For what goes from one process to another, or into a container of your own: a message has no
    name and no metadata, and what carries it must know its length. compress() makes a whole small
    file instead.

    Args:
        array: a numpy.ndarray or torch.Tensor of any dtype of safetensors. Memory that is not
            contiguous is copied. docs/devices.md says which tensors of a CUDA device are encoded
            there; all others that are not on the host are copied to it first.
        out: memory for the message, such as a bytearray or a torch.Tensor of uint8 with one
            dimension, of the host or of the tensor's CUDA device: at least
            max_message_bytes(array) bytes, which do not overlap the tensor.
            "device": a torch.Tensor of uint8 on the device of the tensor is returned.
        options: how to encode it: a dict.

    Returns:
        The message; with memory as ``out`` the number of its bytes there.

    Raises:
        CfckError: InvalidArgumentError for options that contradict themselves, for a maximum error
            where the tensor is not F64, F32, BF16 or F16, and for an ``out`` that is too small,
            read-only or overlaps the tensor; UnsupportedError for codec "spectral", for dtypes that
            cannot be stored, and for an ``out`` on a device where the tensor is not, or that cannot
            be used.
        TypeError: an option has the wrong type.

    May be called from several threads at once. The memory that encoding needs is kept by each
    thread for its next messages.
    """
    made: bytes | int | torch.Tensor = encode_with(
        framework_of(array), array, out, chosen(MessageOptions, options, fields)
    )
    return made


@takes(MessageOptions)
def max_message_bytes(
    array: AnyTensor,
    *,
    options: MessageOptions | None = None,
    **fields: Unpack[MessageOptions],
) -> int:
    """Returns the most bytes that encode_message() takes for such a tensor, whatever its values.

    Args:
        array: a tensor as for encode_message(). Its dtype and shape count, not its values.
        options: those of the encode_message() call.

    Raises:
        CfckError, TypeError: as encode_message().
    """
    with without_name():
        dtype, shape = framework_of(array).describe(array)
    encoding = chosen(MessageOptions, options, fields)
    return _native.max_message_bytes(dtype, shape, _native_options(encoding))


@overload
def decode_message(data: Buffer | torch.Tensor, *, out: _Out) -> _Out: ...


@overload
def decode_message(data: Buffer | torch.Tensor, *, out: None = None) -> np.ndarray: ...


def decode_message(data: Buffer | torch.Tensor, *, out: AnyTensor | None = None) -> AnyTensor:
    """Verifies and decodes what encode_message() made.

    Args:
        data: the message and nothing else: bytes, anything with the buffer protocol, or a
            torch.Tensor of uint8 with one dimension.
        out: a tensor of the same dtype and shape, to be filled and returned; its library is used.
            Contiguous memory of the host is filled in place, other memory by a copy. It must not
            overlap ``data``.

    Returns:
        ``out``, or a new numpy.ndarray; cfck.torch.decode_message makes a torch.Tensor.

    Raises:
        CfckError: ChecksumError, CorruptError, TruncatedError for damaged bytes;
            InvalidArgumentError if ``out`` does not fit; UnsupportedError for what a newer version
            wrote; LimitExceededError for a tensor of more than 16 GiB and 64 times the message,
            unless there is an ``out`` for it. After an error the contents of ``out`` are
            unspecified.

    May be called from several threads at once.
    """
    chosen: Framework[AnyTensor] = find_framework("numpy") if out is None else framework_of(out)
    return decode_with(chosen, data, out)


def message_info(data: Buffer | torch.Tensor) -> MessageInfo:
    """Reads the header of a message, before there is memory for its tensor.

    Args:
        data: the message as for decode_message(), or its first 520 bytes, which are enough for
            any.

    Returns:
        What the message says, unverified: damage may have changed it. decode_message() verifies.

    Raises:
        CfckError: TruncatedError for bytes that end within the header; CorruptError for what is no
            message; UnsupportedError for what a newer version wrote.
    """
    message = readable(data)
    dtype, shape, n_bytes = _native.message_info(message.ctypes.data, message.nbytes)
    return MessageInfo(dtype, tuple(shape), n_bytes)


def encode_with(
    framework: Framework[TensorT], tensor: TensorT, out: Any, options: MessageOptions
) -> Any:
    """encode_message() for tensors of one library."""
    return _encode(framework, tensor, out, _native_options(options))


def encode_learned(
    framework: Framework[TensorT], name: str, tensor: TensorT, steps: _native.LearnedSteps | None
) -> bytes:
    """The message of a tensor with steps that training has learned; None: every bit is kept.

    ``name`` is for errors.
    """
    native = _native_options({}, {"": steps} if steps is not None else None)
    with naming(name):
        return _encode(framework, tensor, None, native, name)  # type: ignore[no-any-return]


def _encode(
    framework: Framework[TensorT],
    tensor: TensorT,
    out: Any,
    native: _native.EncodeOptions,
    name: str = "",
) -> Any:
    on_device = is_on_device(tensor)
    wants_device = out == "device" if isinstance(out, str) else is_on_device(out)
    if isinstance(out, str) and not wants_device:
        raise InvalidArgumentError(f'out is memory for the message, or "device", not {out!r}')
    if wants_device and not on_device:
        with without_name():
            framework.describe(tensor)  # raises for what is no tensor
        raise not_on_device(tensor)
    into = None if out is None or wants_device else _writable(out)
    if on_device:
        made = _encode_on_device(framework, tensor, out, into, native)
        if made is not None:
            return made
    # The prepared tensor owns the memory at the address.
    with without_name():
        prepared, dtype, shape, address = _contiguous(framework, tensor, name)
    if into is None:
        return _native.encode_message(dtype, shape, address, native)
    if address != framework.address(tensor):
        _check_apart(framework, tensor, dtype, shape, into, native)
    return _native.encode_message_into(dtype, shape, address, native, into.ctypes.data, into.nbytes)


def encode_all_with(
    framework: Framework[TensorT], tensors: Sequence[TensorT], out: Any, options: MessageOptions
) -> list[Any]:
    """encode_messages() for tensors of one library: those of a device at once, all others one by
    one."""
    wants_device = check_wants_device(out)
    native = _native_options(options)
    encode = encode_all_there if wants_device else encode_all_for_host
    made: dict[int, Any] = {}
    for numbered in _described_on_devices(framework, tensors, wants_device, native):
        made.update(zip(numbered, _encode_batch(encode, numbered, native), strict=True))
    i = 0
    try:
        for i, tensor in enumerate(tensors):
            if made.get(i) is None:
                made[i] = _encode(framework, tensor, None, native)
    except CfckError as error:
        _say_number(error, i, native)
        raise
    return [made[i] for i in range(len(tensors))]


def _described_on_devices(
    framework: Framework[TensorT],
    tensors: Sequence[TensorT],
    wants_device: bool,
    native: _native.EncodeOptions,
) -> Iterable[dict[int, Described]]:
    """The tensors of each device, by their numbers. Raises where one is on none, if that is what a
    caller wants."""
    found: dict[Any, dict[int, Described]] = {}
    i = 0
    # Around the loop, since there may be thousands of small tensors.
    try:
        with without_name():
            for i, tensor in enumerate(tensors):
                if is_on_device(tensor):
                    of_device = found.setdefault(tensor.device, {})  # type: ignore[attr-defined]
                    of_device[i] = (tensor, *framework.describe(tensor))  # type: ignore[assignment]
                elif wants_device:
                    framework.describe(tensor)  # raises for what is no tensor
                    raise not_on_device(tensor)
    except CfckError as error:
        _say_number(error, i, native)
        raise
    return found.values()


def _encode_batch(
    encode: Callable[[Sequence[Described], _native.EncodeOptions], Sequence[Any]],
    tensors: Mapping[int, Described],
    native: _native.EncodeOptions,
) -> Sequence[Any]:
    try:
        return encode(list(tensors.values()), native)
    except (InvalidArgumentError, UnsupportedError):
        for i, (_, dtype, shape) in tensors.items():
            try:
                _native.max_message_bytes(dtype, shape, native)
            except CfckError as error:
                _say_number(error, i, native)
                raise
        raise


def _say_number(error: CfckError, i: int, native: _native.EncodeOptions) -> None:
    """Says of which of several tensors an error is, unless the options are wrong for any."""
    try:
        _native.max_message_bytes("F32", (2, 2), native)
    except CfckError as of_any:
        if str(of_any) == str(error):
            return
    error.args = (f"tensor number {i}: {error}",)


def _encode_on_device(
    framework: Framework[Any],
    tensor: Any,
    out: Any,
    into: np.ndarray | None,
    native: _native.EncodeOptions,
) -> Any:
    """What encode_message() returns; None where the host has to encode. ``into``: memory of the
    host."""
    with without_name():
        dtype, shape = framework.describe(tensor)
    if isinstance(out, str):
        return encode_there(tensor, dtype, shape, native, None)
    if out is not None and into is None:
        _check_apart(framework, tensor, dtype, shape, out, native)
        return encode_there(tensor, dtype, shape, native, out)
    if into is not None and into.nbytes < _native.max_message_bytes(dtype, shape, native):
        return None  # which is refused
    made = encode_for_host(tensor, dtype, shape, native)
    if made is None or into is None:
        return made
    into[: len(made)] = np.frombuffer(made, np.uint8)
    return len(made)


def _check_apart(
    framework: Framework[Any],
    tensor: Any,
    dtype: str,
    shape: Sequence[int],
    out: Any,
    native: _native.EncodeOptions,
) -> None:
    """Raises if what is written to ``out`` overlaps the tensor. Tensors that are encoded where they
    are are looked at then; one that is copied before would be changed all the same."""
    if 0 in shape:
        return
    device, begin, end = framework.span(tensor)
    is_on_host = isinstance(out, np.ndarray)
    place = "cpu" if is_on_host else str(out.device)
    address = out.ctypes.data if is_on_host else out.data_ptr()
    n_bytes = min(out.nbytes, _native.max_message_bytes(dtype, shape, native))
    if (device or "cpu") == place and address < end and begin < address + n_bytes:
        raise InvalidArgumentError(
            "the memory for the result overlaps the tensor, which would be changed; give other "
            "memory"
        )


def decode_with(framework: Framework[TensorT], data: Any, out: Any) -> TensorT:
    """decode_message() for tensors of one library."""
    message = readable(data)
    dtype, shape, n_bytes = _native.message_info(message.ctypes.data, message.nbytes)
    with without_name():
        place = None if out is None else framework.target(out, dtype, shape, "")
    if place is not None:
        _native.decode_message(message.ctypes.data, message.nbytes, place, n_bytes)
        framework.wrote(out)
        return out  # type: ignore[no-any-return]
    limit = max(_MAX_BYTES, _MAX_RATIO * message.nbytes)
    if out is None and n_bytes > limit:
        raise LimitExceededError(
            f"the message says that it has {n_bytes} decoded bytes, more than {limit}; give an out "
            "of that size if you trust it"
        )
    memory, address, size = framework.allocate(dtype, shape)
    _native.decode_message(message.ctypes.data, message.nbytes, address, size)
    tensor = framework.finish(memory, dtype, shape)
    if out is None:
        return tensor
    framework.copy(out, tensor)
    return out  # type: ignore[no-any-return]


def _native_options(
    options: MessageOptions, learned: Mapping[str, _native.LearnedSteps] | None = None
) -> _native.EncodeOptions:
    return native_options({**complete(MessageOptions, options), "threads": 1}, learned=learned)


def _contiguous(
    framework: Framework[TensorT], tensor: TensorT, name: str
) -> tuple[Prepared, str, Sequence[int], int]:
    """The tensor in host memory without gaps: its owner, dtype, shape and address."""
    prepared = framework.prepare({name: tensor})
    _, dtype, shape, strides, address = framework.on_host(prepared)[0]
    expected = row_major(shape)
    fits = all(n == 1 or a == b for n, a, b in zip(shape, strides, expected, strict=True))
    if fits or 0 in shape:
        return prepared, dtype, shape, address
    return _contiguous(framework, framework.contiguous(tensor), name)


def _writable(out: Any) -> np.ndarray:
    """The memory of a caller."""
    if hasattr(out, "untyped_storage"):
        flat = flat_bytes(out)
        if flat.device.type != "cpu" or flat.data_ptr() != out.data_ptr():
            raise InvalidArgumentError("out is not contiguous memory of the host")
        return flat.numpy()  # type: ignore[no-any-return]
    try:
        view = np.frombuffer(out, np.uint8)
    except (TypeError, ValueError) as error:
        raise TypeError(
            'out is "device" or writable memory such as a bytearray, not '
            f"{type(out).__name__}: {error}"
        ) from None
    if not view.flags.writeable:
        raise InvalidArgumentError("out is read-only")
    return view
