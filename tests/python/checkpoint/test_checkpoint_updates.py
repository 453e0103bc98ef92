"""cfck.update of what save_checkpoint saved, and load_checkpoint of what other changes broke."""

import cfck
import numpy as np
import pytest
import torch
from cfck import _native
from cfck._options.kinds import SaveOptions
from cfck._options.native import native_options
from cfck._options.signatures import complete
from cfck.numpy import load_file as load_arrays
from cfck.torch import load_checkpoint, load_file, save_checkpoint
from conftest import assert_same, weights


def tree():
    return {
        "model": {"w": torch.nn.Parameter(weights(30, 40)), "ids": torch.arange(9)},
        "held": np.arange(4.0),
    }


def change(path, add, remove=()):
    """A file with other records under its skeleton, as updates of earlier versions left it."""
    arrays = load_arrays(path)
    for name in remove:
        del arrays[name]
    arrays |= add
    host = [
        (name, {"float32": "F32", "float64": "F64", "int64": "I64"}[str(a.dtype)], a.shape,
         tuple(s // a.itemsize for s in a.strides), a.ctypes.data)
        for name, a in arrays.items()
    ]  # fmt: skip
    with cfck.safe_open(path, "np") as file:
        skeleton = file._opened().attachment("cfck.checkpoint", 1 << 20)
    _native.write_file(
        bytes(path), [host], {}, {"cfck.checkpoint": skeleton},
        options=native_options(complete(SaveOptions, {})), verify=False, sync=False,
        progress=None, total_bytes=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tensors", "remove", "name"),
    [
        ({"new": weights(3)}, [], "new"),
        ({}, ["model.w"], "model.w"),
        ({}, ["held"], "held"),
        ({"model.w": weights(3), "held2": weights(3)}, ["held"], "held2"),
        ({"model.w": torch.arange(3)}, [], "model.w"),
    ],
)
def test_what_would_break_a_checkpoint_is_refused(tensors, remove, name, path):
    save_checkpoint(tree(), path)
    before = path.read_bytes()
    with pytest.raises(cfck.InvalidArgumentError, match="save_checkpoint") as caught:
        cfck.update(path, tensors, remove)
    assert caught.value.record == name
    assert path.read_bytes() == before
    load_checkpoint(path)


def test_values_of_other_shapes_and_dtypes_can_be_put_in(path):
    save_checkpoint(tree(), path)
    changed = {
        "model.w": weights(5, 6).to(torch.bfloat16),
        "model.ids": weights(7),
        "held": torch.arange(3),
    }
    cfck.update(path, changed, metadata={"step": "2"})
    cfck.update(path, {"model.ids": torch.arange(5)}, remove=["model.ids"])
    loaded = load_checkpoint(path)
    assert isinstance(loaded["model"]["w"], torch.nn.Parameter)
    assert_same(loaded["model"]["w"].detach(), changed["model.w"])
    assert_same(loaded["model"]["ids"], torch.arange(5))
    assert loaded["held"].tolist() == [0, 1, 2]


def test_files_that_earlier_updates_broke_say_what_is_wrong_and_can_be_mended(path):
    save_checkpoint(tree(), path)
    change(path, {"ex\x1btra": np.ones(3)}, ["model.w", "held"])
    with pytest.raises(cfck.CorruptError) as caught:
        load_checkpoint(path)
    message = str(caught.value)
    assert "has no record `model.w`, `held`" in message
    assert r"`ex\x1btra`" in message
    assert "load_file" in message and "cfck.update" in message
    assert set(load_file(path)) == {"model.ids", "ex\x1btra"}
    cfck.update(path, {"held": np.zeros(2)}, remove=["ex\x1btra"])
    with pytest.raises(cfck.CorruptError, match="has no record `model.w`"):
        load_checkpoint(path)
    cfck.update(path, {"model.w": weights(2, 2)})
    assert load_checkpoint(path)["held"].tolist() == [0, 0]


def test_of_many_names_an_error_lists_a_few(path):
    save_checkpoint({"w": weights(2)}, path)
    change(path, {f"x{i}": np.ones(2) for i in range(100)})
    with pytest.raises(cfck.CorruptError, match="`x4` and 95 more") as caught:
        load_checkpoint(path)
    assert len(str(caught.value)) < 1000
