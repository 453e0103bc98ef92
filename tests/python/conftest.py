"""Inputs and comparisons that several tests share."""

from __future__ import annotations

import os

import cfck
import numpy as np
import pytest
import torch

TORCH_DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.float16,
    torch.bfloat16, torch.int32, torch.uint32, torch.float32, torch.complex64, torch.float64,
    torch.int64, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
]  # fmt: skip


def random_bits(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 1) -> torch.Tensor:
    """A tensor of any bit patterns, NaNs included."""
    itemsize = torch.empty(0, dtype=dtype).element_size()
    n_bytes = int(np.prod(shape, dtype=int)) * itemsize
    data = np.random.Generator(np.random.PCG64(seed)).integers(0, 256, n_bytes, dtype=np.uint8)
    if dtype == torch.bool:
        data &= 1
    if not n_bytes:
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(data).view(dtype).reshape(shape)


def weights(*shape: int, seed: int = 1) -> torch.Tensor:
    """A tensor that looks like the weights of a model."""
    generator = np.random.Generator(np.random.PCG64(seed))
    return torch.from_numpy(generator.standard_normal(shape, dtype=np.float32) * 0.05)


def bits(tensor: torch.Tensor | np.ndarray) -> bytes:
    """The bytes of the contiguous tensor."""
    if isinstance(tensor, np.ndarray):
        return tensor.tobytes()
    if tensor.numel() == 0:
        return b""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def assert_same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert bits(actual) == bits(expected)


def shares_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.cfck"


def state() -> dict[str, torch.Tensor]:
    """One tensor for each reason to keep every bit, and two without."""
    return {
        "layer.weight": weights(64, 64),
        "layer.bias": weights(4096, seed=2),
        "small.weight": weights(31, 33, seed=3),
        "tiny.weight": weights(64, 64, seed=4) * 1e-4,
        "a.exp_avg": weights(64, 64, seed=5),
        "ids": torch.arange(4096).reshape(64, 64),
        "constant.weight": torch.full((64, 64), 0.5),
        "other.weight": weights(64, 64, seed=6),
    }


def records(path: os.PathLike[str]) -> dict[str, cfck.RecordInfo]:
    """The records of a file, by name."""
    with cfck.safe_open(path, "pt") as file:
        return {record.name: record for record in file.records()}


@pytest.fixture
def one_thread():
    """Sums of torch, and so what is measured, depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def two(tmp_path_factory):
    """Two ranks of torch.distributed: two(function, *args) is what it returns on each."""
    yield from _ranks(2, tmp_path_factory)


@pytest.fixture(scope="session")
def four(tmp_path_factory):
    """Four ranks, which take longer: for what two cannot show, such as nodes of two ranks."""
    yield from _ranks(4, tmp_path_factory)


def _ranks(n, tmp_path_factory):
    from ranks import Ranks

    ranks = Ranks(n, str(tmp_path_factory.mktemp("ranks") / "store"))
    yield ranks
    ranks.close()
