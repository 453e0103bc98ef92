"""Models that the tests of calibrations measure."""

from __future__ import annotations

import torch
from conftest import bits
from torch import nn


def mlp(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                         nn.Linear(64, 10)).eval()  # fmt: skip


def small_conv() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.5),
        nn.Conv2d(16, 16, 3, stride=2, groups=4), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip


class Reader(nn.Module):
    """Tokens to logits; the head is the embedding."""

    def __init__(self, vocabulary: int = 96, positions: int = 24) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.words = nn.Embedding(vocabulary, 32)
        self.places = nn.Embedding(positions, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(32, vocabulary, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens, attention_mask=None):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        hidden = None if attention_mask is None else attention_mask == 0
        return {"logits": self.head(self.body(x, src_key_padding_mask=hidden))}


def contents(model: nn.Module) -> dict[str, bytes]:
    return {name: bits(tensor) for name, tensor in model.state_dict().items()}


def noise(*shape: int, seed: int = 5) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
