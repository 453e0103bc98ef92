"""Datasets of HDF5 files that cfck compresses, by h5py or any other program with HDF5.

Importing this module shows the filter plug-in to h5py, where that is installed::

    import cfck.hdf5
    import h5py

    with h5py.File("fields.h5", "w") as file:
        file.create_dataset("a", data=field, **cfck.hdf5.filter())  # every bit is kept
        file.create_dataset("b", data=field, **cfck.hdf5.filter(max_abs_error=1e-3))
        options = cfck.hdf5.filter(max_rel_error=1e-3, written_once=True)
        file.create_dataset("c", data=field, **options)

Files are read as any others once the module is imported. Other programs find the plug-in through
the environment variable ``HDF5_PLUGIN_PATH``: ``python -m cfck.hdf5`` prints its folder, and with
options such as ``max_abs_error=1e-3`` what h5repack takes.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import struct
import sys
from pathlib import Path
from typing import Any, TypedDict

from . import _native
from ._options.kinds import CompressOptions, FilterOptions, Unpack
from ._options.native import native_options
from ._options.signatures import chosen, complete, takes
from .errors import InvalidArgumentError, MissingFileError

__all__ = ["DatasetOptions", "filter", "filter_id", "plugin_path", "repack_option"]

# The words of the filter's client data (hdf5/filter/values.hpp).
_VERSION = 1
_MODES = {None: 0, "max_abs_error": 1, "max_rel_error": 2, "nmse": 3, "bits_per_weight": 4}
_CODECS = {"auto": 0, "raw": 1, "lossless": 2, "direct": 3, "spectral": 4}
_LEVELS = {"fast": 1, "default": 2, "archive": 3}
_STAGES = {"zstd": 1, "rans": 2}
_WRITTEN_ONCE = 1 << 31


_HELP = """\
usage: python -m cfck.hdf5 [NAME=VALUE ...]

Without options, prints the folder of the HDF5 filter plug-in, for HDF5_PLUGIN_PATH.
With options, prints what h5repack -f takes: UD=...

options: max_abs_error, max_rel_error, nmse, bits_per_weight, written_once, codec,
  trellis_states, block, entropy, level; help(cfck.hdf5.filter) in Python says more

  export HDF5_PLUGIN_PATH=$(python -m cfck.hdf5)
  h5repack -f data:$(python -m cfck.hdf5 max_abs_error=1e-3) fields.h5 packed.h5
"""


class DatasetOptions(TypedDict):
    """What h5py's create_dataset() and require_dataset() take of filter()."""

    compression: int
    compression_opts: tuple[int, ...]


def plugin_path() -> str:
    """The folder of the plug-in, for HDF5_PLUGIN_PATH.

    Raises:
        MissingFileError: this build of cfck has no plug-in.
    """
    return str(_plugin().parent)


@functools.cache
def filter_id() -> int:
    """The number of the filter, from the range for testing until one is registered.

    Raises:
        MissingFileError: this build of cfck has no plug-in.
    """
    info = ctypes.CDLL(str(_plugin())).H5PLget_plugin_info
    info.restype = ctypes.POINTER(ctypes.c_int)
    return int(info()[1])  # the second member of H5Z_class2_t


@takes(FilterOptions)
def filter(
    *,
    options: FilterOptions | None = None,
    **fields: Unpack[FilterOptions],
) -> DatasetOptions:
    """What h5py's create_dataset() needs to compress a dataset with cfck.

    Args:
        options: how to store the values: a dict; without a maximum error or target every bit is
            kept.

    Returns:
        Keyword arguments for create_dataset(). Chunks stay the caller's choice (``chunks=``):
        each is compressed for itself, and 2**16 values or more are best, 64 MiB the most.

    A chunk that is filled in several goes (rows are appended, the file is opened anew, the chunk
    is larger than HDF5's cache) is decoded and encoded again each time. Maximum errors and targets
    are kept all the same. ``max_rel_error``, ``nmse`` and ``bits_per_weight`` pay for that with up
    to twice the bits; ``written_once=True`` spares them where each chunk is written once, as by
    ``create_dataset(data=...)``.

    create_dataset() raises ValueError where the dataset cannot have what was asked for: a maximum
    error for integers, or with another filter, such as shuffle, before this one.

    Raises:
        InvalidArgumentError: options that contradict themselves.
        MissingFileError: this build of cfck has no plug-in.
        TypeError: an option has the wrong type.
    """
    words = _words(chosen(FilterOptions, options, fields))
    return {"compression": filter_id(), "compression_opts": words}


@takes(FilterOptions)
def repack_option(
    *,
    options: FilterOptions | None = None,
    **fields: Unpack[FilterOptions],
) -> str:
    """The filter as ``h5repack -f`` takes it, "UD=...", for all datasets; "name:UD=..." is for one.

    Args:
        options: those of filter(): a dict.

    Raises:
        InvalidArgumentError, MissingFileError, TypeError: as filter().
    """
    words = _words(chosen(FilterOptions, options, fields))
    return "UD=" + ",".join(str(value) for value in (filter_id(), 0, len(words), *words))


def _plugin() -> Path:
    """The plug-in: beside this module."""
    path = Path(__file__).with_name("hdf5_plugin") / "libcfck_hdf5.so"
    if not path.exists():
        message = f"this build of cfck has no HDF5 filter plug-in: there is no file {path}"
        raise MissingFileError(message, filename=str(path))
    return path


def _words(options: FilterOptions) -> tuple[int, ...]:
    """The client data that the plug-in gets."""
    given = complete(FilterOptions, options)
    checked = _checked(given)
    names = [name for name in _MODES if name is not None and given[name] is not None]
    beside = 0.0
    if len(names) == 2 and names[0] == "max_abs_error" and names[1] != "max_rel_error":
        beside = checked["max_abs_error"]
        del names[0]
    if len(names) > 1:
        raise InvalidArgumentError(
            f"{' and '.join(names)} exclude each other; only max_abs_error may be given beside "
            "nmse or bits_per_weight"
        )
    mode = names[0] if names else None
    value = 0.0 if mode is None else checked[mode]
    coding = (
        _CODECS[given["codec"]]
        | _LEVELS[given["level"]] << 8
        | _STAGES[given["entropy"]] << 16
        | (given["trellis_states"] or 0) << 24
        | (_WRITTEN_ONCE if given["written_once"] else 0)
    )
    sides = bytes(given["block"] or ())
    if len(sides) > 8:
        raise InvalidArgumentError(f"block has at most 8 sides here, not {len(sides)}")
    packed = struct.pack("<IIdI8sd", _VERSION, _MODES[mode], value, coding, sides, beside)
    return struct.unpack("<9I", packed)


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """Maximum errors and targets as numbers. What else options mean together the plug-in checks."""
    if isinstance(given["codec"], str) and given["codec"] not in _CODECS:
        raise InvalidArgumentError(
            f"codec {given['codec']!r} is none of the filter for HDF5, which has "
            f"{', '.join(_CODECS)}; leave out the codec"
        )
    native_options({**complete(CompressOptions, {}), **given})
    checked = {name: given[name] for name in _MODES if name is not None}
    if isinstance(checked["nmse"], str):
        checked["nmse"] = _native.parse_nmse(checked["nmse"])
    for name, value in checked.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise InvalidArgumentError(f"{name} is a positive, finite number, not {value}")
    is_lossy = any(value is not None for value in checked.values())
    if is_lossy and given["codec"] in ("raw", "lossless"):
        raise InvalidArgumentError(
            f"codec {given['codec']} keeps every bit; leave out it or the maximum error or target"
        )
    if not is_lossy and given["codec"] in ("direct", "spectral"):
        raise InvalidArgumentError(f"codec {given['codec']} needs a maximum error or a target")
    _check_written_once(given)
    return checked


def _check_written_once(given: dict[str, Any]) -> None:
    """Options of codec spectral, which has no grid that decoded values would lie on."""
    if not isinstance(given["written_once"], bool):
        kind = type(given["written_once"]).__name__
        raise TypeError(f"written_once is bool, not {kind}: {given['written_once']!r}")
    asked = [name for name in ("trellis_states", "block") if given[name]]
    asked += ["codec spectral"] if given["codec"] == "spectral" else []
    if asked and not given["written_once"]:
        raise InvalidArgumentError(
            f"{' and '.join(asked)}: this is for chunks that are written once, as a whole: values "
            "that are decoded and encoded again, as when rows are appended to a chunk, would "
            "change each time. Say written_once=True if that does not happen, as with "
            "create_dataset(data=...); without it max_abs_error, max_rel_error, nmse and "
            "bits_per_weight are kept by codec direct"
        )


def _show_to_h5py() -> None:
    """Adds the plug-in's folder to those that h5py's libhdf5 looks in, before all others."""
    try:
        import h5py.h5pl
    except ImportError:
        return  # filter() and plugin_path() are of use to other libraries too
    path = os.fsencode(plugin_path())
    known = [h5py.h5pl.get(i) for i in range(h5py.h5pl.size())]
    if path not in known:
        h5py.h5pl.prepend(path)


def _main(arguments: list[str]) -> int:
    """Prints the folder of the plug-in, or what h5repack takes for options NAME=VALUE."""
    if any(argument in ("-h", "--help") for argument in arguments):
        print(_HELP, end="")
        return 0
    if not arguments:
        print(plugin_path())
        return 0
    options: dict[str, Any] = {}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals:
            print(f"options are NAME=VALUE, such as max_abs_error=1e-3, not {argument}")
            return 2
        options[name] = _value(name, text)
    try:
        print(repack_option(**options))
    except (InvalidArgumentError, TypeError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _value(name: str, text: str) -> Any:
    """An option from the command line."""
    if name == "block":
        return tuple(int(side) for side in text.replace("x", ",").split(","))
    if name == "written_once" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


_show_to_h5py()
if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
