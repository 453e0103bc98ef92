"""The rows of the rate-distortion benchmark: what is coded, measured, and judged."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from common.targets import Goal, Targets
from rate_distortion import bound, product
from rate_distortion.peers import FORMATS, NNCODEC, NnCodec, in_format, qp_near
from rate_distortion.points import Coded, Point, bits_at_effect, bits_at_nmse, n_weights, nmse
from rate_distortion.product import FLAT, MOST_STATES, PARTS, MissingPreset, Options, Preset
from rate_distortion.subjects import Subject

LEVELS = (-30.0, -25.0, -20.0, -15.0, -10.0)  # dB
DIRECT = "cfck direct"
DECIBELS_PER_BIT = 6.02
# Mean cosines, and the bits per weight that must be reached and are aimed at.
COSINES = ((0.999, 5.2, 5.0), (0.99, 3.6, 3.4), (0.97, 2.9, 2.7))
COSINES_CALIBRATED = ((0.999, 4.85, 4.65), (0.99, 3.25, 3.05), (0.97, 2.55, 2.35))


Level = tuple[float, float]  # an error in dB, and bits per weight


@dataclass(frozen=True)
class Ladder:
    """Errors (dB), or bits per weight, at which effects are measured, from fine to coarse, until
    one is too large.
    """

    effect: str
    limit: float
    levels: Sequence[float]
    bits: Sequence[float]  # for presets that ask for them: few, since refinement takes long
    qps_apart: int
    n_qps: int


IMAGE_LEVELS = [-27.5 + 2.5 * i for i in range(10)]
IMAGE_BITS = [2.6, 2.1, 1.6, 1.2, 0.9]
SENTENCE_LEVELS = [-38.0 + 4 * i for i in range(9)]
SENTENCE_BITS = [3.0, 2.6, 2.2]
IMAGES = Ladder("KL", 0.3, IMAGE_LEVELS, IMAGE_BITS, 2, 8)
SENTENCES = Ladder("1 - cosine", 0.05, SENTENCE_LEVELS, SENTENCE_BITS, 3, 6)


@dataclass
class CurveRun:
    """Options of a run, and everything found so far."""

    peer: NnCodec | None
    presets: Sequence[Preset]  # for effects; the first is FLAT
    # Of an earlier run: codecs that have points there are not measured again.
    earlier: Sequence[Point] = ()
    points: list[Point] = field(default_factory=list)
    targets: Targets = field(default_factory=Targets)
    # By data and codec: its points, and the least bits at their errors.
    limits: dict[tuple[str, str], list[tuple[Point, float]]] = field(default_factory=dict)
    lambdas: list[list[str]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def of(self, subject: str, codec: str) -> list[Point]:
        """The points of a codec, from most bits to fewest."""
        chosen = [p for p in self.points if p.data == subject and p.codec == codec]
        return sorted(chosen, key=lambda point: -point.bits)

    def add(self, subject: Subject, codec: str, coded: Coded) -> Point:
        """Adds a point without effects."""
        bits = 8 * coded.n_bytes / n_weights(subject.tensors)
        point = Point(
            subject.name, codec, coded.setting, bits, nmse(subject.tensors, coded.tensors)
        )
        self.points.append(point)
        words = f"{subject.name}, {codec}, {coded.setting}: {bits:.3f} b/w, {point.nmse:.2f} dB"
        print(words, file=sys.stderr, flush=True)
        return point

    def recalls(self, subject: Subject, codec: str, has_effects: bool) -> bool:
        """Takes over what an earlier run found; whether there was anything."""
        found = [
            point
            for point in self.earlier
            if (point.data, point.codec) == (subject.name, codec)
            and bool(point.effects) == has_effects
        ]
        self.points += found
        return bool(found)

    def miss(self, name: str, reason: str) -> None:
        """A codec that cannot be measured, said once."""
        if name not in self.missing:
            self.missing[name] = reason
            print(f"SKIPPED {name}: {reason}", file=sys.stderr, flush=True)


def measure_errors(run: CurveRun, subject: Subject) -> None:
    """Rate and error of every codec, and the bound, at the levels."""
    tensors = subject.tensors
    for preset in (FLAT, MOST_STATES, *PARTS):
        if preset.flattens and all(values.ndim == 2 for values in tensors.values()):
            continue
        if run.recalls(subject, preset.name, has_effects=False):
            continue
        for coded in product.spectral(preset, {}, tensors, LEVELS, subject.has_small):
            run.add(subject, preset.name, coded)
    if not run.recalls(subject, DIRECT, has_effects=False):
        for coded in product.direct(tensors, LEVELS):
            run.add(subject, DIRECT, coded)
    for name in FORMATS:
        if not run.recalls(subject, name, has_effects=False):
            run.add(subject, name, in_format(name, tensors))
    if run.peer is not None and not run.recalls(subject, NNCODEC, has_effects=False):
        qps = range(qp_near(tensors, LEVELS[0] - 2), qp_near(tensors, LEVELS[-1] + 3) + 1)
        for coded in run.peer.encode_all(tensors, qps):
            run.add(subject, NNCODEC, coded)
    scales = bound.field_of(tensors)
    for codec in (FLAT.name, MOST_STATES.name):
        run.limits[subject.name, codec] = [
            (point, bound.bits_at(scales, point.nmse)) for point in run.of(subject.name, codec)
        ]


def _climb(
    run: CurveRun, subject: Subject, codec: str, coded: Iterable[Coded], ladder: Ladder
) -> None:
    for one in coded:
        point = run.add(subject, codec, one)
        point.effects = subject.effects(one.tensors)
        words = ", ".join(f"{name} {value:.4g}" for name, value in point.effects.items())
        print(f"    {words}", file=sys.stderr, flush=True)
        if point.effects[ladder.effect] > ladder.limit:
            return


def measure_effects(run: CurveRun, subject: Subject, ladder: Ladder) -> None:
    """What the model does with what each codec gives back."""
    has_kernels = any(values.ndim > 2 for values in subject.tensors.values())
    for preset in run.presets:
        if preset.only_kernels and not has_kernels:
            continue
        if run.recalls(subject, preset.name, has_effects=True):
            continue
        try:
            prepared: Options = preset.prepare(subject) if preset.prepare else {}
            levels = ladder.bits if preset.in_bits else ladder.levels
            coded = product.spectral(
                preset, prepared, subject.tensors, levels, subject.has_small, subject
            )
            _climb(run, subject, preset.name, coded, ladder)
        except MissingPreset as error:
            run.miss(preset.name, str(error))
    for name in FORMATS:
        if not run.recalls(subject, name, has_effects=True):
            _climb(run, subject, name, [in_format(name, subject.tensors)], ladder)
    if run.peer is not None and not run.recalls(subject, NNCODEC, has_effects=True):
        first = qp_near(subject.tensors, ladder.levels[0])
        qps = range(first, first + ladder.qps_apart * ladder.n_qps, ladder.qps_apart)
        _climb(run, subject, NNCODEC, run.peer.encode_all(subject.tensors, qps), ladder)


def _bits(must: float, aim: float, smaller: bool = False) -> Goal:
    return Goal(must, aim, smaller, text=lambda bits: f"{bits:.3f} bit")


def _judge_levels(
    run: CurveRun, row: str, subject: str, what: str, found: dict[str, list[Level]], goal: Goal
) -> None:
    """The worst of all levels counts, with 64 states; with 8 it is told."""
    for preset in (MOST_STATES, FLAT):
        levels = found[preset.name]
        bits = [bits for _, bits in levels]
        worst = max(bits) if goal.smaller else min(bits)
        all_levels = ", ".join(f"{level:.0f} dB: {bits:.3f}" for level, bits in levels)
        states = preset.options.get("trellis_states", 8)
        words = f"{what}, {states} states"
        if preset is MOST_STATES:
            run.targets.judge(row, subject, words, worst, goal, all_levels)
        else:
            run.targets.tell(row, subject, words, goal.text(worst), all_levels)


def judge_errors(run: CurveRun, subject: str, must: float, aim: float) -> None:
    """Bits per weight below NNCodec at equal error."""
    row = "equal NMSE"
    theirs = run.of(subject, NNCODEC)
    if not theirs or not run.of(subject, FLAT.name):
        run.targets.skip(row, subject, "NNCodec or cfck is missing")
        return
    saved: dict[str, list[Level]] = {}
    for codec in (FLAT.name, MOST_STATES.name):
        ours = [point for point in run.of(subject, codec) if not point.effects]
        found = [(point, bits_at_nmse(theirs, point.nmse)) for point in ours]
        saved[codec] = [(p.nmse, bits - p.bits) for p, bits in found if bits is not None]
    if not all(saved.values()):
        run.targets.fail(row, subject, "no NMSE in common")
        return
    what = "bits per weight below NNCodec, least of the levels"
    _judge_levels(run, row, subject, what, saved, _bits(must, aim))


def judge_bound(run: CurveRun, subject: str) -> None:
    """Bits above the Gaussian bound of the field of scales."""
    above = {
        codec: [(point.nmse, point.bits - bits) for point, bits in points]
        for (data, codec), points in run.limits.items()
        if data == subject
    }
    if not above or not all(above.values()):
        run.targets.skip("Shannon bound", subject, "cfck is missing")
        return
    what = "bits per weight above, most of the levels"
    _judge_levels(run, "Shannon bound", subject, what, above, _bits(0.20, 0.13, True))


def judge_divergence(run: CurveRun, subject: str, level: float, uses_data: bool = False) -> None:
    """Bits per weight below NNCodec at equal KL; the best preset of either kind counts."""
    row = "equal KL, calibrated" if uses_data else "equal KL, no data"
    what = f"bits per weight below NNCodec at KL {level:g}"
    theirs = bits_at_effect(run.of(subject, NNCODEC), "KL", level)
    found = {
        preset.name: bits
        for preset in run.presets
        if preset.uses_data == uses_data
        and (bits := bits_at_effect(run.of(subject, preset.name), "KL", level)) is not None
    }
    if theirs is None or not found:
        run.targets.skip(row, subject, f"KL {level:g} was not reached from both sides")
        return
    best = min(found, key=lambda name: found[name])
    against = f"NNCodec {theirs:.3f}; " + ", ".join(f"{n} {b:.3f}" for n, b in found.items())
    goal = _bits(1.3, 1.6) if uses_data else _bits(0.9, 1.2)
    run.targets.judge(row, subject, what, theirs - found[best], goal, against)


def judge_top1(run: CurveRun, subject: Subject) -> None:
    """Bits per weight with at most one point of top-1 lost."""
    names = [preset.name for preset in run.presets]
    found = {}
    for name in (*names, NNCODEC):
        bits = bits_at_effect(run.of(subject.name, name), "top-1", -1.0)
        if bits is not None:
            found[name] = bits
    ours = {name: bits for name, bits in found.items() if name != NNCODEC}
    row, what = "top-1, one point lost", "bits per weight"
    if not ours:
        run.targets.skip(row, subject.name, "no curve goes through one point")
        return
    best = min(ours.values())
    against = ", ".join(f"{name} {bits:.3f}" for name, bits in found.items())
    run.targets.judge(row, subject.name, what, best, _bits(2.1, 1.5, True), against)
    whole = _with_others(best, subject)
    run.targets.tell(row, subject.name, "with all other values as F32", f"{whole:.3f} bit")


def _with_others(bits: float, subject: Subject) -> float:
    n_coded = n_weights(subject.tensors)
    return (bits * n_coded + 32 * subject.n_others) / (n_coded + subject.n_others)


def judge_cosine(run: CurveRun, subject: Subject, uses_data: bool = False) -> None:
    """Bits per value of the whole model at mean cosines; what is not coded counts as F32."""
    row = "embeddings, calibrated" if uses_data else "embeddings, no text"
    names = [preset.name for preset in run.presets if preset.uses_data == uses_data]
    for cosine, must, aim in COSINES_CALIBRATED if uses_data else COSINES:
        found = {}
        for name in (*names, NNCODEC):
            bits = bits_at_effect(run.of(subject.name, name), "1 - cosine", 1 - cosine)
            if bits is not None:
                found[name] = _with_others(bits, subject)
        ours = [bits for name, bits in found.items() if name != NNCODEC]
        what = f"bits per weight at a mean cosine of {cosine:g}"
        if not ours:
            run.targets.skip(row, subject.name, f"no curve goes through {cosine:g}")
            continue
        against = ", ".join(f"{name} {bits:.3f}" for name, bits in found.items())
        run.targets.judge(row, subject.name, what, min(ours), _bits(must, aim, True), against)


def part_rows(run: CurveRun, subject: str) -> list[list[str]]:
    """What each part of the codec saves at each level: bits without it less bits with it. Of 64
    states: bits with them less bits without.
    """
    flat = [point for point in run.of(subject, FLAT.name) if not point.effects]
    rows = []
    for preset in (MOST_STATES, *PARTS):
        part = run.of(subject, preset.name)
        if len(part) != len(LEVELS):
            continue
        whole = [min(flat, key=lambda p: abs(p.nmse - other.nmse)) for other in part]
        saved = [
            other.bits - point.bits + (other.nmse - point.nmse) / DECIBELS_PER_BIT
            for other, point in zip(part, whole, strict=True)
        ]
        rows.append([subject, preset.name, *(f"{bits:+.3f}" for bits in saved)])
    return rows
