"""What shrink keeps on all other images, with images drawn again and again.

As a program: `draws.py DEPTH SEED` prints a draw as JSON.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

IMAGES, IMAGES_IN_BATCH = 600, 100
DRAWS = 10
GOAL = 0.05


@dataclasses.dataclass(frozen=True)
class Draw:
    """A call with images drawn from the test images.

    Attributes:
        bits: for each weight, with everything in the file.
        held: the divergence on the images held back.
        others: that on all test images but those drawn.
        seconds: of the call.
    """

    bits: float
    held: float
    others: float
    seconds: float


def measure(depth: int, seed: int) -> Draw:
    """Shrinks a ResNet of this depth with images drawn by this seed."""
    import cfck
    import torch
    from cfck.torch import load_model

    from common import models

    model = models.load_resnet(depth)
    images = torch.cat(models.image_batches()[0])
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    given = list(images[order[:IMAGES]].split(IMAGES_IN_BATCH))
    others = list(images[order[IMAGES:]].split(models.IMAGE_BATCH))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.cfck"
        result = cfck.shrink(model, path, keep={"kl": GOAL}, batches=given, report=_tell)
        decoded = models.load_resnet(depth)
        load_model(decoded, path)
    found = cfck.evaluate(model, decoded, others, kind="logits")
    assert found.kl is not None
    return Draw(result.bits_per_weight, result.kept["kl"], found.kl, result.seconds)


def _tell(sentence: str) -> None:
    """Standard output is for the result."""
    print(sentence, file=sys.stderr, flush=True)


def measured_apart(depth: int, seed: int, folder: Path | None) -> Draw:
    """In a process of its own, with the package of a folder; None: the one that is installed."""
    bench = str(Path(__file__).parent.parent)
    paths = [bench] if folder is None else [str(folder), bench]
    done = subprocess.run(
        [sys.executable, __file__, str(depth), str(seed)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Draw(**json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    print(json.dumps(dataclasses.asdict(measure(int(sys.argv[1]), int(sys.argv[2])))))
