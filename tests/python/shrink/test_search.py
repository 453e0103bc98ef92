"""The search for the coarsest step, and the split of examples, without any model."""

import math

import pytest
import torch
from cfck._shrink.batches import Batches
from cfck._shrink.examples import is_sorted, read_batches, split
from cfck._shrink.search import StepSearch, search


@pytest.mark.parametrize("limit", [0.001, 0.05, 0.3, 2.5])
@pytest.mark.parametrize("power", [1.5, 2.0, 3.0])
def test_few_trials_find_the_step(limit, power):
    found = StepSearch(0.3, 8.0, 2.0**-14)
    tried = []

    def attempt(step):
        tried.append(step)
        return (step / limit) ** power

    search(found, attempt, 8)
    assert found.kept is not None
    assert limit * 0.93 <= found.kept[0] <= limit
    assert len(tried) == len(set(tried)) <= 8


def test_losses_that_jump_are_searched_too():
    found = StepSearch(0.3, 8.0, 2.0**-14)
    search(found, lambda step: 0.0 if step < 0.11 else math.inf, 12)
    assert 0.095 <= found.kept[0] < 0.11


def test_goals_that_nothing_keeps_end_at_the_finest_step():
    found = StepSearch(0.3, 8.0, 2.0**-6)
    search(found, lambda step: 1e9, 20)
    assert found.kept is None
    assert found.lost[0] == 2.0**-6


def test_goals_that_everything_keeps_end_at_the_coarsest_step():
    found = StepSearch(0.3, 8.0, 2.0**-6)
    search(found, lambda step: 0.0, 20)
    assert found.kept[0] == 8.0


def test_losses_that_hardly_follow_the_step_are_searched_too():
    """As where most weights are zeros, until the step becomes much smaller."""
    found = StepSearch(0.3, 8.0, 2.0**-14)
    search(found, lambda step: 1.04 * min(1.0, (step / 0.04) ** 2), 8)
    assert found.kept is not None and 0.02 < found.kept[0] <= 0.04
    found = StepSearch(0.3, 8.0, 2.0**-14)
    search(found, lambda step: 0.9 * max(1.0, (step / 2.0) ** 2), 8)
    assert 1.2 < found.kept[0] <= 2.2


def test_searches_can_end_near_enough():
    found = StepSearch(0.3, 8.0, 2.0**-14)
    search(found, lambda step: (step / 0.33) ** 2, 8, until=lambda ratio: ratio > 0.6)
    assert found.kept[0] == 0.3
    assert found.expected() == pytest.approx(0.33, rel=0.02)


def test_every_example_is_used_or_held_back_once():
    batches = [torch.arange(10 * i, 10 * i + 10).view(10, 1) for i in range(7)]
    labels = [batch[:, 0] + 1000 for batch in batches]
    found = split(Batches.of(batches, labels), 0, [])
    used, held = torch.cat(found.used.inputs)[:, 0], torch.cat(found.held.inputs)[:, 0]
    assert sorted(torch.cat([used, held]).tolist()) == list(range(70))
    assert (found.n_used, found.n_held) == (len(used), len(held))
    assert 15 <= len(held) <= 18
    assert torch.equal(torch.cat(found.held.labels), held + 1000)
    assert torch.equal(torch.cat(found.used.labels), used + 1000)
    assert all(len(batch) <= 10 for batch in found.used.inputs)
    # Held back all along, and not in steps of a fixed length.
    assert int((held.diff()).max()) <= 7 and len(set(held.diff().tolist())) > 2


def test_the_first_examples_are_a_spread():
    found = split(Batches.of(list(torch.arange(1200).view(1200, 1).split(100))), 0, [])
    first = torch.cat(found.used.inputs)[:64, 0]
    assert int(first.max()) > 1100 and int(first.min()) < 50


def test_batches_of_several_shapes_and_batches_that_cannot_be_cut():
    given = [{"x": torch.ones(6, 3 + i % 2), "scale": 2.0} for i in range(8)]
    found = split(Batches.of(given), 0, [])
    assert {one["x"].shape[1] for one in found.used.inputs} == {3, 4}
    assert all(one["scale"] == 2.0 for one in found.used.inputs + found.held.inputs)
    whole = [(torch.ones(4, 2), torch.ones(1, 2)) for _ in range(12)]
    found = split(Batches.of(whole), 0, [])
    assert len(found.used.inputs) + len(found.held.inputs) == 12
    assert (found.n_used, found.n_held) == (36, 12)


def test_sorted_classes_are_seen():
    classes = torch.arange(10).repeat_interleave(12)
    assert is_sorted(classes)
    assert not is_sorted(classes[torch.randperm(120, generator=torch.Generator().manual_seed(1))])
    assert not is_sorted(torch.zeros(100, dtype=torch.int64))
    assert not is_sorted(torch.arange(100))


def test_lists_are_spread_and_generators_are_not():
    batches = [torch.full((10, 1), i) for i in range(20)]
    chosen, notes = read_batches(batches, 50)
    assert [int(batch[0]) for batch in chosen] == [0, 4, 8, 12, 16]
    assert "5 of 20 batches" in notes[0]
    chosen, notes = read_batches(iter(batches), 50)
    assert [int(batch[0]) for batch in chosen] == [0, 1, 2, 3, 4]
