"""save_checkpoint and load_checkpoint: what goes in comes out, or is refused with its path."""

import argparse
import collections
import copy
import dataclasses
import enum
import fnmatch
import math
import pathlib
import random
import struct
import subprocess
import sys

import cfck
import cfck.numpy
import ml_dtypes
import numpy as np
import pytest
import torch
from cfck.torch import load_checkpoint, load_file, save_checkpoint, save_file
from conftest import assert_same, bits, random_bits, shares_memory, weights
from trees import assert_equal

# Many of these trees have no tensor.
pytestmark = pytest.mark.filterwarnings("ignore::cfck.EmptyFileWarning")


def round_trip(value, path):
    save_checkpoint(value, path)
    return load_checkpoint(path)


def nan_with_bits(text):
    return struct.unpack(">d", bytes.fromhex(text))[0]


PLAIN = [
    None, True, False, 0, 1, -1, 2**53 - 1, 2**53, -(2**53), 2**64, -(2**200), 7**6000,
    0.0, -0.0, 0.1, 1.0, -1e308, 5e-324, 2.0**53 + 2, math.inf, -math.inf, math.nan, -math.nan,
    nan_with_bits("7ff8000000000123"), nan_with_bits("fff8dead0000beef"),
    1j, complex(-0.0, math.nan), complex(math.inf, -0.0),
    "", "a", "\0\n\"\\", "Grüße, 世界 \U0001f600 \u2028", b"", b"\0\xff" * 50,
    torch.Size([]), torch.Size([2, 0, 2**40]), torch.float16, torch.bool, torch.complex128,
    torch.qint8, torch.device("cpu"), torch.device("cuda"), torch.device("cuda:3"),
    torch.device("meta"),
    np.float32(0.1), np.float64(-0.0), np.float16(np.nan), np.int64(-5), np.uint64(2**64 - 1),
    np.bool_(True), np.complex128(1 + 2j), ml_dtypes.bfloat16(1.5),
    [], (), {}, set(), frozenset(), collections.OrderedDict(), collections.Counter(),
    [[], [[]]], ((), (1,)), {"a": {"b": {}}}, {1, 2.5, None, "x", (1, "y")}, frozenset([1, (2,)]),
    collections.Counter({3: 2, 1: 5}), collections.OrderedDict([("b", 1), ("a", [2])]),
    {"b": 1, "a": 2, 3: 4, 2.5: 5, None: 6, False: 7, (1, (None, "k")): 8, -(2**99): 9, 7**6000: 1},
    {math.inf: 1, -math.inf: 2},
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: repr(type(value)))
def test_plain_values_and_containers(value, path):
    assert_equal(round_trip(value, path), value)
    assert_equal(round_trip([value, {"k": value}], path), [value, {"k": value}])


def test_a_nan_key(path):
    (key,) = round_trip({nan_with_bits("7ff8000000000456"): 1}, path)
    assert struct.pack(">d", key).hex() == "7ff8000000000456"


@pytest.mark.parametrize(
    "value",
    [
        weights(3, 4),
        random_bits((7,), torch.bfloat16),
        torch.tensor(3),
        torch.zeros(0, 2),
        random_bits((5,), torch.float8_e4m3fn),
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.float32(2.0) * np.ones(()),
        np.ones((3, 2), ml_dtypes.bfloat16),
    ],
    ids=repr,
)
def test_tensors_and_arrays_anywhere(value, path):
    value = np.asarray(value) if not isinstance(value, torch.Tensor) else value
    other = value.clone() if isinstance(value, torch.Tensor) else value.copy()
    tree = {"a": [value], "t": (other,)}
    assert_equal(round_trip(tree, path), tree)
    assert_equal(round_trip(value, path), value)


def test_parameters_are_parameters_again(path):
    tree = {
        "p": torch.nn.Parameter(weights(3, 4)),
        "frozen": torch.nn.Parameter(torch.arange(3), requires_grad=False),
        "leaf": weights(2).requires_grad_(),
        "buffer": torch.nn.Buffer(weights(2)),
    }
    loaded = round_trip(tree, path)
    assert type(loaded["p"]) is torch.nn.Parameter and loaded["p"].requires_grad
    assert type(loaded["frozen"]) is torch.nn.Parameter and not loaded["frozen"].requires_grad
    assert type(loaded["leaf"]) is torch.Tensor and not loaded["leaf"].requires_grad
    for name in tree:
        assert bits(loaded[name]) == bits(tree[name])


def test_what_is_shared_stays_shared(path):
    tensor, array = weights(30, 40), np.arange(100.0)
    shared = {"inner": [1]}
    parameter = torch.nn.Parameter(weights(3))
    tree = {
        "tensor": tensor, "same": tensor, "view": tensor[3:7].t(), "equal": tensor.clone(),
        "array": array, "part": array[10:20], "first": shared, "second": [shared, (shared,)],
        "p": parameter, "q": [parameter],
    }  # fmt: skip
    loaded = round_trip(tree, path)
    assert_equal({**loaded, "p": 0, "q": 0}, {**tree, "p": 0, "q": 0})
    assert loaded["same"] is loaded["tensor"]
    assert shares_memory(loaded["view"], loaded["tensor"])
    assert not shares_memory(loaded["equal"], loaded["tensor"])
    assert np.shares_memory(loaded["array"], loaded["part"])
    assert loaded["first"] is loaded["second"][0] is loaded["second"][1][0]
    assert loaded["p"] is loaded["q"][0]


def test_a_state_dict_keeps_its_versions(path):
    state_dict = torch.nn.BatchNorm1d(4).state_dict()
    loaded = round_trip({"model": state_dict}, path)["model"]
    assert loaded._metadata == state_dict._metadata
    assert type(loaded._metadata) is type(state_dict._metadata)
    assert_equal(loaded, state_dict)


def test_names_of_records_are_paths(path):
    tree = {
        "model": {"layer.0.weight": weights(3)},
        "optimizer": {"state": {12: {"exp_avg": weights(4), "momentum_buffer": weights(5)}}},
        "list": [weights(6), (weights(7),)],
        (1, None): weights(8),
        2**99: weights(9),
    }
    save_checkpoint(tree, path)
    names = list(load_file(path))
    assert names == [
        "model.layer.0.weight",
        "optimizer.state.12.exp_avg",
        "optimizer.state.12.momentum_buffer",
        "list.0",
        "list.1.0",
        "(1,None)",
        hex(2**99),
    ]
    for pattern, count in [("optimizer.*", 2), ("*exp_avg*", 1), ("*momentum_buffer*", 1)]:
        # Names that lossy options leave alone.
        assert len(fnmatch.filter(names, pattern)) == count
    assert_equal(load_checkpoint(path), tree)


def test_paths_that_read_the_same_get_different_names(path):
    tree = {
        "a": {"b": weights(1), "b~2": weights(2)},
        "a.b": weights(3),
        1: weights(4),
        "1": weights(5),
        "": weights(6),
        "root": weights(7),
        "long" * 9999: weights(8),
    }
    save_checkpoint(tree, path)
    names = list(load_file(path))
    assert names[:7] == ["a.b", "a.b~2", "a.b~3", "1", "1~2", "root", "root~2"]
    assert len(names[7]) < 1100
    assert_equal(load_checkpoint(path), tree)


def test_an_ordinary_file_for_everything_else(path):
    tree = {"model": {"w": weights(50, 60)}, "steps": 3}
    done = []
    save_checkpoint(
        tree, path, {"author": "me"}, codec="lossless", threads=1, verify=True, fsync=False,
        progress=lambda *call: done.append(call),
    )  # fmt: skip
    assert done[-1][0] == done[-1][1] == 50 * 60 * 4
    with cfck.safe_open(path, "pt") as file:
        assert file.keys() == ["model.w"]
        assert file.metadata() == {"author": "me"}
        assert_same(file.get_tensor("model.w"), tree["model"]["w"])
    program = pathlib.Path(sys.executable).parent / "cfck"
    show = subprocess.run([program, "inspect", path], capture_output=True, text=True, check=True)
    assert "model.w" in show.stdout
    cfck.update(path, {"model.w": tree["model"]["w"] + 1})
    subprocess.run([program, "compact", path], capture_output=True, check=True)
    tree["model"]["w"] += 1
    assert_equal(load_checkpoint(path), tree)


def test_progress_counts_tensors_and_arrays_together(path):
    save_checkpoint({"t": weights(1000), "a": np.ones(500), "v": np.ones(3)}, path)
    calls = []
    load_checkpoint(path, progress=lambda *call: calls.append(call), threads=1)
    assert {total for _, total, _ in calls} == {8024}
    assert [done for done, _, _ in calls] == sorted(done for done, _, _ in calls)
    assert calls[-1][0] == 8024


def test_the_bytes_depend_on_nothing_else(tmp_path):
    program = (
        "import sys, torch; from cfck.torch import save_checkpoint; save_checkpoint("
        "{'set': {'a', 'b', 'c', 'd', 1, None, (2, 'x')}, 't': torch.arange(10)}, sys.argv[1])"
    )
    files = []
    for seed in "12":
        files.append(tmp_path / seed)
        command = [sys.executable, "-c", program, files[-1]]
        subprocess.run(command, check=True, env={"PYTHONHASHSEED": seed})
    assert files[0].read_bytes() == files[1].read_bytes()


def test_other_devices_get_tensors_but_not_arrays(path):
    save_checkpoint({"t": weights(3), "a": np.ones(2)}, path)
    loaded = load_checkpoint(path, device="meta")
    assert loaded["t"].is_meta
    assert type(loaded["a"]) is np.ndarray


class Color(enum.IntEnum):
    RED = 1


@dataclasses.dataclass
class Settings:
    rate: float = 0.1


class Odd(torch.Tensor):
    pass


Pair = collections.namedtuple("Pair", "a b")


def ordered_with_attribute():
    ordered = collections.OrderedDict(a=1)
    ordered.note = "lost?"
    return ordered


def cyclic():
    items = [1]
    items.append({"again": items})
    return items


def deep(depth):
    tree = []
    for _ in range(depth - 1):
        tree = [tree]
    return tree


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (object(), "Store the plain values"),
        (lambda: 0, "functions cannot be stored"),
        (Settings, "classes cannot be stored"),
        (Settings(), "dataclasses.asdict"),
        (Color.RED, r"\.value"),
        (Pair(1, 2), r"_asdict\(\)"),
        (argparse.Namespace(lr=1), r"vars\(x\)"),
        (pathlib.Path("a"), r"str\(x\)"),
        (collections.defaultdict(list), r"dict\(x\)"),
        (collections.deque(), r"list\(x\)"),
        (torch.__version__, r"str\(x\)"),
        (np.str_("a"), r"\.item\(\)"),
        (np.datetime64("2020-01-01"), r"\.item\(\)"),
        (np.longdouble(1), r"\.item\(\)"),
        (torch.nn.Linear(1, 1), r"state_dict\(\)"),
        (torch.Generator(), r"get_state\(\)"),
        (torch.strided, "cfck.torch"),
        (np.array([object()]), "tolist"),
        (np.array(["a"]), "tolist"),
        (np.ma.array([1.0]), "mask"),
        (torch.ones(2).as_subclass(Odd), "as_subclass"),
        (torch.nn.UninitializedParameter(), "run the model once"),
        ("\ud800", "surrogate"),
        ({"\udfff": 1}, "surrogate"),
        ({np.int64(1): 1}, "keys may be"),
        ({frozenset(): 1}, "keys may be"),
        ({Color.RED}, "keys may be"),
        (ordered_with_attribute(), "note"),
        (cyclic(), "contains itself"),
        (deep(1001), "1000 containers deep"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_refused_with_its_path(value, advice, path):
    path.write_bytes(b"old")
    where = r"checkpoint\['args'\]\[1\].* "
    with pytest.raises(cfck.InvalidArgumentError, match=f"(?s){where}.*{advice}"):
        save_checkpoint({"ok": 1, "args": [0, value]}, path)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.ones(2).to_sparse(), "is sparse"),
        (torch.ones(2, device="meta"), "has no data"),
        (torch.ones(2, dtype=torch.complex128), "has dtype"),
        (np.ones(2, np.complex128), "has dtype"),
    ],
)
def test_tensors_that_files_cannot_hold_are_named(value, message, path):
    where = rf"^checkpoint\['args'\]\[1\] {message}"
    with pytest.raises(cfck.CfckError, match=where) as caught:
        save_checkpoint({"args": [0, value]}, path)
    assert caught.value.record == "args.1"
    assert not path.exists()


def test_too_many_plain_values(path, monkeypatch):
    monkeypatch.setattr("cfck._checkpoint.skeleton_writer.MAX_SKELETON_BYTES", 1000)
    with pytest.raises(cfck.LimitExceededError, match="as tensors"):
        save_checkpoint(list(range(1000)), path)


def test_deep_trees(path):
    loaded = round_trip(deep(1000), path)
    depth = 1
    while loaded:
        (loaded,) = loaded
        depth += 1
    assert depth == 1000


def test_numpy_alone(path):
    tree = {"a": np.arange(5), "b": [np.float32(1), {"c": (None, 2.5)}], "s": {1, 2}}
    cfck.numpy.save_checkpoint(tree, path, {"k": "v"})
    assert_equal(cfck.numpy.load_checkpoint(path), tree)
    assert_equal(load_checkpoint(path), tree)
    with pytest.raises(cfck.InvalidArgumentError, match=r"\['t'\].*cfck.torch.save_checkpoint"):
        cfck.numpy.save_checkpoint({"t": weights(2)}, path)
    for value in [weights(2), torch.float32]:
        save_checkpoint({"t": value}, path)
        with pytest.raises(cfck.UnsupportedError, match=r"cfck\.torch\.load_checkpoint"):
            cfck.numpy.load_checkpoint(path)


def test_numpy_needs_no_torch(path):
    program = (
        "import sys, cfck.numpy; cfck.numpy.save_checkpoint({'a': 1}, sys.argv[1]);"
        "cfck.numpy.load_checkpoint(sys.argv[1]); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, path], check=True)


def test_a_file_of_tensors_alone(path):
    save_file({"w": weights(3)}, path)
    with pytest.raises(cfck.InvalidArgumentError, match="load_file"):
        load_checkpoint(path)
    with pytest.raises(FileNotFoundError):
        load_checkpoint(path.parent / "absent.cfck")


def test_states_of_random_number_generators(path):
    generator = np.random.default_rng(3)
    tree = {
        "python": random.Random(5).getstate(),
        "numpy": generator.bit_generator.state,
        "legacy": np.random.RandomState(7).get_state(),
        "torch": torch.get_rng_state(),
    }
    loaded = round_trip(tree, path)
    assert_equal(loaded, tree)
    again = np.random.default_rng()
    again.bit_generator.state = loaded["numpy"]
    assert again.random() == generator.random()


def build(optimizer_name, scheduler_name):
    torch.manual_seed(11)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.BatchNorm1d(32), torch.nn.Dropout(0.3),
        torch.nn.GELU(), torch.nn.Linear(32, 4),
    )  # fmt: skip
    if optimizer_name == "adamw":
        groups = [{"params": model[0].parameters(), "lr": 3e-3}, {"params": model[4].parameters()}]
        optimizer = torch.optim.AdamW(groups, lr=1e-3, amsgrad=True)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    schedulers = torch.optim.lr_scheduler
    scheduler = {
        "cosine": lambda: schedulers.CosineAnnealingWarmRestarts(optimizer, 5),
        "multistep": lambda: schedulers.MultiStepLR(optimizer, [2, 7, 9]),
        "onecycle": lambda: schedulers.OneCycleLR(optimizer, 0.1, total_steps=40),
        "sequential": lambda: schedulers.SequentialLR(
            optimizer,
            [schedulers.LinearLR(optimizer), schedulers.ExponentialLR(optimizer, 0.9)],
            [4],
        ),
    }[scheduler_name]()
    return model, optimizer, scheduler


def train(model, optimizer, scheduler, steps):
    losses = []
    for _ in range(steps):
        x = torch.randn(8, 16)
        loss = torch.nn.functional.cross_entropy(model(x), torch.randint(4, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    ("optimizer_name", "scheduler_name"),
    [("adamw", "cosine"), ("adamw", "multistep"), ("sgd", "onecycle"), ("sgd", "sequential")],
)
def test_training_goes_on_as_if_nothing_had_happened(optimizer_name, scheduler_name, path):
    job = build(optimizer_name, scheduler_name)
    model, optimizer, scheduler = job
    train(*job, 6)
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "rng": torch.get_rng_state(),
        "epoch": 6,
        "args": {"lr": 1e-3, "name": None, "betas": (0.9, 0.999), "best": -math.inf},
    }
    save_checkpoint(state, path)
    expected_state = copy.deepcopy(state)
    losses = train(*job, 6)

    loaded = load_checkpoint(path)
    assert_equal(loaded, expected_state)
    resumed = build(optimizer_name, scheduler_name)
    torch.manual_seed(999)
    for part, name in zip(resumed, ["model", "optimizer", "scheduler"], strict=True):
        part.load_state_dict(loaded[name])
    torch.set_rng_state(loaded["rng"])
    assert train(*resumed, 6) == losses
    for part, original in zip(resumed, job, strict=True):
        assert_equal(part.state_dict(), original.state_dict())
    names = [name for name in load_file(path) if "optimizer" in name]
    assert names and all(name.startswith("optimizer.state.") for name in names)


@pytest.mark.parametrize("scaled", [True, False])
def test_states_of_other_helpers_of_training(scaled, path):
    model, optimizer, _ = build("sgd", "multistep")
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    plateau.step(0.5)
    average = torch.optim.swa_utils.AveragedModel(model)
    state = {
        "plateau": plateau.state_dict(),
        "average": average.state_dict(),
        "scaler": torch.amp.GradScaler("cpu", enabled=scaled).state_dict(),
    }
    assert_equal(round_trip(state, path), state)
