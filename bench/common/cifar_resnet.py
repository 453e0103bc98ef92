"""The CIFAR-10 ResNets of He et al. (2016, section 4.2), evaluated: enough to run the checkpoints.

Three stages of 16, 32 and 64 channels, two 3x3 convolutions a block. Where a stage halves the
image, the shortcut takes every second pixel and fills the new channels with zeros (option A).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
DEVIATION = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        """A halved image where `stride` is 2."""
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.stride, self.new_channels = stride, after - before

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(n, before, h, w) to (n, after, h / stride, w / stride)."""
        out = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(images)))))
        half = self.new_channels // 2
        shortcut = functional.pad(
            images[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, half)
        )
        return functional.relu(out + shortcut)


class CifarResNet(nn.Module):
    """`depth` is 6 n + 2."""

    def __init__(self, depth: int) -> None:
        """Random weights: load the checkpoint's."""
        super().__init__()
        blocks = (depth - 2) // 6
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = self._stage(16, 16, blocks, 1)
        self.layer2 = self._stage(16, 32, blocks, 2)
        self.layer3 = self._stage(32, 64, blocks, 2)
        self.linear = nn.Linear(64, 10)

    @staticmethod
    def _stage(before: int, after: int, blocks: int, stride: int) -> nn.Sequential:
        first = Block(before, after, stride)
        return nn.Sequential(first, *(Block(after, after, 1) for _ in range(blocks - 1)))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(n, 3, 32, 32) to logits (n, 10)."""
        out = functional.relu(self.bn1(self.conv1(images)))
        out = self.layer3(self.layer2(self.layer1(out)))
        return self.linear(out.mean((2, 3)))


@torch.inference_mode()
def logits(depth: int, weights: dict[str, np.ndarray], images: np.ndarray) -> torch.Tensor:
    """Of uint8 images (n, 32, 32, 3), in float32, shape (n, 10)."""
    model = CifarResNet(depth).eval()
    model.load_state_dict({name: torch.from_numpy(values) for name, values in weights.items()})
    parts = []
    for first in range(0, len(images), 250):
        batch = torch.from_numpy(images[first : first + 250]).permute(0, 3, 1, 2)
        parts.append(model((batch.float() / 255 - MEAN) / DEVIATION))
    return torch.cat(parts)
