"""What `bench embeddings --rows speed_up` computes of what ranks have measured."""

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))
pytest.importorskip("torch")
ranks = pytest.importorskip("embeddings.exchange_ranks")
speed_up = pytest.importorskip("embeddings.speed_up")
targets_of = pytest.importorskip("common.targets")

MEGABYTE = 1_000_000


def direction():
    """Rank 0 sends most without compression, and rank 1 receives most with it."""
    return ranks.Direction(
        dense=[MEGABYTE, 0], packed=[10_000, 0], dense_received=[0, MEGABYTE // 2],
        packed_received=[0, 100_000], encode=[3e-3, 1e-3], decode=[1e-3, 1e-3],
    )  # fmt: skip


def timed(exchange=(0.1, 0.02), step=(0.3, 0.14), rate=10 * MEGABYTE, burst=0):
    def by_way(pair):
        return {"plain": [pair[0]] * 3, "compressed": [pair[1]] * 3}

    both = [by_way(exchange), by_way(exchange)]
    return ranks.Timed(by_way(step), both, by_way((1e-3, 4e-3)), rate, burst)


def test_the_rank_with_the_most_bytes_decides(monkeypatch):
    monkeypatch.setattr(speed_up, "_n_cores", lambda: 2)
    size, figures = speed_up.figures_of(direction())
    assert size == 1e-3
    assert figures == pytest.approx((10, 0.5, 1.0))
    rows, gradients = speed_up.exchange_results(64, 100, [direction()] * 2, timed())
    assert (rows.what, gradients.what) == ("rows", "gradients")
    # Four ranks on two cores: twice 3 ms.
    assert rows.plain_computed == pytest.approx(0.1 + 1e-3)
    assert rows.compressed_computed == pytest.approx(0.01 + 2 * 3e-3 + 4e-3)
    assert rows.measured == 5 and rows.computed == pytest.approx(0.101 / 0.02)
    assert rows.bare == pytest.approx(0.1 / (0.01 + 3e-3))
    assert rows.difference == pytest.approx(0.01)


def test_what_goes_through_a_link_at_once_does_not_wait():
    results = speed_up.exchange_results(64, 100, [direction()] * 2, timed(burst=200_000))
    assert results[0].plain_computed == pytest.approx(0.08 + 1e-3)
    without = speed_up.exchange_results(64, 100, [direction()] * 2, timed())[0]
    assert results[0].compressed_computed == pytest.approx(without.compressed_computed - 0.01)


def test_a_step_is_its_exchanges_and_the_rest(monkeypatch):
    monkeypatch.setattr(speed_up, "_n_cores", lambda: 2)
    rest = speed_up.rest_of_step(timed(exchange=(0.02, 0.03), step=(0.1, 0.12)))
    assert rest == pytest.approx(0.06)
    exchanges = speed_up.exchange_results(64, 100, [direction()] * 2, timed())
    step = speed_up.step_result(exchanges, timed(), rest + 0.02)
    assert step.plain_computed == pytest.approx(0.08 + 2 * 0.101)
    assert step.compressed_computed == pytest.approx(0.08 + 2 * 0.02)
    assert step.computed == pytest.approx(0.282 / 0.12)
    targets = targets_of.Targets()
    speed_up.judge([*exchanges, step], targets)
    assert [line[-1] for line in targets.lines] == ["info", "info", "aim reached"]
    assert len(speed_up.table_line(step)) == len(speed_up.COLUMNS)


def test_measured_ranks_become_results():
    asked = []

    def run(limits, batch, n_rounds):
        asked.append((limits, batch, n_rounds))
        of_limit = ranks.asdict(timed())
        return {
            "directions": [ranks.asdict(direction())] * 2,
            "other_bytes": 1000,
            "timed": {str(limit): of_limit for limit in limits},
        }

    said = []
    found = speed_up.measure(run, 3, said.append)
    assert [batch for _, batch, _ in asked] == list(speed_up.BATCHES)
    assert len(found) == len(said) == 3 * len(speed_up.BATCHES) * len(speed_up.LIMITS)
