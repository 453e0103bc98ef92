"""Training by epochs, which goes on where it was interrupted."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from training.schemes import Scheme
from training.tasks import Task


@dataclass
class Outcome:
    """A run: the score of its last epoch, what its weights take, and a line for each epoch."""

    score: float = math.nan
    bits: float = math.nan
    estimate: float | None = None  # of the bits, before the file was written
    epochs: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)  # where it was made, and how


class Training:
    """One run, whose state is kept after each epoch, and what it has found for good.

    Weights are trained by AdamW; learning rates fall as a cosine to 0.
    """

    def __init__(self, name: str, folder: Path, runs: Path, tell: Callable[[str], None]) -> None:
        """`name` is that of its files: the state in `folder`, what was found in `runs`."""
        self.name, self.tell = name, tell
        self._state = folder / f"{name}.state.pt"
        self._outcome = runs / f"{name}.json"

    def run(
        self, task: Task, make: Callable[[int], Scheme], epochs: int, facts: dict[str, str]
    ) -> Outcome:
        """Trains, or returns what an earlier run has found; `facts` are kept with it."""
        if self._outcome.exists():
            return Outcome(**json.loads(self._outcome.read_text()))
        n_steps = epochs * task.n_batches
        scheme = make(n_steps)
        optimizer = torch.optim.AdamW(scheme.groups(), weight_decay=task.weight_decay)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / n_steps))
        )
        outcome = Outcome(facts=facts)
        if self._state.exists():
            state = torch.load(self._state, weights_only=True)
            scheme.load_state(state["scheme"])
            optimizer.load_state_dict(state["optimizer"])
            schedule.load_state_dict(state["schedule"])
            outcome.epochs = state["epochs"]
        for epoch in range(len(outcome.epochs), epochs):
            self._epoch(task, scheme, optimizer, schedule, epoch, n_steps, outcome)
            state = {
                "scheme": scheme.state(),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
                "epochs": outcome.epochs,
            }
            partial = self._state.with_suffix(".partial")
            torch.save(state, partial)
            partial.rename(self._state)
        outcome.estimate = scheme.estimate()
        scheme.finish(task.norm_batches())
        outcome.bits, outcome.score = scheme.bits(), task.score(scheme.model)
        self._outcome.parent.mkdir(parents=True, exist_ok=True)
        self._outcome.write_text(json.dumps(asdict(outcome), indent=1) + "\n")
        return outcome

    def trained(
        self, task: Task, make: Callable[[int], Scheme], epochs: int, facts: dict[str, str]
    ) -> nn.Module:
        """The network of a run, trained if its state is not there, without gradients."""
        if not self._state.exists():
            self._outcome.unlink(missing_ok=True)
        self.run(task, make, epochs, facts)
        scheme = make(epochs * task.n_batches)
        scheme.load_state(torch.load(self._state, weights_only=True)["scheme"])
        return scheme.model.eval().requires_grad_(False)

    def _epoch(
        self,
        task: Task,
        scheme: Scheme,
        optimizer: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LRScheduler,
        epoch: int,
        n_steps: int,
        outcome: Outcome,
    ) -> None:
        torch.manual_seed(epoch)
        scheme.model.train()
        start, total = time.monotonic(), 0.0
        for at, batch in enumerate(task.epoch(epoch)):
            loss = task.loss(scheme.model, batch)
            total += float(loss.detach())
            loss = loss + scheme.extra_loss()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            scheme.advance((epoch * task.n_batches + at + 1) / n_steps)
        facts = {
            "loss": total / task.n_batches,
            "score": task.score(scheme.model),
            "bits": scheme.bits(),
            "seconds": time.monotonic() - start,
        }
        outcome.epochs.append(facts)
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in facts.items())
        self.tell(f"{self.name}, epoch {epoch + 1}: {numbers}; {scheme.note()}")
