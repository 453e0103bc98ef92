"""Bounds of tables and their schedules."""

import math

import cfck
import pytest
import torch
from cfck.embeddings import (
    ErrorSchedule,
    absolute_error,
    bounds_by_merging,
    homogenization_index,
    quantize_and_dequantize,
)
from conftest import weights


def test_an_error_is_a_fraction_of_the_range_of_finite_values():
    rows = torch.tensor([[1.0, -3.0], [float("nan"), 5.0], [float("inf"), 0.0]])
    assert absolute_error(rows, 0.25) == 2.0
    assert absolute_error(rows + 10, 0.25) == 2.0
    assert absolute_error(torch.full((4, 4), 7.0), 0.1) == 0.0
    assert absolute_error(torch.full((2, 2), float("nan")), 0.1) == 0.0
    assert absolute_error(torch.empty(0, 3), 0.1) == 0.0


@pytest.mark.parametrize("decay", ["constant", "linear", "logarithmic", "stepwise", "cosine"])
def test_schedules_fall_to_one(decay):
    schedule = ErrorSchedule(decay, factor=3.0, iterations=1000)
    factors = [schedule.factor_at(i) for i in range(1001)]
    assert factors[0] == 3.0 and factors[1000] == 1.0
    assert all(a >= b - 1e-12 for a, b in zip(factors, factors[1:], strict=False))
    assert min(factors) >= 1.0
    if decay == "stepwise":
        assert len(set(factors[:1000])) == 10
    if decay == "linear":
        assert factors[500] == pytest.approx(2.0)
    if decay == "cosine":
        assert factors[500] == pytest.approx(2.0)
    if decay == "logarithmic":
        s = 1 - math.log(1 + 0.5 * (math.e - 1))
        assert factors[500] == pytest.approx(3 * (s * (1 - 1 / 3) + 1 / 3))


def test_a_table_of_factors():
    schedule = ErrorSchedule([4.0, 2.0], iterations=10)
    assert [schedule.factor_at(i) for i in (0, 4, 5, 9, 10)] == [4.0, 4.0, 2.0, 2.0, 1.0]


@pytest.mark.parametrize(
    "given",
    [{"decay": "fast"}, {"factor": 0.5}, {"iterations": 0}, {"decay": []}, {"decay": [1.0, -1.0]}],
)
def test_schedules_that_are_none(given):
    with pytest.raises(cfck.InvalidArgumentError):
        ErrorSchedule(**given)


def test_rows_that_merge_are_counted():
    base = weights(10, 8)
    near = torch.cat([base, base + 1e-6, base + 2e-6])
    assert homogenization_index(near, 0.05) == pytest.approx(20 / 30)
    assert homogenization_index(base, 1e-6) == 0.0
    assert homogenization_index(torch.zeros(4, 4), 0.1) == 0.0
    bounds = bounds_by_merging({"merges": near, "does not": weights(50, 8)})
    assert bounds == {"merges": 0.01, "does not": 0.05}
    with pytest.raises(TypeError, match="samples is a dict, by the name of a table, not list"):
        bounds_by_merging([near])


def test_simulation_refuses_what_rows_are_not():
    with pytest.raises(TypeError):
        quantize_and_dequantize(torch.zeros(3), 0.1)
    with pytest.raises(cfck.InvalidArgumentError):
        quantize_and_dequantize(torch.zeros(3, 3), -0.1)
