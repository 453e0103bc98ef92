"""Plain values as JSON, with a tag wherever JSON alone would lose the type.

An object of the JSON is a tuple of (name, value) pairs here, as it was read, so that none is lost
to a repeated name; an array is a list. spec/checkpoint.md has the whole table.
"""

from __future__ import annotations

import base64
import binascii
import functools
import math
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from .._common.text import printable, shown, with_article
from ..errors import CorruptError, InvalidArgumentError, UnsupportedError

# Any reader keeps integers up to here, even one that has only doubles.
MAX_JSON_INT = (1 << 53) - 1
MAX_KEY_DEPTH = 16

# Values that are objects of the JSON and may be keys.
KEY_TAGS = ("int", "float", "complex", "bytes", "torch.Size", "torch.dtype", "torch.device")

_HEX_INT = re.compile(r"-?0x[0-9a-f]+")
_HEX_BYTES = re.compile(r"(?:[0-9a-f]{2})*")
_HEX_DOUBLE = re.compile(r"[0-9a-f]{16}")

_SCALAR_NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
_ML_SCALAR_NAMES = (
    "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
)  # fmt: skip


@functools.cache
def _scalar_dtypes() -> dict[str, np.dtype[Any]]:
    """By name. ml_dtypes takes long to import, and few checkpoints have scalars of numpy."""
    import ml_dtypes

    kinds = [*_SCALAR_NAMES, *(getattr(ml_dtypes, name) for name in _ML_SCALAR_NAMES)]
    return {np.dtype(kind).name: np.dtype(kind) for kind in kinds}


class NotStorable(InvalidArgumentError):
    """A value that cannot be stored, before it is known where it is."""


def bad_skeleton(message: str, record: str | None = None) -> CorruptError:
    return CorruptError(
        f"the checkpoint's skeleton is damaged: {printable(message)}", record=record
    )


def newer_skeleton(message: str) -> UnsupportedError:
    return UnsupportedError(
        f"the checkpoint was written by a newer version of cfck: {printable(message)}; "
        "load it with that version, or its tensors alone with load_file"
    )


def encode_plain(value: Any) -> Any:
    """A value that holds no others, as JSON. None of JSON stands for None; raises NotStorable
    for what is not plain."""
    encoder = _ENCODERS.get(type(value))
    if encoder is not None:
        return encoder(value)
    if isinstance(value, np.generic):
        return {"numpy.scalar": _encode_scalar(value)}
    raise NotStorable(f"is {with_article(type_name(value))}")


def encode_key(key: Any, encode_other: Callable[[Any], Any | None], depth: int = 0) -> Any:
    """A key of a dict or an element of a set, as JSON.

    ``encode_other`` knows keys of a framework, and returns None for what is none of these.
    """
    if type(key) is tuple:
        if depth == MAX_KEY_DEPTH:
            raise NotStorable(f"has a key of more than {MAX_KEY_DEPTH} nested tuples")
        return {"tuple": [encode_key(item, encode_other, depth + 1) for item in key]}
    if type(key) in (str, int, float, bool, type(None), bytes, complex):
        return _ENCODERS[type(key)](key)
    encoded = encode_other(key)
    if encoded is None:
        raise NotStorable(
            f"has the key {shown(repr(key))}, which is {with_article(type_name(key))}; keys may be "
            "str, int, float, complex, bool, None, bytes, torch.dtype, torch.device, torch.Size "
            "and tuples of these"
        )
    return encoded


def decode_plain(value: Any) -> Any:
    """The opposite of encode_plain."""
    if type(value) is str:
        return _check_text(value)
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is not tuple:
        raise bad_skeleton(f"{shown(repr(value))} is not a value")
    tag, content = tagged(value)
    decode = _DECODERS.get(tag)
    if decode is None:
        raise newer_skeleton(f"there is no value of type {shown(tag)}")
    return decode(content)


def tagged(pairs: tuple[tuple[str, Any], ...]) -> tuple[str, Any]:
    """Tag and content of a value that is an object of the JSON."""
    if len(pairs) != 1:
        names = [name for name, _ in pairs]
        raise bad_skeleton(f"a value has the members {shown(repr(names))} instead of one")
    return pairs[0]


def expect_list(value: Any, length: int | None = None) -> list[Any]:
    if type(value) is not list or (length is not None and len(value) != length):
        wanted = "a list" if length is None else f"a list of {length}"
        raise bad_skeleton(f"{shown(repr(value))} is not {wanted}")
    return value


def expect_text(value: Any) -> str:
    if type(value) is not str:
        raise bad_skeleton(f"{shown(repr(value))} is not a string")
    return _check_text(value)


def type_name(value: Any) -> str:
    kind = type(value)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def encode_int(value: int) -> Any:
    return value if -MAX_JSON_INT <= value <= MAX_JSON_INT else {"int": hex(value)}


def decode_int(value: Any) -> int:
    is_tagged = type(value) is tuple and tagged(value)[0] == "int"
    number = decode_plain(value) if is_tagged else value
    if type(number) is not int:
        raise bad_skeleton(f"{shown(repr(value))} is not an integer")
    return number


def _encode_text(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise NotStorable(
                f"{shown(repr(text))} has half of a surrogate pair, which is not valid Unicode; "
                "store its bytes, .encode('utf-8', 'surrogatepass')"
            ) from None
    return text


def _check_text(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise bad_skeleton(f"{shown(repr(text))} is not valid Unicode") from None
    return text


def _double(value: float) -> float | str:
    """A number if it is finite; else the bits, since NaN has many."""
    return value if math.isfinite(value) else struct.pack(">d", value).hex()


def _decode_double(value: Any) -> float:
    if type(value) is str and _HEX_DOUBLE.fullmatch(value):
        return float(struct.unpack(">d", bytes.fromhex(value))[0])
    if type(value) is int:
        value = float(value)
    if type(value) is not float:
        raise bad_skeleton(f"{shown(repr(value))} is neither a number nor 16 digits of its bits")
    return value


def _decode_complex(value: Any) -> complex:
    real, imaginary = expect_list(value, 2)
    return complex(_decode_double(real), _decode_double(imaginary))


def _decode_hex_int(value: Any) -> int:
    if not _HEX_INT.fullmatch(expect_text(value)):
        raise bad_skeleton(f"{shown(repr(value))} is not a hexadecimal integer")
    return int(value, 16)


def _decode_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(expect_text(value).encode(), validate=True)
    except binascii.Error as error:
        raise bad_skeleton(f"bytes are not valid base64: {error}") from None


def _encode_scalar(value: np.generic) -> list[str]:
    dtype = value.dtype
    if _scalar_dtypes().get(dtype.name) != dtype:
        raise NotStorable(
            f"is a numpy scalar of dtype {dtype}; convert it with .item(), or to one of "
            f"{', '.join(_scalar_dtypes())}"
        )
    return [dtype.name, value.tobytes().hex()]


def _decode_scalar(value: Any) -> np.generic:
    name, digits = (expect_text(item) for item in expect_list(value, 2))
    dtype = _scalar_dtypes().get(name)
    if dtype is None:
        raise newer_skeleton(f"there is no numpy scalar of dtype {shown(name)}")
    if len(digits) != 2 * dtype.itemsize or not _HEX_BYTES.fullmatch(digits):
        raise bad_skeleton(f"{shown(digits)} is no {name}")
    if name == "bool" and digits not in ("00", "01"):
        raise bad_skeleton(f"{digits} is not a bool")
    scalar: np.generic = np.frombuffer(bytes.fromhex(digits), dtype)[0]
    return scalar


_ENCODERS: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    int: encode_int,
    str: _encode_text,
    float: lambda value: {"float": _double(value)},
    complex: lambda value: {"complex": [_double(value.real), _double(value.imag)]},
    bytes: lambda value: {"bytes": base64.b64encode(value).decode()},
    bytearray: lambda value: {"bytearray": base64.b64encode(value).decode()},
}

_DECODERS: dict[str, Callable[[Any], Any]] = {
    "int": _decode_hex_int,
    "float": _decode_double,
    "complex": _decode_complex,
    "bytes": _decode_bytes,
    "bytearray": lambda value: bytearray(_decode_bytes(value)),
    "numpy.scalar": _decode_scalar,
}
