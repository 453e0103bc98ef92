"""save_model and load_model."""

import subprocess
import sys
import textwrap

import cfck
import pytest
import safetensors.torch
import torch
from cfck.torch import load_file, load_model, save_file, save_model
from conftest import assert_same, weights
from torch import nn


class Tied(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(50, 16)
        self.norm = nn.BatchNorm1d(16)
        self.conv = nn.Conv2d(4, 8, 3)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("table", torch.randn(7).bfloat16())


def assert_equal_models(a: nn.Module, b: nn.Module) -> None:
    expected = b.state_dict()
    for name, tensor in a.state_dict().items():
        assert_same(tensor.cpu(), expected[name].cpu())


def test_model_round_trip(path):
    model, other = Tied(1), Tied(2)
    parameters = dict(other.named_parameters())
    save_model(model, path, {"step": "7"})
    assert load_model(other, path) == (set(), [])
    assert_equal_models(other, model)
    assert other.head.weight is other.embed.weight
    assert all(p is parameters[name] and p.requires_grad for name, p in other.named_parameters())
    with cfck.safe_open(path, "pt") as file:
        assert file.metadata() == {"step": "7", "cfck.module_versions": '{"norm":2}'}
        assert set(file.keys()) == set(model.state_dict())


def test_a_file_of_safetensors_with_dropped_names_loads(tmp_path):
    # safetensors.torch.save_model keeps one name of tied weights; so does a file made of it.
    model, other = Tied(1), Tied(2)
    safetensors.torch.save_model(model, tmp_path / "a.safetensors")
    kept = safetensors.torch.load_file(tmp_path / "a.safetensors")
    assert len(kept) < len(model.state_dict())
    save_file(kept, tmp_path / "a.cfck")
    expected = safetensors.torch.load_model(Tied(3), tmp_path / "a.safetensors")
    assert load_model(other, tmp_path / "a.cfck") == expected
    assert_equal_models(other, model)


@pytest.mark.parametrize("change", ["missing", "unexpected", "both"])
def test_strict_names_are_those_of_safetensors(tmp_path, change):
    state = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).state_dict()
    if change != "unexpected":
        del state["0.bias"]
    if change != "missing":
        state["extra"] = torch.zeros(3)
    save_file(state, tmp_path / "a.cfck")
    safetensors.torch.save_file(state, tmp_path / "a.safetensors")
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    with pytest.raises(RuntimeError) as expected:
        safetensors.torch.load_model(model, tmp_path / "a.safetensors")
    with pytest.raises(RuntimeError) as actual:
        load_model(model, tmp_path / "a.cfck")
    assert str(actual.value) == str(expected.value)
    expected_names = safetensors.torch.load_model(model, tmp_path / "a.safetensors", strict=False)
    assert load_model(model, tmp_path / "a.cfck", strict=False) == expected_names


def test_state_dicts_are_no_models(path):
    state = nn.Linear(2, 2).state_dict()
    with pytest.raises(
        TypeError, match=r"not OrderedDict; for a state_dict there is save_file\(\)"
    ):
        save_model(state, path)
    assert not path.exists()
    save_file(state, path)
    with pytest.raises(TypeError, match=r"for a state_dict there is load_file\(\), which returns"):
        load_model(dict(state), path)
    with pytest.raises(TypeError, match=r"save_model\(\) takes a torch.nn.Module, not int$"):
        save_model(3, path)


def test_other_shapes_are_torchs_error(path):
    save_model(nn.Linear(3, 4), path)
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        load_model(nn.Linear(4, 4), path)


def test_other_dtypes_and_strides_are_converted(path):
    model = nn.Conv2d(4, 8, 3)
    save_model(model, path)
    double = nn.Conv2d(4, 8, 3).double()
    load_model(double, path)
    assert double.weight.dtype == torch.float64
    assert torch.equal(double.weight.float(), model.weight)
    last = nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last)
    load_model(last, path)
    assert last.weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(last.weight, model.weight)


def test_weights_tied_in_the_model_but_not_in_the_file(path):
    model = Tied(1)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    save_file(state, path)
    other = Tied(2)
    assert load_model(other, path) == (set(), [])
    assert_equal_models(other, model)


@pytest.mark.parametrize("change", ["value", "dtype", "reshaped"])
def test_tied_weights_of_which_the_file_has_two_values(path, change):
    state = {name: tensor.clone() for name, tensor in Tied(1).state_dict().items()}
    if change == "value":
        state["head.weight"][3, 4] += 1
    elif change == "dtype":
        state["head.weight"] = (state["head.weight"] + 1).double()
    else:
        state["embed.weight"] = state["embed.weight"].half()
    save_file(state, path)
    with pytest.raises(RuntimeError, match='"embed.weight" and "head.weight" share') as caught:
        load_model(Tied(2), path)
    assert 'Unexpected key(s) in state_dict: "head.weight"' in str(caught.value)
    # Not strict: the first name counts, whatever the order in the file.
    for names in (list(state), list(reversed(state))):
        save_file({name: state[name] for name in names}, path)
        other = Tied(2)
        assert load_model(other, path, strict=False) == (set(), ["head.weight"])
        assert torch.equal(other.embed.weight, state["embed.weight"].float())


def test_tied_weights_of_another_dtype_that_are_equal(path):
    state = {name: tensor.clone() for name, tensor in Tied(1).state_dict().items()}
    state["head.weight"] = state["head.weight"].double()
    save_file(state, path)
    other = Tied(2)
    assert load_model(other, path) == (set(), [])
    assert_equal_models(other, Tied(1))


def test_views_of_one_memory_of_which_the_file_has_other_values(path):
    flat = torch.zeros(30)
    views = {"all": flat, "part": flat[10:20], "left": flat[:25], "right": flat[5:]}
    model = nn.ParameterDict({name: nn.Parameter(view) for name, view in views.items()})
    values = weights(30)
    good = {"all": values, "part": values[10:20], "left": values[:25], "right": values[5:]}
    save_file(good, path)
    assert load_model(model, path) == (set(), [])
    assert_same(flat, values)
    for name in ("part", "left", "right"):
        save_file({**good, name: good[name] + 1}, path)
        with pytest.raises(RuntimeError, match=f'"all" and "{name}" share memory'):
            load_model(model, path)
    # Without one that has all of it, either may have been overwritten.
    del model["all"], good["all"]
    save_file({**good, "right": values[5:] + 1}, path)
    with pytest.raises(RuntimeError, match="share memory in the model"):
        load_model(model, path)


def test_views_that_lie_between_one_another(path):
    flat = torch.zeros(30)
    model = nn.ParameterDict({"even": nn.Parameter(flat[::2]), "odd": nn.Parameter(flat[1::2])})
    save_file({"even": weights(15), "odd": weights(15, seed=2)}, path)
    assert load_model(model, path) == (set(), [])
    assert_same(flat[::2], weights(15))
    assert_same(flat[1::2], weights(15, seed=2))


def test_weights_tied_in_the_file_but_not_in_the_model(path):
    save_model(Tied(1), path)
    other = Tied(2)
    other.head.weight = nn.Parameter(other.head.weight.detach().clone())
    load_model(other, path)
    other.embed.weight.data.zero_()
    assert_same(other.head.weight, Tied(1).head.weight)


def test_parameters_that_are_views_of_one_memory(path):
    flat = torch.zeros(30)
    model = nn.ParameterDict({"a": nn.Parameter(flat[:20]), "b": nn.Parameter(flat[20:])})
    save_file({"a": weights(20), "b": weights(10, seed=2)}, path)
    load_model(model, path)
    assert torch.equal(flat, torch.cat([weights(20), weights(10, seed=2)]))


def test_old_names_that_a_module_translates(path):
    plain = nn.Linear(5, 5)
    old_style = torch.nn.utils.weight_norm(nn.Linear(5, 5))
    save_model(old_style, path)
    assert "weight_g" in load_file(path)
    new_style = torch.nn.utils.parametrizations.weight_norm(plain)
    assert load_model(new_style, path) == (set(), [])
    assert torch.allclose(new_style.weight, old_style.weight)


def test_batch_norm_without_its_counter_is_complete(path):
    model = nn.BatchNorm1d(4)
    state = model.state_dict()
    del state["num_batches_tracked"]
    save_file(state, path)
    assert load_model(nn.BatchNorm1d(4), path) == (set(), [])


def test_lazy_modules(path):
    save_model(nn.Linear(3, 4), path)
    lazy = nn.LazyLinear(4)
    load_model(lazy, path)
    assert_same(lazy.weight, load_file(path)["weight"])


def test_force_contiguous(path):
    model = nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last)
    save_model(model, path)
    assert_same(load_file(path)["weight"], model.weight)
    with pytest.raises(ValueError, match=r"use save_model\(..., force_contiguous=True\)"):
        save_model(model, path, force_contiguous=False)


def test_progress_and_checks(path):
    save_model(Tied(1), path)
    calls = []
    load_model(Tied(2), path, progress=lambda *call: calls.append(call))
    assert calls[-1][0] == calls[-1][1] > 0
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(cfck.ChecksumError):
        load_model(Tied(2), path)


def test_memory_of_one_model(path):
    """The peak of load_model stays far below two models; that of load_file shows the scale."""
    state = {f"{i}.weight": weights(1600, 1600, seed=i) for i in range(10)}
    save_file(state, path)
    program = textwrap.dedent(
        """
        import sys
        import torch
        import cfck.torch

        def peak_kib():
            # Not ru_maxrss: that one knows the size of the process before exec.
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

        model = torch.nn.Sequential(*(torch.nn.Linear(1600, 1600, bias=False) for _ in range(10)))
        before = peak_kib()
        if sys.argv[2] == "load_model":
            cfck.torch.load_model(model, sys.argv[1])
        else:
            model.load_state_dict(cfck.torch.load_file(sys.argv[1]))
        print(peak_kib() - before)
        """
    )
    grown = {}
    for how in ("load_model", "load_file"):
        command = [sys.executable, "-c", program, str(path), how]
        grown[how] = int(subprocess.run(command, check=True, capture_output=True).stdout)
    model_kib = 10 * 1600 * 1600 * 4 // 1024
    assert grown["load_file"] > 0.8 * model_kib
    assert grown["load_model"] < 0.4 * model_kib
