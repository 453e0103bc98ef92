"""The rows on calibrate and refine, and what they take with another version of the package.

As a program: `timing.py ROW` prints {action: [wall s, processor s]}.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CALIBRATION_IMAGES, REFINING_IMAGES = 1000, 600
IMAGES_IN_BATCH = 100

# What is timed, each with the result of the one before.
Action = Callable[[Any], Any]


def llama() -> dict[str, Action]:
    """15.6 million random weights in the shape of a small Llama, and made-up tokens."""
    import cfck
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32000, hidden_size=256, intermediate_size=864, num_hidden_layers=8,
        num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=256,
        tie_word_embeddings=True,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    return {
        "calibrate, Llama, 15.6 M, made-up tokens": lambda _: cfck.calibrate(model, progress=False)
    }


def resnet44() -> dict[str, Action]:
    """A ResNet-44 with random weights, 1,000 images, and 600 for refinement."""
    import cfck
    import torch

    from common import cifar_resnet, models

    torch.manual_seed(0)
    model = cifar_resnet.CifarResNet(44).eval()
    images = models.image_batches("cifar10_calibration.npz", CALIBRATION_IMAGES)[0]
    few = models.image_batches("cifar10_calibration.npz", REFINING_IMAGES, IMAGES_IN_BATCH)[0]
    return {
        "calibrate, ResNet-44, 1,000 images": lambda _: cfck.calibrate(
            model, images, progress=False
        ),
        "refine, ResNet-44, 600 images": lambda calibration: cfck.refine(
            model, few, calibration, bits_per_weight=2, progress=False
        ),
    }


ROWS: dict[str, Callable[[], dict[str, Action]]] = {"llama": llama, "resnet44": resnet44}


def seconds_of(row: str, folder: Path | None) -> dict[str, list[float]]:
    """Wall and processor seconds in a process of its own; None: the package that is installed."""
    bench = str(Path(__file__).parent.parent)
    paths = [bench] if folder is None else [str(folder), bench]
    done = subprocess.run(
        [sys.executable, __file__, row],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _main(row: str) -> None:
    seconds: dict[str, list[float]] = {}
    result: Any = None
    for what, action in ROWS[row]().items():
        begin, used = time.monotonic(), time.process_time()
        result = action(result)
        seconds[what] = [time.monotonic() - begin, time.process_time() - used]
    print(json.dumps(seconds))


if __name__ == "__main__":
    _main(sys.argv[1])
