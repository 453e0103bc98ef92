"""Real steps of AdamW: a small GPT goes on from its checkpoint, and its weights are kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from common import data

VOCABULARY, WIDTH, LAYERS, HEADS, LENGTH, BATCH = 8192, 128, 4, 4, 64, 32
CHECKPOINT = "gpt_step01000.safetensors"
FIRST = 16  # steps before the base
STEPS = (1, 8, 16)  # behind it


class Block(nn.Module):
    """Attention and a perceptron, with the names of the checkpoint."""

    def __init__(self) -> None:
        """As in the checkpoint."""
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Adds both parts."""
        batch, length, _ = x.shape
        split = self.qkv(self.ln1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        weights = (query @ key.transpose(-1, -2)) / math.sqrt(WIDTH // HEADS) + mask
        heads = (weights.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + self.proj(heads)
        return x + self.fc2(nn.functional.gelu(self.fc(self.ln2(x))))


class Gpt(nn.Module):
    """The model of the checkpoint."""

    def __init__(self) -> None:
        """As in the checkpoint."""
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.lnf = nn.LayerNorm(WIDTH)
        mask = torch.full((LENGTH, LENGTH), -1e9).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        hidden = self.wte(x) + self.wpe.weight[: x.shape[1]]
        for block in self.h:
            hidden = block(hidden, self.mask)
        return self.lnf(hidden) @ self.wte.weight.t()


def matrices(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """What is measured: parameters of two dimensions."""
    return {name: value.float().contiguous() for name, value in weights.items() if value.ndim > 1}


def load(path: Path) -> dict[str, Tensor]:
    """Weights that `train` has saved, in the order of the model's."""
    found = load_file(path)
    return {name: found[name] for name in Gpt().state_dict() if name in found}


def train(rate: float, seed: int, folder: Path) -> list[Path]:
    """Trains at a learning rate; the files of the weights after FIRST steps, and STEPS later.

    A run whose files are all in `folder` is not repeated.
    """
    paths = [folder / f"seed{seed}-{rate:.0e}-{FIRST + n}.safetensors" for n in (0, *STEPS)]
    if all(path.exists() for path in paths):
        return paths
    by_step = {FIRST + n: path for n, path in zip((0, *STEPS), paths, strict=True)}
    for step, weights in _weights_of_steps(rate, seed):
        if step in by_step:
            _save(weights, by_step[step])
    return paths


def _weights_of_steps(rate: float, seed: int) -> Iterator[tuple[int, dict[str, Tensor]]]:
    """The matrices after every step, on from the checkpoint with the state of its optimizer."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    state = load_file(data.data_path(CHECKPOINT))
    tokens = np.load(data.data_path("wikitext2_tokens.npz"))["train"].astype(np.int64)
    text, model = torch.from_numpy(tokens), Gpt()
    own = {name[6:]: value for name, value in state.items() if name.startswith("model.")}
    model.load_state_dict(own, strict=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0)
    for name, parameter in model.named_parameters():
        optimizer.state[parameter] = {
            "step": torch.tensor(1000.0),
            "exp_avg": state[f"optimizer.exp_avg.{name}"].clone(),
            "exp_avg_sq": state[f"optimizer.exp_avg_sq.{name}"].clone(),
        }
    draws = torch.Generator().manual_seed(seed)
    for step in range(1, FIRST + max(STEPS) + 1):
        starts = torch.randint(0, len(text) - LENGTH - 1, (BATCH,), generator=draws)
        rows = torch.stack([text[i : i + LENGTH + 1] for i in starts])
        logits = model(rows[:, :-1]).reshape(-1, VOCABULARY)
        loss = nn.functional.cross_entropy(logits, rows[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield step, matrices(model.state_dict())


def _save(weights: dict[str, Tensor], path: Path) -> None:
    """Under its name only when it is whole, as a run that is cut off is made again."""
    unfinished = path.with_suffix(".unfinished")
    save_file(weights, unfinished)
    unfinished.replace(path)
