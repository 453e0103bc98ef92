"""Pairs of weights: casts of what a training has before and after some of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from common import data
from delta import training

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Pair:
    """The same tensors twice: what the receiver has, and what it shall have."""

    name: str
    old: Tensors
    new: Tensors

    def changed(self) -> float:
        """The share of the elements that differ in some bit."""
        numbers = [(numbers_of(self.old[k]), numbers_of(new)) for k, new in self.new.items()]
        return sum(int((a != b).sum()) for a, b in numbers) / sum(a.size for a, _ in numbers)


def numbers_of(tensor: Tensor) -> np.ndarray:
    """The bits of each element as an unsigned integer, in one dimension, without a copy."""
    return tensor.reshape(-1).view(torch.uint8).numpy().view(f"u{tensor.element_size()}")


def bytes_of(tensors: Tensors) -> np.ndarray:
    """The bytes of all tensors, one after another."""
    return np.concatenate([numbers_of(tensor).view(np.uint8) for tensor in tensors.values()])


def cast(weights: Tensors, kind: str, base: Tensors) -> dict[str, Tensor]:
    """Float32 weights as `kind`: f32, bf16, f8 or int4.

    Scales of f8 (one for each row) and int4 (one for 64 values) are those of `base`, and are no
    part of the result: codes alone are compared. Two codes of int4 are a byte, the first one in its
    low bits.
    """
    return {name: _cast(value, kind, base[name]) for name, value in weights.items()}


def _cast(value: Tensor, kind: str, base: Tensor) -> Tensor:
    if kind == "bf16":
        return value.to(torch.bfloat16)
    if kind == "f8":
        scale = base.abs().amax(dim=1, keepdim=True) / 448
        return (value / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    if kind == "int4":
        scale = base.reshape(-1, 64).abs().amax(dim=1, keepdim=True) / 7
        codes = (value.reshape(-1, 64) / scale).round().clamp(-8, 7) + 8
        halves = codes.reshape(-1, 2).to(torch.uint8)
        return halves[:, 0] | halves[:, 1] << 4
    return value


def of_training(kind: str, rate: float, n_steps: int, seed: int, folder: Path) -> Pair:
    """The weights before and after steps of AdamW, which are trained if `folder` lacks them."""
    paths = training.train(rate, seed, folder)
    base, after = (training.load(paths[i]) for i in (0, 1 + training.STEPS.index(n_steps)))
    name = f"{kind}, {rate:.0e}, {n_steps}, seed {seed}"
    return Pair(name, cast(base, kind, base), cast(after, kind, base))


def of_checkpoints(first: int, second: int) -> Pair:
    """The weights of two checkpoints of one training."""
    states = [
        load_file(data.data_path(f"gpt_step{step:05}.safetensors")) for step in (first, second)
    ]
    old, new = (
        training.matrices({k: v for k, v in state.items() if k.startswith("model.")})
        for state in states
    )
    return Pair(f"f32, {first} to {second}", old, new)


def enlarged(pair: Pair, n_bytes: int, *, joined: int = 0, first: int = 0) -> Pair:
    """At least `n_bytes` of each side, made of copies of all tensors.

    In every copy they are rotated by another number of elements, so that no two are equal and
    changes are as frequent as they were.

    Args:
        joined: so many copies are one large tensor, all tensors of one after those of another: so
            what is alike in them is further apart than peers look back. 0: tensors stay apart.
        first: the number of the first copy: those of other numbers are other tensors.
    """
    size = sum(tensor.numel() * tensor.element_size() for tensor in pair.old.values())
    n_copies = -(-n_bytes // size)

    def copies(tensors: Tensors) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        flat: list[Tensor] = []
        for i in range(n_copies):
            turned = {
                name: tensor.reshape(-1).roll(1 + 8191 * (first + i))
                for name, tensor in tensors.items()
            }
            if not joined:
                found |= {f"{i}.{k}": one.reshape(tensors[k].shape) for k, one in turned.items()}
                continue
            flat += turned.values()
            if (i + 1) % joined == 0 or i + 1 == n_copies:
                found[f"{i // joined}"] = torch.cat(flat)
                flat = []
        return found

    return Pair(pair.name, copies(pair.old), copies(pair.new))
