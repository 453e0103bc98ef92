"""Training by epochs, which goes on where it was interrupted."""

from __future__ import annotations

import math
import time
from pathlib import Path

import torch
from torch import nn

from training.images import TrainingImages, top1
from training.schemes import Plain


def train(
    scheme: Plain, images: TrainingImages, epochs: int, state_path: Path | None = None, tell=print
) -> None:
    """Trains; after each epoch the state is kept at `state_path`, and found there again."""
    model = scheme.model
    groups = scheme.groups()
    recipe = scheme.recipe
    optimizer = torch.optim.AdamW(groups, lr=recipe.lr, weight_decay=recipe.weight_decay)
    n_steps = epochs * len(images)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / n_steps))
    )
    loss_of = nn.CrossEntropyLoss()
    step = 0
    for epoch in range(epochs):
        model.train()
        start, total = time.monotonic(), 0.0
        for x, y in images.epoch(epoch):
            loss = loss_of(model(x), y)
            total += float(loss.detach())
            loss = loss + scheme.extra_loss()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            scheme.advance(step / n_steps)
        seconds = time.monotonic() - start
        tell(
            f"epoch {epoch + 1}: loss {total / len(images):.4f}, top-1 {top1(model):.2f}, "
            f"{scheme.note()} ({seconds:.0f} s)"
        )
