"""Trains a small DLRM, whose embedding tables are sharded over ranks that compress their rows.

    torchrun --nproc-per-node 4 examples/distributed/dlrm.py --bound 0.03
    python examples/distributed/dlrm.py ml-100k --ranks 4 --bound 0.03

The second command simulates four ranks in one process: losses are the same bit for bit. Data are
generated, or MovieLens-100k (https://grouplens.org/datasets/movielens/100k): a folder with u.data,
u.user and u.item. Training stops when the AUC of the validation split does not rise any more; that
of the test split is printed. Needs torch and numpy.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from cfck.embeddings import ErrorSchedule, ShardedEmbeddingBags
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parent))
from dlrm_data import Log, generated, movielens  # noqa: E402

SPARSE = ("user", "item")  # tables whose gradients are sparse


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a model is trained.

    Attributes:
        bound: of all tables, as a fraction of the range of what one rank is sent.
        gradient_share: by which the bounds of gradients are smaller.
        ranks: that are simulated in one process; with torchrun there are real ones.
        simulated: with torchrun: values change as by compression, and are sent as they are.
        factor: by how much bounds are larger in the beginning, falling in ten steps.
        decay_steps: until bounds are those that were given.
        dim: values of a row.
        batch: samples of a step, of all ranks.
        epochs: at most.
        patience: epochs without a better AUC after which training stops.
        steps: at most.
        rate: the learning rate.
        seed: of weights, of the split and of the order of the samples.
    """

    bound: float = 0.0
    gradient_share: float = 0.1
    ranks: int = 1
    simulated: bool = False
    factor: float = 2.0
    decay_steps: int = 200
    dim: int = 32
    batch: int = 2048
    epochs: int = 40
    patience: int = 3
    steps: int = 1 << 30
    rate: float = 0.02
    seed: int = 0


class Dense(nn.Module):
    """All of a DLRM but the tables: every rank has a copy."""

    def __init__(self, n_dense: int, n_tables: int, dim: int) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(n_dense, 32), nn.ReLU(), nn.Linear(32, dim))
        self.pairs = torch.triu_indices(n_tables + 1, n_tables + 1, 1)
        n_pairs = self.pairs.shape[1]
        self.top = nn.Sequential(nn.Linear(n_pairs + dim, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense: torch.Tensor, rows: list[torch.Tensor]) -> torch.Tensor:
        vectors = torch.stack([self.bottom(dense), *rows], 1)
        products = vectors @ vectors.transpose(1, 2)
        features = [vectors.mean(1), products[:, self.pairs[0], self.pairs[1]]]
        return self.top(torch.cat(features, 1))[:, 0]


class Trainer:
    """A model and its log."""

    def __init__(self, log: Log, settings: Settings) -> None:
        self.log, self.settings = log, settings
        torch.manual_seed(settings.seed)  # all ranks make the same model
        tables = {}
        for name, n_rows in log.n_rows().items():
            mode = "mean" if name in log.sets else "sum"
            tables[name] = nn.EmbeddingBag(n_rows, settings.dim, mode=mode, sparse=name in SPARSE)
            nn.init.uniform_(tables[name].weight, -(n_rows**-0.5), n_rows**-0.5)
        self.model = Dense(log.dense.shape[1], len(tables), settings.dim)
        is_real = dist.is_initialized()
        self.rank, self.n_ranks = (dist.get_rank(), dist.get_world_size()) if is_real else (0, 1)
        # A process has the samples of one rank, or of all ranks that it simulates.
        self.n_parts = 1 if is_real else settings.ranks
        self.bags = ShardedEmbeddingBags(
            tables,
            bounds=settings.bound,
            backward_bounds=settings.bound * settings.gradient_share,
            schedule=ErrorSchedule(
                "stepwise", factor=settings.factor, iterations=settings.decay_steps
            ),
            simulated=settings.simulated,
            simulated_ranks=None if is_real else settings.ranks,
        )
        self.parameters = [*self.bags.parameters(), *self.model.parameters()]
        self.optimizer = torch.optim.Adagrad(self.parameters, lr=settings.rate)
        self.losses: list[float] = []

    def step(self, samples: torch.Tensor) -> None:
        """One step, with a batch of all ranks."""
        own = samples.chunk(self.n_ranks)[self.rank]
        self.bags.set_iteration(len(self.losses))
        self.optimizer.zero_grad()
        rows = self.bags(self.log.inputs(own))
        parts = [torch.tensor_split(one.detach(), self.n_parts) for one in rows.values()]
        gradients, losses = [], []
        # Each rank does this with its samples; gradients of the dense weights add up.
        for at, places in enumerate(own.chunk(self.n_parts)):
            leaves = [of_table[at].requires_grad_() for of_table in parts]
            scores = self.model(self.log.dense[places], leaves)
            sums = functional.binary_cross_entropy_with_logits(
                scores, self.log.labels[places], reduction="sum"
            )
            loss = sums / len(samples)
            loss.backward()
            losses.append(loss.detach())
            gradients.append([leaf.grad for leaf in leaves])
        of_tables = [torch.cat(of_table) for of_table in zip(*gradients, strict=True)]
        torch.autograd.backward(list(rows.values()), of_tables)
        self._add_up(losses)
        self.optimizer.step()

    def _add_up(self, losses: list[torch.Tensor]) -> None:
        """Sums of dense gradients and losses over ranks, in their order, so that bits are known."""
        flat = [p.grad.view(-1) for p in self.model.parameters()]
        if self.n_ranks > 1:
            own = torch.cat([*flat, losses[0].view(1)])
            all_of_them = own.new_empty(self.n_ranks * len(own))
            dist.all_gather_into_tensor(all_of_them, own)
            ranks = all_of_them.split(len(own))
            losses = [of_rank[-1] for of_rank in ranks]
            total = ranks[0][:-1].clone()
            for of_rank in ranks[1:]:
                total += of_rank[:-1]
            for part, summed in zip(flat, total.split([len(f) for f in flat]), strict=True):
                part.copy_(summed)
        self.losses.append(float(sum(losses[1:], losses[0])))

    @torch.no_grad()
    def auc(self, samples: torch.Tensor) -> float:
        """The area under the curve of some samples, without compression, the same on all ranks."""
        bound = self.settings.bound
        self.bags.set_bounds(0.0)
        scores = torch.cat(
            [
                self.model(self.log.dense[part], list(self.bags(self.log.inputs(part)).values()))
                for part in samples.split(self.settings.batch)
            ]
        )
        self.bags.set_bounds(bound, bound * self.settings.gradient_share)
        return area_under_curve(scores, self.log.labels[samples])

    def batches(self, samples: torch.Tensor, epoch: int) -> Iterator[torch.Tensor]:
        """Whole batches of samples in an order of the epoch."""
        generator = torch.Generator().manual_seed(1000 * self.settings.seed + epoch)
        order = samples[torch.randperm(len(samples), generator=generator)]
        for batch in order.split(self.settings.batch):
            if len(batch) == self.settings.batch and len(self.losses) < self.settings.steps:
                yield batch

    def state(self) -> list[dict[str, Any]]:
        """The weights of this rank."""
        return copy.deepcopy([self.bags.state_dict(), self.model.state_dict()])

    def restore(self, state: list[dict[str, Any]]) -> None:
        """Takes the weights of state()."""
        self.bags.load_state_dict(state[0])
        self.model.load_state_dict(state[1])


def area_under_curve(scores: torch.Tensor, labels: torch.Tensor) -> float:
    """How often a liked sample has a higher score than another; ties count half."""
    _, place, counts = torch.unique(scores, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum(0) - (counts - 1) / 2).double()[place]
    n_liked = int(labels.sum())
    n_others = len(labels) - n_liked
    return float((ranks[labels > 0].sum() - n_liked * (n_liked + 1) / 2) / (n_liked * n_others))


def train(log: Log, settings: Settings, say: bool = False) -> tuple[Trainer, float]:
    """Trains until the AUC of the validation split stops rising; returns that of the test split."""
    trainer = Trainer(log, settings)
    learned, judged, tested = log.split(settings.seed)
    best, best_epoch, state = -1.0, 0, trainer.state()
    for epoch in range(1, settings.epochs + 1):
        for batch in trainer.batches(learned, epoch):
            trainer.step(batch)
        auc = trainer.auc(judged)
        if say:
            print(f"epoch {epoch}: loss {trainer.losses[-1]:.4f}, AUC {auc:.4f}", flush=True)
        if auc > best:
            best, best_epoch, state = auc, epoch, trainer.state()
        if epoch - best_epoch >= settings.patience or len(trainer.losses) >= settings.steps:
            break
    trainer.restore(state)
    return trainer, trainer.auc(tested)


def main() -> None:
    """Trains once."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "data", type=Path, nargs="?", help="folder of MovieLens-100k (default: made up)"
    )
    parser.add_argument("--interactions", type=int, default=100_000, help="that are generated")
    parser.add_argument("--losses", type=Path, help="file for the loss of each step")
    helps = dict(re.findall(r"^ {8}(\w+): (.*)\.$", Settings.__doc__ or "", re.MULTILINE))
    for field in dataclasses.fields(Settings):
        name = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            parser.add_argument(name, action="store_true", help=helps[field.name])
        else:
            text = f"{helps[field.name]} (default: %(default)s)"
            kind = type(field.default)
            parser.add_argument(name, type=kind, default=field.default, help=text)
    options = parser.parse_args()
    settings = Settings(**{f.name: getattr(options, f.name) for f in dataclasses.fields(Settings)})

    torch.set_num_threads(1)
    if "RANK" in os.environ:  # torchrun has started this process
        dist.init_process_group("gloo")
    n_ranks = dist.get_world_size() if dist.is_initialized() else settings.ranks
    if settings.batch % n_ranks or 64 % n_ranks:
        parser.error(f"the number of ranks is 1, 2, 4, ..., 64, and divides --batch; not {n_ranks}")
    log = movielens(options.data) if options.data else generated(options.interactions, 1)
    is_first = not dist.is_initialized() or dist.get_rank() == 0
    trainer, auc = train(log, settings, say=is_first)
    if is_first:
        print(f"test AUC {auc:.5f} after {len(trainer.losses)} steps")
        if dist.is_initialized():
            print(f"rank 0, rows and gradients: {trainer.bags.traffic.describe()}")
        if options.losses:
            text = "".join(f"{loss.hex()}\n" for loss in trainer.losses)
            options.losses.write_text(text, encoding="utf-8")
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
