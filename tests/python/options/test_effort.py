"""Entropy stages and levels: the same tensors come back, and what was used is named."""

import cfck
import cfck.numpy
import cfck.torch
import numpy as np
import pytest
import torch

STAGES = ["zstd", "rans"]
LEVELS = ["fast", "default", "archive"]


def _tensors():
    generator = torch.Generator().manual_seed(5)
    return {
        "short": torch.randn(30, generator=generator),
        "one chunk": torch.randn(100, 100, generator=generator),
        "several": torch.randn(1000, 600, generator=generator).bfloat16(),
        "ids": torch.arange(5000),
    }


def _stages_of(path):
    with cfck.safe_open(path, framework="pt") as file:
        return {record.name: record.entropy for record in file.records()}


@pytest.mark.parametrize("entropy", STAGES)
@pytest.mark.parametrize("level", LEVELS)
def test_everything_comes_back(tmp_path, entropy, level):
    tensors = _tensors()
    path = tmp_path / "m.cfck"
    chosen = {"entropy": entropy, "level": level}
    cfck.torch.save_file(tensors, path, verify=True, **chosen)
    stages = _stages_of(path)
    assert stages["ids"] == "zstd" and stages["several"] in {entropy, "zstd"}
    assert stages["one chunk"] in {entropy, "zstd"} and stages["short"] in {entropy, "zstd", "none"}
    for loaded in (
        cfck.torch.load_file(path),
        cfck.torch.load(cfck.torch.save(tensors, **chosen)),
    ):
        assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)
    cfck.torch.save_checkpoint({"state": tensors, "step": 3}, path, **chosen)
    assert cfck.torch.load_checkpoint(path)["step"] == 3
    model = torch.nn.Linear(40, 40)
    cfck.torch.save_model(model, path, **chosen)
    assert torch.equal(cfck.torch.load_file(path)["weight"], model.weight)
    arrays = {"w": np.linspace(-1, 1, 5000, dtype=np.float32).reshape(50, 100)}
    cfck.numpy.save_file(arrays, path, **chosen)
    cfck.update(path, {"v": arrays["w"] * 2}, **chosen)
    assert (cfck.numpy.load_file(path)["v"] == arrays["w"] * 2).all()
    assert (cfck.numpy.load(cfck.numpy.save(arrays, **chosen))["w"] == arrays["w"]).all()
    for tensor in tensors.values():
        assert torch.equal(cfck.decompress(cfck.compress(tensor, **chosen), framework="pt"), tensor)


@pytest.mark.parametrize("entropy", STAGES)
@pytest.mark.parametrize("level", LEVELS)
def test_bounds_hold(entropy, level):
    tensor = _tensors()["one chunk"]
    data = cfck.compress(tensor, max_abs_error=1e-3, entropy=entropy, level=level)
    back = cfck.decompress(data, framework="pt")
    assert (back.double() - tensor.double()).abs().max() <= 1e-3
    assert len(data) < 4 * tensor.numel() / 2


def test_the_stage_reaches_the_writer(tmp_path):
    """The default is what the library says, and a stage asked for is used."""
    tensor = {"w": torch.randn(300000, generator=torch.Generator().manual_seed(1))}
    for entropy in STAGES:
        cfck.torch.save_file(tensor, tmp_path / "m.cfck", entropy=entropy)
        assert _stages_of(tmp_path / "m.cfck") == {"w": entropy}
    cfck.torch.save_file(tensor, tmp_path / "m.cfck")
    assert _stages_of(tmp_path / "m.cfck") == {"w": cfck._native.default_entropy()}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"entropy": "none"}, ValueError, 'unknown entropy stage "none"; it may be zstd or rans'),
        ({"entropy": ""}, ValueError, "unknown entropy stage"),
        ({"entropy": None}, TypeError, "entropy is str, not NoneType: None"),
        ({"level": "best"}, ValueError, 'unknown level "best"; it may be fast, default or archive'),
        ({"level": 9}, TypeError, "level is str, not int: 9"),
        ({"levle": "fast"}, TypeError, "'levle'; did you mean level"),
    ],
    ids=str,
)
def test_wrong_choices(tmp_path, options, error, message):
    path = tmp_path / "m.cfck"
    path.write_bytes(b"old")
    tensors = {"w": torch.ones(3)}
    for call in (
        lambda: cfck.torch.save_file(tensors, path, **options),
        lambda: cfck.torch.save(tensors, **options),
        lambda: cfck.torch.save_model(torch.nn.Linear(4, 4), path, **options),
        lambda: cfck.torch.save_checkpoint(tensors, path, **options),
        lambda: cfck.numpy.save_file({"w": np.ones(3)}, path, **options),
        lambda: cfck.update(path, tensors, **options),
        lambda: cfck.compress(tensors["w"], **options),
    ):
        with pytest.raises(error, match=message) as caught:
            call()
        assert issubclass(error, TypeError) or isinstance(caught.value, cfck.CfckError)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("option", ["entropy", "level"])
def test_they_are_for_a_whole_file(tmp_path, option):
    with pytest.raises(ValueError, match=f"unknown option '{option}'; there are codec"):
        cfck.torch.save_file({}, tmp_path / "m.cfck", rules={"*": {option: "fast"}})
