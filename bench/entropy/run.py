"""What the rows of the benchmark of the entropy stage share."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from common import data
from common.product import Unavailable
from common.targets import Targets
from lossless.context import Context

# Data sets of the speeds: label, data set, and the bound relative to each tensor's range.
SPEEDS: dict[str, tuple[str, float]] = {
    "lossless BF16": ("minilm-2d-bf16", 0),
    "lossless F32": ("minilm-f32", 0),
    "direct REL 1e-3": ("minilm-2d-f32", 1e-3),
}
LEVELS = ["v4", "v3", "baseline"]


@dataclass
class Run:
    """Options of a run, and everything found so far."""

    context: Context
    encoding: dict[str, str]  # entropy and level where they were asked for
    build: Path
    before: Path | None = None  # the folder of an older package cfck
    targets: Targets = field(default_factory=Targets)
    sizes: list[list[str]] = field(default_factory=list)
    speeds: list[list[str]] = field(default_factory=list)
    stages: list[list[str]] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    files: list[list[str]] = field(default_factory=list)

    @property
    def quick(self) -> bool:
        """Whether less is measured, for trying out."""
        return self.context.quick

    def say(self, text: str) -> None:
        """Progress goes to stderr."""
        self.context.say(text)

    def miss(self, peer: str, reason: str) -> None:
        """A peer that is not there, said once."""
        if peer not in self.context.missing_peers:
            self.context.missing_peers[peer] = reason
            self.say(f"SKIPPED peer {peer}: {reason}")

    def weights(self, label: str) -> tuple[Path, float]:
        """The file of a data set of the speeds, made at first use, and its bound."""
        name, bound = SPEEDS[label]
        path = self.context.scratch / f"{name}.safetensors"
        if not path.exists():
            if name == "minilm-2d-f32":
                save_file(data.matrices(data.minilm()), path)
            else:
                dataset = data.build(name)
                if dataset.file is not None:
                    return dataset.file, bound
                save_file(dataset.tensors, path)
        return path, bound

    def array(self, label: str) -> np.ndarray:
        """The same values as one array, for codecs without names."""
        name, _ = SPEEDS[label]
        if name == "minilm-2d-f32":
            flat = [tensor.reshape(-1) for tensor in data.matrices(data.minilm()).values()]
            return np.concatenate(flat)
        return data.build(name).joined()

    def program(self, name: str, level: str, *arguments: str | Path) -> dict[str, Any]:
        """The JSON that one of our C++ programs prints at a CPU level.

        Raises Unavailable where it was not built.
        """
        program = self.build / "bench" / name
        if not program.is_file():
            raise Unavailable(f"{name} is not in the folder that --build names")
        done = subprocess.run(
            [program, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "CFCK_CPU": level},
        )
        if done.returncode != 0:
            raise RuntimeError(f"{name}: exit code {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def encoding_arguments(self) -> list[str]:
        """The options of encoding, as programs take them."""
        return [part for name, value in self.encoding.items() for part in (f"--{name}", value)]
