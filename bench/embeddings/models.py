"""Small recommendation models, trained for the rows that they look up."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch.nn import functional

from embeddings.data import SEED, Log, Ratings

DIM = 32
BATCH = 2048
LARGE_BATCH = 131_072
# Lookups are kept once in so many steps.
_KEPT = 64
_PAIRS = 8192

# The ids and the rows of each table in one step.
Lookups = list[tuple[torch.Tensor, torch.Tensor]]


def dlrm_lookups(ratings: Ratings, epochs: int) -> tuple[list[Lookups], float]:
    """Trains a DLRM, a table for each field, and returns what it looked up, and its AUC.

    Interactions are dot products; nine of ten ratings are trained on, in batches of BATCH.
    """
    torch.manual_seed(SEED)
    chance = np.random.default_rng(SEED)
    order = chance.permutation(len(ratings.likes))
    fields = torch.from_numpy(ratings.fields[order])
    likes = torch.from_numpy(ratings.likes[order])
    n_trained = len(likes) * 9 // 10
    tables = torch.nn.ModuleList([torch.nn.Embedding(n, DIM) for n in ratings.sizes()])
    for table in tables:
        bound = table.num_embeddings**-0.5
        torch.nn.init.uniform_(table.weight, -bound, bound)
    pairs = torch.triu_indices(len(tables), len(tables), 1)
    top = torch.nn.Sequential(
        torch.nn.Linear(pairs.shape[1] + DIM, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)
    )
    optimizer = torch.optim.Adagrad([*tables.parameters(), *top.parameters()], lr=0.02)

    def scores(rows: torch.Tensor) -> torch.Tensor:
        products = (rows @ rows.transpose(1, 2))[:, pairs[0], pairs[1]]
        return top(torch.cat([rows.mean(1), products], 1))[:, 0]

    def look_up(ids: torch.Tensor) -> torch.Tensor:
        return torch.stack([table(ids[:, i]) for i, table in enumerate(tables)], 1)

    kept = []
    for step, chosen in enumerate(_batches(chance, n_trained, epochs), 1):
        rows = look_up(fields[chosen])
        loss = functional.binary_cross_entropy_with_logits(scores(rows), likes[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % _KEPT == 0:
            ids, values = fields[chosen], rows.detach()
            kept.append([(ids[:, i], values[:, i].contiguous()) for i in range(len(tables))])
    with torch.no_grad():
        found = scores(look_up(fields[n_trained:]))
    return kept, _auc(found.numpy(), likes[n_trained:].numpy())


def _batches(chance: np.random.Generator, n: int, epochs: int) -> Iterator[torch.Tensor]:
    for _ in range(epochs):
        order = torch.from_numpy(chance.permutation(n))
        yield from order[: n - n % BATCH].split(BATCH)


def _auc(scores: np.ndarray, likes: np.ndarray) -> float:
    ranks = np.argsort(np.argsort(scores))
    n_liked = likes.sum()
    return float((ranks[likes > 0].mean() - (n_liked - 1) / 2) / (len(likes) - n_liked))


def factor_lookup(log: Log, epochs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Factorises a log (Bayesian personalised ranking), and looks up items of LARGE_BATCH of it.

    Returns:
        Ids and rows.
    """
    torch.manual_seed(SEED)
    users, items = torch.from_numpy(log.users), torch.from_numpy(log.items)
    n_items = int(items.max()) + 1
    tables = [torch.nn.Embedding(n, DIM, sparse=True) for n in (int(users.max()) + 1, n_items)]
    for table in tables:
        torch.nn.init.normal_(table.weight, std=0.1)
    optimizer = torch.optim.SparseAdam([table.weight for table in tables], lr=0.01)
    for _ in range(epochs):
        for chosen in torch.randperm(len(users)).split(_PAIRS):
            others = torch.randint(0, n_items, (len(chosen),))
            taste = tables[0](users[chosen])
            better = (taste * (tables[1](items[chosen]) - tables[1](others))).sum(1)
            optimizer.zero_grad()
            (-functional.logsigmoid(better).mean()).backward()
            optimizer.step()
    ids = items[torch.randperm(len(items))[:LARGE_BATCH]]
    return ids, tables[1].weight.detach()[ids]
