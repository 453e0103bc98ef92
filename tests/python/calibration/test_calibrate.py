"""cfck.calibrate: sensitivities and steps, and that the model is none the worse for it."""

import math

import cfck
import numpy as np
import pytest
import torch
from calibrated_models import Reader, contents, mlp, noise, small_conv
from torch import nn

pytestmark = pytest.mark.usefixtures("one_thread")


# Without data


@pytest.mark.parametrize(
    ("model", "distance", "source"),
    [
        (mlp, "kl", "64 x [32] white noise"),
        (small_conv, "kl", "64 x [3, 32, 32] smooth noise"),
        (Reader, "kl", "64 x [24] random tokens below 96"),
        (lambda: nn.LSTM(40, 32, batch_first=True), "cosine", "64 x [24, 40] white noise"),
        (lambda: nn.Conv1d(40, 32, 3), "cosine", "64 x [40, 256] smooth noise"),
    ],
)
def test_inputs_are_found_for_a_model(model, distance, source):
    model = model()
    before = contents(model)
    calibration = cfck.calibrate(model)
    assert contents(model) == before
    assert (calibration.distance, calibration.source) == (distance, source)
    assert calibration.n_examples == 64
    assert calibration.n_moment_examples == 0
    for name, tensor in model.state_dict().items():
        known = calibration[name]
        assert known.shape == tuple(tensor.shape)
        assert known.is_measured == (tensor.dim() >= 2)
        assert known.second_moment is None
        if known.is_measured:
            assert known.sensitivity > 0
            assert 0.2 < known.linearity < 5
            rms = tensor.double().square().mean().sqrt()
            assert known.sigma == pytest.approx(float(rms), rel=1e-12)


def test_generated_images_are_smooth_and_nearly_grey():
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Flatten(2), nn.AdaptiveAvgPool1d(1))
    moment = cfck.calibrate(model, moments=True)["0.weight"].second_moment[0].reshape(3, 9, 3, 9)
    assert moment[0, 4, 0, 4] == pytest.approx(1, abs=0.15)
    assert moment[0, 4, 1, 4] == pytest.approx(0.9, abs=0.15)
    assert 0.6 < moment[0, 3, 0, 4] < 0.95
    assert moment[0, 0, 0, 8] < moment[0, 3, 0, 4]


def test_moments_of_generated_inputs_on_request():
    calibration = cfck.calibrate(mlp(), moments=True)
    assert calibration.n_moment_examples == 64
    np.testing.assert_allclose(calibration["0.weight"].second_moment[0], np.eye(32), atol=1)
    assert calibration["0.weight"].sensitivity == cfck.calibrate(mlp())["0.weight"].sensitivity


def test_a_model_for_positions_longer_than_its_table_gets_fewer_tokens():
    assert cfck.calibrate(Reader(positions=9)).source == "64 x [8] random tokens below 96"


def test_sensitivities_are_those_of_the_quadratic_form():
    """A linear layer has a known relative error of its output: tr(E H E^T) / tr(W H W^T)."""
    model = nn.Sequential(nn.Linear(64, 128, bias=False))
    x = noise(500, 64) * torch.linspace(0.1, 3, 64)
    calibration = cfck.calibrate(model, [x], n_examples=500, distance="mse")
    weight = model[0].weight.detach().double()
    out = x.double() @ weight.T
    # A white error of the weight's own energy, seen at each row of the output.
    energy = weight.square().mean() * x.double().square().sum(1) * 128
    expected = float((energy / out.square().sum(1)).mean())
    assert calibration["0.weight"].sensitivity == pytest.approx(expected, rel=0.03)
    assert calibration["0.weight"].linearity == pytest.approx(1, abs=0.06)


def test_steps_follow_the_formula_and_are_capped():
    model = mlp()
    with torch.no_grad():
        model[0].weight[:, 1:] *= 1e-3
        model[2].weight *= 100.0
    calibration = cfck.calibrate(model)
    counted = {n: t for n, t in calibration.items() if t.is_measured and t.n_elems >= 1024}
    assert set(counted) == {"0.weight", "2.weight"}
    n_elems = sum(t.n_elems for t in counted.values())
    total = sum(t.sensitivity for t in counted.values())
    for tensor in calibration.values():
        if tensor.is_measured:
            ratio = (tensor.n_elems / n_elems) / (tensor.sensitivity / total)
            assert tensor.log2_step_uncapped == pytest.approx(0.5 * math.log2(ratio), abs=1e-12)
        else:
            assert tensor.log2_step == tensor.log2_step_uncapped == 0
        assert tensor.log2_step == min(max(tensor.log2_step_uncapped, -2), 2)
    weighed = sum(t.n_elems * 4.0**-t.log2_step_uncapped for t in counted.values())
    assert weighed == pytest.approx(n_elems)
    narrow = cfck.calibrate(model, cap_octaves=0.125)
    assert narrow["0.weight"].log2_step_uncapped == calibration["0.weight"].log2_step_uncapped
    assert {abs(narrow[name].log2_step) for name in counted} <= {0.125, *(
        abs(calibration[name].log2_step) for name in counted
    )}  # fmt: skip
    assert narrow.multipliers()["0.weight"] == 2.0 ** narrow["0.weight"].log2_step


def test_a_tensor_without_effect_gets_the_largest_step():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(64, 64), nn.Linear(64, 64)

        def forward(self, x):
            self.unused(x)
            return self.used(x)

    calibration = cfck.calibrate(Unused())
    assert calibration["unused.weight"].sensitivity == 0
    assert calibration["unused.weight"].log2_step == 2
    assert calibration.multipliers(capped=False)["unused.weight"] == math.inf
    assert calibration["used.weight"].log2_step == -0.5


def test_a_model_whose_output_is_constant_gets_flat_steps():
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 64)

        def forward(self, x):
            return self.layer(x) * 0 + 1

    tensor = cfck.calibrate(Constant())["layer.weight"]
    assert (tensor.sensitivity, tensor.log2_step, tensor.log2_step_uncapped) == (0, 0, 0)
    assert math.isnan(tensor.linearity)


def test_numbers_depend_on_the_seed_alone(path, tmp_path):
    model = small_conv()
    torch.manual_seed(11)
    cfck.calibrate(model, seed=3).save(path)
    torch.manual_seed(12)
    cfck.calibrate(model, seed=3).save(tmp_path / "again.cfck")
    assert path.read_bytes() == (tmp_path / "again.cfck").read_bytes()
    other = cfck.calibrate(model, seed=4)["0.weight"].sensitivity
    assert other != cfck.load_calibration(path)["0.weight"].sensitivity


@pytest.mark.parametrize("make", [mlp, small_conv])
def test_defaults_of_torch_change_nothing(make, path, tmp_path):
    model = make().eval()
    cfck.calibrate(model).save(path)
    with torch.device("meta"):
        cfck.calibrate(model).save(tmp_path / "device.cfck")
    torch.set_default_dtype(torch.float64)
    try:
        cfck.calibrate(model).save(tmp_path / "dtype.cfck")
    finally:
        torch.set_default_dtype(torch.float32)
    for name in ("device.cfck", "dtype.cfck"):
        assert (tmp_path / name).read_bytes() == path.read_bytes()


def test_models_that_draw_random_numbers_are_measured_without_their_noise():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 64)

        def forward(self, x):
            return self.layer(x) + torch.randn(len(x), 64)

    model = Noisy()
    state = torch.get_rng_state()
    tensor = cfck.calibrate(model, distance="mse")["layer.weight"]
    assert torch.equal(torch.get_rng_state(), state)
    assert 0 < tensor.sensitivity < 1


# A calibration must leave the model as it was


def test_modes_gradients_and_frozen_weights_stay_as_they_were():
    model = small_conv()
    model.train()
    model[1].eval()
    model[0].weight.requires_grad_(False)
    model[4].weight.grad = torch.ones_like(model[4].weight)
    model(noise(4, 3, 16, 16)).sum().backward()
    before, modes = contents(model), [m.training for m in model.modules()]
    gradient = model[4].weight.grad.clone()
    version = model[0].weight._version
    calibration = cfck.calibrate(model, [noise(4, 3, 16, 16)], loss="sampled")
    assert calibration["0.weight"].gradient_energy.shape == (16,)
    assert contents(model) == before
    assert [m.training for m in model.modules()] == modes
    assert [p.requires_grad for p in model.parameters()] == [False] + [True] * 7
    assert torch.equal(model[4].weight.grad, gradient)
    assert model[0].weight._version == version
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
@pytest.mark.parametrize("call", [4, 5, 6, 8])
def test_weights_are_restored_whatever_ends_the_call(error, call):
    class Fragile(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = mlp()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls == call:
                raise error("stopped here")
            return self.layers(x)

    model = Fragile()
    with torch.no_grad():
        model.layers[2].weight[0, 0] = math.nan
        model.layers[2].weight[0, 1] = -0.0
    # The NaN has a payload that arithmetic would lose.
    model.layers[2].weight.data.view(torch.int32)[0, 0] = 0x7FA12345
    before, modes = contents(model), [m.training for m in model.modules()]
    with pytest.raises(error, match="stopped here"):
        cfck.calibrate(
            model, [noise(4, 32)], output=lambda out: torch.nan_to_num(out), moments=False
        )
    assert contents(model) == before
    assert [m.training for m in model.modules()] == modes


def test_an_interrupt_from_progress_ends_the_call():
    model = mlp()
    before = contents(model)
    seen = []

    def stop(done, total, name):
        seen.append((done, total, name))
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cfck.calibrate(model, progress=stop)
    assert seen[-1] == (2, 3, "2.weight")
    assert (1, 3, "0.weight") in seen
    assert contents(model) == before


def test_not_finite_values_that_do_no_harm_stay():
    model = nn.Sequential(nn.Embedding(64, 32), nn.Linear(32, 32))
    model[0].weight.data[3, 4] = math.inf
    model[0].weight.data.view(torch.int32)[3, 5] = 0x7FA12345  # a NaN with a payload
    before = contents(model)
    with pytest.raises(cfck.InvalidArgumentError, match="batch 0.*NaN or infinities"):
        cfck.calibrate(model, [torch.arange(64)])
    assert contents(model) == before
    calibration = cfck.calibrate(model, [torch.arange(4, 64)])
    assert contents(model) == before
    assert 0.9 < calibration["0.weight"].sigma < 1.1
    assert calibration["0.weight"].sensitivity > 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_dtypes(dtype):
    model = mlp().to(dtype)
    before = contents(model)
    calibration = cfck.calibrate(model, [noise(16, 32).to(dtype)])
    assert contents(model) == before
    plain = cfck.calibrate(mlp(), [noise(16, 32)])
    for name, tensor in calibration.items():
        if tensor.is_measured:
            assert tensor.sensitivity == pytest.approx(plain[name].sensitivity, rel=0.5)


def test_all_zero_tensors_are_not_measured():
    model = mlp()
    model[2].weight.data.zero_()
    tensor = cfck.calibrate(model, distance="mse")["2.weight"]
    assert not tensor.is_measured
    assert (tensor.sigma, tensor.log2_step) == (0, 0) or math.isnan(tensor.sigma)


# Tied weights


def test_tied_weights_are_probed_once_and_known_under_all_names(path):
    model = Reader()
    names, done = [], {0}

    def note(n_done, total, name):
        if n_done not in done:
            done.add(n_done)
            names.append(name)

    calibration = cfck.calibrate(model, [torch.arange(48).reshape(2, 24)], progress=note)
    assert names.count("words.weight") == 1
    assert "head.weight" not in names
    assert calibration["head.weight"].tied_to == "words.weight"
    calibration.save(path)
    for one in (calibration, cfck.load_calibration(path)):
        words, head = one["words.weight"], one["head.weight"]
        assert words.sensitivity == head.sensitivity
        assert words.log2_step == head.log2_step
        assert words.second_moment.shape == head.second_moment.shape == (1, 32, 32)
        assert words.row_frequency[:48] == pytest.approx(1 / 48)
        assert not words.row_frequency[48:].any()
    summary = cfck.torch.save_model(
        model, path, bits_per_weight=4, calibration=calibration, steps="feedback"
    )
    assert "words.weight" not in summary.kept_lossless
    assert 8 * path.stat().st_size < 7 * sum(t.numel() for t in model.parameters())
    # Counted once: the mean of 1 / m^2 over all values is 1.
    counted = [t for t in calibration.values() if t.tied_to is None and t.n_elems >= 1024
               and t.is_measured]  # fmt: skip
    weighed = sum(t.n_elems * 4.0**-t.log2_step_uncapped for t in counted)
    assert weighed == pytest.approx(sum(t.n_elems for t in counted))


# Refusals


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        (lambda: nn.Bilinear(40, 40, 4), {}, "refuses generated inputs.*does not show|its layers"),
        (lambda: nn.Sequential(nn.Linear(40, 7), nn.Linear(8, 40)), {}, r"refuses.*shape \[2, 40\]"
         r"|refuses.*shape \[2, 24, 40\].*pass batches=, or input_shape="),
        (mlp, {"input_shape": (31,)}, r"refuses generated inputs.*\[2, 31\].*pass batches=$"),
        (mlp, {"batches": []}, "there are no batches"),
        (mlp, {"batches": [torch.full((2, 32), math.nan)]}, "batch 0.*NaN"),
        (mlp, {"batches": [noise(2, 32)], "output": lambda out: None}, "output= returned NoneType"),
        (mlp, {"batches": [noise(2, 32)], "output": lambda out: out.sum()}, "a scalar"),
        (mlp, {"batches": [noise(2, 32)], "loss": lambda out, b: 1.0}, "loss must return one"),
        (mlp, {"batches": [noise(2, 32)], "loss": "kl"}, 'loss is a function or "sampled"'),
        (mlp, {"batches": [noise(2, 32)], "input_shape": (32,)}, "input_shape is for generated"),
        (mlp, {"loss": "sampled"}, "a loss needs batches"),
        (mlp, {"inputs": lambda batch: batch}, "inputs= splits batches"),
        (mlp, {"distance": "l2"}, "distance is one of auto, kl, cosine, mse, not 'l2'"),
        (mlp, {"pool": "max"}, "pool is one of"),
        (mlp, {"cap_octaves": math.inf}, "cap_octaves is finite"),
        (mlp, {"n_examples": 0}, "n_examples is at least 1"),
        (lambda: nn.Sequential(nn.Identity()), {}, "refuses generated inputs"),
        (mlp, {"distance": lambda a, b: math.nan}, "after small errors in tensor `0.weight`"),
    ],
)  # fmt: skip
def test_refusals(model, arguments, message):
    model = model()
    before = contents(model)
    with pytest.raises(cfck.InvalidArgumentError, match=message):
        cfck.calibrate(model, **arguments)
    assert contents(model) == before


def test_a_hidden_nan_is_named_by_its_tensor():
    class Ignoring(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.ignored = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            self.ignored(torch.full_like(x, math.nan))
            return self.used(x)

    with pytest.raises(cfck.InvalidArgumentError, match="second moment of tensor `ignored.weight`"):
        cfck.calibrate(Ignoring(), [noise(4, 8)])


def test_models_without_memory_are_refused():
    with pytest.raises(cfck.UnsupportedError, match="0.weight.*no memory of its own"):
        cfck.calibrate(nn.Sequential(nn.Linear(32, 32, device="meta")))
    with pytest.raises(cfck.UnsupportedError, match="0.weight"):
        cfck.calibrate(nn.Sequential(nn.LazyLinear(32)))
    with pytest.raises(TypeError, match="expected a torch.nn.Module"):
        cfck.calibrate({"a": torch.ones(3)})


def test_errors_of_the_model_on_given_batches_pass_through():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        cfck.calibrate(mlp(), [noise(4, 31)])


def test_a_distance_of_ones_own():
    model = mlp()
    seen = []

    def distance(before, after):
        seen.append((before.shape, after.shape))
        return float((before - after).square().mean())

    calibration = cfck.calibrate(model, [noise(4, 32), noise(2, 32)], distance=distance)
    assert calibration.distance == "custom"
    assert set(seen) == {((4, 10), (4, 10)), ((2, 10), (2, 10))}
    assert len(seen) % (2 * 2) == 0 and len(seen) >= 2 * 2 * 3
    assert calibration["0.weight"].sensitivity > 0


class Conv1D(nn.Module):
    """The Conv1D of transformers: a linear layer with its weight the other way round."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(before, after))
        self.bias = nn.Parameter(torch.zeros(after))

    def forward(self, x):
        return x @ self.weight + self.bias


def test_transposed_weights_say_so(path):
    x = noise(9, 12)
    calibration = cfck.calibrate(nn.Sequential(Conv1D(12, 5)), [x], loss=lambda out, _: out.mean())
    tensor = calibration["0.weight"]
    assert tensor.input_axis == 0
    np.testing.assert_allclose(tensor.second_moment[0], x.T @ x / 9, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(tensor.gradient_energy, np.full(5, 1 / 25), rtol=1e-5)
    model = nn.Sequential(nn.ConvTranspose1d(4, 6, 3, groups=2), nn.Conv1d(6, 4, 3, groups=2))
    calibration = cfck.calibrate(model, [noise(2, 4, 9)])
    assert [calibration[f"{i}.weight"].input_axis for i in (0, 1)] == [0, 1]
    calibration.save(path)
    loaded = cfck.load_calibration(path)
    assert [loaded[f"{i}.weight"].input_axis for i in (0, 1)] == [0, 1]


def test_layers_called_with_names_and_twice():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(32, 32)

        def forward(self, *, x):
            return self.layer(input=self.layer(input=x))

    model, x = Named(), noise(5, 32)
    calibration = cfck.calibrate(model, [{"x": x}])
    rows = torch.cat([x, model.layer(x).detach()]).double()
    assert calibration["layer.weight"].n_positions == 10
    np.testing.assert_allclose(
        calibration["layer.weight"].second_moment[0], rows.T @ rows / 10, rtol=1e-4, atol=1e-5
    )


def test_double_precision_is_measured():
    single = cfck.calibrate(mlp(), [noise(16, 32)])
    double = cfck.calibrate(mlp().double(), [noise(16, 32).double()])
    for name, tensor in single.items():
        assert double[name].is_measured == tensor.is_measured
        if tensor.is_measured:
            assert double[name].sensitivity == pytest.approx(tensor.sensitivity, rel=1e-2)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mlp()
        self.register_buffer("n_calls", torch.zeros(1))

    def forward(self, x):
        self.n_calls += 1
        return self.body(x)


def test_buffers_are_what_they_were():
    model = Counting()
    batches = [noise(16, 32, seed=i) for i in range(4)]
    calibration = cfck.calibrate(model, batches)
    assert float(model.n_calls) == 0
    cfck.refine(model, batches, calibration, bits_per_weight=4)
    assert float(model.n_calls) == 0


@pytest.mark.parametrize(
    ("batches", "arguments", "error", "message"),
    [
        (noise(4, 32), {}, cfck.InvalidArgumentError, "put a single batch into a list"),
        ([noise(0, 32)], {}, cfck.InvalidArgumentError, "batch 0 has no examples"),
        ([noise(4, 32)], {"n_examples": "a"}, TypeError, "n_examples is int"),
        ([noise(4, 32)], {"seed": "a"}, TypeError, "seed is int"),
        ([noise(4, 32)], {"max_moment_bytes": -5}, cfck.InvalidArgumentError, "at least 0"),
    ],
)
def test_arguments_of_the_wrong_kind(batches, arguments, error, message):
    with pytest.raises(error, match=message):
        cfck.calibrate(mlp(), batches, **arguments)


def test_refine_needs_batches():
    calibration = cfck.calibrate(mlp(), [noise(64, 32)])
    for batches, message in ((None, "not a NoneType"), ([noise(0, 32)], "has no examples")):
        with pytest.raises(cfck.InvalidArgumentError, match=message):
            cfck.refine(mlp(), batches, calibration, bits_per_weight=4)
