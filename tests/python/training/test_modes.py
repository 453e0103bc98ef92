"""Training under other defaults and modes of PyTorch, and calls that are interrupted in it."""

import contextlib
import copy
import sys

import cfck.torch
import pytest
import torch
from cfck.errors import InvalidArgumentError
from cfck.train import SpectralModel, compress_weights, decompress_weights, spectral
from torch import nn
from torch.nn.utils import parametrize
from trained_models import images, network, same, train

pytestmark = pytest.mark.usefixtures("one_thread")


@contextlib.contextmanager
def _default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _gradients(q: SpectralModel, x: torch.Tensor) -> list[torch.Tensor]:
    loss = q.model(x).square().mean() + q.bits_per_weight()
    loss.backward()
    return [p.grad.clone() for p in q.model.parameters()]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_default_dtypes(dtype):
    """Memory that native code fills with float32 values had the default one."""
    model, x = network(), images()
    expected = _gradients(spectral(copy.deepcopy(model), bits=4), x)
    with _default_dtype(dtype):
        q = spectral(model, bits=4)
        found = _gradients(q, x)
        q.snap()
    assert all(step.dtype == torch.float32 for step in q.parameters())
    assert all(map(same, found, expected))
    q.to_bytes()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_trellises_under_default_dtypes(tmp_path, dtype):
    q = spectral(network(), bits=4)
    scores = iter(range(9))
    with _default_dtype(dtype):
        q.finish(lambda model: next(scores))
        q.save(tmp_path / "model.cfck")
    assert q.places[0].weight.trellised is not None
    q.model(images()).sum().backward()  # DistributedDataParallel waits for all gradients
    assert all(p.grad is not None for p in q.model.parameters() if p.requires_grad)
    q.remove()
    assert same(cfck.torch.load_file(tmp_path / "model.cfck")["0.weight"], q.model[0].weight)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_tied_weights_are_quantised_once_when_they_become_plain(dtype):
    torch.manual_seed(1)
    first, second = (nn.Conv2d(16, 16, 3, bias=False).to(dtype) for _ in range(2))
    second.weight = first.weight
    q = spectral(nn.Sequential(first, second), bits=12)
    q.finish()
    wanted = q.state_dict()["0.weight"].clone()
    model = q.remove()
    assert model[0].weight is model[1].weight
    assert same(model[1].weight, wanted)


def test_default_devices():
    q = spectral(network(), bits=4)
    expected = q.describe()
    with torch.device("meta"):
        assert q.describe() == expected
        q.fit_rate()
        q.snap()
        q.finish()
        q.to_bytes()


def test_inference_mode(tmp_path):
    model = network()
    with torch.inference_mode():
        q = spectral(model, bits=4)
        q.describe()
        q.bits_per_weight()
    train(q, 2)
    state = q.training_state_dict()
    with torch.inference_mode():
        q.fit_rate()
        q.snap()
        q.load_training_state_dict(state)
    train(q, 2)
    with torch.inference_mode():
        q.finish(lambda model: float(model(images()).sum()), norm_batches=[images()])
        q.save(tmp_path / "model.cfck")
    q.model(images()).sum().backward()
    with torch.inference_mode():
        q.remove()
    assert all(p.requires_grad and not p.is_inference() for p in model.parameters())
    model(images()).sum().backward()
    other = cfck.torch.load_file(tmp_path / "model.cfck")
    assert same(other["0.weight"], model[0].weight)


def test_lists_may_be_generators():
    excluded = spectral(network(), bits=4, exclude=(f"{i}.*" for i in (3,)))
    assert [place.name for place in excluded.places] == ["0.weight", "7.weight"]
    included = spectral(network(), bits=4, include=(f"{i}.weight" for i in (3,)))
    assert [place.name for place in included.places] == ["3.weight"]
    learned = spectral(network(), bits=4, learn=iter(["weights"]), fields=iter(["rows"]))
    assert learned.places[0].original().requires_grad
    assert learned.places[0].weight.rows.numel() and not learned.places[0].weight.bands.numel()


@pytest.mark.parametrize("bits", [9, 10, 12, 16, 24])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("block", [None, (8, 8)])
def test_steps_that_are_fine_for_a_dtype(tmp_path, dtype, bits, block):
    """Values may be too far from multiples of steps to be quantised to the same ones again."""
    torch.manual_seed(1)
    make = (lambda: nn.Conv2d(32, 32, 3)) if block is None else (lambda: nn.Linear(64, 64))
    model = make().to(dtype)
    q = spectral(model, bits=bits, block=block)
    q.finish()
    q.save(tmp_path / "model.cfck")
    wanted = q.state_dict()["weight"]
    assert same(cfck.torch.load_file(tmp_path / "model.cfck")["weight"], wanted)
    other = make().to(dtype)
    decompress_weights(other, compress_weights(model))
    assert same(other.weight, wanted)
    stored = float(q.bits_per_weight())
    assert stored < 8 * wanted.element_size() + 0.5


class _Stop(KeyboardInterrupt):
    pass


def _interrupted(call, n_lines: int) -> bool:
    """Whether the call was interrupted at that line of the code of PyTorch or of this package."""
    left = n_lines

    def trace(frame, event, _):
        nonlocal left
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("torch.nn.utils.parametrize", "cfck._training")):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise _Stop
        return trace

    sys.settrace(trace)
    try:
        call()
    except _Stop:
        return True
    finally:
        sys.settrace(None)
        torch.set_grad_enabled(True)  # the line may have been that of torch.no_grad() itself
    return False


def _small() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))


def test_a_start_that_is_interrupted_leaves_a_plain_model():
    n_lines, x = 1, torch.randn(2, 16)
    expected = _small()(x)
    while True:
        model = _small()
        if not _interrupted(lambda model=model: spectral(model, learn=("steps",)), n_lines):
            break
        if not any(parametrize.is_parametrized(layer) for layer in model):
            assert [type(layer) for layer in model] == [nn.Linear, nn.Linear]
            assert all(p.requires_grad for p in model.parameters())
            assert same(model(x), expected)
            spectral(model)
        else:
            pytest.fail(f"interrupted at line {n_lines}: half parametrised")
        n_lines += 7
    assert n_lines > 100


def test_a_removal_that_is_interrupted_is_completed_by_another():
    n_lines, x = 1, torch.randn(2, 16)
    while True:
        q = spectral(_small(), bits=4)
        q.finish()
        expected = q.model(x)
        if not _interrupted(q.remove, n_lines):
            break
        with contextlib.suppress(InvalidArgumentError):
            q.state_dict()
        with contextlib.suppress(InvalidArgumentError):  # it was removed before
            q.remove()
        assert not any(parametrize.is_parametrized(layer) for layer in q.model)
        assert all(p.requires_grad for p in q.model.parameters())
        assert same(q.model(x), expected)
        n_lines += 3
    assert n_lines > 20


def test_handles_of_models_that_another_has_made_plain():
    first = spectral(network(), bits=4)
    SpectralModel(first.model).remove()
    for call in (first.state_dict, first.fit_rate, first.snap, first.to_bytes, first.describe):
        with pytest.raises(InvalidArgumentError, match="no longer parametrised"):
            call()
    first.remove()


def test_operators_refuse_tensors_of_two_devices():
    weights, empty = torch.randn(16, 16), torch.zeros(0)
    steps = [torch.tensor(-4.0), empty, empty, empty]
    for i in (0, 1):
        mixed = [s.to("meta") if n == i else s for n, s in enumerate(steps)]
        with pytest.raises((ValueError, RuntimeError), match="one device"):
            torch.ops.cfck.quantise(weights, *mixed, [], 0.0)


@pytest.mark.parametrize("octaves", [130.0, -130.0, 1e7, float("nan")])
def test_steps_that_are_no_numbers_of_32_bits(octaves):
    q = spectral(network(), bits=4)
    with torch.no_grad():
        q.places[0].weight.columns[0] = octaves
    with pytest.raises(FloatingPointError, match="step"):
        q.fit_rate()
    with pytest.raises(FloatingPointError, match="is step_lr small enough"):
        q.model(images())
