"""Exchanges of rows of which two ranks make different ones, and what autograd cannot do there."""

import pytest
import torch
import torch.distributed as dist
from cfck.embeddings import (
    ExchangeOptions,
    RowKeys,
    ShardedEmbeddingBags,
    all_to_all_rows,
    all_to_all_tables,
)
from conftest import weights
from ranks import Raised
from torch.nn import EmbeddingBag

LOSSLESS = {"bounds": 0.0, "backward_bounds": 0.0}


def exchanged(table):
    return all_to_all_tables([table], None, ExchangeOptions(**LOSSLESS))


def loss_of(rows):
    return sum(one.square().sum() for one in rows)


def fresh(seed=0):
    return weights(4, 3, seed=seed + dist.get_rank()).requires_grad_()


def assert_all_raise(found, *words):
    """The words are those of one rank at least."""
    assert all(isinstance(one, Raised) for one in found), found
    assert all(any(word in one.text for one in found) for word in words), found


def other_order(is_other):
    first, second = fresh(1), fresh(5)
    losses = [loss_of(exchanged(first)), loss_of(exchanged(second))]
    for loss in losses[::-1] if is_other and dist.get_rank() else losses:
        loss.backward()
    return torch.equal(first.grad, 2 * first) and torch.equal(second.grad, 2 * second)


def test_two_exchanges_are_made_backward_in_one_order(two):
    assert two(other_order, False) == [True, True]
    assert_all_raise(two(other_order, True), "backward() of another")
    assert two(other_order, False) == [True, True]  # ranks go on


def backward_and_forward():
    loss = loss_of(exchanged(fresh()))
    if dist.get_rank():
        loss.backward()
    else:
        exchanged(fresh())


def test_one_goes_backward_and_one_forward(two):
    assert_all_raise(two(backward_and_forward), "row_gradients")
    assert two(other_order, False) == [True, True]


def backward_twice():
    table = fresh()
    loss = loss_of(exchanged(table))
    loss.backward(retain_graph=True)
    loss.backward()
    return torch.equal(table.grad, 4 * table)


def test_a_graph_that_is_retained(two):
    assert two(backward_twice) == [True, True]


def gradient_of_a_gradient():
    table = fresh()
    (gradient,) = torch.autograd.grad(loss_of(exchanged(table)), table, create_graph=True)
    (gradient + 0 * table).sum().backward()


def test_gradients_have_no_gradients(two):
    assert_all_raise(two(gradient_of_a_gradient), "differentiate twice")


def wrong_on_one(case):
    rank = dist.get_rank()
    ids = torch.tensor([0, 1, 2, 0])
    halves = [[ids[:2]], [ids[2:]]]
    received = halves[rank]
    tables, sizes, keys = [weights(3, 4, seed=rank)[ids]], None, RowKeys(halves, [received] * 2)
    if rank == 1:
        if case == "table":
            tables = [[1.0]]
        elif case == "no tables":
            tables = None
        elif case == "rows":
            return all_to_all_rows([1.0])
        elif case == "fraction":
            sizes = [1.5, 2.5]
        elif case == "type of keys":
            keys = RowKeys(halves, [received, ["x"]])
        elif case == "keys":
            keys = RowKeys(halves, [[torch.tensor([5, 5])]] * 2)
        elif case == "no keys":
            keys = None
    if case == "samples":
        sizes, keys = ([1, 3] if rank else [2, 2]), None
    return all_to_all_tables(tables, sizes, keys=keys)


@pytest.mark.parametrize(
    "case, words",
    [
        ("table", "torch.Tensor, not list"),
        ("no tables", "not iterable"),
        ("rows", "torch.Tensor, not list"),
        ("fraction", "split_sizes is an int"),
        ("type of keys", "int64"),
        ("keys", "different values"),
        ("no keys", "needs 2 keys"),
        ("samples", "same split_sizes"),
    ],
)
def test_all_raise_what_is_wrong_on_one(two, case, words):
    assert_all_raise(two(wrong_on_one, case), words)


def wrong_bags(case):
    bag, other = EmbeddingBag(20, 4), EmbeddingBag(20, 4)
    if dist.get_rank() == 1:
        if case == "list":
            return ShardedEmbeddingBags([bag])
        if case == "bounds":
            return ShardedEmbeddingBags({"a": bag, "b": other}, bounds="small")
    return ShardedEmbeddingBags({"a": bag, "b": bag if case == "twice" else other})


@pytest.mark.parametrize(
    "case, words",
    [
        ("list", "tables is a dict"),
        ("bounds", "bounds is a number"),
        ("twice", "'a' and 'b' have the same"),
    ],
)
def test_tables_that_are_none(two, case, words):
    assert_all_raise(two(wrong_bags, case), words)


def compiled():
    bags = ShardedEmbeddingBags({"a": EmbeddingBag(20, 4), "b": EmbeddingBag(30, 3)}, **LOSSLESS)
    inputs = {"a": torch.arange(6).reshape(6, 1), "b": torch.arange(12).reshape(6, 2)}
    table = fresh()

    def step(inputs, table):
        return loss_of([*bags(inputs).values(), *exchanged(2 * table)])

    losses = [torch.compile(step, backend="eager")(inputs, table), step(inputs, table)]
    gradients = [torch.autograd.grad(loss, [table, *bags.parameters()]) for loss in losses]
    return torch.equal(*losses) and all(map(torch.equal, *gradients))


def test_compiled_models_break_their_graphs_there(two):
    assert two(compiled) == [True, True]
