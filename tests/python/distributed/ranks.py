"""Processes that are the ranks of a group, kept for many tests: to start one takes seconds."""

from __future__ import annotations

import dataclasses
import datetime
import pickle
import traceback
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

_SECONDS = 120


@dataclasses.dataclass
class Raised:
    """What a call raised on one rank: the name of its type, its text, and where."""

    kind: str
    text: str
    trace: str


class Ranks:
    """n ranks with the backend gloo, of one thread each."""

    def __init__(self, n: int, store: str) -> None:
        context = mp.get_context("spawn")
        self.n = n
        self._pipes = []
        self._processes = []
        for rank in range(n):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(rank, n, store, there), daemon=True)
            process.start()
            self._pipes.append(here)
            self._processes.append(process)

    def __call__(self, function: Any, *args: Any) -> list[Any]:
        """What a function of a module returned on each rank, or what it Raised."""
        for pipe in self._pipes:
            pipe.send((function, args))
        results = []
        for rank, pipe in enumerate(self._pipes):
            if not pipe.poll(_SECONDS):
                raise AssertionError(f"rank {rank} does not answer")
            results.append(pickle.loads(pipe.recv_bytes()))
        return results

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join(20)
            process.kill()


def _serve(rank: int, n: int, store: str, pipe: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=n,
        timeout=datetime.timedelta(seconds=_SECONDS // 2),
    )  # fmt: skip
    while True:
        task = pipe.recv()
        if task is None:
            break
        function, args = task
        try:
            result = function(*args)
        except Exception as error:
            result = Raised(type(error).__name__, str(error), traceback.format_exc())
        pipe.send_bytes(pickle.dumps(result))
    dist.destroy_process_group()
