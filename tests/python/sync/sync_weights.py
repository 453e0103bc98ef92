"""Weights that change a little from version to version, for tests of cfck.sync."""

from __future__ import annotations

import contextlib
import json
import resource
from pathlib import Path

import numpy as np
from cfck.sync import Follower, Publisher

VALUES = np.random.default_rng(0).standard_normal(5000, dtype=np.float32)


def arrays(version: int) -> dict[str, np.ndarray]:
    """The weights of a version: some tensors are others in each, and one never is."""
    steps = ((version + np.arange(5000)) // 20).astype(np.float32)
    return {
        "matrix": (VALUES * (1 + steps * np.float32(1e-3))).reshape(50, 100),
        "bias": VALUES[:50] + np.float32(version),
        "fixed": np.arange(10),
    }


def assert_equal(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype and actual[name].shape == array.shape, name
        assert actual[name].tobytes() == array.tobytes(), name


def follower_of(folder: Path, **arguments) -> Follower:
    """One that makes arrays, although the tests have imported torch."""
    return Follower(folder, framework="np", **arguments)


def publish(publisher: Publisher, *numbers: int) -> None:
    for version in numbers:
        assert publisher.publish(arrays(version)) == version


def versions(folder: Path, name: str = "weights") -> list[dict]:
    """What the manifest lists."""
    return json.loads((folder / f"{name}-manifest.json").read_bytes())["versions"]


def kinds(folder: Path) -> dict[int, str]:
    return {one["version"]: one["kind"] for one in versions(folder)}


def flip(path: Path, place: int = -200) -> None:
    """Damages a byte of a file."""
    data = bytearray(path.read_bytes())
    data[place] ^= 64
    path.write_bytes(data)


@contextlib.contextmanager
def files_of_at_most(n_bytes: int):
    """Writing more to a file is an error, as on a full disk. Python ignores the signal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
