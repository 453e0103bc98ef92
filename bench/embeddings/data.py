"""Interactions of users and items: real logs where they can be had, else generated ones.

The environment variable CFCK_EMBEDDING_DATA names the folder; bench/README.md says of what.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SEED = 1
_GENRES = slice(5, 24)
# Generated logs are about as large as the real ones; exponents of popularity give batches as many
# different inputs: 0.33 and 0.38 of users and items, 0.39 of books.
_USERS, _ITEMS, _RATINGS = 943, 1682, 100_000
_SHOPPERS, _BOOKS, _PURCHASES = 52_643, 82_629, 603_378
_PLANTED = 8


@dataclass(frozen=True)
class Ratings:
    """What a recommendation model is trained on.

    Attributes:
        name: of the log.
        fields: what is looked up, of shape (n, n_tables).
        likes: the labels, 0.0 or 1.0.
        tables: the name of each table.
    """

    name: str
    fields: np.ndarray
    likes: np.ndarray
    tables: tuple[str, ...]

    def sizes(self) -> list[int]:
        """The number of rows of each table."""
        return [int(column.max()) + 1 for column in self.fields.T]


@dataclass(frozen=True)
class Log:
    """Who took which item, of shape (n,) each."""

    name: str
    users: np.ndarray
    items: np.ndarray


def _folder() -> Path | None:
    found = os.environ.get("CFCK_EMBEDDING_DATA")
    return None if found is None else Path(found)


def movielens_folder() -> Path | None:
    """The folder that has MovieLens-100k; None: there is none."""
    folder = _folder()
    return folder if folder is not None and (folder / "u.data").exists() else None


def ratings() -> Ratings:
    """MovieLens-100k, or interactions of about its kind."""
    folder = movielens_folder()
    return _generated_ratings() if folder is None else _movielens(folder)


def log() -> Log:
    """The interactions of amazon-book, or as many that were generated."""
    folder = _folder()
    path = None if folder is None else folder / "amazon.txt"
    if path is None or not path.exists():
        chance = np.random.default_rng(SEED)
        users = chance.integers(0, _SHOPPERS, _PURCHASES)
        return Log("generated log", users, _popular(chance, _BOOKS, _PURCHASES, 0.69))
    users, items = [], []
    for line in path.read_text(encoding="ascii").splitlines():
        user, *own = map(int, line.split())
        users += [user] * len(own)
        items += own
    return Log("amazon-book", np.array(users), np.array(items))


def _movielens(folder: Path) -> Ratings:
    data = np.loadtxt(folder / "u.data", dtype=np.int64, delimiter="\t")
    data = data[data[:, 0] > 0]
    text = (folder / "u.user").read_text(encoding="latin-1")
    users = [line.split("|") for line in text.splitlines()]
    text = (folder / "u.item").read_text(encoding="latin-1")
    items = [line.split("|") for line in text.splitlines()]
    # Numbers of users and items begin with 1.
    of_users = {
        "age": [int(user[1]) for user in users],
        "gender": _numbers([user[2] for user in users]),
        "occupation": _numbers([user[3] for user in users]),
        "region": _numbers([user[4][:2] for user in users]),
    }
    of_items = {
        "year": _numbers([item[2][-4:] for item in items]),
        "genres": _numbers(["".join(item[_GENRES]) for item in items]),
    }
    user, item, stars, seconds = data.T
    fields = [user, item]
    fields += [np.array([0, *values])[user] for values in of_users.values()]
    fields += [np.array([0, *values])[item] for values in of_items.values()]
    fields += [seconds // 3600 % 24, seconds // 86400 % 7]
    names = ("user", "item", *of_users, *of_items, "hour", "weekday")
    return Ratings("MovieLens-100k", np.stack(fields, 1), (stars >= 4).astype(np.float32), names)


def _numbers(values: list[str]) -> list[int]:
    known = {value: number for number, value in enumerate(sorted(set(values)))}
    return [known[value] for value in values]


def _popular(chance: np.random.Generator, n: int, n_drawn: int, exponent: float) -> np.ndarray:
    """Numbers below n, drawn with Zipf's frequencies; which are frequent is chance."""
    weights = np.arange(1, n + 1) ** -exponent
    return chance.permutation(n)[chance.choice(n, n_drawn, p=weights / weights.sum())]


def _generated_ratings() -> Ratings:
    """Users like items whose planted vectors are like theirs; attributes follow from who it is."""
    chance = np.random.default_rng(SEED)
    user = _popular(chance, _USERS, _RATINGS, 0.7)
    item = _popular(chance, _ITEMS, _RATINGS, 0.85)
    taste = chance.standard_normal((_USERS, _PLANTED))
    kind = chance.standard_normal((_ITEMS, _PLANTED))
    score = (taste[user] * kind[item]).sum(1) / np.sqrt(_PLANTED) + 0.8 * kind[item, 0]
    likes = score + chance.standard_normal(_RATINGS) > 0
    fields = [user, item]
    for n in (61, 2, 21, 111):
        fields.append(chance.integers(0, n, _USERS)[user])
    for n in (72, 217):
        fields.append(chance.integers(0, n, _ITEMS)[item])
    fields += [chance.integers(0, 24, _RATINGS), chance.integers(0, 7, _RATINGS)]
    names = ("user", "item", "age", "gender", "occupation", "region", "year", "genres")
    names = (*names, "hour", "weekday")
    return Ratings("generated ratings", np.stack(fields, 1), likes.astype(np.float32), names)
