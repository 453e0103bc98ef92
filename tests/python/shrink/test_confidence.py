"""What is promised of examples that nobody has seen: bounds, and signs of examples that were."""

import math

import numpy as np
import pytest
import torch
from cfck._evaluation.outputs import Output
from cfck._shrink.confidence import Hardness, Sample, examples_needed, upper_bound
from cfck._shrink.losses import Losses
from cfck._shrink.memorised import Certainty, certainty, memorised_note


def sample(losses, rows=None, is_counted=False):
    losses = np.asarray(losses, dtype=np.float64)
    return Sample(losses, np.ones(len(losses)) if rows is None else np.asarray(rows), is_counted)


def linear_classifier():
    """Divergences of 20,000 inputs, of which most lose next to nothing and a few very much; and how
    uncertain the original is of them."""
    generator = torch.Generator().manual_seed(3)
    weight = 1.5 * torch.randn(10, 16, generator=generator)
    given = torch.randn(20_000, 16, generator=generator)
    before = (given @ weight.T).double().log_softmax(1)
    changed = weight + 0.2 * torch.randn(10, 16, generator=generator)
    after = (given @ changed.T).double().log_softmax(1)
    divergence = (before.exp() * (before - after)).sum(1)
    return divergence.numpy(), (1 - before.exp().square().sum(1)).numpy()


@pytest.mark.parametrize(("n", "confidence"), [(100, 0.8), (150, 0.9)])
def test_bounds_of_divergences_hold_as_often_as_they_say(n, confidence):
    population, _ = linear_classifier()
    draw = np.random.default_rng(5)
    n_draws = 60
    held = sum(
        upper_bound(sample(draw.choice(population, n)), confidence) >= population.mean()
        for _ in range(n_draws)
    )
    spread = math.sqrt(n_draws * confidence * (1 - confidence))
    assert held >= n_draws * confidence - 2 * spread


def test_bounds_hold_for_examples_that_happen_to_be_easy():
    population, hardness = linear_classifier()
    draw = np.random.default_rng(6)
    n, n_draws, level = 100, 60, 0.8
    found = []
    for _ in range(n_draws):
        judging, others = draw.choice(len(population), n), draw.choice(len(population), 3 * n)
        known = Hardness(sample(hardness[judging]), sample(hardness[others]))
        bounds = [
            upper_bound(sample(population[judging]), level, hardness=one) for one in (None, known)
        ]
        found.append((hardness[judging].mean(), *bounds))
    found.sort()
    plain, corrected = np.array(found)[:, 1:].T / population.mean()
    spread = math.sqrt(n_draws * level * (1 - level))
    assert np.sum(corrected >= 1) >= n_draws * level - 2 * spread
    assert np.std(corrected) < 0.9 * np.std(plain) and np.mean(corrected) < np.mean(plain)
    easy = slice(0, n_draws // 3)
    assert np.mean(corrected[easy] >= 1) > np.mean(plain[easy] >= 1)


def test_hardness_that_tells_nothing_changes_nothing():
    losses = sample(np.random.default_rng(8).exponential(size=40))
    bound = upper_bound(losses, 0.9)
    ones, zeros, few = (sample(values) for values in ([1.0] * 40, [0.0] * 40, [1.0] * 3))
    assert upper_bound(losses, 0.9, hardness=Hardness(zeros, ones)) == bound
    assert upper_bound(losses, 0.9, hardness=Hardness(ones, few)) == bound
    nothing = sample([math.nan] * 40)
    assert upper_bound(losses, 0.9, hardness=Hardness(ones, nothing)) == bound
    counted = sample([1.0] * 3 + [0.0] * 37, is_counted=True)
    known = Hardness(ones, sample([5.0] * 40))
    assert upper_bound(counted, 0.9, hardness=known) == upper_bound(counted, 0.9)
    # All examples together are three times as hard as those that judge.
    assert upper_bound(losses, 0.5, hardness=known) == pytest.approx(3 * losses.mean)


@pytest.mark.parametrize("part", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.99])
def test_bounds_of_counts_hold_as_often_as_they_say(part, confidence):
    draw = np.random.default_rng(6)
    n = 100
    bounds = [
        upper_bound(sample([1.0] * hits + [0.0] * (n - hits), is_counted=True), confidence)
        for hits in range(n + 1)
    ]
    held = np.mean([bounds[hits] >= part for hits in draw.binomial(n, part, 2000)])
    assert held >= confidence - 0.02
    assert all(low < high for low, high in zip(bounds, bounds[1:]))


def test_what_has_not_been_seen_may_still_be_there():
    assert upper_bound(sample([0.0] * 100, is_counted=True), 0.9) == pytest.approx(0.024, abs=0.003)
    assert upper_bound(sample([0.0] * 100), 0.9) == 0
    gains = sample([-1.0] * 3 + [1.0] * 3 + [0.0] * 94, is_counted=True)
    assert 0.02 < upper_bound(gains, 0.9) < 0.06


def test_rows_of_one_example_count_as_one():
    draw = np.random.default_rng(7)
    of_example = draw.exponential(size=50)
    bound = upper_bound(sample(of_example), 0.9)
    assert upper_bound(sample(20 * of_example, np.full(50, 20.0)), 0.9) == pytest.approx(bound)
    # Examples without rows that count say nothing.
    more = sample(np.append(of_example, [0.0] * 9), np.append(np.ones(50), [0.0] * 9))
    assert more.n == 50 and upper_bound(more, 0.9) == bound


def test_more_confidence_and_fewer_examples_make_bounds_wider():
    losses = np.random.default_rng(8).exponential(size=400)
    bounds = [upper_bound(sample(losses), one) for one in (0.5, 0.7, 0.9, 0.99)]
    assert bounds[0] == losses.mean() and bounds == sorted(bounds)
    assert upper_bound(sample(losses[:20]), 0.9) - losses[:20].mean() > bounds[2] - bounds[0]
    assert upper_bound(sample(losses[:3]), 0.9) == math.inf
    assert upper_bound(sample([0.1] * 9 + [math.nan]), 0.9) == math.inf


def test_so_many_examples_would_do():
    losses = np.random.default_rng(9).exponential(size=60)
    few = sample(losses / losses.mean())
    needed = examples_needed(few, 1.1, 0.9)
    assert upper_bound(few, 0.9) > 1.1 and 100 < needed < 1000
    many = sample(np.random.default_rng(9).exponential(size=needed))
    assert upper_bound(many, 0.9) - many.mean < 0.14
    assert examples_needed(few, 0.9, 0.9) is None
    assert 220 < examples_needed(sample([0.0] * 40, is_counted=True), 0.01, 0.9) < 300


def test_losses_are_those_of_each_example():
    torch.manual_seed(1)
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]).bool()
    before = Output(torch.randn(3, 4, 5), "logits", mask)
    after = Output(before.values + 0.3 * torch.randn(3, 4, 5), "logits", mask)
    losses = Losses()
    losses.add([before, after], "kl", "auto")
    losses.add_labels([before, after], torch.where(mask, 2, -1), 0)
    assert losses.hardness("kl") is None
    of_original = Losses(of_original=True)
    of_original.add([before, before], "kl", "auto")
    assert of_original.hardness("cosine") is None
    first = before.values[0, :2].double().softmax(1)
    hardness = of_original.hardness("kl")
    assert hardness.rows.tolist() == [2, 4, 1]
    assert hardness.losses[0] == pytest.approx(float((1 - first.square().sum(1)).sum()))
    for name in ("kl", "cosine", "agreement", "top1", "perplexity"):
        assert losses.sample(name).rows.tolist() == [2, 4, 1], name
    found = losses.result()
    assert losses.sample("kl").mean == pytest.approx(found.kl)
    assert 1 - losses.sample("cosine").mean == pytest.approx(found.cosine_mean)
    assert 1 - losses.sample("agreement").mean == pytest.approx(found.agreement)
    assert -losses.sample("top1").mean == pytest.approx(found.top1_change)
    times = found.perplexity_b / found.perplexity_a
    assert math.exp(losses.sample("perplexity").mean) == pytest.approx(times)


def outputs(n, scale, seed):
    """Logits of ``n`` examples, and labels that are right where they are sure."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, 10, generator=generator)
    return [Output(logits, "logits", None)], [logits.argmax(1)]


def test_examples_that_the_model_knows_are_told():
    sure, labels = outputs(200, 5000.0, 1)
    unsure, _ = outputs(200, 3.0, 2)
    assert "certain" in memorised_note(certainty(sure, None, "auto"), None)
    assert "certain" in memorised_note(certainty(sure, labels, "auto"), None)
    assert memorised_note(certainty(unsure, None, "auto"), None) is None
    few, _ = outputs(20, 5000.0, 1)
    assert memorised_note(certainty(few, None, "auto"), None) is None


def test_losses_of_batches_are_compared_with_those_of_others():
    generator = torch.Generator().manual_seed(1)
    low, high = (
        Certainty(scale * torch.rand(300, generator=generator), True, 0.5) for scale in (0.2, 1.0)
    )
    assert "mean loss is 0.1" in memorised_note(low, high)
    assert memorised_note(high, low) is None
    assert memorised_note(high, high) is None
    unsure, _ = outputs(200, 3.0, 2)
    again, _ = outputs(200, 3.0, 3)
    assert memorised_note(certainty(unsure, None, "auto"), certainty(again, None, "auto")) is None
