"""A small network, data for it, and steps of training."""

import torch
from cfck.train import SpectralModel
from torch import nn


def network(seed: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def images(n: int = 8, seed: int = 1) -> torch.Tensor:
    return torch.randn(n, 3, 12, 12, generator=torch.Generator().manual_seed(seed))


def labels(n: int = 8) -> torch.Tensor:
    return torch.arange(n) % 10


def train(
    q: SpectralModel, n_steps: int, weight: float | None = 0.1, first: int = 0, optimizer=None
):
    """A few steps; with a weight of None those of a target."""
    optimizer = optimizer or torch.optim.AdamW(q.param_groups(lr=1e-2, step_lr=3e-2))
    q.model.train()
    for step in range(first, first + n_steps):
        loss = nn.functional.cross_entropy(q.model(images(seed=step)), labels())
        loss = loss + (q.rate_loss() if weight is None else weight * q.bits_per_weight())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return optimizer


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    left, right = left.detach().reshape(-1), right.detach().reshape(-1)
    return torch.equal(left.view(torch.uint8), right.view(torch.uint8))
