"""Refinement layer by layer, in the order in which they run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from .. import _native
from .._common.checks import check_utf8
from .._common.progress import Counter, Progress
from .._evaluation.outputs import (
    check_batches,
    check_has_examples,
    count_examples,
    model_device,
    prepared,
    undisturbed,
)
from ..errors import InvalidArgumentError
from .calibration import Calibration
from .layers import Corrector
from .probes import Prober
from .request import Request
from .rounded import RoundedCopy, unrefined

# All is done again at most so often with the step that corrected values need for the target.
_MAX_ROUNDS = 5
# One of so many batches is for judging.
_BATCHES_TO_JUDGE = 4
# The first step aims beyond the target, so that corrected values often meet it with the same step:
# they take somewhat fewer bits, and are somewhat further off.
_AIMS: dict[str, Callable[[Any], Any]] = {
    "nmse": lambda nmse: nmse * 0.965,
    "psnr": lambda psnr: psnr + 0.15,
    "bits_per_weight": lambda bits: bits * 1.003,
    "size": lambda size: int(size * 1.003),
}


@dataclasses.dataclass(frozen=True)
class RefineRequest:
    """The arguments of refine() that are no options of a file."""

    inputs: Callable[[Any], Any] | None
    output: Callable[[Any], torch.Tensor] | None
    pool: str
    n_examples: int | None
    damping: float


def run_refinement(
    model: nn.Module,
    batches: Iterable[Any],
    calibration: Calibration,
    request: RefineRequest,
    options: Mapping[str, Any],
    progress: Progress | None,
) -> Calibration:
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a torch.nn.Module as the model, not {type(model).__name__}")
    check_batches(batches)
    if calibration.source != "batches":
        raise InvalidArgumentError("feedback needs a calibration with data; give calibrate batches")
    calibration.check(
        {n: t for n, t in model.state_dict().items() if isinstance(t, torch.Tensor)},
        complete=False,
    )
    with undisturbed(model):
        kept = _first_batches(model, batches, request)
        return _Refiner(model, kept, calibration, request, options, progress).run()


def _first_batches(model: nn.Module, batches: Iterable[Any], request: RefineRequest) -> list[Any]:
    kept: list[Any] = []
    n_kept = 0
    device = model_device(model)
    for position, batch in enumerate(batches):
        kept.append(prepared(batch, request.inputs, device))
        check_has_examples(kept[-1], position)
        n_kept += count_examples(kept[-1])
        if request.n_examples is not None and n_kept >= request.n_examples:
            break
    if not kept:
        raise InvalidArgumentError("there are no batches")
    return kept


class _Refiner:
    def __init__(
        self,
        model: nn.Module,
        batches: list[Any],
        calibration: Calibration,
        request: RefineRequest,
        options: Mapping[str, Any],
        progress: Progress | None,
    ) -> None:
        counter = Counter(progress)
        judging = batches[_BATCHES_TO_JUDGE - 1 :: _BATCHES_TO_JUDGE]
        taken = [b for i, b in enumerate(batches, 1) if i % _BATCHES_TO_JUDGE]
        self._calibration = unrefined(calibration)
        self._options = options
        self._copy = RoundedCopy(model, options, None if progress is None else counter.tell)
        self._corrector = Corrector(
            self._copy, taken if judging else batches, self._calibration, request.damping, counter
        )
        request_to_judge = _probe_request(calibration, request)
        self._prober = Prober(model, judging or batches, request_to_judge, counter)

    def run(self) -> Calibration:
        first = self._copy.load(self._calibration, **_aims(self._options))
        step = first.summary.step
        families = self._corrector.families(first.plain)
        for _ in range(_MAX_ROUNDS):
            refined = self._corrector.correct(families, step)
            found = self._copy.load(refined).summary.step
            if found == step:
                break
            step = found
        after = self._prober.distance_to(self._copy.model)
        step = self._copy.load(self._calibration).summary.step
        if after < self._prober.distance_to(self._copy.model):
            return refined
        return self._corrector.corrected_by({}, step)


def _aims(options: Mapping[str, Any]) -> dict[str, Any]:
    """The target of the first step."""
    parsers = {"nmse": _native.parse_nmse, "psnr": _native.parse_psnr, "size": _native.parse_size}
    aims = {}
    for name, aim in _AIMS.items():
        value = options[name]
        if isinstance(value, str) and name in parsers:
            value = parsers[name](check_utf8(value))
        if value is not None:
            aims[name] = aim(value)
    return aims


def _probe_request(calibration: Calibration, request: RefineRequest) -> Request:
    """The request for a Prober: the calibration's distance, unless only its caller knew it."""
    return Request(
        inputs=None,
        output=request.output,
        distance="auto" if calibration.distance == "custom" else calibration.distance,
        pool=request.pool,
        moments=False,
        loss=None,
        input_shape=None,
        n_examples=1,
        seed=calibration.seed,
        cap_octaves=calibration.cap_octaves,
        max_dim=0,
        max_moment_bytes=0,
    )
