"""What the spectral codec is compared with: NNCodec, and formats with scales."""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from rate_distortion.points import Coded, Tensors, energy, n_weights

NNCODEC = "NNCodec"
GROUP = 32  # values that share a scale in Q8_0 and Q4_0
SCALE_BYTES = 2  # scales are F16


class MissingPeer(Exception):
    """NNCodec cannot be run; the message says why."""


class NnCodec:
    """NNCodec with one QP for all tensors, in a Python that has it."""

    def __init__(self, python: str) -> None:
        """Raises MissingPeer where that Python cannot import it."""
        probe = "import nncodec.nnc, importlib.metadata as m; print(m.version('nncodec'))"
        try:
            done = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            reason = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
            raise MissingPeer(f"NNCodec does not run: {reason}") from None
        self.version = f"nncodec {done.stdout.split()[-1]}"
        self._python = python

    def encode_all(self, tensors: Tensors, qps: Sequence[int]) -> Iterator[Coded]:
        """All tensors as one bitstream, whole, at each QP; decoded by NNCodec itself."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            np.savez(folder / "tensors.npz", **tensors)
            program = str(Path(__file__).with_name("nncodec_run.py"))
            arguments = [str(folder / "tensors.npz"), name, *map(str, qps)]
            subprocess.run([self._python, program, *arguments], check=True, capture_output=True)
            runs = json.loads((folder / "report.json").read_text(encoding="utf-8"))["runs"]
            for run in runs:
                with np.load(folder / f"{run['qp']}.npz") as stored:
                    decoded = {key: stored[key].reshape(tensors[key].shape) for key in tensors}
                yield Coded(f"qp={run['qp']}", run["bytes"], decoded)


def qp_near(tensors: Tensors, nmse: float) -> int:
    """The QP whose step gives about this NMSE (dB) at high rate: four of them are an octave.

    A step of s leaves an error of about s^2 / 4 with dependent quantisation.
    """
    mean_square = energy(tensors.values()) / n_weights(tensors)
    step = 2 * math.sqrt(mean_square * 10 ** (nmse / 10))
    return round(4 * math.log2(step))


def int8_per_row(tensor: np.ndarray) -> tuple[int, np.ndarray]:
    """Eight bits a value and a scale for each index of axis 0: bytes, and what comes back."""
    rows = tensor.reshape(tensor.shape[0], -1)
    scales = (np.abs(rows).max(1, keepdims=True) / 127).astype(np.float16).astype(np.float32)
    safe = np.where(scales > 0, scales, 1)
    codes = np.clip(np.rint(rows / safe), -127, 127)
    return tensor.size + SCALE_BYTES * len(rows), (codes * scales).reshape(tensor.shape)


def _groups(tensor: np.ndarray) -> np.ndarray:
    flat = tensor.reshape(-1)
    return np.pad(flat, (0, -flat.size % GROUP)).reshape(-1, GROUP)


def q8_0(tensor: np.ndarray) -> tuple[int, np.ndarray]:
    """Groups of 32 with a scale each, eight bits a value."""
    groups = _groups(tensor)
    exact = np.abs(groups).max(1, keepdims=True) / 127
    codes = np.rint(groups / np.where(exact > 0, exact, 1))
    decoded = codes * exact.astype(np.float16).astype(np.float32)
    n_bytes = len(groups) * (GROUP + SCALE_BYTES)
    return n_bytes, decoded.reshape(-1)[: tensor.size].reshape(tensor.shape)


def q4_0(tensor: np.ndarray) -> tuple[int, np.ndarray]:
    """Groups of 32 with a scale each, four bits a value: -8 is the value furthest from zero."""
    groups = _groups(tensor)
    furthest = np.take_along_axis(groups, np.abs(groups).argmax(1)[:, None], 1)
    exact = furthest / -8
    codes = np.clip(np.floor(groups / np.where(exact != 0, exact, 1) + 8.5), 0, 15) - 8
    decoded = codes * exact.astype(np.float16).astype(np.float32)
    n_bytes = len(groups) * (GROUP // 2 + SCALE_BYTES)
    return n_bytes, decoded.reshape(-1)[: tensor.size].reshape(tensor.shape)


FORMATS = {"int8 per row": int8_per_row, "Q8_0": q8_0, "Q4_0": q4_0}


def in_format(name: str, tensors: Tensors) -> Coded:
    """All tensors in one of FORMATS."""
    parts = {key: FORMATS[name](values) for key, values in tensors.items()}
    decoded = {key: values.astype(np.float32) for key, (_, values) in parts.items()}
    return Coded("-", sum(n_bytes for n_bytes, _ in parts.values()), decoded)
