"""Shrinking step by step: calibrate, search, refine, judge, write."""

from __future__ import annotations

import dataclasses
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from .._calibration.calibrate import calibrate
from .._calibration.calibration import Calibration
from .._calibration.layers import Corrector
from .._calibration.rounded import RoundedCopy, at_step
from .._common.progress import Counter, Progress
from .._evaluation.outputs import undisturbed
from .._io.save import write_stored
from .._io.summary import LossWarning
from ..errors import InvalidArgumentError
from .certify import COARSEST_STEP, FINEST_STEP, judge_in_turn, judge_together
from .examples import N_PROBED, Split
from .goals import exact
from .judge import Judge
from .result import METADATA_KEY, ShrinkInterrupted, ShrinkResult, ShrinkTrial
from .search import StepSearch, search
from .small import SmallTensors
from .trial import Trial, finest, smallest

# The step of a first trial, of a tensor's root mean square: about 3 bits per weight.
_FIRST_STEP = 0.3
_MAX_TRIALS = 8
# Of small models, where a trial is quick and its outcome varies more.
_MAX_REFINED, _MAX_REFINED_OF_SMALL = 6, 10
# Refined values lose about this much less at the same step.
_REFINED_GAIN = 1.2
# Vectors (norms, biases) may take so much of what may be lost.
_SHARE_OF_VECTORS = 0.04
# Models with fewer weights are small: they get the slower search of the codec too, which takes
# fewer bits.
_SMALL_MODEL = 4_000_000
# Significant bits of vectors where a size is asked for.
_BITS_FOR_A_SIZE = 8
_DAMPING = 0.02
# Files of small models that are judged together, at least.
_FEWEST_NEAR = 4
# More than any file has.
_LARGEST_SIZE = 2.0**62


@dataclasses.dataclass(frozen=True)
class Job:
    """The arguments of shrink(), looked at.

    Attributes:
        targets: size= or bits_per_weight=, as options of a file; else empty, and a goal counts.
        goal: what is to be kept, for the report.
        confidence: of goals on other examples; None for a caller's number and for sizes.
    """

    model: nn.Module
    filename: str
    data: Split | None
    judge: Judge
    goal: dict[str, float]
    confidence: float | None
    targets: dict[str, Any]
    output: Callable[..., torch.Tensor] | None
    pool: Any
    metadata: Mapping[str, str] | None
    seed: int
    threads: int
    notes: list[str]


class Shrinker:
    """Does one call of shrink()."""

    def __init__(
        self, job: Job, progress: Progress | None, report: Callable[[str], object]
    ) -> None:
        self._job = job
        self._begin = time.monotonic()
        self._progress = progress
        self._report = report
        self._stage = ""
        self._n_stages = 0
        self._options: dict[str, Any] = {}
        self._judged: list[Trial] = []
        self._refining: tuple[Corrector, Any] | None = None
        self._vector_bits: int | None = None
        floats = _distinct_floats(job.model)
        self._n_weights = max(1, sum(tensor.numel() for tensor in floats))
        self._copy = RoundedCopy(
            job.model, {"threads": job.threads}, self._tell, metadata=job.metadata
        )

    def run(self) -> ShrinkResult:
        """All of it."""
        job = self._job
        with (
            undisturbed(job.model, self._copy.model),
            torch.inference_mode(_is_inference(job.model)),
            torch.no_grad(),
            warnings.catch_warnings(),
        ):
            # Trials may lose anything; the losses of the file are told in the end.
            warnings.simplefilter("ignore", LossWarning)
            best: Trial | None = None
            try:
                calibration = self._calibrate()
                best = self._to_size(calibration) if job.targets else self._to_goal(calibration)
                return self._write(best)
            except KeyboardInterrupt as interrupt:
                met = [trial for trial in self._judged if trial.told.met]
                if best is None and not met:
                    raise
                self._progress = None  # it may raise again
                self._report("interrupted: the best file so far is written")
                result = self._write(best or smallest(met), interrupted=best is None)
                raise ShrinkInterrupted(result) from interrupt

    def _enter(self, stage: str) -> None:
        self._stage = stage
        self._n_stages += 1
        self._tell("")

    def _tell(self, name: str) -> None:
        if self._progress is not None:
            total = max(self._n_stages, 8)
            self._progress(self._n_stages - 1, total, f"{self._stage} {name}".rstrip())

    def _calibrate(self) -> Calibration:
        job = self._job
        self._enter("calibrate")
        listener = None if self._progress is None else lambda _d, _t, name: self._tell(name)
        calibration = calibrate(
            job.model,
            None if job.data is None else job.data.used.inputs,
            output=job.output,
            pool=job.pool,
            distance="auto",
            n_examples=N_PROBED,
            seed=job.seed,
            progress=False if listener is None else listener,
        )
        measured = [t.sensitivity for t in calibration.values() if t.is_measured]
        if not measured:
            raise InvalidArgumentError(
                "no tensor of the model could be measured: none has floating values, two or more "
                "dimensions, a root mean square above 0, and a dtype fine enough for small errors; "
                "store the model without loss with save_file"
            )
        if not any(sensitivity > 0 for sensitivity in measured):
            raise InvalidArgumentError(
                "the outputs of the model do not react to errors in its weights, so that nothing "
                "can be kept by them; choose others with output=, or give batches that they "
                "depend on"
            )
        self._report(
            f"calibrated: {len(measured)} tensors, on {calibration.n_moment_examples} examples"
        )
        return calibration

    def _settings(self, calibration: Calibration) -> SmallTensors:
        """Options of all files, as long as vectors are not looked at."""
        job = self._job
        buffers = {name for name, _ in job.model.named_buffers(remove_duplicate=False)}
        small = SmallTensors(self._copy.state(), buffers, calibration)
        self._options = {
            "rules": small.rules,
            "steps": "feedback" if self._saw_data(calibration) else "calibrated",
        }
        if self._n_weights < _SMALL_MODEL:
            self._options["level"] = "archive"  # 64 states too
        return small

    def _to_goal(self, calibration: Calibration) -> Trial:
        """The coarsest file that keeps everything.

        Where other examples count, steps are searched by the examples that files are made with, and
        only then judged by those held back.
        """
        small = self._settings(calibration)
        self._choose_vectors(small)
        plain = StepSearch(_FIRST_STEP, COARSEST_STEP, FINEST_STEP)

        def attempt(step: float) -> float:
            return self._try(at_step(calibration, step), step, refined=False).predicted

        refines = False
        if self._saw_data(calibration):
            search(plain, attempt, _MAX_TRIALS, until=_is_close)
            refines = self._search_refined(calibration, plain)
        if not refines:
            search(plain, attempt, _MAX_TRIALS)
        if self._job.confidence is not None:
            kept = self._certify(calibration, refines)
        else:
            kept = [trial for trial in self._judged if trial.told.met]
        if not kept:
            self._refuse()
        return smallest(kept)

    def _certify(self, calibration: Calibration, refined: bool) -> list[Trial]:
        """Trials that keep everything as far as the examples held back show."""

        def make(step: float) -> Trial:
            if refined:
                return self._refine(calibration, step)
            return self._try(at_step(calibration, step), step, refined=False)

        judge = self._job.judge
        if judge.can_pool:
            fewest = _FEWEST_NEAR if self._n_weights < _SMALL_MODEL else 1
            return judge_together(self._judged, refined, judge, make, fewest)
        tried = [trial for trial in self._judged if trial.told.refined == refined]
        return judge_in_turn(tried, make)

    def _corrector(self, data: Split, calibration: Calibration) -> Corrector:
        counter = Counter(lambda _d, _t, name: self._tell(name))
        return Corrector(
            self._copy, data.used.inputs, calibration, _DAMPING, counter, is_cautious=True
        )

    def _saw_data(self, calibration: Calibration) -> bool:
        """Whether errors can be made up for: what the layers take is known."""
        return self._job.data is not None and calibration.source == "batches"

    def _search_refined(self, calibration: Calibration, plain: StepSearch) -> bool:
        """Tries refined values; whether these allow a coarser step than others do."""
        first = plain.expected() * math.sqrt(_REFINED_GAIN)
        found = StepSearch(min(first, COARSEST_STEP), COARSEST_STEP, FINEST_STEP)
        is_small = self._n_weights < _SMALL_MODEL
        most = _MAX_REFINED_OF_SMALL if is_small else _MAX_REFINED
        is_enough = None if self._job.confidence is None else _is_likely
        search(found, lambda step: self._refine(calibration, step).predicted, most, until=is_enough)
        return found.expected() > plain.expected()

    def _refine(self, calibration: Calibration, step: float) -> Trial:
        """A trial with values that make up for errors of earlier layers."""
        self._enter(f"refine {len(self._judged) + 1}")
        loaded = self._copy.load(at_step(calibration, step), **self._options)
        if self._refining is None:
            assert self._job.data is not None  # or there would be nothing to refine with
            corrector = self._corrector(self._job.data, calibration)
            self._refining = corrector, corrector.families(loaded.plain)
        corrector, families = self._refining
        return self._try(corrector.correct(families, step), step, refined=True)

    def _try(self, calibration: Calibration, step: float, refined: bool, **target: Any) -> Trial:
        """Encodes, decodes and judges."""
        if not refined:
            self._enter(f"try {len(self._judged) + 1}")
        loaded = self._copy.load(calibration, **self._options, **target)
        judge = self._job.judge
        outcome = judge.measure(self._copy.model, with_used=not target)
        verdict = judge.verdict(outcome)
        predicted = verdict.ratio if target else judge.predicted(outcome)
        met = verdict.ratio <= 1
        bits = 8 * loaded.summary.file_bytes / self._n_weights
        told = ShrinkTrial(
            loaded.summary.step or step, bits, verdict.kept, verdict.bounds, refined, met
        )
        trial = Trial(loaded, outcome, verdict, told, predicted)
        self._judged.append(trial)
        kind = "refined" if refined else "compensated"
        numbers = ", ".join(
            f"{name} {exact(value)}"
            + (f" ({exact(verdict.bounds[name])})" if name in verdict.bounds else "")
            for name, value in verdict.kept.items()
        )
        self._report(f"file {len(self._judged)}: {bits:.3f} bits per weight, {kind}: {numbers}")
        return trial

    def _choose_vectors(self, small: SmallTensors) -> None:
        """Norms and biases with the fewest bits that take a small share of what may be lost."""
        self._enter("norms and biases")
        for bits, rounded in small.rounded():
            # All other tensors of the copy are as they were, so far.
            self._copy.replace(rounded)
            if self._job.judge.lost(self._copy.model) <= _SHARE_OF_VECTORS:
                self._vector_bits = bits
                self._report(f"norms and biases: rounded to {bits} significant bits")
                return
        self._copy.replace({})

    def _refuse(self) -> None:
        best = finest(self._judged)
        wanted = ", ".join(f"{name}={value!r}" for name, value in self._job.goal.items())
        can = ", ".join(f"{name}={exact(value)}" for name, value in best.told.outcome.items())
        least = (
            f"{best.told.bits_per_weight:.2f} bits per weight, the finest steps tried, keep {can}"
        )
        confidence = self._job.confidence
        needed = best.verdict.needed
        if confidence is not None and needed is not None:
            assert self._job.data is not None
            data = self._job.data
            # What would do is told by examples that did not: a few more, at the least.
            needed = max(needed, math.ceil(1.25 * data.n_held))
            total = needed if data.is_given else math.ceil(needed * (1 + data.n_used / data.n_held))
            where = "held_back=" if data.is_given else "batches= (of which a fourth is held back)"
            raise InvalidArgumentError(
                f"keep {wanted} cannot be shown with a confidence of {confidence:g} by "
                f"{data.n_held} held-back examples: {least} on these; about {total:,} examples in "
                f"{where} would do, or a lower confidence="
            )
        raise InvalidArgumentError(
            f"keep {wanted} cannot be met on the held-back examples: {least}; ask for that, or "
            "store the model without loss with save_file"
        )

    def _to_size(self, calibration: Calibration) -> Trial:
        """The best file of a size."""
        job = self._job
        small = self._settings(calibration)
        for bits, rounded in small.rounded():
            if bits == _BITS_FOR_A_SIZE:
                self._copy.replace(rounded)
                self._vector_bits = bits
        targets = dict(job.targets)
        if "bits_per_weight" in targets:
            bits = targets.pop("bits_per_weight")
            targets["size"] = int(min(bits * self._n_weights / 8, _LARGEST_SIZE))
        plain = self._try(calibration, 0.0, refined=False, **targets)
        if not self._saw_data(calibration):
            return plain
        assert job.data is not None
        self._enter("refine")
        corrector = self._corrector(job.data, calibration)
        families = corrector.families(plain.loaded.plain)
        refined = corrector.correct(families, plain.told.step)
        trial = self._try(refined, plain.told.step, refined=True, **targets)
        return min((plain, trial), key=_distance)

    def _write(self, best: Trial, interrupted: bool = False) -> ShrinkResult:
        """The file, which is what was judged."""
        job = self._job
        self._enter("write")
        metadata = {**(job.metadata or {}), **self._promise(best)}
        threads = {"threads": job.threads}
        file_bytes = write_stored(best.loaded.data, job.filename, metadata, threads)
        kept = best.verdict.kept
        evaluation = best.outcome.evaluation
        if not kept and evaluation is not None:
            found = {"cosine": evaluation.cosine_mean}
            if evaluation.kl is not None:
                found = {"kl": evaluation.kl}
            kept = {name: value for name, value in found.items() if not math.isnan(value)}
        result = ShrinkResult(
            filename=job.filename,
            file_bytes=file_bytes,
            original_bytes=sum(t.nbytes for t in _distinct(job.model)),
            n_weights=self._n_weights,
            bits_per_weight=8 * file_bytes / self._n_weights,
            goal=job.goal,
            kept=kept,
            bounds=best.verdict.bounds,
            confidence=job.confidence,
            n_held_back=0 if job.data is None else job.data.n_held,
            n_used=0 if job.data is None else job.data.n_used,
            evaluation=evaluation,
            refined=best.told.refined,
            vector_bits=self._vector_bits,
            trials=tuple(trial.told for trial in self._judged),
            interrupted=interrupted,
            notes=tuple(job.notes + job.judge.notes),
            seconds=time.monotonic() - self._begin,
        )
        self._report(str(result))
        return result

    def _promise(self, best: Trial) -> dict[str, str]:
        """What the file itself says of what it keeps, unless the caller has an entry there."""
        job = self._job
        if not job.goal or METADATA_KEY in (job.metadata or {}):
            return {}
        told: dict[str, Any] = {"goal": job.goal, "kept": best.verdict.kept}
        if job.confidence is not None:
            told |= {"bounds": best.verdict.bounds, "confidence": job.confidence}
        if job.data is not None:
            told["n_held_back"] = job.data.n_held
        return {METADATA_KEY: json.dumps(_short(told), separators=(",", ":"))}


def _short(told: Any) -> Any:
    """Numbers as summaries print them: the files of small models are small too."""
    if isinstance(told, dict):
        return {name: _short(value) for name, value in told.items()}
    return float(exact(told)) if isinstance(told, float) and math.isfinite(told) else told


def _is_likely(ratio: float) -> bool:
    """Whether a step is near enough to begin judging there."""
    return 0.85 <= ratio <= 1


def _is_close(ratio: float) -> bool:
    """Whether the loss is near enough to what is allowed to tell where refinement should begin."""
    return 0.6 <= ratio <= 1.7


def _distance(trial: Trial) -> float:
    evaluation = trial.outcome.evaluation
    assert evaluation is not None
    return evaluation.kl if evaluation.kl is not None else 1 - evaluation.cosine_mean


def _is_inference(model: nn.Module) -> bool:
    """Whether its tensors can only be changed in this mode."""
    return any(tensor.is_inference() for tensor in _distinct(model))


def _distinct(model: nn.Module) -> list[torch.Tensor]:
    """The tensors of a model, those that share memory once."""
    found: dict[Any, torch.Tensor] = {}
    for tensor in model.state_dict().values():
        if isinstance(tensor, torch.Tensor):
            place = (tensor.data_ptr() if tensor.numel() else id(tensor), tuple(tensor.shape))
            found.setdefault(place, tensor)
    return list(found.values())


def _distinct_floats(model: nn.Module) -> list[torch.Tensor]:
    return [tensor for tensor in _distinct(model) if tensor.is_floating_point()]
