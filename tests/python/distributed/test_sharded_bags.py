"""ShardedEmbeddingBags on two ranks, beside the same tables on one."""

import pathlib
import re

import pytest
import torch
import torch.distributed as dist
from cfck.embeddings import (
    BagInput,
    ErrorSchedule,
    ExchangeOptions,
    RowKeys,
    ShardedEmbeddingBags,
    all_to_all_tables,
    bounds_by_merging,
)
from conftest import weights
from ranks import Raised
from torch.nn import EmbeddingBag

SIZES = [24, 40]  # samples of each rank
STEPS = 4
# Names, rows, width and options of tables.
TABLES = {
    "users": (300, 8, {"mode": "sum", "sparse": True}),
    "words": (90, 12, {"mode": "mean"}),
    "tags": (20, 4, {"mode": "max"}),
    "halves": (50, 16, {"mode": "sum", "dtype": torch.float16}),
    "ended": (40, 6, {"mode": "sum", "include_last_offset": True}),
}


def make_tables(names=tuple(TABLES)):
    tables = {}
    for seed, name in enumerate(names):
        n_rows, width, options = TABLES[name]
        tables[name] = EmbeddingBag(n_rows, width, **options)
        with torch.no_grad():
            tables[name].weight.copy_(weights(n_rows, width, seed=seed))
    return tables


def ragged(n_rows, lengths, seed, include_last=False, dtype=None):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.tensor(lengths, dtype=torch.int64)
    n = int(lengths.sum())
    ends = lengths.cumsum(0)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), ends])
    return BagInput(
        torch.randint(0, n_rows, (n,), generator=generator),
        offsets if include_last else offsets[:-1],
        None if dtype is None else torch.rand(n, generator=generator).to(dtype),
    )


def inputs_of(rank, step, n):
    """What a rank looks up: single ids, bags with and without weights, bags without ids."""
    seed = 10 * step + rank
    lengths = [(i + rank) % 4 for i in range(n)]
    generator = torch.Generator().manual_seed(seed)
    return {
        "users": torch.randint(0, 300, (n, 1), generator=generator),
        "words": ragged(90, lengths, seed),
        "tags": torch.randint(0, 20, (n, 2), generator=generator, dtype=torch.int32),
        "halves": ragged(50, lengths, seed, dtype=torch.float16),
        "ended": ragged(40, lengths, seed, include_last=True),
    }


def loss_of(rows):
    """Without sums over samples but the last, whose gradients are the same in any order."""
    return sum((3 * one.float()).sin().sum() for one in rows.values())


def optimizer_of(tables):
    return torch.optim.SGD(tables.parameters(), 0.1) if list(tables.parameters()) else None


def step_of(optimizer, module, inputs):
    rows = module(inputs)
    if optimizer:
        optimizer.zero_grad()
    loss_of(rows).backward()
    if optimizer:
        optimizer.step()
    return rows


def train(sizes, **options):
    """The rows of each step, and the tables of this rank at the end."""
    module = ShardedEmbeddingBags(make_tables(), **options)
    optimizer = optimizer_of(module.tables)
    found = []
    for step in range(STEPS):
        module.set_iteration(step)
        rows = step_of(optimizer, module, inputs_of(dist.get_rank(), step, sizes[dist.get_rank()]))
        found.append({name: one.tolist() for name, one in rows.items()})
    traffic = module.traffic.share
    return found, {n: t.tolist() for n, t in module.state_dict().items()}, traffic


def whole(inputs, name):
    """The bags of both ranks as one batch."""
    both = [of_rank[name] for of_rank in inputs]
    if isinstance(both[0], torch.Tensor):
        return [torch.cat(both)]
    cut = None if not TABLES[name][2].get("include_last_offset") else -1
    offsets = [both[0].offsets[:cut], both[1].offsets + len(both[0].indices)]
    return [
        torch.cat([b.indices for b in both]),
        torch.cat(offsets),
        None if both[0].weights is None else torch.cat([b.weights for b in both]),
    ]


def unsharded(sizes):
    tables = torch.nn.ModuleDict(make_tables())
    optimizer = torch.optim.SGD(tables.parameters(), 0.1)
    found = []
    for step in range(STEPS):
        inputs = [inputs_of(rank, step, sizes[rank]) for rank in range(2)]
        rows = {name: table(*whole(inputs, name)) for name, table in tables.items()}
        optimizer.zero_grad()
        loss_of(rows).backward()
        optimizer.step()
        found.append(rows)
    return found, dict(tables.state_dict())


@pytest.mark.parametrize("sizes", [SIZES, [0, 12], [0, 0]])
def test_nothing_changes_without_an_error(two, sizes):
    results = [bits_of(one) for one in two(exact, sizes)]
    expected, tables = unsharded(sizes)
    for rank, (found, _) in enumerate(results):
        begin = sum(sizes[:rank])
        for rows, all_rows in zip(found, expected, strict=True):
            assert list(rows) == list(TABLES)
            for name, one in rows.items():
                assert one == all_rows[name][begin : begin + sizes[rank]].tolist(), name
    owned = results[0][1] | results[1][1]
    assert {name: table.tolist() for name, table in tables.items()} == {
        name.removeprefix("tables."): table for name, table in owned.items()
    }
    assert not set(results[0][1]) & set(results[1][1])


def exact(sizes):
    return train(sizes, bounds=0.0)


def bits_of(result):
    assert not isinstance(result, Raised), result.trace
    return result[:2]


def bounded(simulated):
    schedule = ErrorSchedule("stepwise", factor=3.0, iterations=3)
    bounds = {"users": 0.03, "words": 0.01, "tags": 0.05, "halves": 0.03, "ended": 0.0}
    return train([32, 32], bounds=bounds, schedule=schedule, simulated=simulated)


def local(bounds):
    """Both ranks in this process."""
    schedule = ErrorSchedule("stepwise", factor=3.0, iterations=3)
    module = ShardedEmbeddingBags(
        make_tables(), bounds=bounds, schedule=schedule, simulated_ranks=2
    )
    optimizer = optimizer_of(module.tables)
    found = []
    for step in range(STEPS):
        module.set_iteration(step)
        inputs = [inputs_of(rank, step, 32) for rank in range(2)]
        joint = {name: BagInput(*whole(inputs, name)) for name in TABLES}
        found.append(step_of(optimizer, module, joint))
    return found, module.state_dict()


def test_simulation_and_compression_give_the_same_bits(two):
    real, simulated = two(bounded, False), two(bounded, True)
    assert not any(isinstance(one, Raised) for one in real), real
    assert [one[:2] for one in real] == [one[:2] for one in simulated]
    assert all(a[2] < b[2] for a, b in zip(real, simulated, strict=True))


def test_one_process_simulates_two(two):
    real = two(bounded, False)
    bounds = {"users": 0.03, "words": 0.01, "tags": 0.05, "halves": 0.03, "ended": 0.0}
    rows, tables = local(bounds)
    for step in range(STEPS):
        for name in TABLES:
            both = real[0][0][step][name] + real[1][0][step][name]
            assert rows[step][name].tolist() == both, (step, name)
    assert {name: t.tolist() for name, t in tables.items()} == real[0][1] | real[1][1]


def errors_by_iteration():
    tables = make_tables(("users",))
    exact_rows = tables["users"](torch.arange(256).reshape(-1, 1))
    schedule = ErrorSchedule("stepwise", factor=4.0, iterations=10)
    module = ShardedEmbeddingBags(tables, bounds=0.02, schedule=schedule, placement={"users": 1})
    found = []
    for iteration in (0, 100):
        module.set_iteration(iteration)
        rows = module({"users": torch.arange(256).reshape(-1, 1)})["users"]
        found.append(float((rows - exact_rows).abs().max() / (exact_rows.max() - exact_rows.min())))
    module.set_bounds(bounds_by_merging({"users": exact_rows.detach()}))
    module({"users": torch.arange(256).reshape(-1, 1)})
    return found


def test_bounds_follow_the_schedule(two):
    for found in two(errors_by_iteration):
        early, late = found
        assert 0.04 < early <= 0.08
        assert 0.01 < late <= 0.02


def keyed(with_keys):
    rank = dist.get_rank()
    table, ids = weights(50, 8, seed=rank), torch.arange(400) * 7919 % 50
    keys = RowKeys([[ids[:200]], [ids[200:]]], [[ids[200 * rank :][:200]]] * 2)
    options = ExchangeOptions(bounds=0.03)
    rows = all_to_all_tables([table[ids]], None, options, keys=keys if with_keys else None)
    return [one.tolist() for one in rows], options.traffic.sent_bytes


def test_ids_that_the_receiver_has_are_not_sent(two):
    without, known = two(keyed, False), two(keyed, True)
    assert not any(isinstance(one, Raised) for one in known), known
    assert [rows for rows, _ in without] == [rows for rows, _ in known]
    assert all(b[1] < a[1] - 80 for a, b in zip(without, known, strict=True))


def wrong_keys(sent):
    rows, keys = weights(8, 2), [torch.zeros(4, dtype=torch.int64)]
    given = {"ranks": [keys], "tables": [keys * 2] * 2, "rows": [keys] * 2}[sent]
    keys_of_all = RowKeys(given if dist.get_rank() else [[None]] * 2, [[None]] * 2)
    all_to_all_tables([rows], keys=keys_of_all)


@pytest.mark.parametrize("sent", ["ranks", "tables", "rows"])
def test_keys_must_fit_the_rows(two, sent):
    assert all(isinstance(one, Raised) for one in two(wrong_keys, sent))


def sent_bytes(single):
    module = ShardedEmbeddingBags(make_tables(("words",)), placement={"words": 0})
    ids = torch.arange(1000) * 7919 % 90
    module({"words": ids.reshape(-1, 1) if single else ids.reshape(-1, 1).repeat(1, 2)})
    return module.traffic.sent_bytes, module.id_traffic.sent_bytes


def test_single_ids_are_keys(two):
    (keys, _), (_, ids) = two(sent_bytes, True)
    (no_keys, _), (_, twice) = two(sent_bytes, False)
    assert keys < no_keys - 500  # means of two equal rows are the same rows
    assert 1000 < ids < 1200 and 2000 < twice < 2200  # a byte each


def not_finite():
    tables = make_tables(("users", "words"))
    with torch.no_grad():
        for table in tables.values():
            table.weight[3] = float("nan")
            table.weight[4] = float("inf")
    module = ShardedEmbeddingBags(tables)
    ids = torch.arange(10).reshape(-1, 1)
    rows = module({"users": ids, "words": ids})
    loss_of(rows).backward()
    return {name: one.tolist() for name, one in rows.items()}


def test_rows_that_are_not_finite_stay(two):
    for rows in two(not_finite):
        for one in rows.values():
            found = torch.tensor(one)
            assert found[3].isnan().all() and (found[4] == float("inf")).all()
            assert found[[0, 1, 2, 5, 6, 7, 8, 9]].isfinite().all()


def placed(placement):
    module = ShardedEmbeddingBags(make_tables(), placement=placement)
    return module.placement, sorted(module.state_dict()), repr(module)


def test_tables_are_placed_by_size_or_as_told(two):
    (placement, first, text), (same, second, _) = two(placed, None)
    assert placement == same == {"users": 0, "words": 1, "halves": 1, "ended": 1, "tags": 1}
    assert first == ["tables.users.weight"]
    assert second == [f"tables.{n}.weight" for n in ("ended", "halves", "tags", "words")]
    assert "users: 300 rows of 8 values of torch.float32, mode sum, sparse gradients" in text
    told = dict.fromkeys(TABLES, 1)
    (_, first, _), (_, second, _) = two(placed, told)
    assert not first and len(second) == len(TABLES)


def from_meta():
    tables = {name: EmbeddingBag(10, 4, device="meta") for name in ("a", "b")}
    module = ShardedEmbeddingBags(tables, bounds=0.0)
    rows = module({name: torch.arange(10).reshape(-1, 1) for name in tables})
    return [rows[name].tolist() for name in tables], module.state_dict()


def test_owners_fill_tables_of_the_meta_device(two):
    (rows, first), (same, second) = two(from_meta)
    assert rows == same
    assert rows == [first["tables.a.weight"].tolist(), second["tables.b.weight"].tolist()]


WRONG = {
    "id": "feature 'words': id 90 at place 2 is out of range: the table has 90 rows, 0 to 89",
    "negative": "feature 'words': id -1 at place 2 is out of range",
    "dtype": "feature 'words': indices are a tensor of dtype int64 or int32",
    "tuple": "not tuple; indices with offsets are given as BagInput(indices, offsets)",
    "dimensions": "BagInput(indices, offsets); these have no offsets and the shape [4]",
    "offsets": "feature 'words': offsets begin with 0 and ascend to the number of indices, 4",
    "name": "inputs are for tables ['users', 'words'], not ['users']",
    "samples": "features have different numbers of samples: {'users': 4, 'words': 3}",
    "weights": "feature 'words': weights are for tables of mode sum; this one has mode mean",
    "weight dtype": "feature 'users': weights are a tensor of the dtype of the table",
    "weight shape": "feature 'users': there are weights of shape [4] for indices of shape [4, 1]",
    "gradients": "feature 'users': weights have no gradients here",
}


def wrong_input(case):
    module = ShardedEmbeddingBags(make_tables(("users", "words")))
    good = torch.arange(4).reshape(-1, 1)
    users, words = {
        "id": (good, good.where(good != 2, 90)),
        "negative": (good, good.where(good != 2, -1)),
        "dtype": (good, good.float()),
        "tuple": (good, (good.reshape(-1), good.reshape(-1))),
        "dimensions": (good, good.reshape(-1)),
        "offsets": (good, BagInput(good.reshape(-1), torch.tensor([0, 3, 2, 4]))),
        "name": (good, None),
        "samples": (good, good[:3]),
        "weights": (good, BagInput(good, None, torch.ones(4, 1))),
        "weight dtype": (BagInput(good, None, torch.ones(4, 1).double()), good),
        "weight shape": (BagInput(good, None, torch.ones(4)), good),
        "gradients": (BagInput(good, None, torch.ones(4, 1, requires_grad=True)), good),
    }[case]
    wrong = {"users": users, "words": words} if words is not None else {"users": users}
    module(wrong if dist.get_rank() else {"users": good, "words": good})


@pytest.mark.parametrize("case", list(WRONG))
def test_all_ranks_raise_for_wrong_input(two, case):
    first, second = two(wrong_input, case)
    assert isinstance(first, Raised) and "rank 1 could not encode" in first.text, first
    assert isinstance(second, Raised) and WRONG[case] in second.text, second


DISAGREE = {
    "rows": "disagree about table 'users': 300 rows of 8 values",
    "names": "disagree about tables: they have ['users', 'words'] and ['users']",
    "bounds": "disagree about table 'users'",
    "placement": "disagree about table 'words'",
}


def disagreeing(case):
    is_other = dist.get_rank() == 1
    tables = make_tables(("users", "words"))
    if is_other and case == "rows":
        tables["users"] = EmbeddingBag(301, 8, sparse=True)
    if is_other and case == "names":
        del tables["words"]
    ShardedEmbeddingBags(
        tables,
        bounds=0.02 if is_other and case == "bounds" else 0.03,
        placement={"users": 0, "words": int(is_other)} if case == "placement" else None,
    )


@pytest.mark.parametrize("case", list(DISAGREE))
def test_ranks_that_disagree_raise(two, case):
    first, second = two(disagreeing, case)
    assert isinstance(first, Raised) and isinstance(second, Raised), (first, second)
    assert DISAGREE[case] in first.text
    assert case != "bounds" or "bounds 0.03 and 0.003; and" in first.text


UNFIT = {
    "bound": "that of table 'users' is a fraction of the range of the values, from 0.0 to",
    "percent": "that of table 'users' is a fraction of the range of the values, from 0.0 to less",
    "list": "tables is a dict, by the name of a table, not list",
    "schedule": "schedule is an ErrorSchedule, not str: 'stepwise'",
    "names": "bounds lacks tables ['words'], and has tables ['others'], of which there are none",
    "rank": "table 'words' is placed on rank 2, and there are 2 ranks",
    "module": "table 'users' is a torch.nn.EmbeddingBag, not Embedding",
    "dots": "'a.b' cannot be the name of a table",
    "taken": "'keys' cannot be the name of a table",
    "double": "table 'users' is of float32, float16 or bfloat16, not torch.float64",
    "sparse": "table 'users' has mode max, of which torch has no sparse gradients",
}


def unfit(case):
    tables, options = make_tables(("users", "words")), {}
    if dist.get_rank():
        match case:
            case "bound":
                options = {"bounds": {"users": -1.0, "words": 0.1}}
            case "percent":
                options = {"bounds": 3}
            case "list":
                tables = list(tables.values())
            case "schedule":
                options = {"schedule": "stepwise"}
            case "names":
                options = {"bounds": {"users": 0.1, "others": 0.1}}
            case "rank":
                options = {"placement": {"users": 0, "words": 2}}
            case "module":
                tables["users"] = torch.nn.Embedding(10, 4)
            case "dots":
                tables["a.b"] = tables["users"]
            case "taken":
                tables["keys"] = tables["users"]
            case "double":
                tables["users"] = tables["users"].double()
            case "sparse":
                tables["users"] = EmbeddingBag(10, 4, mode="max", sparse=True)
    ShardedEmbeddingBags(tables, **options)


@pytest.mark.parametrize("case", list(UNFIT))
def test_all_ranks_raise_for_wrong_tables(two, case):
    first, second = two(unfit, case)
    assert isinstance(first, Raised) and "rank 1 could not make its tables" in first.text, first
    assert isinstance(second, Raised) and UNFIT[case] in second.text, second


def other_iteration():
    schedule = ErrorSchedule("linear", factor=2.0, iterations=10)
    module = ShardedEmbeddingBags(make_tables(("users",)), schedule=schedule)
    module.set_iteration(dist.get_rank())
    module({"users": torch.arange(4).reshape(-1, 1)})


def failing_lookup():
    module = ShardedEmbeddingBags(make_tables(("users", "words")))
    if dist.get_rank():
        for name in list(module.tables):
            del module.tables[name]
    good = torch.arange(4).reshape(-1, 1)
    module({"users": good, "words": good})


def test_all_ranks_raise_for_other_iterations_and_failing_lookups(two):
    assert all("bounds or iteration" in one.text for one in two(other_iteration))
    assert [one.kind for one in two(failing_lookup)] == ["CfckError", "KeyError"]


def test_without_a_group_and_with_wrong_numbers_of_ranks():
    with pytest.raises(Exception, match="no process group"):
        ShardedEmbeddingBags(make_tables(("users",)))
    with pytest.raises(Exception, match="simulated_ranks is at least 1"):
        ShardedEmbeddingBags(make_tables(("users",)), simulated_ranks=0)
    module = ShardedEmbeddingBags(make_tables(("users",)), simulated_ranks=2)
    with pytest.raises(Exception, match="3 samples are not equally many"):
        module({"users": torch.arange(3).reshape(-1, 1)})


def page(heading):
    text = pathlib.Path(__file__).parents[3].joinpath("docs", "embeddings.md").read_text("utf-8")
    section = text[text.index(heading) :]
    scope = {}
    exec(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1], scope)
    return scope


def shapes():
    return {name: list(one.shape) for name, one in page("## In training")["rows"].items()}


def n_times():
    return len(page("### The speed-up of an exchange")["seconds"])


def test_the_programs_of_the_page_run(two):
    assert two(n_times) == [50] * 2
    assert two(shapes) == [{"user": [64, 32], "words": [64, 16]}] * 2
