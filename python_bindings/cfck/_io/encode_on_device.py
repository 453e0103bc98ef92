"""Files whose tensors a device encodes: which device, and its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .. import _native
from .._frameworks.framework import Prepared
from ..errors import InvalidArgumentError, OutOfMemoryError, UnsupportedError
from .on_device import DeviceMemory, warn_of_host

_Written = TypeVar("_Written")

_CHOICES = ("auto", "device", "host")
# Maximum errors, which codec direct keeps, on devices too.
_ERRORS = ("max_abs_error", "max_rel_error", "max_sigma_error")
# Options with which nothing, or hardly anything, is encoded by a device.
_FOR_HOST = (
    "nmse",
    "psnr",
    "bits_per_weight",
    "quality",
    "size",
    "calibration",
    "base",
)
# With fewer bytes of tensors the host is done before a device has begun.
_LEAST_BYTES = 1 << 20
# The values of a pass, and the memory of the blocks that encode it, which is enough for some chunks
# of the usual length of any dtype: with a maximum error, 2 MiB of F64 take twice as much of a pass,
# and a little more. Where there is less memory, half as much is tried, and so on.
_LEAST_PASS_BYTES, _MOST_PASS_BYTES = 5 << 20, 32 << 20
_LEAST_SCRATCH_BYTES, _MOST_SCRATCH_BYTES = 16 << 20, 160 << 20
_WITHOUT_MEMORY = (
    'free memory there, or save with encode="auto", which lets the host encode where there is none'
)
# A chunk takes less than so many times its bytes while it is encoded.
_SCRATCH_PER_BYTE = 4


def with_device(
    prepared: Prepared,
    options: Mapping[str, Any],
    write: Callable[[_native.WriterDevice | None], _Written],
) -> tuple[_Written, _native.WriterDevice | None]:
    """Writes with the device that encodes, or without one; and says with which.

    Where the device or the host has no memory for it, and nobody asked for the device, the host
    encodes: an old file is still there.
    """
    device = encoding_device(prepared, options)
    if device is None:
        return write(None), None
    try:
        return write(device), device
    except OutOfMemoryError as error:
        if options["encode"] == "device":
            raise OutOfMemoryError(f"{error}; {_WITHOUT_MEMORY}") from error
        warn_of_host(device.number, error)
    finally:
        # Work that is still under way uses memory that is given back with `prepared`.
        device.close()
    return write(None), None


def encoding_device(prepared: Prepared, options: Mapping[str, Any]) -> _native.WriterDevice | None:
    """The device that encodes for a file, ready to do so; None: the host does.

    Args:
        options: those of the call, checked.

    Raises:
        UnsupportedError: no device can, and the option ``encode`` is "device".
        OutOfMemoryError: likewise, or it has no memory.
    """
    encode = options["encode"]
    if encode not in _CHOICES:
        raise InvalidArgumentError(f'encode is "auto", "device" or "host", not {encode!r}')
    if encode == "host" or not prepared.names():
        return None
    if prepared.on_cuda and not any(memory.n_bytes for memory in prepared.on_cuda):
        return None  # they are empty
    number, n_bytes = _device_with_most(prepared)
    if encode == "auto" and (n_bytes < _LEAST_BYTES or not _is_for_device(options)):
        return None
    if number is None:
        raise _no_tensor_for_it(prepared)
    from .._frameworks.torch_device import TorchDevice

    memory = TorchDevice.of_number(number)
    reason = memory.why_not()
    if reason is not None:
        if encode == "device":
            raise UnsupportedError(f"cuda:{number} cannot encode: {reason}")
        warn_of_host(number, reason)
        return None
    try:
        return _with_memory(memory, n_bytes, prepared)
    except OutOfMemoryError as error:
        if encode == "device":
            raise OutOfMemoryError(f"{error}; {_WITHOUT_MEMORY}") from error
        warn_of_host(memory.number, error)
        return None


def encoded_bytes(prepared: Prepared, device: _native.WriterDevice | None) -> tuple[int, int]:
    """Bytes of values of CUDA devices that ``device`` has encoded for a file, and the host."""
    not_given = sum(
        memory.n_bytes
        for memory in prepared.on_cuda
        if device is None or not (memory.is_given and memory.device == device.number)
    )
    if device is None:
        return 0, not_given
    return device.device_bytes, device.host_bytes + not_given


def _no_tensor_for_it(prepared: Prepared) -> UnsupportedError:
    """There is no tensor that a device could encode."""
    if not prepared.on_cuda:
        name = prepared.names()[0]
        return UnsupportedError(
            f'encode="device" is for tensors of CUDA devices, and `{name}` is on none, nor is any '
            'other tensor; save with encode="auto"',
            record=name,
        )
    memory = prepared.on_cuda[0]
    return UnsupportedError(
        'encode="device" is for contiguous tensors, and those that share memory with one that has '
        f"all of it; `{memory.name}` of cuda:{memory.device} is no such tensor, nor is any other: "
        'save contiguous() copies, or with encode="auto"',
        record=memory.name,
    )


def _is_for_device(options: Mapping[str, Any]) -> bool:
    """Whether a device may encode most of what is saved with these options."""
    rules = options["rules"]
    if isinstance(rules, list) and len(rules) == 1 and rules[0][0] in ("", "*"):
        options = {**options, **rules[0][1]}
    has_error = any(options.get(name) is not None for name in _ERRORS)
    codecs = ("auto", "direct" if has_error else "lossless")
    is_known = options["codec"] in codecs and all(options.get(name) is None for name in _FOR_HOST)
    return is_known and options["entropy"] == "rans" and options["level"] != "archive"


def _device_with_most(prepared: Prepared) -> tuple[int | None, int]:
    """The device that can encode the most bytes of tensors, and how many."""
    n_bytes: dict[int, int] = {}
    for memory in prepared.on_cuda:
        if memory.is_given:
            n_bytes[memory.device] = n_bytes.get(memory.device, 0) + memory.n_bytes
    if not n_bytes:
        return None, 0
    return max(n_bytes.items(), key=lambda item: (item[1], -item[0]))


def _with_memory(memory: DeviceMemory, n_bytes: int, prepared: Prepared) -> _native.WriterDevice:
    """The device with as much memory as is of use; with less where there is not as much."""
    pass_bytes = min(max(n_bytes, _LEAST_PASS_BYTES), _MOST_PASS_BYTES)
    while True:
        scratch_bytes = min(
            max(_SCRATCH_PER_BYTE * pass_bytes, _LEAST_SCRATCH_BYTES), _MOST_SCRATCH_BYTES
        )
        device = _native.WriterDevice(memory.number, pass_bytes, scratch_bytes)
        try:
            workspace = memory.workspace(device.workspace_bytes)
            staging = memory.staging(device.staging_bytes, device.staging_bytes)
        except OutOfMemoryError:
            if pass_bytes == _LEAST_PASS_BYTES:
                raise
            pass_bytes = max(pass_bytes // 2, _LEAST_PASS_BYTES)
            continue
        device.use(workspace.data_ptr(), staging.data_ptr(), staging.nbytes, memory.stream())
        prepared.owners += [workspace, staging]
        return device
