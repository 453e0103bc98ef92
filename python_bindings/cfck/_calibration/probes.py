"""Errors in one tensor at a time, and what they do to the outputs of the model."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from .._common.progress import Counter
from .._evaluation.divergence import Divergence
from .._evaluation.outputs import (
    afterwards,
    angles,
    choose_distance,
    count_examples,
    find_output,
    narrow_rows_of,
    rows_of,
    run_model,
)
from .._evaluation.prefix import FirstRead, Prefix, first_readers
from ..errors import InvalidArgumentError
from .request import Request
from .weights import Measured, Weights, root_mean_square, slabs

# Normalised mean square errors of a pair of probes: -30 and -25 dB.
_LEVELS = (10**-3.0, 10**-2.5)
# Where an output depends on few directions of a tensor, errors in it happen to hit them or not.
# More pairs of probes then, until those of both levels agree by this factor.
_AGREEMENT = 1.5
_MAX_PAIRS = 4


class Prober:
    """Runs the model with errors in one tensor at a time."""

    def __init__(
        self, model: torch.nn.Module, batches: list[Any], request: Request, counter: Counter
    ) -> None:
        self._counter = counter
        self._model = model
        self._batches = batches
        self._request = request
        distance = request.distance
        if distance == "auto":
            distance = choose_distance(model, batches[0], request.output)
        self._distance = distance
        self.distance_name = distance if isinstance(distance, str) else "custom"
        self._prefix: Prefix | None = None
        self._before: list[Any] = []
        for position in range(len(batches)):
            before = self._outcome(model, position)
            if distance == "kl":
                before = Divergence(before)
            self._before.append(before)
            counter.tell(f"batch {position + 1}")
        for position, before in enumerate(self._before):
            if isinstance(distance, str) and not _is_usable(before):
                raise InvalidArgumentError(
                    f"batch {position}: the outputs of the model hold NaN or infinities"
                )

    def run(self, weights: Weights) -> dict[str, Measured]:
        """The sensitivities, in the order of the model's names.

        Tensors are probed in the order in which the model first reads them, so that modules that
        ran before then need not run again. A custom distance sees all that the model returns,
        which may hold more than outputs; modules then run as always.
        """
        names = weights.to_probe()
        first_reads = self._first_reads({name: weights.tensors[name] for name in names})
        measured: dict[str, Measured] = {}
        self._prefix = Prefix(self._model, self._batches)
        with self._prefix.installed():
            for name in sorted(names, key=lambda name: first_reads.get(name, (-1,))[0]):
                if name in first_reads:
                    self._skip_to(first_reads[name][1])
                result = self._probe(name, weights.tensors[name])
                if result is not None:
                    measured[name] = result
                self._counter.finish(name)
        self._prefix = None
        return {name: measured[name] for name in names if name in measured}

    def _first_reads(self, tensors: dict[str, torch.Tensor]) -> dict[str, FirstRead]:
        """Where all batches first read a tensor, if they agree."""
        if not isinstance(self._distance, str):
            return {}
        found: dict[str, FirstRead] = {}
        for position, batch in enumerate(self._batches):
            torch.manual_seed(self._request.seed)
            reads = first_readers(self._model, batch, tensors)
            found = {n: r for n, r in reads.items() if position == 0 or found.get(n) == r}
        return found

    def _skip_to(self, module: torch.nn.Module) -> None:
        """Later passes begin with this module, which not all batches may reach."""
        assert self._prefix is not None
        for position in range(len(self._batches)):
            torch.manual_seed(self._request.seed)
            with contextlib.suppress(LookupError):
                self._prefix.reach(position, module)

    def _probe(self, name: str, tensor: torch.Tensor) -> Measured | None:
        sigma = root_mean_square(tensor)
        if not (0 < sigma < math.inf):
            return None
        # By name, so that one tensor's errors do not depend on which others there are.
        digest = hashlib.blake2b(f"{self._request.seed}/{name}".encode(), digest_size=7)
        generator = torch.Generator().manual_seed(int.from_bytes(digest.digest(), "little"))
        slopes = np.zeros(len(_LEVELS))
        n_pairs = 0
        while n_pairs < _MAX_PAIRS:
            n_pairs += 1
            for which, level in enumerate(_LEVELS):
                amplitude = sigma * math.sqrt(3 * level)
                slope = self._slope(name, tensor, amplitude, generator)
                if slope is None:
                    return None
                slopes[which] += slope
            if slopes.max() <= _AGREEMENT * slopes.min():
                break
        linearity = float(slopes[1] / slopes[0]) if slopes[0] > 0 else math.nan
        return Measured(float(slopes.mean()) / n_pairs, linearity)

    def _slope(
        self, name: str, tensor: torch.Tensor, amplitude: float, generator: torch.Generator
    ) -> float | None:
        """Distance over normalised error; None where the dtype is too coarse for the error."""
        with _disturbed(tensor, amplitude, generator) as error:
            if error == 0:
                return None
            distance = self.distance_to(self._model, name)
        if not math.isfinite(distance):
            raise InvalidArgumentError(
                f"the distance of the outputs is {distance} after small errors in tensor `{name}`",
                record=name,
            )
        return max(distance, 0.0) / error

    def _outcome(self, model: torch.nn.Module, position: int) -> Any:
        """The part of one batch's outputs that is compared."""
        batch = self._batches[position]
        torch.manual_seed(self._request.seed)
        if self._prefix is not None and model is self._model:
            returned = self._prefix.run(position)
        else:
            returned = run_model(model, batch)
        if not isinstance(self._distance, str):
            return returned
        found = find_output(returned, batch, self._request.output)
        to_rows = narrow_rows_of if self._distance == "kl" else rows_of
        return to_rows(found, self._distance, self._request.pool)

    def distance_to(self, model: torch.nn.Module, at_hand: str | None = None) -> float:
        """Mean distance of a model's outputs from those of the first, as they were.

        ``at_hand``: the name that listeners are told; None: the batch.
        """
        total, count = 0.0, 0
        for position, before in enumerate(self._before):
            after = self._outcome(model, position)
            self._counter.tell(at_hand or f"batch {position + 1}")
            if not isinstance(self._distance, str):
                n_rows = count_examples(self._batches[position])
                total += float(self._distance(before, after)) * n_rows
                count += n_rows
                continue
            if self._distance == "kl":
                changes = before.to(after)
            elif self._distance == "cosine":
                changes = angles(before, after)
            else:
                energy = before.square().sum(1)
                changes = (after - before).square().sum(1) / energy.clamp(min=1e-300)
            total += float(changes.sum())
            count += len(changes)
        return total / count if count else 0.0


def _is_usable(before: torch.Tensor | Divergence) -> bool:
    """Finite; log probabilities may be -inf."""
    if isinstance(before, Divergence):
        return before.is_usable
    return bool(torch.isfinite(before).all())


@contextlib.contextmanager
def _disturbed(
    tensor: torch.Tensor, amplitude: float, generator: torch.Generator
) -> Iterator[float]:
    """Adds errors, uniform within +-amplitude, to the finite values while the context lasts.

    Gives sum(error^2) / sum(value^2) as it came out after rounding to the dtype. Afterwards every
    bit is as before.
    """
    # .data: the change is none that autograd should know of.
    live = tensor.data
    saved = live.clone()

    def restore() -> None:
        live.copy_(saved)

    with afterwards(restore):
        errors, energy = 0.0, 0.0
        for piece in slabs(live):
            noise = torch.rand(piece.shape, generator=generator, dtype=torch.float32, device="cpu")
            noise = noise.sub_(0.5).mul_(2 * amplitude)
            old = piece.to(torch.float64, copy=True)
            new = (old + noise.to(piece.device)).to(piece.dtype)
            usable = torch.isfinite(old) & torch.isfinite(new)
            piece.copy_(torch.where(usable, new, piece))
            errors += float((piece.double() - old)[usable].square().sum())
            energy += float(old[usable].square().sum())
        yield errors / energy if energy > 0 else 0.0
