"""A checkpoint that `cfck convert` encodes again keeps its containers, values and metadata."""

import collections
import math
import os
import subprocess

import cfck
import pytest
import torch
from cfck.torch import load_checkpoint, save_checkpoint
from conftest import bits, shares_memory, weights
from trees import assert_equal, trained

# The tensors that options with a loss may change.
WEIGHTS = ("0.weight", "2.weight")
LOSSLESS = [
    ("--level", "archive"),
    ("--entropy", "zstd", "--chunk-elems", "1000"),
    ("--codec", "raw"),
]
LOSSY = [
    ("--quality", "high"),
    ("--bits-per-weight", "16"),
    ("--max-sigma-error", "0.01"),
    ("--rule", "model.*.weight: max_abs_error=0.01"),
]


def convert(*arguments, **options):
    return subprocess.run(
        ["cfck", "convert", *map(os.fspath, arguments)], check=True, capture_output=True, **options
    )


@pytest.fixture
def checkpoint(tmp_path):
    """What a training job saves, and its file."""
    model, optimizer, scheduler = trained()
    state = {
        "model": model.state_dict(),
        "ema": [model[0].weight.detach(), (weights(3, 5, seed=8), None)],
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "rng": torch.get_rng_state(),
        "history": [{"loss": 0.5, "step": 1}, {"loss": math.nan, "step": 2}],
        "best": ((3, 0.25), ["a", b"\x00", True, None, 2**70, -0.0, 1 + 2j]),
        "layers": {1: "one", (2, "x"): torch.Size([2, 3]), None: torch.bfloat16},
        "seen": {4, "four"},
        "order": collections.OrderedDict(z=[], a={}),
    }
    path = tmp_path / "run.cfck"
    save_checkpoint(state, path, metadata={"run": "7"})
    return state, path


def assert_kept(state, path):
    """Asserts that the file has the same checkpoint, with its ties and its metadata."""
    loaded = load_checkpoint(path)
    assert_equal(loaded, state)
    assert loaded["model"]._metadata == state["model"]._metadata
    assert shares_memory(loaded["ema"][0], loaded["model"]["0.weight"])
    with cfck.safe_open(path, "pt") as file:
        assert file.metadata() == {"run": "7"}
    # The job can go on from it.
    model, optimizer, scheduler = trained()
    model.load_state_dict(loaded["model"])
    optimizer.load_state_dict(loaded["optimizer"])
    scheduler.load_state_dict(loaded["scheduler"])
    assert_equal(optimizer.state_dict(), state["optimizer"])


@pytest.mark.parametrize("options", LOSSLESS)
def test_without_loss_all_is_the_same(checkpoint, tmp_path, options):
    state, path = checkpoint
    convert(path, tmp_path / "b.cfck", "--verify", *options)
    assert_kept(state, tmp_path / "b.cfck")


@pytest.mark.parametrize("options", LOSSY)
def test_with_a_loss_only_weights_change(checkpoint, tmp_path, options):
    state, path = checkpoint
    del state["ema"][0]  # a tie keeps its tensors lossless, unless both have the same options
    save_checkpoint(state, path, metadata={"run": "7"})
    convert(path, tmp_path / "b.cfck", "--verify", *options)
    loaded = load_checkpoint(tmp_path / "b.cfck")
    for name in WEIGHTS:
        before, after = state["model"][name], loaded["model"][name]
        assert bits(before) != bits(after)
        assert (before - after).abs().max() < 0.2 * before.std()
        state["model"][name] = after
    assert_equal(loaded, state)
    with cfck.safe_open(tmp_path / "b.cfck", "pt") as file:
        assert file.metadata() == {"run": "7"}


def test_again_and_again(checkpoint, tmp_path):
    state, path = checkpoint
    convert(path, tmp_path / "b.cfck", "--codec", "raw")
    convert(tmp_path / "b.cfck", tmp_path / "c.cfck", "--level", "fast")
    assert_kept(state, tmp_path / "c.cfck")


def test_from_standard_input(checkpoint, tmp_path):
    state, path = checkpoint
    with path.open("rb") as file:
        convert("-", tmp_path / "b.cfck", "--level", "archive", stdin=file)
    assert_kept(state, tmp_path / "b.cfck")


def test_into_shards(checkpoint, tmp_path):
    state, path = checkpoint
    convert(path, tmp_path / "parts" / "run.cfck", "--max-shard-size", "20kB")
    assert len(list((tmp_path / "parts").glob("run-*.cfck"))) > 2
    convert(tmp_path / "parts", tmp_path / "b.cfck", "--level", "archive")
    assert_equal(load_checkpoint(tmp_path / "parts"), state)
    assert_equal(load_checkpoint(tmp_path / "b.cfck"), state)


def test_after_an_update(checkpoint, tmp_path):
    state, path = checkpoint
    changed = weights(96, 64, seed=12)
    cfck.update(path, {"optimizer.state.0.exp_avg": changed}, metadata={"run": "7"})
    state["optimizer"]["state"][0]["exp_avg"] = changed
    convert(path, tmp_path / "b.cfck", "--level", "archive")
    assert_kept(state, tmp_path / "b.cfck")


def test_a_whole_checkpoint_that_is_one_list_or_one_tensor(tmp_path):
    path = tmp_path / "a.cfck"
    for value in ([weights(40, 64), (1, 2.5)], weights(40, 64), (weights(40, 64),)):
        save_checkpoint(value, path)
        convert(path, tmp_path / "b.cfck", "-f", "--level", "archive")
        assert_equal(load_checkpoint(tmp_path / "b.cfck"), value)
