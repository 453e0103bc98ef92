"""Targets: nmse, psnr, bits_per_weight and size, reached by codec spectral."""

from __future__ import annotations

import os

import cfck
import cfck.numpy
import cfck.torch
import numpy as np
import pytest
from conftest import weights


def model() -> dict[str, np.ndarray]:
    return {
        "linear": weights(300, 256, seed=1).numpy(),
        "conv": weights(32, 32, 3, 3, seed=2).numpy() * 4,
        "bias": weights(256, seed=3).numpy(),
    }


def decibels(
    names: list[str], before: dict[str, np.ndarray], after: dict[str, np.ndarray]
) -> float:
    """The nmse of these arrays together."""
    wide = {name: before[name].astype(np.float64) for name in names}
    error = sum(((wide[name] - after[name]) ** 2).sum() for name in names)
    return 10 * np.log10(error / sum((wide[name] ** 2).sum() for name in names))


REACHED = ["linear", "conv"]


@pytest.mark.parametrize("nmse", ["-20dB", 0.01, np.float32(0.01)])
def test_nmse_is_reached(tmp_path, nmse):
    summary = cfck.numpy.save_file(model(), tmp_path / "m.cfck", nmse=nmse, verify=True)
    assert summary.kept_lossless == {"bias": "few_dimensions"}
    reached = decibels(REACHED, model(), cfck.numpy.load_file(tmp_path / "m.cfck"))
    assert -20.05 <= reached <= -20 + 1e-6


def test_psnr_and_bits_per_weight_are_reached(tmp_path):
    cfck.numpy.save_file(model(), tmp_path / "m.cfck", psnr="40dB", codec="spectral")
    with cfck.safe_open(tmp_path / "m.cfck", "np") as file:
        records = {record.name: record for record in file.records()}
    loud = records["conv"]
    assert (loud.codec, loud.bound_kind, loud.bound) == ("spectral", "none", None)
    assert (loud.target_kind, loud.target, loud.whole_file) == ("psnr", 40.0, True)
    assert loud.nmse_db == pytest.approx(20 * np.log10(loud.rmse / loud.rms))
    assert records["bias"].target_kind is None and records["bias"].rms is None
    cfck.numpy.save_file(model(), tmp_path / "m.cfck", bits_per_weight=2.5)
    with cfck.safe_open(tmp_path / "m.cfck", "np") as file:
        chosen = [record for record in file.records() if record.codec == "spectral"]
    bits = 8 * sum(record.stored_bytes for record in chosen)
    assert 0.995 * 2.5 <= bits / sum(record.n_elems for record in chosen) <= 2.5


@pytest.mark.parametrize(
    ("size", "n_bytes"), [(30_000, 30_000), ("40kB", 40_000), ("20KiB", 20480)]
)
def test_sizes_are_met_from_below(tmp_path, size, n_bytes):
    tensors = {name: weights(*array.shape) for name, array in model().items()}
    cfck.torch.save_file(tensors, tmp_path / "m.cfck", {"a": "b"}, size=size)
    assert 0.995 * n_bytes <= os.path.getsize(tmp_path / "m.cfck") <= n_bytes
    assert 0.995 * n_bytes <= len(cfck.torch.save(tensors, {"a": "b"}, size=size)) <= n_bytes


def test_in_a_rule_a_target_is_for_each_tensor(tmp_path):
    rules = {"conv": {"nmse": "-30dB"}, "linear": {"bits_per_weight": 2, "trellis_states": 1}}
    cfck.numpy.save_file(model(), tmp_path / "m.cfck", rules=rules)
    loaded = cfck.numpy.load_file(tmp_path / "m.cfck")
    assert -30.05 <= decibels(["conv"], model(), loaded) <= -30 + 1e-6
    with cfck.safe_open(tmp_path / "m.cfck", "np") as file:
        (linear,) = [record for record in file.records() if record.name == "linear"]
    assert 0.995 * 2 <= linear.bits_per_weight <= 2
    assert linear.whole_file is False


def test_blocks_by_choice():
    rows = np.arange(256)[:, None] / (30 + np.arange(40))
    smooth = np.sin(rows + np.arange(40)).astype(np.float32) + weights(256, 40).numpy() / 50
    sizes = {}
    for block in (None, (64, 1), (16, 16), [1]):
        data = cfck.compress(smooth, nmse="-20dB", block=block)
        reached = decibels(["x"], {"x": smooth}, {"x": cfck.decompress(data)})
        assert -20.05 <= reached <= -20 + 1e-6
        sizes[str(block)] = len(data)
    # By itself the codec transforms what is smooth along rows.
    assert sizes["None"] <= sizes["(64, 1)"] < 0.7 * sizes["[1]"]
    assert sizes["(16, 16)"] < 0.9 * sizes["[1]"]


def test_maximum_errors_beside_targets_and_alone(tmp_path):
    for options in ({"nmse": 0.02}, {"codec": "spectral"}):
        cfck.numpy.save_file(model(), tmp_path / "m.cfck", max_abs_error=0.02, **options)
        loaded = cfck.numpy.load_file(tmp_path / "m.cfck")
        for name in REACHED:
            assert np.abs(model()[name].astype(np.float64) - loaded[name]).max() <= 0.02


def test_one_tensor_and_updates(tmp_path):
    linear = model()["linear"]
    data = cfck.compress(linear, nmse="-25dB")
    reached = decibels(["x"], {"x": linear}, {"x": cfck.decompress(data)})
    assert -25.05 <= reached <= -25 + 1e-6
    path = tmp_path / "m.cfck"
    cfck.numpy.save_file(model(), path)
    cfck.update(path, {"linear": linear}, bits_per_weight=3)
    with cfck.safe_open(path, "np") as file:
        records = {record.name: record for record in file.records()}
    assert 0.995 * 3 <= records["linear"].bits_per_weight <= 3
    with pytest.raises(cfck.InvalidArgumentError, match="size applies to a whole new file"):
        cfck.update(path, {"linear": linear}, size=10_000)


def test_the_bytes_do_not_depend_on_threads():
    one = cfck.numpy.save(model(), size="30kB", threads=1)
    assert cfck.numpy.save(model(), size="30kB", threads=4) == one


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nmse": "x"}, "'x' is not an NMSE"),
        ({"nmse": 2}, "nmse must be above 0 and below 1"),
        ({"psnr": "-3dB"}, "is not a PSNR"),
        ({"bits_per_weight": -1}, "bits_per_weight must be above 0"),
        ({"size": "60XB"}, "'60XB' is not a size"),
        ({"size": 0}, "from 1 up"),
        ({"size": 10}, "with the coarsest steps the file takes"),
        ({"bits_per_weight": 1e-4}, "or more"),
        ({"nmse": 0.1, "size": 10_000}, "give only one of"),
        ({"codec": "spectral"}, "codec spectral needs"),
        ({"codec": "lossless", "nmse": 0.1}, "need codec spectral"),
        ({"nmse": 0.1, "max_rel_error": 0.1}, "cannot be combined with"),
        ({"nmse": 0.1, "trellis_states": 5}, "1, 4, 8 or 64"),
        ({"nmse": 0.1, "block": (65,)}, r"block has sides from 1 to 64, not \[65\]"),
        ({"nmse": 0.1, "block": (0, 8)}, "block has sides from 1 to 64"),
        ({"nmse": 0.1, "block": (64, 64, 2)}, "at most 4096 values"),
        ({"block": (8, 8)}, "block needs a quality or a target"),
        ({"rules": {"w": {"nmse": 0.1, "block": [99]}}}, "rule 'w': block has sides"),
        ({"rules": {"w": {"size": 10}}}, "rule 'w': size is of the whole file"),
        ({"rules": {"w": {"nmse": "3dB"}}}, "rule 'w': '3dB' is not an NMSE"),
        ({"rules": {"w": {"psnr": 40, "nmse": 0.1}}}, "rule 'w': .*give only one of"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, options, message):
    with pytest.raises(cfck.InvalidArgumentError, match=message):
        cfck.numpy.save_file(model(), tmp_path / "m.cfck", **options)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"nmse": True},
        {"psnr": [40]},
        {"bits_per_weight": "3"},
        {"size": 1.5},
        {"size": True},
        {"trellis_states": "8"},
        {"block": 8},
        {"block": "8x8"},
        {"block": (8.0, 8)},
        {"block": (True,)},
    ],
)
def test_wrong_types(options):
    with pytest.raises(TypeError, match=next(iter(options))):
        cfck.numpy.save(model(), **options)
