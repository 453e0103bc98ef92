"""Trains a small language model on wikitext-2 to a size, and saves the file that training saw.

    python examples/train_small_gpt.py DATA --bits 1.4 --epochs 4 -o gpt.cfck

DATA is a folder with gpt_step01000.safetensors and wikitext2_tokens.npz; an epoch takes about a
minute on two cores. Needs torch and safetensors.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import torch
from cfck.torch import load_model
from cfck.train import spectral
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

WORDS, LENGTH, WIDTH, HEADS, LAYERS, BATCH = 8192, 64, 128, 4, 4, 32


class Layer(nn.Module):
    """Attention and two linear layers, norms first."""

    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, _ = x.shape
        heads = self.qkv(self.ln1(x)).view(n, length, 3, HEADS, WIDTH // HEADS)
        mixed = functional.scaled_dot_product_attention(
            *heads.permute(2, 0, 3, 1, 4), is_causal=True
        )
        x = x + self.proj(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.fc2(functional.gelu(self.fc(self.ln2(x))))


class Gpt(nn.Module):
    """The head is the token embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.h = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.lnf = nn.LayerNorm(WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        # Each use of a weight in training quantises it: the embedding is used twice.
        words = self.wte.weight
        x = functional.embedding(tokens, words) + self.wpe.weight[: tokens.shape[1]]
        for layer in self.h:
            x = layer(x)
        return functional.linear(self.lnf(x), words)


def texts(tokens: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Contexts with the word after each."""
    return tokens[starts[:, None] + torch.arange(LENGTH + 1)]


def loss_of(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """The cross entropy of the next words."""
    logits = model(batch[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


@torch.no_grad()
def perplexity(model: nn.Module, tokens: torch.Tensor) -> float:
    """The perplexity over all contexts, one after another."""
    model.eval()
    starts = torch.arange(0, len(tokens) - LENGTH - 1, LENGTH)
    losses = [loss_of(model, texts(tokens, part)) * len(part) for part in starts.split(64)]
    model.train()
    return math.exp(float(torch.stack(losses).sum()) / len(starts))


def main() -> None:
    """Trains, saves, and loads again."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--bits", type=float, default=1.4, help="bits per weight (default: 1.4)")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batches", type=int, default=1 << 30, help="at most so many in an epoch")
    parser.add_argument("-o", "--output", type=Path, default=Path("gpt.cfck"))
    options = parser.parse_args()

    torch.manual_seed(0)
    model = Gpt()
    stored = load_file(options.data / "gpt_step01000.safetensors")
    prefix = "model."
    model.load_state_dict(
        {name[len(prefix) :]: t for name, t in stored.items() if name.startswith(prefix)}
    )
    with np.load(options.data / "wikitext2_tokens.npz") as found:
        words, judged = (
            torch.from_numpy(found[part].astype(np.int64)) for part in ("train", "valid")
        )
    print(f"before: perplexity {perplexity(model, judged):.2f}")

    q = spectral(model, bits=6)
    starts = torch.arange(0, len(words) - LENGTH - 1, LENGTH)
    n_batches = min(max(1, len(starts) // BATCH), options.batches)
    n_steps = options.epochs * n_batches
    q.target(bits_per_weight=options.bits, by=max(1, n_steps // 5))
    optimizer = torch.optim.AdamW(q.param_groups(lr=2e-3, step_lr=2e-2), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / n_steps))
    )
    for epoch in range(options.epochs):
        order = starts[torch.randperm(len(starts))]
        for at, places in enumerate(order[: n_batches * BATCH].split(BATCH)):
            loss = loss_of(model, texts(words, places)) + q.rate_loss()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if epoch * n_batches + at + 1 >= 0.7 * n_steps:
                q.snap()
        print(
            f"epoch {epoch + 1}: perplexity {perplexity(model, judged):.2f}, {q.describe()}",
            flush=True,
        )
    q.finish()
    summary = q.save(options.output)
    rate = float(q.bits_per_weight())
    print(f"{options.output}: {summary.file_bytes:,} bytes, {rate:.3f} bits per weight")

    loaded = Gpt()
    load_model(loaded, options.output)
    some = texts(judged, torch.arange(4))[:, :-1]
    same = torch.equal(model.eval()(some), loaded.eval()(some))
    print(f"loaded: perplexity {perplexity(loaded, judged):.2f}, the same outputs: {same}")


if __name__ == "__main__":
    main()
