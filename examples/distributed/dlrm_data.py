"""Logs of who liked what, for dlrm.py: that of MovieLens-100k, and generated ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import torch
from cfck.embeddings import BagInput

_SPLIT_SAMPLES = 64  # parts of a log are multiples of this, so that ranks share them evenly


@dataclasses.dataclass
class Log:
    """Interactions of users with items.

    Attributes:
        ids: of each feature that has one id a sample, of shape (n_samples,).
        sets: which ids each item has, of a feature that has several: of shape (n_items, n_ids),
            bool.
        dense: features that are numbers, of shape (n_samples, n_dense).
        labels: 1.0 where the user liked the item, else 0.0.
    """

    ids: dict[str, torch.Tensor]
    sets: dict[str, torch.Tensor]
    dense: torch.Tensor
    labels: torch.Tensor

    def n_rows(self) -> dict[str, int]:
        """How large the table of each feature has to be."""
        sizes = {name: int(values.max()) + 1 for name, values in self.ids.items()}
        return sizes | {name: of_items.shape[1] for name, of_items in self.sets.items()}

    def inputs(self, samples: torch.Tensor) -> dict[str, BagInput]:
        """What is looked up for some samples."""
        found = {name: BagInput(ids[samples].unsqueeze(1)) for name, ids in self.ids.items()}
        for name, of_items in self.sets.items():
            chosen = of_items[self.ids["item"][samples]]
            lengths = chosen.sum(1)
            found[name] = BagInput(chosen.nonzero()[:, 1], lengths.cumsum(0) - lengths)
        return found

    def split(self, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Eight, one and one tenths of the samples: to train, to stop, to test."""
        n = len(self.labels)
        n_held = n // 10 // _SPLIT_SAMPLES * _SPLIT_SAMPLES
        order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
        return order[2 * n_held :], order[:n_held], order[n_held : 2 * n_held]


def movielens(folder: Path) -> Log:
    """MovieLens-100k: a folder with u.data, u.user and u.item. Four stars or more are liked."""
    rows = np.loadtxt(folder / "u.data", dtype=np.int64)
    user, item, stars, seconds = rows[rows[:, 0] > 0].T
    users = _table(folder / "u.user")
    items = _table(folder / "u.item")
    age = np.array([0] + [int(u[1]) for u in users])
    years = np.array([0] + [int(i[2][-4:] or 0) for i in items])
    ids = {
        "user": user,
        "item": item,
        "age": age[user],
        "gender": _numbered([u[2] for u in users])[user],
        "occupation": _numbered([u[3] for u in users])[user],
        "region": _numbered([u[4][:2] for u in users])[user],
        "year": _numbered([str(y) for y in years[1:]])[item],
        "hour": seconds // 3600 % 24,
        "weekday": seconds // 86400 % 7,
    }
    genres = np.array([[0] * 19] + [[int(flag) for flag in i[5:24]] for i in items])
    dense = np.stack([age[user] / 50 - 1, (years[item] - 1990) / 10], axis=1)
    return Log(
        {name: torch.from_numpy(values) for name, values in ids.items()},
        {"genres": torch.from_numpy(genres).bool()},
        torch.from_numpy(dense).float().clamp(-3, 3),
        torch.from_numpy(stars >= 4).float(),
    )


def _table(path: Path) -> list[list[str]]:
    return [line.split("|") for line in path.read_text(encoding="latin-1").splitlines()]


def _numbered(values: list[str]) -> np.ndarray:
    """Numbers of values, from 1; 0 is for what has no line."""
    number = {value: i + 1 for i, value in enumerate(sorted(set(values)))}
    return np.array([0] + [number[value] for value in values])


def generated(n_samples: int, seed: int, n_users: int = 2000, n_items: int = 3000) -> Log:
    """Interactions with preferences that can be learned, and popularity after Zipf's law.

    Users have a taste and items a character, both vectors; whether a user likes an item depends on
    their inner product, how good the item is, and chance. Attributes follow from both vectors.
    """
    random = np.random.default_rng(seed)
    taste, character = random.normal(size=(n_users, 8)), random.normal(size=(n_items, 8))
    quality = random.normal(size=n_items)
    user = _zipf(random, n_users, 0.6, n_samples)
    item = _zipf(random, n_items, 1.0, n_samples)
    score = (taste[user] * character[item]).sum(1) / 2 + quality[item]
    liked = random.random(n_samples) < 1 / (1 + np.exp(-score))
    ids = {
        "user": user,
        "item": item,
        "age": np.digitize(taste[:, 0], np.linspace(-2, 2, 40))[user],
        "gender": (taste[:, 1] > 0)[user],
        "occupation": taste[:, 2:6].argmax(1)[user],
        "year": np.digitize(quality, np.linspace(-2, 2, 30))[item],
        "hour": random.integers(0, 24, n_samples),
    }
    dense = np.stack([taste[user, 0], quality[item]], axis=1)
    return Log(
        {name: torch.from_numpy(values.astype(np.int64)) for name, values in ids.items()},
        {"genres": torch.from_numpy(character > 0.5)},
        torch.from_numpy(dense).float(),
        torch.from_numpy(liked).float(),
    )


def _zipf(random: np.random.Generator, n: int, exponent: float, n_samples: int) -> np.ndarray:
    shares = np.arange(1, n + 1) ** -exponent
    return random.permutation(n)[random.choice(n, n_samples, p=shares / shares.sum())]
