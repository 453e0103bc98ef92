"""Files with neighbouring steps are judged together."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from cfck._evaluation.evaluate import Evaluation
from cfck._shrink.certify import COARSEST_STEP, judge_in_turn, judge_together
from cfck._shrink.confidence import Sample, upper_bound
from cfck._shrink.goals import goals_of
from cfck._shrink.judge import Judge, Outcome
from cfck._shrink.pooled import Measured, near, pooled
from cfck._shrink.result import ShrinkTrial
from cfck._shrink.trial import Trial

N_HELD = 150
AT_STEP_1 = 0.4


def losses(draw, n, step, images):
    """Of files whose mean follows the square of the step, each with long tails of its own."""
    own = draw.lognormal(-0.45, 0.95, n)
    return AT_STEP_1 * step**2 * images * own


def measured(draw, step, images):
    n = len(images)
    used = losses(draw, 3 * n, step, 1.0)
    return Measured(step, Sample(losses(draw, n, step, images), np.ones(n)),
                    Sample(used, np.ones(3 * n)))  # fmt: skip


def divergences_of_linear_classifiers(steps):
    """Of 20,000 inputs, with errors as large as each step: most lose next to nothing."""
    generator = torch.Generator().manual_seed(3)
    weight = 1.5 * torch.randn(10, 16, generator=generator)
    given = torch.randn(20_000, 16, generator=generator)
    before = (given @ weight.T).double().log_softmax(1)
    found = []
    for step in steps:
        changed = weight + step * torch.randn(10, 16, generator=generator)
        after = (given @ changed.T).double().log_softmax(1)
        found.append((before.exp() * (before - after)).sum(1).numpy())
    return found


def test_bounds_of_several_files_hold_and_are_nearer():
    steps = (0.18, 0.2, 0.22, 0.24, 0.26, 0.28)
    files = divergences_of_linear_classifiers(steps)
    draw = np.random.default_rng(5)
    n, n_draws, level = 100, 50, 0.8
    # What files with the step in the middle lose.
    truth = np.mean([file.mean() * (0.22 / step) ** 2 for step, file in zip(steps, files)])
    one, together = [], []
    for _ in range(n_draws):
        held, used = draw.choice(20_000, n), draw.choice(20_000, 3 * n)
        of_all = [
            Measured(step, Sample(file[held], np.ones(n)), Sample(file[used], np.ones(3 * n)))
            for step, file in zip(steps, files)
        ]
        one.append(upper_bound(of_all[2].held, level) / files[2].mean())
        together.append(upper_bound(pooled(of_all, 0.22), level) / truth)
    spread = math.sqrt(n_draws * level * (1 - level))
    assert np.sum(np.array(together) >= 1) >= n_draws * level - 2 * spread
    assert np.mean(together) < np.mean(one) and np.std(together) < 0.9 * np.std(one)


def test_losses_are_brought_to_the_step_by_what_other_examples_lose():
    def file(step, mean):
        sample = Sample(np.full(8, mean), np.ones(8))
        return Measured(step, sample, sample)

    assert pooled([file(0.5, 1.0)], 1.0).mean == pytest.approx(4.0)  # the square, until told better
    assert pooled([file(0.5, 1.0), file(1.0, 2.0)], 0.75).mean == pytest.approx(1.5)
    # Nonsense has limits.
    assert pooled([file(0.5, 1.0), file(1.0, 0.5)], 0.5).mean == pytest.approx((1.0 + 0.25) / 2)


def test_only_files_with_neighbouring_steps_count():
    draw = np.random.default_rng(2)
    files = [measured(draw, step, np.ones(20)) for step in (0.1, 0.5, 0.6, 2.0)]
    assert [one.step for one in near(files, 0.55)] == [0.5, 0.6]
    assert [one.step for one in near(files, 8.0)] == [2.0]
    broken = files[0]._replace(held=Sample(np.array([math.nan] * 20), np.ones(20)))
    assert near([broken], 0.1) == []


class _FakeJudge(Judge):
    """Judges outcomes alone, without a model."""

    def __init__(self, goal, confidence=0.9):
        self._goals = goals_of(goal)
        self._score = None
        self._hardness = {}
        self._confidence = confidence


class _Maker:
    """Files of a model whose losses are known."""

    def __init__(self, judge, name="kl", scale=1.0):
        self.judge, self.name, self.scale = judge, name, scale
        self.draw = np.random.default_rng(3)
        self.images = self.draw.lognormal(-0.7, 1.18, N_HELD)
        self.judged = []

    def __call__(self, step):
        file = measured(self.draw, step, self.images)
        held = Sample(self.scale * file.held.losses, file.held.rows)
        kl = held.mean
        evaluation = dataclasses.replace(_NOTHING, kl=kl)
        outcome = Outcome(evaluation, {self.name: held}, {self.name: file.used}, None)
        verdict = self.judge.verdict(outcome)
        told = ShrinkTrial(step, 3 - math.log2(step), verdict.kept, verdict.bounds, True,
                           verdict.ratio <= 1)  # fmt: skip
        trial = Trial(None, outcome, verdict, told, 0.9)
        self.judged.append(trial)
        return trial


_NOTHING = Evaluation(**{
    field.name: None for field in dataclasses.fields(Evaluation)
})  # fmt: skip


@pytest.mark.parametrize("first", [0.05, 0.3, 1.5])
def test_the_step_is_found_from_wherever_the_search_ended(first):
    judge = _FakeJudge({"kl": 0.05})
    make = _Maker(judge)
    make(first)
    kept = judge_together(make.judged, True, judge, make, 4)
    assert kept and all(trial in make.judged for trial in kept)
    chosen = max(kept, key=lambda trial: trial.step)
    assert chosen.told.bounds["kl"] <= 0.05
    assert chosen.told.outcome["kl"] <= 0.05
    # A loss of 0.05 is at 0.354.
    assert 0.22 < chosen.step < 0.36
    assert len({trial.step for trial in make.judged}) == len(make.judged) <= 9


def test_files_that_lose_nothing_end_at_the_coarsest_step():
    judge = _FakeJudge({"kl": 0.05})
    make = _Maker(judge, scale=0.0)
    make(0.3)
    kept = judge_together(make.judged, True, judge, make, 4)
    assert max(trial.step for trial in kept) == COARSEST_STEP
    assert len(make.judged) <= 5


def test_files_that_cannot_be_judged_are_not_kept():
    judge = _FakeJudge({"kl": 0.05})
    make = _Maker(judge, scale=math.nan)
    make(0.3)
    assert judge_together(make.judged, True, judge, make, 4) == []


def test_files_judged_in_turn_end_at_the_first_that_fails():
    judge = _FakeJudge({"kl": 0.05})
    make = _Maker(judge)
    make(0.1)
    kept = judge_in_turn(list(make.judged), make)
    assert kept == make.judged[: len(kept)] and kept
    assert len(make.judged) - len(kept) <= 1
