"""A small language model and texts that need no files."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))
from train_small_gpt import LENGTH, WORDS, Gpt


def made_up_texts(n_texts: int) -> torch.Tensor:
    """Texts of shape (n_texts, LENGTH + 1), int64: a word w is followed by (3 w + 1) modulo WORDS.

    Each begins with a random word.
    """
    words = [torch.randint(WORDS, (n_texts,))]
    for _ in range(LENGTH):
        words.append((3 * words[-1] + 1) % WORDS)
    return torch.stack(words, 1)


def new_model() -> Gpt:
    """Small random weights, the same on all ranks."""
    torch.manual_seed(0)
    model = Gpt()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    return model
