"""Trains ResNet-20 on CIFAR-10 on several ranks that send the largest of their gradients.

    torchrun --nproc-per-node 4 examples/distributed/resnet20.py DATA --ratio 0.001 -o run

DATA is a folder with cifar10_train_jpeg.zip (the training images as CLASS/NUMBER.jpg, CLASS 0 to 9)
and cifar10_test.npz (images, uint8 of shape (n, 32, 32, 3), and labels). Each rank saves
run-RANK.cfck, with the gradients that it has not sent yet, and goes on from it with --resume. Needs
torch and pillow.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from cfck.distributed import GradientCompression
from cfck.torch import load_checkpoint, save_checkpoint
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parents[1]))
from train_small_resnet import ResNet20, test_images, top1, training_images, varied

BATCH, LEARNING_RATE, WARMUP_EPOCHS = 32, 0.1, 4  # the batch of a rank


def train_epoch(
    ddp: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    images: tuple[torch.Tensor, torch.Tensor],
    epoch: int,
    most_batches: int,
) -> None:
    """All ranks have the same order of the images, and each takes its part of it."""
    pixels, labels = images
    rank, world = dist.get_rank(), dist.get_world_size()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
    n_batches = min(len(labels) // (BATCH * world), most_batches)
    for places in order[: n_batches * BATCH * world].view(n_batches, world, BATCH)[:, rank]:
        loss = functional.cross_entropy(ddp(varied(pixels[places])), labels[places])
        optimizer.zero_grad()
        loss.backward()  # the hook averages the gradients
        optimizer.step()


def main() -> None:
    """Trains, and saves a checkpoint for each rank."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--ratio", type=float, default=0.001, help="what is sent (default: 0.001)")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batches", type=int, default=1 << 30, help="at most so many in an epoch")
    parser.add_argument("-o", "--output", default="run", help="run-RANK.cfck by default")
    parser.add_argument("--resume", action="store_true", help="go on from these files")
    options = parser.parse_args()

    dist.init_process_group("gloo")  # torchrun has set the addresses
    rank = dist.get_rank()
    torch.manual_seed(rank)  # each rank varies its images on its own
    images = training_images(options.data / "cifar10_train_jpeg.zip")
    tests = test_images(options.data / "cifar10_test.npz")

    model = ResNet20()
    state = GradientCompression(
        model, options.ratio, momentum=0.9, weight_decay=1e-4, warmup_epochs=WARMUP_EPOCHS
    )
    first, checkpoint = 0, Path(f"{options.output}-{rank}.cfck")
    if options.resume:
        saved = load_checkpoint(checkpoint)
        model.load_state_dict(saved["model"])
        state.load_state_dict(saved["gradients"])
        first = saved["epoch"]
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(state, GradientCompression.hook)
    optimizer = torch.optim.SGD(model.parameters())  # without momentum: the state has it
    for epoch in range(first, options.epochs):
        state.set_epoch(epoch)
        optimizer.param_groups[0]["lr"] = (
            LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * epoch / options.epochs))
        )
        train_epoch(ddp, optimizer, images, epoch, options.batches)
        made = {"model": model.state_dict(), "gradients": state.state_dict(), "epoch": epoch + 1}
        save_checkpoint(made, checkpoint)
        if rank == 0:
            print(f"top-1 {top1(model, *tests):.2f} %; {state.describe()}", flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
