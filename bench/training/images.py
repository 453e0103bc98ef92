"""CIFAR-10: training images, cropped and mirrored at random, and test images."""

from __future__ import annotations

import functools
import io
import zipfile
from pathlib import Path

import numpy as np
import torch

from common import cifar_resnet, data, models

_MARGIN = 4


@functools.cache
def pixels(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Training images as uint8 [n, 3, 32, 32], and labels; decoded once into `folder`."""
    from PIL import Image

    decoded = folder / "cifar10_train.npz"
    if not decoded.exists():
        images, labels = [], []
        with zipfile.ZipFile(data.data_path("cifar10_train_jpeg.zip")) as archive:
            names = sorted(name for name in archive.namelist() if name.endswith(".jpg"))
            classes = sorted({name.split("/")[-2] for name in names})
            for name in names:
                images.append(np.asarray(Image.open(io.BytesIO(archive.read(name)))))
                labels.append(classes.index(name.split("/")[-2]))
        partial = decoded.with_suffix(".partial.npz")
        np.savez(partial, images=np.stack(images), labels=np.array(labels))
        partial.rename(decoded)
    with np.load(decoded) as stored:
        images = torch.from_numpy(stored["images"]).permute(0, 3, 1, 2).contiguous()
        return images, torch.from_numpy(stored["labels"].astype(np.int64))


class TrainingImages:
    """Batches of an epoch, the same for the same seed and epoch."""

    def __init__(self, scratch: Path, batch: int, seed: int = 0) -> None:
        """Decodes the images once, into `scratch`."""
        self._images, self._labels = pixels(scratch)
        self._batch, self._seed = batch, seed

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self._labels) // self._batch

    def epoch(self, number: int):  # noqa: ANN201
        """Normalised images and labels, batch by batch."""
        random = torch.Generator().manual_seed(1000 * self._seed + number)
        order = torch.randperm(len(self._labels), generator=random)
        for at in range(len(self)):
            places = order[at * self._batch : (at + 1) * self._batch]
            yield varied(self._images[places], random), self._labels[places]


def varied(images: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """uint8 [n, 3, 32, 32], each shifted and perhaps mirrored on its own, and normalised."""
    n, size = len(images), images.shape[-1]
    padded = torch.nn.functional.pad(images, [_MARGIN] * 4)
    corners = torch.randint(0, 2 * _MARGIN + 1, (2, n), generator=random)
    rows = corners[0][:, None] + torch.arange(size)
    columns = corners[1][:, None] + torch.arange(size)
    mirrored = torch.rand(n, generator=random) < 0.5
    columns[mirrored] = columns[mirrored].flip(1)
    cut = padded[
        torch.arange(n)[:, None, None, None],
        torch.arange(3)[None, :, None, None],
        rows[:, None, :, None],
        columns[:, None, None, :],
    ]
    return (cut.float() / 255 - cifar_resnet.MEAN) / cifar_resnet.DEVIATION


@torch.no_grad()
def top1(model: torch.nn.Module) -> float:
    """Percent of the 10,000 test images."""
    was_training = model.training
    model.eval()
    right = 0
    for images, labels in zip(*models.image_batches(), strict=True):
        right += int((model(images).argmax(1) == labels).sum())
    model.train(was_training)
    return right / 100
