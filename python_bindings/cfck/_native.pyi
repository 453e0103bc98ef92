from collections.abc import Mapping, Sequence
import enum
from typing import Annotated

from numpy.typing import NDArray


def library_version() -> str: ...

def default_thread_count() -> int:
    """Number of CPUs this process may use."""

def advise_huge_pages(address: int, n_bytes: int) -> None:
    """Asks for huge pages in memory that is about to be filled."""

class Base:
    """Tensors that files are stored against."""

    @staticmethod
    def of_memory(tensors: Sequence[tuple[str, str, Sequence[int], int]], owner: object) -> Base:
        """
        Tensors in host memory, contiguous, which `owner` keeps alive: (name, dtype, shape, address) each.
        """

    @staticmethod
    def open(path: bytes, *, verify: bool, max_decoded_bytes: int, limits: Mapping[str, int], base_dirs: Sequence[bytes]) -> Base:
        """All tensors of a file or folder of any format."""

    @property
    def name(self) -> str:
        """
        The name of the file; empty where it is none that another one can name.
        """

def dependents_of(path: bytes) -> list[bytes]:
    """
    The names of the files of its folder that are stored against a file, sorted.
    """

def check_no_dependents(path: bytes, otherwise: str) -> None:
    """
    Raises ExistsError if there are such files. A path without a file has none.
    `otherwise` says what the caller can do, besides making them stand alone.
    """

def apply_patch(address: int, n_bytes: int, tensors: Sequence[tuple[str, str, Sequence[int], int]], *, copies: set[str], targets: object, threads: int, verify: bool, max_decoded_bytes: int, limits: Mapping[str, int], progress: object | None, total_bytes: int) -> None:
    """
    Gives tensors in host memory, as Base.of_memory has them, the values of a file in memory: all of them or none. When everything is proven and those named in `copies`, of tensors elsewhere, have their values, it calls targets.prepare(changed) with the names of those that change, which may raise: then all others get theirs back. Afterwards targets.is_written is True.
    """

def tensor_bytes(dtype: str, shape: Sequence[int]) -> int:
    """Number of bytes of a contiguous tensor."""

def write_archive(path: bytes, *, options: EncodeOptions, progress: object | None) -> tuple[bytes, WriteSummary]:
    """
    Writes the tensors of a file or folder of any format as a .cfck file in memory.
    """

class CalibratedTensor:
    """The measurements of one tensor. Arrays are used where they are."""

    def __init__(self, *, name: str, shape: Sequence[int], tied_to: str, sigma: float, log2_step: float, second_moment: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, input_axis: int, n_positions: int, corrected: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None) -> None: ...

class Calibration:
    """A calibration for writers."""

    @staticmethod
    def of_tensors(source: str, step: float | None, tensors: Sequence[CalibratedTensor]) -> Calibration: ...

    @staticmethod
    def open_path(path: bytes) -> Calibration: ...

def max_row_packet_bytes(batches: Sequence[tuple[str, int, int, int, float, int]]) -> int:
    """
    The most bytes of a packet: (dtype, n_rows, row_elems, address, max_abs_error, address of keys or 0) each.
    """

def encode_rows(batches: Sequence[tuple[str, int, int, int, float, int]], bytes_per_second: float, out: int, out_bytes: int) -> int:
    """Encodes batches into memory; returns the length of the packet."""

def row_packet_shapes(address: int, n_bytes: int) -> list[tuple[str, int, int, int, bool]]:
    """
    (dtype, n_rows, row_elems, n_unique, needs_keys) of each batch, unverified.
    """

def decode_rows(address: int, n_bytes: int, batches: Sequence[tuple[int, int, int, int]]) -> None:
    """
    Verifies a packet and decodes it: (address, n_bytes, address of keys or 0, n_keys) each.
    """

class TemporaryFolder:
    """A folder that is filled before it gets its name."""

    @staticmethod
    def create(target: bytes) -> TemporaryFolder:
        """A new folder beside an absolute path, open to this user alone."""

    @property
    def path(self) -> bytes: ...

    def put_in_place(self, target: bytes, like: bytes, names: Sequence[bytes], dropped: Sequence[bytes], replaces: bool) -> None:
        """
        Gives the folder, with files of these names, the place of the target and the
        permissions of the folder `like`. An existing target is replaced: its files of other
        names stay, but for those that are dropped.
        """

    def remove(self) -> None:
        """Removes the folder of this name, with all its contents."""

def max_gradient_packet_bytes(tensors: Sequence[tuple[int, int, int, int]]) -> int:
    """
    The most bytes of a packet: (n_elems, address of indices, of values, n_values) each.
    """

def encode_gradients(tensors: Sequence[tuple[int, int, int, int]], value_error: float, out: int, out_bytes: int, decoded: int, n_values: int) -> int:
    """Encodes tensors into memory; returns the length of the packet."""

def gradient_packet_shapes(address: int, n_bytes: int) -> list[tuple[int, int]]:
    """(n_elems, n_values) of each tensor of a packet, unverified."""

def decode_gradients(address: int, n_bytes: int, indices: int, values: int, n_values: int) -> None:
    """Verifies a packet and decodes it into memory."""

def add_gradients(address: int, n_bytes: int, weight: float, tensors: Sequence[tuple[int, int]]) -> None:
    """Verifies a packet and adds it to tensors: (address, n_elems) each."""

def select_largest(values: int, n_values: int, indices: int, n_wanted: int) -> None:
    """Finds the indices of the largest magnitudes."""

def accumulate_and_select(gradient: int, momentum: int, velocity: int, n_values: int, factor: float, nesterov: bool, indices: int, values: int, n_wanted: int) -> None:
    """
    Momentum correction, accumulation, and the same; address 0: no momentum. Puts the values beside their indices.
    """

def keep_unsent(indices: int, values: int, decoded: int, n_sent: int, momentum: int, velocity: int, n_values: int) -> None:
    """
    Leaves in velocity what was lost of values that were sent, and zeros in momentum; address 0: no momentum.
    """

class MessageEncoder:
    """Encodes tensors in the memory of a device as messages there."""

    def __init__(self, tensors: Sequence[tuple[str, Sequence[int]]], options: EncodeOptions, device: int, scratch_bytes: int) -> None: ...

    @property
    def tries_device(self) -> bool: ...

    @property
    def workspace_bytes(self) -> int: ...

    @property
    def staging_bytes(self) -> int: ...

    @property
    def out_bytes(self) -> int: ...

    @property
    def offsets(self) -> list[int]:
        """Where messages begin in the memory."""

    def run(self, values: Sequence[int], out: int, out_bytes: int, workspace: int, staging: int, staging_bytes: int, stream: int) -> list[int]:
        """Returns the lengths of the messages."""

def max_message_bytes(dtype: str, shape: Sequence[int], options: EncodeOptions) -> int:
    """The most bytes that a message of the tensor has."""

def encode_message(dtype: str, shape: Sequence[int], address: int, options: EncodeOptions) -> bytes:
    """Encodes a contiguous tensor of the host."""

def encode_message_into(dtype: str, shape: Sequence[int], address: int, options: EncodeOptions, out: int, out_bytes: int) -> int:
    """The same, into memory; returns the length of the message."""

def message_info(address: int, n_bytes: int) -> tuple[str, list[int], int]:
    """Returns dtype, shape and decoded bytes of a message, unverified."""

def decode_message(address: int, n_bytes: int, out: int, out_bytes: int) -> None:
    """Verifies a message and decodes it into memory."""

def default_entropy() -> str:
    """What writers use unless told otherwise."""

def is_optimizer_state(name: str) -> bool:
    """Whether plain options leave a tensor alone because of its name."""

def matches_glob(pattern: str, name: str) -> bool:
    """Whether the pattern of a rule matches a name."""

def parse_nmse(text: str) -> float:
    """A ratio or decibels, as a ratio."""

def parse_psnr(text: str) -> float:
    """Decibels, with their unit or without."""

def parse_size(text: str) -> int:
    """A number with a unit or without, in bytes."""

class TensorOptions:
    """Choices for a tensor, not checked yet."""

    def __init__(self, *, codec: str, max_abs_error: float | None, max_rel_error: float | None, max_sigma_error: float | None, per_row: bool, nmse: float | None, psnr: float | None, bits_per_weight: float | None, trellis_states: int | None, steps: str | None, block: Sequence[int], quality: str | None) -> None: ...

class LearnedSteps:
    """Steps that a tensor was trained with."""

    def __init__(self, *, step: float, bands: Sequence[int], rows: Sequence[int], columns: Sequence[int], block: Sequence[int], trellis_states: int) -> None: ...

class EncodeOptions:
    """Choices for a file, not checked yet."""

    def __init__(self, *, plain: TensorOptions, size: int | None, rules: Sequence[tuple[str, TensorOptions, bool]], calibration: Calibration | None, exempt: Sequence[str], threads: int, chunk_elems: int, entropy: str, level: str, learned_steps: Sequence[tuple[str, LearnedSteps]], base: Base | None) -> None:
        """A rule is a pattern, its options, and whether it lifts exemptions."""

class RecordKind(enum.Enum):
    """How a record is stored."""

    CHUNKED = 0

    PACKED = 1

    ALIAS = 2

    DUPLICATE = 3

class Record:
    """What a file says about one tensor."""

    @property
    def name(self) -> str: ...

    @property
    def hidden(self) -> bool:
        """Storage behind aliases, or a name that is none of the model."""

    @property
    def file(self) -> int:
        """Number of the file that has it."""

    @property
    def format(self) -> str:
        """Format of that file: cfck, safetensors..."""

    @property
    def kind(self) -> RecordKind: ...

    @property
    def dtype(self) -> str:
        """Name of the dtype, as in safetensors."""

    @property
    def codec(self) -> str: ...

    @property
    def entropy(self) -> str: ...

    @property
    def shape(self) -> list[int]: ...

    @property
    def base(self) -> int:
        """Index of the base record of an alias."""

    @property
    def element_offset(self) -> int:
        """First element of an alias in its base."""

    @property
    def strides(self) -> list[int]:
        """Strides of an alias, in elements."""

    @property
    def n_elems(self) -> int: ...

    @property
    def decoded_bytes(self) -> int: ...

    @property
    def stored_bytes(self) -> int: ...

    @property
    def n_chunks(self) -> int: ...

    @property
    def digest(self) -> str:
        """Hash of the decoded bytes, in hexadecimal."""

    @property
    def is_difference(self) -> bool:
        """Whether it is stored against the tensor of its name in the base."""

    @property
    def bits_per_weight(self) -> float: ...

    @property
    def bound_kind(self) -> str | None: ...

    @property
    def bound(self) -> float | None: ...

    @property
    def per_row(self) -> bool | None: ...

    @property
    def max_abs_error(self) -> float | None: ...

    @property
    def rmse(self) -> float | None: ...

    @property
    def target_kind(self) -> str | None: ...

    @property
    def target(self) -> float | None: ...

    @property
    def whole_file(self) -> bool | None: ...

    @property
    def rms(self) -> float | None: ...

    @property
    def nmse_db(self) -> float | None: ...

class BackgroundRead:
    """
    Batches of records that are read on a thread of its own, one after the other, without the GIL.
    """

    def wait(self, batch: int) -> bool:
        """Waits until a batch is over; True if it was read."""

    def stop(self) -> None:
        """Waits for the batch that is being read; those after it are not read."""

class Archive:
    """
    Files of any format, opened: one, or those of a folder. All methods may be called concurrently.
    """

    @staticmethod
    def open_path(path: bytes, *, map: bool, only_tensors: bool, threads: int, verify: bool, max_decoded_bytes: int, limits: Mapping[str, int], base: Base | None, base_dirs: Sequence[bytes]) -> Archive:
        """Opens a file, an index of shards, or a folder with one model."""

    @staticmethod
    def open_memory(owner: object, address: int, n_bytes: int, *, threads: int, verify: bool, max_decoded_bytes: int, limits: Mapping[str, int], base: Base | None, base_dirs: Sequence[bytes]) -> Archive: ...

    @staticmethod
    def open_device(owner: object, device: int, address: int, n_bytes: int, *, threads: int, verify: bool, max_decoded_bytes: int, limits: Mapping[str, int], base: Base | None, base_dirs: Sequence[bytes]) -> Archive:
        """
        Opens bytes in the memory of a CUDA device, complete by now, which `owner` keeps alive.
        """

    def records(self) -> list[Record]:
        """All records in file order, hidden ones included."""

    def base_of(self, record: int) -> Record | None:
        """The record whose bytes an alias or a duplicate uses; None for others."""

    def metadata(self) -> dict[str, str]:
        """User metadata; of several files, the first one that has a key counts."""

    def notes(self) -> list[tuple[bytes, str]]:
        """Paths, and what their files have and was not read."""

    def attachments(self) -> list[dict[str, int]]:
        """
        For each file the names of its attachments, and how many bytes each has.
        """

    def attachment(self, file: int, name: str) -> bytes: ...

    def check_sizes(self, sizes: Sequence[tuple[int, int]]) -> None:
        """
        LimitExceededError if one call may not return so much of a file: (record index, bytes) each.
        """

    def read_many(self, requests: Sequence[tuple[int, int, int]], progress: object | None) -> None:
        """Decodes records into memory: (record index, address, bytes) each."""

    def start_reading(self, batches: Sequence[Sequence[tuple[int, int, int]]], owner: object) -> BackgroundRead:
        """
        Begins to decode batches of requests as read_many() has them, whose memory `owner` keeps alive.
        """

    def base_names(self) -> list[str | None]:
        """
        For each file the name of the file that it is stored against, empty for one in memory; None for a file that stands alone.
        """

    def read_slice(self, record: int, starts: Sequence[int], stops: Sequence[int], address: int, n_bytes: int) -> None:
        """Decodes a box of a record into memory."""

def why_not_cuda(device: int) -> str | None:
    """Why the device of this number can do nothing here; None where it can."""

class DeviceLoad:
    """A load of records of one file that is decoded on a device."""

    def __init__(self, archive: Archive, requests: Sequence[tuple[int, int, int, Sequence[int], Sequence[int]]], device: int, progress: object | None) -> None: ...

    @property
    def workspace_bytes(self) -> int: ...

    @property
    def staging_bytes(self) -> int: ...

    @property
    def least_staging_bytes(self) -> int: ...

    def run(self, workspace: int, staging: int, staging_bytes: int, stream: int) -> tuple[int, int]:
        """
        Decodes everything on a stream: returns the bytes that the device has decoded, and the host.
        """

class WriterDevice:
    """A device that encodes the tensors in its memory for one file."""

    def __init__(self, device: int, pass_bytes: int, scratch_bytes: int) -> None: ...

    @property
    def number(self) -> int: ...

    @property
    def workspace_bytes(self) -> int: ...

    @property
    def staging_bytes(self) -> int: ...

    def use(self, workspace: int, staging: int, staging_bytes: int, stream: int) -> None:
        """Sets the memory, which the caller keeps alive, and the stream."""

    def close(self) -> None:
        """Waits for what is under way, and gives up the memory."""

    @property
    def device_bytes(self) -> int: ...

    @property
    def host_bytes(self) -> int: ...

TRAINING_STEPS_PER_OCTAVE: int = 256

class TrainingSteps:
    """A step, and exponents in 256ths of an octave; an empty list: all 0."""

    def __init__(self, step: float, bands: Sequence[int], rows: Sequence[int], columns: Sequence[int]) -> None: ...

class WeightQuantiser:
    """The quantiser of a tensor. Arguments are addresses of float32."""

    def __init__(self, shape: Sequence[int], block: Sequence[int]) -> None: ...

    @property
    def n_values(self) -> int: ...

    @property
    def n_rows(self) -> int: ...

    @property
    def n_columns(self) -> int: ...

    @property
    def n_bands(self) -> int:
        """Number of ranges of bands."""

    @property
    def block(self) -> list[int]: ...

    @property
    def range_of_band(self) -> list[int]: ...

    def quantise(self, weights: int, steps: TrainingSteps, values: int, threads: int) -> None:
        """Writes the values that a file decodes to."""

    def step_gradients(self, weights: int, steps: TrainingSteps, value_gradients: int, n_examples: float, gradients: int, threads: int) -> None:
        """
        Writes derivatives by log2 of steps: of bands, then of rows, then of columns.
        """

    def fit_rate(self, weights: int, steps: TrainingSteps, bins: int) -> tuple[int, int]:
        """
        Writes a scale bin for each coefficient; returns a family of frequency tables, and the bits of the record.
        """

    def bits(self, weights: int, steps: TrainingSteps, bins: int, family: int, threads: int) -> float:
        """The bits of all coefficients."""

    def bit_gradients(self, weights: int, steps: TrainingSteps, bins: int, family: int, scale: float, weight_gradients: int, gradients: int, threads: int) -> None:
        """Writes derivatives of the bits, times scale."""

class WriteSummary:
    """What became of the tensors that were written."""

    @property
    def n_records(self) -> int: ...

    @property
    def decoded_bytes(self) -> int: ...

    @property
    def stored_bytes(self) -> int: ...

    @property
    def file_bytes(self) -> int: ...

    @property
    def step(self) -> float: ...

    @property
    def kept_lossless(self) -> list[tuple[str, str]]:
        """
        Tensors that were meant to have a maximum error and have none, and why.
        """

    @property
    def stored_apart(self) -> list[str]: ...

    @property
    def unmatched_rules(self) -> list[str]: ...

def loss_warnings(summary: WriteSummary, options: EncodeOptions) -> list[str]:
    """What somebody who saved with these options should be told."""

def write_file(path: bytes, units: Sequence[Sequence[tuple]], metadata: Mapping[str, str], attachments: Mapping[str, bytes], *, options: EncodeOptions, verify: bool, sync: bool, progress: object | None, total_bytes: int, device: WriterDevice | None = None) -> WriteSummary:
    """
    Writes a file that appears complete or not at all. A unit is a list of tensors that may
    share memory: of the host (name, dtype, shape, strides, address), or of others (name, dtype,
    shape, read, address, (device, n_bytes) or None). `device` encodes those in its memory.
    """

def write_stored(path: bytes, data: bytes, metadata: Mapping[str, str], *, threads: int, verify: bool, sync: bool) -> int:
    """
    Writes a .cfck file that is in memory, with this metadata in place of its own, as
    write_file would have written it; it is not encoded again. Returns its length.
    """

def write_bytes(units: Sequence[Sequence[tuple]], metadata: Mapping[str, str], *, options: EncodeOptions, progress: object | None, total_bytes: int, device: WriterDevice | None = None) -> tuple[bytes, WriteSummary]:
    """The same, as bytes."""

def update_file(path: bytes, units: Sequence[Sequence[tuple]], remove: Sequence[str], metadata: Mapping[str, str], *, options: EncodeOptions, force: bool, progress: object | None, total_bytes: int, device: WriterDevice | None = None) -> WriteSummary:
    """
    Appends a generation to a file. Tensors that others are stored against are replaced only by force.
    """
