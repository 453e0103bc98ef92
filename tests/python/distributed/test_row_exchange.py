"""all_to_all_tables() and all_to_all_rows() on two ranks."""

import pytest
import torch
import torch.distributed as dist
from cfck._embeddings.exchange import exchange_tables
from cfck.embeddings import ExchangeOptions, all_to_all_rows, all_to_all_tables
from conftest import weights
from ranks import Raised

N = 64  # samples of a rank


def table_of(rank, number, n_samples):
    """Looked-up rows of a table of a rank."""
    ids = (torch.arange(n_samples) * 7 + rank) % 13
    return weights(13, 4 + 2 * number, seed=10 * rank + number)[ids]


def exchange(n_tables_of_ranks, bounds, sizes=None):
    rank, sizes = dist.get_rank(), sizes or [N, N]
    owned = [table_of(rank, t, sum(sizes)) for t in range(n_tables_of_ranks[rank])]
    options = ExchangeOptions(bounds=bounds, backward_bounds=bounds)
    found = all_to_all_tables(owned, sizes, options)
    begin = sum(sizes[:rank])
    expected = [
        table_of(r, t, sum(sizes))[begin : begin + sizes[rank]]
        for r, n in enumerate(n_tables_of_ranks)
        for t in range(n)
    ]
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        error = bounds * float(other.max() - other.min()) if other.numel() else 0.0
        assert one.shape == other.shape
        assert not one.numel() or (one - other).abs().max() <= error
    return options.traffic.share


@pytest.mark.parametrize("n_tables", [(1, 1), (3, 2), (0, 2), (0, 0)])
def test_tables_go_to_those_who_need_them(two, n_tables):
    for bounds in (0.0, 0.05):
        shares = two(exchange, n_tables, bounds)
        assert not any(isinstance(s, Raised) for s in shares), shares


def trips():
    """The collectives that an exchange of sharded tables makes."""
    made = []

    def noted(name):
        real = getattr(dist, name)

        def call(*given, **named):
            made.append(name)
            return real(*given, **named)

        return call

    rows = [table_of(dist.get_rank(), t, 2 * N) for t in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("all_to_all_single", "all_gather_into_tensor", "all_gather", "all_reduce"):
            patch.setattr(dist, name, noted(name))
        received = exchange_tables(rows, None, ExchangeOptions(), None)
    return made, len(received)


def test_lengths_go_in_one_trip_and_rows_in_another(two):
    assert two(trips) == [(["all_to_all_single"] * 2, 6)] * 2


def test_ranks_may_have_other_numbers_of_samples(two):
    shares = two(exchange, (2, 1), 0.01, [100, 28])
    assert all(share < 0.7 for share in shares)
    assert not any(isinstance(s, Raised) for s in two(exchange, (2, 1), 0.01, [0, 28]))


def single():
    rank = dist.get_rank()
    rows = weights(30, 5, seed=rank)
    sizes = [10, 20] if rank == 0 else [25, 5]
    found = all_to_all_rows(rows, sizes, ExchangeOptions(bounds=0.0))
    parts = [weights(30, 5, seed=0), weights(30, 5, seed=1)]
    expected = (
        torch.cat([parts[0][:10], parts[1][:25]])
        if rank == 0
        else torch.cat([parts[0][10:], parts[1][25:]])
    )
    assert torch.equal(found, expected)


def test_rows_go_as_by_all_to_all_single(two):
    assert two(single) == [None, None]


def gradients(simulated, bound):
    """The gradient of a table, whose rows both ranks use."""
    rank = dist.get_rank()
    table = weights(20, 8, seed=rank).requires_grad_()
    ids = torch.arange(2 * N) % 20
    options = ExchangeOptions(bounds=bound, backward_bounds=bound, simulated=simulated)
    first, second = all_to_all_tables([table[ids]], None, options)
    (first.square().sum() + (3 * second).sin().sum()).backward()
    return table.grad.tolist(), first.tolist(), second.tolist()


def test_gradients_go_the_way_back(two):
    ids = torch.arange(2 * N) % 20
    for rank, (grad, _, _) in enumerate(two(gradients, False, 0.0)):
        table = weights(20, 8, seed=rank).requires_grad_()
        rows = table[ids]
        loss = rows.square().sum() if rank == 0 else (3 * rows).sin().sum()
        loss.backward()
        assert torch.allclose(torch.tensor(grad), table.grad, atol=1e-5)


def test_simulation_and_compression_give_the_same_bits(two):
    assert two(gradients, True, 0.03) == two(gradients, False, 0.03)


def wrong(case):
    rank = dist.get_rank()
    rows = torch.zeros(4, 2, dtype=torch.float64 if case == "dtype" and rank else torch.float32)
    wrong_bounds = {"bound": -1.0, "percent": 3.0, "number": [0.1, 0.1]}
    options = ExchangeOptions(
        bounds=wrong_bounds.get(case, 0.1) if rank else 0.1,
        simulated=case == "simulated" and rank == 0,
    )
    all_to_all_tables([rows], [1, 2] if case == "sizes" and rank else None, options)


@pytest.mark.parametrize("case", ["dtype", "bound", "percent", "number", "sizes", "simulated"])
def test_all_ranks_raise(two, case):
    found = two(wrong, case)
    assert all(isinstance(one, Raised) for one in found), found


def test_options_are_of_their_class():
    with pytest.raises(TypeError, match="options is an ExchangeOptions, not dict"):
        all_to_all_tables([torch.zeros(4, 2)], options={"bounds": 0.03})
