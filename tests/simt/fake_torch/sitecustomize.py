"""torch with a device whose memory is the host's, for trials of programs without a device.

A Python whose path has this folder imports this module when it starts. Together with the fake
driver (CFCK_CUDA_DRIVER), `scripts/gpu_check.sh` and `python bench gpu` then run to their end.
Nothing runs side by side, nothing has the time of a device, and operations of torch take tensors of
the host and of the device together, which those of a real device refuse.
"""

from __future__ import annotations

import contextlib
import time
from types import SimpleNamespace
from typing import Any

import torch

CUDA = torch.device("cuda", 0)
NAME = "fake device, no results"
# So that the benchmark, which passes the cache of a device by, copies little.
CACHE_BYTES = 1 << 14


def is_cuda(device: Any) -> bool:
    """Whether a device that a caller names is the fake one."""
    if isinstance(device, int):
        return True
    return device is not None and torch.device(device).type == "cuda"


class DeviceTensor(torch.Tensor):
    """A tensor that says that it is on the device."""

    @property
    def device(self) -> torch.device:
        """The device."""
        return CUDA

    @property
    def is_cuda(self) -> bool:
        """That it is on the device."""
        return True

    def cpu(self) -> torch.Tensor:
        """A copy that says that it is on the host."""
        return self.detach().clone().as_subclass(torch.Tensor)

    def record_stream(self, _: Any) -> None:
        """There is one stream."""


_plain_to = torch.Tensor.to


def _to(tensor: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
    """To a device, a dtype or both; to the fake device by a copy."""
    if args and (args[0] is None or isinstance(args[0], str | int | torch.device)):
        options.update(zip(("device", "dtype", "non_blocking", "copy"), args))
        args = ()
    device = options.pop("device", None)
    options = {name: value for name, value in options.items() if value is not None}
    result = _plain_to(tensor, *args, **options) if args or options else tensor
    if device is None or is_cuda(device) == isinstance(tensor, DeviceTensor):
        return result
    if is_cuda(device):
        return result.detach().clone().as_subclass(DeviceTensor)
    return result.as_subclass(torch.Tensor)


_plain_detach = torch.Tensor.detach


def _detach(tensor: torch.Tensor) -> torch.Tensor:
    """Where it was, also where methods do not see the class of a tensor."""
    detached = _plain_detach(tensor)
    return detached.as_subclass(type(tensor)) if isinstance(tensor, DeviceTensor) else detached


def _on_device(make: Any) -> Any:
    """A function that makes tensors, on the fake device where that is asked for."""

    def made(*args: Any, **options: Any) -> Any:
        device = options.pop("device", None)
        is_pinned = options.pop("pin_memory", False)
        if is_cuda(device):
            if is_pinned:
                raise RuntimeError("only memory of the host can be pinned")
            return make(*args, **options).as_subclass(DeviceTensor)
        return make(*args, **options, **({} if device is None else {"device": device}))

    return made


def _generator(device: Any = "cpu") -> torch.Generator:
    return _plain_generator("cpu" if is_cuda(device) else device)


class Stream:
    """The one stream there is, in which everything is done at once."""

    cuda_stream = 0

    def synchronize(self) -> None:
        """Nothing is under way."""

    def wait_stream(self, _: Any) -> None:
        """Nothing is under way."""


class Event:
    """A moment."""

    def __init__(self, enable_timing: bool = False) -> None:
        """Whether it has a time makes no difference."""

    def record(self, _: Any = None) -> None:
        """Notes the time."""
        self.seconds = time.perf_counter()

    def synchronize(self) -> None:
        """Nothing is under way."""

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds until another event."""
        return (other.seconds - self.seconds) * 1e3


class Profile:
    """A profiler that has seen one kernel of each kind, which took all of the time."""

    def __init__(self, **_: Any) -> None:
        """Takes what the profiler of torch takes."""

    def __enter__(self) -> Profile:
        """Notes the time."""
        self.start = time.perf_counter()
        return self

    def __exit__(self, *_: Any) -> None:
        """Notes the time."""
        self.stop = time.perf_counter()

    def events(self) -> list[Any]:
        """What ran on the device, in microseconds."""
        times = SimpleNamespace(start=self.start * 1e6, end=self.stop * 1e6)
        return [
            SimpleNamespace(name=name, time_range=times, device_type=torch.autograd.DeviceType.CUDA)
            for name in ("cfck_lossless_fake", "cfck_direct_fake", "cfck_hash_extents")
        ]


def _memory_stats(_: Any = None) -> dict[str, int]:
    return {}


def install() -> None:
    """Puts all of it in torch's place."""
    import torch.profiler

    global _plain_generator
    _plain_generator = torch.Generator
    torch.Generator = _generator  # type: ignore[assignment, misc]
    for name in ("arange", "empty", "empty_strided", "full", "ones", "rand", "randint", "randn",
                 "tensor", "zeros"):  # fmt: skip
        setattr(torch, name, _on_device(getattr(torch, name)))
    torch.Tensor.to = _to  # type: ignore[assignment]
    torch.Tensor.detach = _detach  # type: ignore[assignment]
    torch.Tensor.cuda = lambda tensor, *_, **__: tensor.to(CUDA)  # type: ignore[assignment, method-assign]
    # Parameters are of the class of what they are made of.
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    replaced = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda _=None: NAME,
        "get_device_properties": lambda _=None: SimpleNamespace(
            major=9, minor=0, is_integrated=False, L2_cache_size=CACHE_BYTES
        ),
        "synchronize": lambda _=None: None,
        "empty_cache": lambda: None,
        "memory_stats": _memory_stats,
        "reset_peak_memory_stats": lambda _=None: None,
        "mem_get_info": lambda _=None: (1 << 30, 1 << 30),
        "current_stream": lambda _=None: Stream(),
        "stream": lambda _: contextlib.nullcontext(),
        "Stream": Stream,
        "Event": Event,
    }
    for name, value in replaced.items():
        setattr(torch.cuda, name, value)
    torch.backends.cudnn.is_acceptable = lambda _: False
    torch.version.cuda = torch.version.cuda or "13.0"
    torch.profiler.profile = Profile  # type: ignore[assignment, misc]


install()
