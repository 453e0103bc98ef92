"""All that cannot be stored is said in one error, and default= stores something in its place."""

import argparse
import collections
import datetime
import enum
import pathlib

import cfck
import cfck.numpy
import cfck.torch
import numpy as np
import pytest
import torch
from cfck.torch import check_checkpoint, load_checkpoint, save_checkpoint

Point = collections.namedtuple("Point", "x y")


class Mode(enum.Enum):
    FAST = "fast"


def state():
    return {
        "model": torch.nn.Linear(2, 2).state_dict(),
        "args": argparse.Namespace(lr=1),
        "paths": [pathlib.Path("a"), "b", pathlib.Path("c")],
        "sparse": torch.ones(2).to_sparse(),
        "meta": torch.ones(2, device="meta"),
        "array": np.ones(2, np.complex128),
        Mode.FAST: 1,
        "set": {Mode.FAST},
    }


EXPECTED = [
    "checkpoint['args'] is an argparse.Namespace; store vars(x)",
    "checkpoint['paths'][0] is a pathlib.PosixPath; store str(x)",
    "checkpoint['paths'][2] is a pathlib.PosixPath; store str(x)",
    "checkpoint[Mode.FAST] has the key <Mode.FAST: 'fast'>",
    "checkpoint['set'] has the key <Mode.FAST: 'fast'>",
    "checkpoint['sparse'] is sparse",
    "checkpoint['meta'] has no data",
    "checkpoint['array'] has dtype complex128",
]


@pytest.mark.parametrize("call", ["save", "check"])
def test_every_problem_is_in_one_error(tmp_path, call):
    path = tmp_path / "run.cfck"
    with pytest.raises(cfck.InvalidArgumentError) as caught:
        save_checkpoint(state(), path) if call == "save" else check_checkpoint(state())
    first, *lines = str(caught.value).splitlines()
    assert first == "8 values cannot be stored:"
    assert len(lines) == len(EXPECTED)
    for line, expected in zip(lines, EXPECTED):
        assert line.strip().startswith(expected)
    assert not path.exists()


def test_a_single_problem_is_the_error_itself():
    with pytest.raises(cfck.InvalidArgumentError, match=r"^checkpoint\[1\] is a pathlib"):
        check_checkpoint([1, pathlib.Path("a")])
    with pytest.raises(cfck.UnsupportedError, match=r"^checkpoint\[0\] has no data") as caught:
        check_checkpoint([torch.ones(2, device="meta")])
    assert caught.value.record == "0"
    with pytest.raises(cfck.InvalidArgumentError, match="^checkpoint is a function"):
        check_checkpoint(lambda: 0)


def test_general_advice_is_a_sentence_at_the_end():
    values = [object(), object(), pathlib.Path("a")]
    with pytest.raises(cfck.InvalidArgumentError) as caught:
        check_checkpoint(values)
    lines = str(caught.value).splitlines()
    assert lines[1:4] == [
        "  checkpoint[0] is an object",
        "  checkpoint[1] is an object",
        "  checkpoint[2] is a pathlib.PosixPath; store str(x)",
    ]
    assert len(lines) == 5 and lines[4].startswith("Store the plain values that objects are")
    with pytest.raises(cfck.InvalidArgumentError, match=r"^checkpoint is an object\. Store the pl"):
        check_checkpoint(values[0])


def test_many_problems_are_counted():
    with pytest.raises(cfck.InvalidArgumentError) as caught:
        cfck.numpy.check_checkpoint([object()] * 100_000)
    lines = str(caught.value).splitlines()
    assert lines[0] == "100000 values cannot be stored:" and lines[-2] == "  and 99980 more"
    assert len(lines) == 23


def test_what_can_be_stored_passes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module in (cfck.torch, cfck.numpy):
        assert module.check_checkpoint({"a": [1, 2.5, None], "b": np.zeros(3)}) is None
    assert check_checkpoint({"w": torch.zeros(3), "size": torch.Size([1])}) is None
    assert list(tmp_path.iterdir()) == []


def test_tensors_of_a_plain_dict(tmp_path):
    tensors = {
        "epoch": 3, "w": torch.ones(2), "sparse": torch.ones(2).to_sparse(), 7: torch.ones(2),
    }  # fmt: skip
    for call in (
        lambda: cfck.torch.save_file(tensors, tmp_path / "m.cfck"),
        lambda: cfck.torch.save(tensors),
    ):
        with pytest.raises(cfck.InvalidArgumentError) as caught:
            call()
        lines = [line.strip() for line in str(caught.value).splitlines()]
        assert lines[0] == "3 values cannot be stored:"
        assert lines[1].startswith("Key `epoch` is invalid, expected torch.Tensor")
        assert lines[2].startswith("tensor `sparse` is sparse")
        assert lines[3] == "names of tensors are str, not int: 7"
    arrays = {"a": [1, 2], "b": np.array(["x"]), "c": np.ones(2)}
    with pytest.raises(cfck.InvalidArgumentError, match="(?s)^2 values.*`a`.*`b`"):
        cfck.numpy.save_file(arrays, tmp_path / "m.cfck")
    assert list(tmp_path.iterdir()) == []


def default(value):
    if isinstance(value, pathlib.Path | datetime.date):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, argparse.Namespace):
        return vars(value)
    if isinstance(value, tuple):
        return tuple(value)
    if isinstance(value, torch.Tensor):
        return value.to_dense()
    raise TypeError(f"{type(value).__name__} is not known")


@pytest.mark.parametrize("module", [cfck.torch, cfck.numpy])
def test_default_stores_something_in_place_of_a_value(tmp_path, module):
    given = {
        "args": argparse.Namespace(out=pathlib.Path("a"), mode=Mode.FAST, sizes=[1, 2]),
        "day": datetime.date(2024, 5, 6),
        "point": Point(np.zeros(2), pathlib.Path("b")),
    }
    module.check_checkpoint(given, default=default)
    module.save_checkpoint(given, tmp_path / "c.cfck", default=default)
    loaded = module.load_checkpoint(tmp_path / "c.cfck")
    assert loaded["args"] == {"out": "a", "mode": "fast", "sizes": [1, 2]}
    assert loaded["day"] == "2024-05-06"
    assert type(loaded["point"]) is tuple and loaded["point"][1] == "b"
    assert loaded["point"][0].tolist() == [0, 0]
    with cfck.safe_open(tmp_path / "c.cfck", "np") as file:
        assert file.keys() == ["point.0"]


def test_what_occurs_twice_is_replaced_once(tmp_path):
    shared = argparse.Namespace(values=[1, 2])
    calls = []

    def replace(value):
        calls.append(value)
        return vars(value)

    save_checkpoint([shared, shared], tmp_path / "c.cfck", default=replace)
    first, second = load_checkpoint(tmp_path / "c.cfck")
    assert first is second and first == {"values": [1, 2]}
    assert calls == [shared]


def test_default_is_not_asked_for_what_can_be_stored(tmp_path):
    def fail(value):
        raise AssertionError(value)

    save_checkpoint({"a": [1, {"b": torch.ones(2)}]}, tmp_path / "c.cfck", default=fail)
    items = []
    items.append(items)
    with pytest.raises(cfck.InvalidArgumentError, match="contains itself"):
        check_checkpoint(items, default=fail)


@pytest.mark.parametrize(
    ("replace", "message"),
    [
        (default, "is an object; default raised TypeError: object is not known"),
        (lambda value: value, "is an object; default returned it as it was"),
        (lambda value: object(), "is an object after 100 calls of default"),
    ],
)
def test_values_that_default_does_not_replace(replace, message):
    with pytest.raises(cfck.InvalidArgumentError, match=rf"^checkpoint\['a'\] {message}"):
        check_checkpoint({"a": object()}, default=replace)


def test_default_is_a_function(tmp_path):
    with pytest.raises(TypeError, match="default is a function .*, not dict"):
        save_checkpoint({}, tmp_path / "c.cfck", default={})
    with pytest.raises(ZeroDivisionError):
        save_checkpoint({"a": object()}, tmp_path / "c.cfck", default=lambda value: 1 / 0)
    assert list(tmp_path.iterdir()) == []
