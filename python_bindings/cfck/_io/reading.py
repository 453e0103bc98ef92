"""The options with which files are read, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from .. import _native
from .._common.paths import native_path
from .._options.bases import native_base
from .._options.native import check_limits, check_max_decoded_bytes, check_threads
from ..errors import InvalidArgumentError


class LeftOutWarning(UserWarning):
    """A file has more than tensors, and ``only_tensors`` left that out."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """How files are read: the options of a call, checked."""

    threads: int
    verify: bool
    max_decoded_bytes: int
    limits: dict[str, int]
    map: bool = False
    decode: str = "auto"
    only_tensors: bool = False
    base: _native.Base | None = None
    base_dirs: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Reading:
        """``options``: the complete options of a call that reads."""
        threads = check_threads(options["threads"])
        backend = options.get("backend", "pread")
        if backend not in ("pread", "mmap"):
            raise InvalidArgumentError(f"backend {backend} is invalid; it may be pread or mmap")
        limits = check_limits(options["limits"])
        verify = _check_flag("verify", options["verify"])
        max_decoded_bytes = check_max_decoded_bytes(options["max_decoded_bytes"], limits)
        base_dirs = _check_folders(options.get("base_dirs", ()))
        base = native_base(
            options.get("base"),
            verify=verify,
            max_decoded_bytes=max_decoded_bytes,
            limits=limits,
            base_dirs=base_dirs,
        )
        return cls(
            threads=threads,
            verify=verify,
            max_decoded_bytes=max_decoded_bytes,
            limits=limits,
            base=base,
            base_dirs=base_dirs,
            map=backend == "mmap",
            decode=_check_decode(options["decode"]),
            only_tensors=_check_flag("only_tensors", options.get("only_tensors", False)),
        )

    def native(self) -> dict[str, Any]:
        """The arguments of the extension module."""
        return {
            "threads": self.threads,
            "verify": self.verify,
            "max_decoded_bytes": self.max_decoded_bytes,
            "limits": self.limits,
            "base": self.base,
            "base_dirs": list(self.base_dirs),
        }


def _check_folders(folders: object) -> tuple[bytes, ...]:
    if isinstance(folders, str | bytes) or not isinstance(folders, Iterable):
        raise TypeError(f"base_dirs is a list of folders, not {type(folders).__name__}")
    return tuple(native_path(folder) for folder in folders)


def _check_decode(decode: object) -> str:
    if decode not in ("auto", "device", "host"):
        raise InvalidArgumentError(f"decode {decode!r} is invalid; it may be auto, device or host")
    return str(decode)


def _check_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is a bool, not {type(value).__name__}")
    return value
