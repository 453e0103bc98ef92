"""Trains a small model in one process while another one samples from it, in step.

    python examples/sync_weights.py --steps 40

The trainer publishes its weights in BF16 after every step of SGD, and the sampler follows them
through a folder. Both could be on different machines that share it. To see that the weights are
equal bit for bit, the sampler tells the trainer what it has.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from cfck.sync import Follower, Publisher
from torch import nn
from torch.nn import functional

WINDOW = 16  # letters that the model sees
BATCH = 64


class Letters(nn.Module):
    """Says which byte comes next in a text."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(128, 32)
        self.hidden = nn.Linear(32 * WINDOW, 256)
        self.head = nn.Linear(256, 128)

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        x = self.embedding(letters).flatten(1)
        return self.head(functional.gelu(self.hidden(x)))


def in_bf16(model: nn.Module) -> dict[str, torch.Tensor]:
    """What the sampler gets: it computes in BF16, and the trainer keeps its weights in F32."""
    return {name: tensor.bfloat16() for name, tensor in model.state_dict().items()}


def fingerprint(state_dict: dict[str, torch.Tensor]) -> str:
    """Equal for equal bits."""
    found = hashlib.sha256()
    for name in sorted(state_dict):
        found.update(name.encode() + state_dict[name].contiguous().view(torch.uint8).numpy().data)
    return found.hexdigest()


def sample(folder: Path, trainer: Connection) -> None:
    """The sampler: follows the folder, and tells the trainer of every version that it has."""
    torch.set_num_threads(1)
    model = Letters().bfloat16()
    follower = Follower(folder)
    while True:
        version = follower.poll(model)
        if version is None:
            time.sleep(0.01)
            continue
        text = torch.full((1, WINDOW), ord(" "))
        with torch.no_grad():
            for _ in range(WINDOW):
                chances = model(text[:, -WINDOW:]).float().softmax(-1)
                text = torch.cat([text, torch.multinomial(chances, 1)], 1)
        letters = "".join(map(chr, text[0, WINDOW:].tolist()))
        trainer.send((version, fingerprint(model.state_dict()), letters))


def train(folder: Path, sampler: Connection, steps: int) -> None:
    """The trainer: learns the text of this program."""
    torch.manual_seed(0)
    text = torch.frombuffer(bytearray(Path(__file__).read_bytes()), dtype=torch.uint8).long()
    model = Letters()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    with Publisher(folder, keyframe_every=20) as publisher:
        for step in range(1, steps + 1):
            places = torch.randint(0, len(text) - WINDOW, (BATCH,))
            windows = torch.stack([text[at : at + WINDOW + 1] for at in places.tolist()])
            loss = functional.cross_entropy(model(windows[:, :-1]), windows[:, -1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            weights = in_bf16(model)
            version = publisher.publish(weights)
            n_bytes = os.path.getsize(folder / f"weights-{version}.cfck")

            # In a real job the trainer goes on; here it waits, so that no version is skipped.
            has = 0
            while has < version:
                has, its_fingerprint, letters = sampler.recv()
            same = has == version and its_fingerprint == fingerprint(weights)
            print(
                f"step {step}: loss {loss.item():.3f}, {n_bytes:,} bytes, "
                f"the sampler has the same bits: {same}, it writes {letters!r}",
                flush=True,
            )
            if not same:
                raise SystemExit(1)


def main() -> None:
    """Starts the sampler, and trains."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--folder", type=Path, help="new, or of an earlier run (default: not kept)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        here, there = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        sampler = context.Process(target=sample, args=(folder, there), daemon=True)
        sampler.start()
        there.close()  # so that the trainer is told if the sampler ends
        try:
            train(folder, here, options.steps)
        finally:
            sampler.terminate()
            sampler.join()


if __name__ == "__main__":
    main()
