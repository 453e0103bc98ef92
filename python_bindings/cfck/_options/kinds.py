"""The options of calls as types. The docstrings are the only place that describes an option:
``takes`` copies the entries that most calls want into the functions that take them, and
docs/options.md has all."""

from __future__ import annotations

import os
import typing
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, runtime_checkable

from .. import _native
from .._common.progress import Progress

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack
else:
    # Signatures name it, and get_type_hints() looks it up; Python 3.10 has none.
    Unpack = getattr(typing, "Unpack", typing.Optional)


@runtime_checkable
class NativeCalibration(Protocol):
    """A cfck.Calibration, which knows how to save itself and so cannot be imported here."""

    def _for_library(self) -> _native.Calibration:
        """The calibration for the library."""


class TensorOptions(TypedDict, total=False):
    """How to store a tensor.

    At most one of the three maximum errors may be given. At most one of quality, nmse, psnr and
    bits_per_weight may be given, with max_abs_error or without.

    codec: "auto" (fewest bytes), "raw", "lossless", "direct", which needs a maximum error, or
        "spectral", which needs max_abs_error, quality or a target, such as bits_per_weight, or size
        where a call takes it; at most one. With a quality or a target "auto" takes it. Codec "rows"
        stores rows along the last axis that repeat once, without loss or within a maximum error;
        "auto" takes it where a tensor has such rows and level is not "fast".
    max_abs_error: the most by which a value may change, in the units of the values. Without a
        maximum error or target every bit is kept. At most one of the three maximum errors may be
        given. NaN and infinities come back bit for bit, -0.0 may become 0.0. It reaches tensors of
        F64, F32, BF16 and F16 of two or more dimensions and at least 1024 values, except optimizer
        state (*exp_avg*, *momentum_buffer*, optimizer.*, optimizer/*, optimizer_weights/*) and
        tensors whose root mean square is below max_abs_error; all others keep every bit. In
        compress(), in a rule that is the full name of a tensor, and in one with force, it reaches
        every tensor of these dtypes.
    max_rel_error: likewise, as a fraction of the range of each tensor, largest minus smallest
        finite value.
    max_sigma_error: likewise, in standard deviations of the finite values of each tensor.
    per_row: take the range or deviation of each row of axis 0, not of the whole tensor; a tensor
        of fewer than two dimensions is one row.
    nmse: the mean squared error over the mean square of the values, 0.01 or "-20dB", of all
        tensors together that a maximum error would reach, kept and met within 0.05 dB. In a rule
        targets are for each tensor instead.
    psnr: the square of the range of the values over the mean squared error, 40 or "40dB".
    bits_per_weight: the most that these tensors may take.
    trellis_states: for codec "spectral": 64 (fewest bytes at an error), 8, 4 or 1; None: 8, and at
        level "archive" 64.
    steps: for codec "spectral": "model" (relative to the values of each tensor, as suits the
        weights of a model; the default for quality, bits_per_weight and size), "flat" (one step for
        all tensors; the default for nmse and psnr), "prior" (kernels of 3x3 by a table),
        "calibrated" (the default with a calibration, unless it is of noise), or "feedback" (the
        same, and the other weights of a layer compensate what errors do to its outputs; the
        calibration must come from data; the default for a target with one that refine() made).
    block: for codec "spectral": sides, 1 to 64, of the blocks that are transformed, along the last
        axes, such as (8, 8); (1,): nothing is. At most 4096 values in all; sides longer than their
        axis are cut to it, and tensors of fewer axes are done as without. None: convolution
        kernels, or 64 rows of matrices, where that saves bits.
    quality: in place of a target: "near-lossless", "high", "balanced" or "small". docs/quality.md
        says what models of several kinds did with each. Works from the weights alone, and better
        with a calibration. In compress(), in a rule that is the full name of a tensor, and in one
        with force, it reaches every tensor of F64, F32, BF16 and F16.
    """

    codec: Literal["auto", "raw", "lossless", "direct", "spectral", "rows"]
    max_abs_error: float | None
    max_rel_error: float | None
    max_sigma_error: float | None
    per_row: bool
    nmse: float | str | None
    psnr: float | str | None
    bits_per_weight: float | None
    trellis_states: int | None
    steps: Literal["flat", "prior", "model", "calibrated", "feedback"] | None
    block: Sequence[int] | None
    quality: Literal["near-lossless", "high", "balanced", "small"] | None


class RuleOptions(TensorOptions, total=False):
    """The options of a rule.

    force: reach also what a rule with wildcards leaves lossless: tensors of fewer than two
        dimensions or 1024 values, optimizer state, and tensors near zero.
    """

    force: bool


# Tensors by name: a dict, or a torch.nn.Module.
BaseTensors = Any

# The first rule that matches a name counts.
Rules = Mapping[str, RuleOptions] | Sequence[tuple[str, RuleOptions]]


class EffortOptions(TypedDict, total=False):
    """How much work goes into the bytes.

    entropy: how the bytes of floats are coded: "rans" (fewer bytes, and faster to load) or "zstd"
        (any Zstd unpacks the symbols). RecordInfo names what each record uses.
    level: "fast" (the fewest passes), "default", or "archive" (the fewest bytes: may take several
        times as long, and load somewhat slower).
    """

    entropy: Literal["zstd", "rans"]
    level: Literal["fast", "default", "archive"]


class CompressOptions(TensorOptions, EffortOptions, total=False):
    """The options of compress().

    chunk_elems: values per chunk, the unit in which slices, threads and devices read; 0: at
        most 2**18, in equal chunks. Rounded down to whole rows of axis 0 where one fits, otherwise
        to a multiple of 8; codec "spectral" also keeps its blocks whole. A chunk has at most
        64 MiB of values.
    threads: worker threads; 0: the CPUs this process may use. The bytes do not depend on it.
    """

    chunk_elems: int
    threads: int


class MessageOptions(EffortOptions, total=False):
    """The options of encode_message().

    codec: "auto" (fewest bytes of the next three), "raw", "lossless", "direct", which needs a
        maximum error, or "rows" for rows that repeat. Where a codec saves nothing the message is
        raw.
    max_abs_error: the most by which a value may change, in the units of the values. Without a
        maximum error every bit is kept. At most one of the three may be given. NaN and infinities
        come back bit for bit, -0.0 may become 0.0. For F64, F32, BF16 and F16 of any shape; other
        dtypes are refused.
    max_rel_error: likewise, as a fraction of the range of the tensor, largest minus smallest finite
        value.
    max_sigma_error: likewise, in standard deviations of the finite values of the tensor.
    per_row: take the range or deviation of each row of axis 0, not of the whole tensor.
    chunk_elems: values per chunk, so that chunks can be decoded side by side; 0: at most
        2**18, in equal chunks. Rounded down to whole rows of axis 0 where one fits, otherwise to a
        multiple of 8. A chunk has at most 64 MiB of values, and takes 4 bytes in the message if
        there are several.
    """

    codec: Literal["auto", "raw", "lossless", "direct", "rows"]
    max_abs_error: float | None
    max_rel_error: float | None
    max_sigma_error: float | None
    per_row: bool
    chunk_elems: int


class FilterOptions(EffortOptions, total=False):
    """The options of cfck.hdf5.filter().

    codec: "auto" (fewest bytes), "raw", "lossless", "direct", which needs a maximum error, or
        "spectral", which needs a maximum error or a target; for smooth fields try it with a maximum
        error and ``block``.
    max_abs_error: the most by which a value may change, in the units of the values. Without a
        maximum error or target every bit is kept. NaN and infinities come back bit for bit, -0.0
        may become 0.0. For F64, F32, BF16 and F16; other dtypes are refused.
    max_rel_error: likewise, as a fraction of the range of the values of each chunk, so that it is
        kept for the whole dataset too. The fill value does not count towards the range.
    nmse: the mean squared error over the mean square of the values, 0.01 or "-20dB", of each chunk.
        max_abs_error may be given beside it.
    bits_per_weight: the most that the values of a chunk may take, its header included.
        max_abs_error may be given beside it.
    trellis_states: for codec "spectral": 64 (fewest bytes at an error), 8, 4 or 1; None: 8, and at
        level "archive" 64.
    block: for codec "spectral": sides, 1 to 64, of the blocks that are transformed, along the last
        axes, such as (8, 8, 8) for a field of three dimensions; at most 4096 values in all.
    written_once: your word that every chunk is written once and as a whole, as by
        ``create_dataset(data=...)``: max_rel_error, nmse and bits_per_weight then take fewer bytes,
        and codec "spectral" can be had. Where a chunk is written in several goes all the same, its
        errors add up. False: they never do.
    """

    codec: Literal["auto", "raw", "lossless", "direct", "spectral"]
    max_abs_error: float | None
    max_rel_error: float | None
    nmse: float | str | None
    bits_per_weight: float | None
    trellis_states: int | None
    block: Sequence[int] | None
    written_once: bool


class RefineOptions(CompressOptions, total=False):
    """The options of refine(): those that the file will be saved with.

    size: the most that the file may take, in bytes or as "60MB" or "60MiB"; met within 0.5 % where
        there is something to lose. It is for whole files: not in a rule, not for an update.
    rules: options by name, {"*.weight": {"max_sigma_error": 1e-3}, ...} or a list of such pairs:
        cfck.RuleOptions for the tensors whose names match the pattern. The first rule that
        matches counts, and nothing else. * stands for any characters, ? for one, [abc] and [!abc]
        for one of (not) these.
    """

    size: int | str | None
    rules: Rules | None


class SaveBytesOptions(RefineOptions, total=False):
    """The options of save(): those of SaveOptions but for the ones of files.

    calibration: what cfck.calibrate returns for this model, or the path of its file.
    base: what whoever loads the file will have: names to tensors, a model, or the path of a file or
        folder of any format. A tensor that has one of its name, dtype and shape there is stored as
        the difference where that takes fewer bytes; every bit is kept. A file remembers the name of
        a base that is a single .cfck file, and load_file() looks for that beside the file. It has
        to be told of any other base, with ``base`` or ``base_dirs``; if that is a path, saving a
        file warns so. See docs/patches.md. Not for update().
    encode: who encodes tensors of a CUDA device. "auto": that device where it can and there is
        enough to do, else the host; "device": the device, and where it cannot be used that is an
        UnsupportedError; "host": values are copied and encoded by the host. The file is the same.
        What a device does not encode (docs/devices.md) the host does in any case.
    progress: called as progress(done_bytes, total_bytes, name), of decoded bytes; what it raises
        ends the call. True: a bar on stderr.
    """

    calibration: NativeCalibration | str | os.PathLike[str] | None
    base: BaseTensors | str | os.PathLike[str] | None
    encode: Literal["auto", "device", "host"]
    progress: Progress | bool | None


class UpdateOptions(SaveBytesOptions, total=False):
    """The options of update(): those of SaveOptions but for the ones of whole files.

    replace_base: replace a file, or in update() tensors, although files of the folder are stored
        against them (``base``) and cannot be read without their values afterwards. False: that is
        an ExistsError with the names of these files.
    """

    replace_base: bool


class SaveOptions(UpdateOptions, total=False):
    """The options of save_file(), save_model() and save_checkpoint(), but for ``verify`` and
    ``fsync`` those of update(), and but for ``replace_base`` too those of save(). All may be left
    out.

    verify: decode what was written and compare it before the old file is replaced; tensors that
        lose something with the values whose errors were measured.
    fsync: wait until the file is on the disk.
    """

    verify: bool
    fsync: bool


class LimitOptions(TypedDict, total=False):
    """The limits of a call that reads.

    threads: worker threads; 0: the CPUs this process may use.
    max_decoded_bytes: the most one call may decode, also as text ("60GB"); 0: max(16 GiB, 64
        times the file) of each file.
    limits: raises or lowers what the file may make this call hold in memory, by name: a dict of
        "max_decoded_bytes", "max_attachment_bytes", "max_index_bytes", "max_metadata_bytes",
        "max_records", "max_bases"; numbers, or sizes as "60MB". See docs/limits.md.
    """

    threads: int
    max_decoded_bytes: int | str
    limits: Mapping[str, int | str] | None


class ReadOptions(LimitOptions, total=False):
    """The options of decompress().

    verify: check the hash of every chunk that is read; safetensors files have none.
    decode: who decodes tensors that go to a CUDA device. "auto": the device, and where it cannot
        be used the host, with a DeviceWarning that says why; "device": the device, or an
        UnsupportedError; "host": the host, and the values are copied. The values are the same.
        Records for which a device has no kernel (docs/devices.md) are decoded by the host in any
        case. A device that PyTorch itself cannot use is a DeviceError, whatever this says.
    """

    verify: bool
    decode: Literal["auto", "device", "host"]


class BaseOptions(TypedDict, total=False):
    """The option of calls that read whole files, or their bytes.

    base: what a file is stored against, if it is, in place of the file that it names: tensors by
        name, a model, or the path of a file or folder of any format.
    """

    base: BaseTensors | str | os.PathLike[str] | None


class LoadBytesOptions(ReadOptions, BaseOptions, total=False):
    """The options of load().

    progress: called as progress(done_bytes, total_bytes, name), of decoded bytes; what it raises
        ends the call. True: a bar on stderr.
    """

    progress: Progress | bool | None


class FileOptions(TypedDict, total=False):
    """The options of files alone: those that bytes do not take.

    backend: "pread" reads private copies; "mmap" maps the file, which kills the process if another
        one truncates it meanwhile.
    base_dirs: folders in which the file that a file is stored against is looked for, after the
        folder of that file.
    only_tensors: take the tensors of a file of PyTorch, numpy, HDF5 or Keras alone, without the
        containers and plain values around them, and leave out what is refused otherwise, such as
        objects of classes. Nothing in the file is executed; a LeftOutWarning names what is missing.
    """

    backend: Literal["pread", "mmap"]
    base_dirs: Sequence[str | os.PathLike[str]]
    only_tensors: bool


class OpenOptions(ReadOptions, BaseOptions, FileOptions, total=False):
    """The options of safe_open(): those of LoadOptions but for ``progress``."""


class LoadOptions(OpenOptions, LoadBytesOptions, total=False):
    """The options of load_file(), load_model() and load_checkpoint(), and those among them that
    make sense there of load(), safe_open() and decompress(). All may be left out.
    """


class StreamOptions(OpenOptions, total=False):
    """The options of compressed(); those of FileOptions are for files, and not for bytes.

    threads: threads that decode a weight; 0: the CPUs this process may use. They take turns with
        those of the model.
    prefetch: decode the next weight in a thread of its own while the model computes.
    """

    prefetch: bool
