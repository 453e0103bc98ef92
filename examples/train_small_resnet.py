"""Trains ResNet-20 on CIFAR-10 to a size, and saves the file that the training saw.

    python examples/train_small_resnet.py DATA --bits 1.0 --epochs 10 -o resnet20.cfck

DATA is a folder with resnet20.safetensors, cifar10_train_jpeg.zip and cifar10_test.npz; an epoch
takes about a minute on two cores. Needs torch, safetensors, pillow, and matplotlib for the curve.
"""

from __future__ import annotations

import argparse
import io
import math
import zipfile
from pathlib import Path

import numpy as np
import torch
from cfck.torch import load_model
from cfck.train import SpectralModel, spectral
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

BATCH = 128
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
DEVIATION = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


class Block(nn.Module):
    """Two convolutions, and a shortcut that fills new channels with zeros."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.stride, self.margin = stride, (after - before) // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        short = x[:, :, :: self.stride, :: self.stride]
        return functional.relu(out + functional.pad(short, (0, 0, 0, 0, self.margin, self.margin)))


class ResNet20(nn.Module):
    """The network of He et al. (2016), section 4.2."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*(Block(16, 16, 1) for _ in range(3)))
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1), Block(64, 64, 1))
        self.linear = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.bn1(self.conv1(x)))
        return self.linear(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)))


def normalised(pixels: torch.Tensor) -> torch.Tensor:
    """uint8 [n, 3, 32, 32] as the network takes them."""
    return (pixels.float() / 255 - MEAN) / DEVIATION


def training_images(path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Pixels and labels of the files CLASS/NUMBER.jpg of an archive."""
    from PIL import Image

    images, labels = [], []
    with zipfile.ZipFile(path) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".jpg"))
        classes = sorted({name.split("/")[-2] for name in names})
        for name in names:
            images.append(np.asarray(Image.open(io.BytesIO(archive.read(name)))))
            labels.append(classes.index(name.split("/")[-2]))
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2), torch.tensor(labels)


def test_images(path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Normalised images and labels."""
    with np.load(path) as stored:
        pixels = torch.from_numpy(stored["images"]).permute(0, 3, 1, 2)
        return normalised(pixels), torch.from_numpy(stored["labels"].astype(np.int64))


def varied(pixels: torch.Tensor) -> torch.Tensor:
    """Images shifted by up to four pixels, every other batch mirrored."""
    padded = functional.pad(pixels, [4] * 4)
    row, column = torch.randint(0, 9, (2,)).tolist()
    cut = padded[:, :, row : row + 32, column : column + 32]
    return normalised(cut.flip(3) if torch.rand(()) < 0.5 else cut)


@torch.no_grad()
def top1(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Percent of the images, in evaluation mode."""
    model.eval()
    found = torch.cat([model(part).argmax(1) for part in images.split(500)])
    model.train()
    return 100 * float((found == labels).float().mean())


def train(q: SpectralModel, data: Path, epochs: int, bits: float, most_batches: int) -> None:
    """The loop: the rate is reached in a fifth of the training, and steps are snapped at 0.7."""
    pixels, labels = training_images(data / "cifar10_train_jpeg.zip")
    images = test_images(data / "cifar10_test.npz")
    n_batches = min(max(1, len(labels) // BATCH), most_batches)
    n_steps = epochs * n_batches
    q.target(bits_per_weight=bits, by=max(1, n_steps // 5))
    optimizer = torch.optim.AdamW(q.param_groups(lr=2e-3, step_lr=2e-2), weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / n_steps))
    )
    for epoch in range(epochs):
        q.model.train()
        order = torch.randperm(len(labels))
        for at in range(n_batches):
            places = order[at * BATCH : (at + 1) * BATCH]
            loss = functional.cross_entropy(q.model(varied(pixels[places])), labels[places])
            loss = loss + q.rate_loss()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if epoch * n_batches + at + 1 >= 0.7 * n_steps:
                q.snap()
        print(
            f"epoch {epoch + 1}: top-1 {top1(q.model, *images):.2f} %, {q.describe()}", flush=True
        )
    # Statistics of batch norms are those of the last weights.
    order = torch.randperm(len(labels))[: 50 * BATCH]
    q.finish(norm_batches=[varied(pixels[places]) for places in order.split(BATCH)])


def draw(q: SpectralModel, path: Path) -> None:
    """The rate, and the weight it had in the loss."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps, rates, weights = zip(*q.history, strict=True)
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    axes.semilogy(steps, rates, color="#1f7a99")
    axes.set(xlabel="step of training", ylabel="bits per weight")
    other = axes.twinx()
    other.semilogy(steps, weights, color="#c9572f", linewidth=0.8)
    other.set_ylabel("weight of the rate", color="#c9572f")
    figure.savefig(path, dpi=150)
    print(f"the curve is in {path}")


def main() -> None:
    """Trains, saves, and loads again."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--bits", type=float, default=1.0, help="bits per weight (default: 1)")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batches", type=int, default=1 << 30, help="at most so many in an epoch")
    parser.add_argument("-o", "--output", type=Path, default=Path("resnet20.cfck"))
    parser.add_argument("--plot", type=Path, help="where the curve of the rate goes, such as a.png")
    options = parser.parse_args()

    torch.manual_seed(0)
    model = ResNet20()
    model.load_state_dict(load_file(options.data / "resnet20.safetensors"))
    images = test_images(options.data / "cifar10_test.npz")
    print(f"before: top-1 {top1(model, *images):.2f} %")
    q = spectral(model, bits=6)
    train(q, options.data, options.epochs, options.bits, options.batches)
    summary = q.save(options.output)
    rate = float(q.bits_per_weight())
    print(f"{options.output}: {summary.file_bytes:,} bytes, {rate:.3f} bits per weight")
    if options.plot is not None:
        draw(q, options.plot)

    loaded = ResNet20()
    load_model(loaded, options.output)
    model.eval(), loaded.eval()
    same = torch.equal(model(images[0][:100]), loaded(images[0][:100]))
    print(f"loaded: top-1 {top1(loaded, *images):.2f} %, the same outputs: {same}")


if __name__ == "__main__":
    main()
