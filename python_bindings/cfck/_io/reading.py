"""The options with which files are read, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from .._options.native import check_limits, check_threads
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

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Reading:
        """``options``: the complete options of a call that reads."""
        threads = check_threads(options["threads"])
        backend = options.get("backend", "pread")
        if backend not in ("pread", "mmap"):
            raise InvalidArgumentError(f"backend {backend} is invalid; it may be pread or mmap")
        return cls(
            threads=threads,
            verify=options["verify"],
            max_decoded_bytes=options["max_decoded_bytes"],
            limits=check_limits(options["limits"]),
            map=backend == "mmap",
            decode=_check_decode(options["decode"]),
            only_tensors=_check_only_tensors(options.get("only_tensors", False)),
        )

    def native(self) -> dict[str, Any]:
        """The arguments of the extension module."""
        return {
            "threads": self.threads,
            "verify": self.verify,
            "max_decoded_bytes": self.max_decoded_bytes,
            "limits": self.limits,
        }


def _check_decode(decode: object) -> str:
    if decode not in ("auto", "device", "host"):
        raise InvalidArgumentError(f"decode {decode!r} is invalid; it may be auto, device or host")
    return str(decode)


def _check_only_tensors(only_tensors: object) -> bool:
    if not isinstance(only_tensors, bool):
        raise TypeError(f"only_tensors is a bool, not {type(only_tensors).__name__}")
    return only_tensors
