"""cfck.calibrate: sensitivities, second moments, and that the model is none the worse for it."""

import math
import threading

import cfck
import numpy as np
import pytest
import torch
from cfck.torch import save_model
from conftest import bits, records
from torch import nn
from torch.nn import functional


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def mlp(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                         nn.Linear(64, 10)).eval()  # fmt: skip


def small_conv() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.5),
        nn.Conv2d(16, 16, 3, stride=2, groups=4), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip


class Reader(nn.Module):
    """Tokens to logits; the head is the embedding."""

    def __init__(self, vocabulary: int = 96, positions: int = 24) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.words = nn.Embedding(vocabulary, 32)
        self.places = nn.Embedding(positions, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(32, vocabulary, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens, attention_mask=None):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        hidden = None if attention_mask is None else attention_mask == 0
        return {"logits": self.head(self.body(x, src_key_padding_mask=hidden))}


def contents(model: nn.Module) -> dict[str, bytes]:
    return {name: bits(tensor) for name, tensor in model.state_dict().items()}


def noise(*shape: int, seed: int = 5) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


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
    """Of a linear layer, the relative error of the output is known: tr(E H E^T) / tr(W H W^T)."""
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


# What a calibration must leave as it was


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
    assert seen == [(1, 3, "0.weight"), (2, 3, "2.weight")]
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
    names = []
    calibration = cfck.calibrate(
        model, [torch.arange(48).reshape(2, 24)], progress=lambda d, t, name: names.append(name)
    )
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
    # Counted once: the mean of 1 / m^2 over all values is 1.
    counted = [t for t in calibration.values() if t.tied_to is None and t.n_elems >= 1024
               and t.is_measured]  # fmt: skip
    weighed = sum(t.n_elems * 4.0**-t.log2_step_uncapped for t in counted)
    assert weighed == pytest.approx(sum(t.n_elems for t in counted))


# Second moments


def direct_moment(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """E[x x^T] of a 2-d convolution by unfold, each group for itself."""
    padded = functional.pad(x, layer._reversed_padding_repeated_twice)
    columns = functional.unfold(padded, layer.kernel_size, layer.dilation, 0, layer.stride)
    n, _, n_places = columns.shape
    groups = columns.reshape(n, layer.groups, -1, n_places).permute(1, 0, 3, 2)
    rows = groups.reshape(layer.groups, n * n_places, -1).double()
    return rows.transpose(1, 2) @ rows / (n * n_places)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.Conv2d(4, 8, 3, padding=1),
        lambda: nn.Conv2d(4, 8, (3, 2), stride=(2, 1), padding=(0, 3), dilation=(1, 2), groups=2),
        lambda: nn.Conv2d(8, 8, 5, groups=8, padding="same"),
        lambda: nn.Conv2d(6, 4, 1, stride=2),
    ],
)
def test_moments_of_convolutions_are_those_of_unfold(layer):
    layer = layer()
    batches = [noise(3, layer.in_channels, 9, 11, seed=s) for s in (1, 2)]
    calibration = cfck.calibrate(nn.Sequential(layer), batches)
    actual = calibration["0.weight"].second_moment
    expected = direct_moment(layer, torch.cat(batches))
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-5, atol=1e-5)
    diagonal = cfck.calibrate(nn.Sequential(layer), batches, max_dim=1)["0.weight"].second_moment
    if expected.shape[1] > 1:
        assert diagonal.shape == expected.shape[:2]
    np.testing.assert_allclose(
        np.diagonal(actual, axis1=1, axis2=2), diagonal.reshape(expected.shape[:2]), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: nn.Linear(7, 5), (6, 7)),
        (lambda: nn.Linear(7, 5), (2, 3, 7)),
        (lambda: nn.Conv1d(6, 4, 4, stride=3, padding=2, groups=2), (3, 6, 20)),
        (lambda: nn.Conv2d(4, 6, 3, padding=2, padding_mode="circular"), (2, 4, 7, 6)),
        (lambda: nn.Conv2d(4, 6, (2, 3), padding="same", dilation=2), (2, 4, 7, 6)),
        (lambda: nn.Conv2d(4, 6, 3), (4, 7, 6)),
        (lambda: nn.Conv3d(2, 4, (2, 3, 1), stride=(1, 2, 1), padding=1), (2, 2, 5, 6, 4)),
        (lambda: nn.ConvTranspose1d(4, 6, 5, stride=3, padding=1, output_padding=2), (2, 4, 8)),
        (lambda: nn.ConvTranspose2d(4, 6, (3, 2), stride=2, padding=(3, 1), groups=2,
                                    dilation=(2, 1), output_padding=(1, 0)), (2, 4, 5, 6)),
        (lambda: nn.ConvTranspose3d(2, 4, 2, stride=(1, 2, 2)), (2, 2, 3, 4, 3)),
    ],
)  # fmt: skip
def test_moments_give_the_energy_of_outputs(layer, shape):
    """For any weight W, the second moment of the outputs of a group is W H W^T."""
    torch.manual_seed(3)
    layer = layer().double()
    x = noise(*shape).double()
    calibration = cfck.calibrate(nn.Sequential(layer), [x], distance="mse")
    moment = torch.from_numpy(calibration["0.weight"].second_moment).double()
    with torch.no_grad():
        out = layer(x) - (layer.bias if isinstance(layer, nn.Linear) else
                          layer.bias.reshape(-1, *[1] * (layer(x).dim() - 2 + (x.dim() == 3 and
                          isinstance(layer, nn.Conv2d)))))  # fmt: skip
    axis = -1 if isinstance(layer, nn.Linear) else x.dim() - 1 - len(layer.kernel_size)
    groups = moment.shape[0]
    rows = out.movedim(axis, -1).reshape(-1, groups, out.shape[axis] // groups).transpose(0, 1)
    expected = rows.transpose(1, 2) @ rows / rows.shape[1]
    weight = layer.weight.detach()
    if "Transpose" in type(layer).__name__:
        weight = weight.unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)
    weight = weight.reshape(groups, weight.shape[0] // groups, -1)
    np.testing.assert_allclose(weight @ moment @ weight.transpose(1, 2), expected, rtol=1e-5,
                               atol=1e-6)  # fmt: skip
    assert calibration["0.weight"].n_positions == rows.shape[1]


def test_moments_do_not_depend_on_the_pieces(monkeypatch):
    import cfck._calibrate_moments as module

    model, x = small_conv(), [noise(3, 3, 20, 20)]
    whole = cfck.calibrate(model, x)
    for n_bytes in (1, 5000, 100_000):
        monkeypatch.setattr(module, "_PIECE_BYTES", n_bytes)
        pieces = cfck.calibrate(model, x)
        for name in ("0.weight", "4.weight", "8.weight"):
            assert pieces[name].n_positions == whole[name].n_positions
            np.testing.assert_allclose(
                pieces[name].second_moment, whole[name].second_moment, rtol=1e-4, atol=1e-5
            )


def test_masked_positions_do_not_count():
    model = Reader()
    tokens = torch.randint(0, 96, (4, 10), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(10) < torch.tensor([[10], [4], [7], [1]])).long()
    batches = [{"tokens": tokens, "attention_mask": mask}]
    one = cfck.calibrate(model, batches, loss="sampled")
    tokens[mask == 0] = 95
    two = cfck.calibrate(model, [{"tokens": tokens, "attention_mask": mask}], loss="sampled")
    assert one["body.layers.0.linear1.weight"].n_positions == 22
    used = np.bincount(tokens[mask == 1].numpy(), minlength=96) / 22
    np.testing.assert_allclose(two["words.weight"].row_frequency, used)
    for name in ("words.weight", "body.layers.0.self_attn.in_proj_weight",
                 "body.layers.0.linear2.weight"):  # fmt: skip
        assert one[name].sensitivity == pytest.approx(two[name].sensitivity, rel=1e-4)
        np.testing.assert_allclose(one[name].second_moment, two[name].second_moment, atol=1e-6)
    linear = "body.layers.0.linear1.weight"
    np.testing.assert_allclose(one[linear].gradient_energy, two[linear].gradient_energy, rtol=1e-3)


def test_gradient_energy_is_that_of_each_example_on_its_own():
    model = mlp()
    x, labels = noise(6, 32), torch.tensor([0, 1, 2, 3, 4, 5])

    def loss(returned, batch):
        return functional.cross_entropy(returned, batch[1])

    calibration = cfck.calibrate(
        model,
        [(x[:4], labels[:4]), (x[4:], labels[4:])],
        inputs=lambda batch: batch[0],
        loss=loss,
    )
    expected = torch.zeros(64, dtype=torch.float64)
    for position in range(6):
        out = model[2](model[1](model[0](x[position : position + 1])))
        after = functional.cross_entropy(model[4](model[3](out)), labels[position : position + 1])
        expected += torch.autograd.grad(after, out)[0][0].double().square() / 6
    np.testing.assert_allclose(calibration["2.weight"].gradient_energy, expected, rtol=1e-4)


def test_constant_inputs_give_singular_moments():
    model = mlp()
    calibration = cfck.calibrate(model, [torch.ones(8, 32)] * 2, loss="sampled")
    moment = calibration["0.weight"].second_moment
    np.testing.assert_array_equal(moment, np.ones((1, 32, 32)))
    assert np.linalg.matrix_rank(moment[0]) == 1
    zero = cfck.calibrate(model, [torch.zeros(8, 32)])
    assert not zero["0.weight"].second_moment.any()
    assert zero["0.weight"].sensitivity == 0
    assert zero["0.weight"].log2_step == 2


def test_memory_for_matrices_is_limited():
    model = mlp()
    full = 8 * (32 * 32 + 64 * 64)
    for limit, shapes in [(full, [(1, 32, 32), (1, 64, 64), (1, 64)]), (0, [(1, 32), (1, 64)])]:
        calibration = cfck.calibrate(model, [noise(4, 32)], max_moment_bytes=limit)
        moments = [t.second_moment for t in calibration.values() if t.second_moment is not None]
        assert [m.shape for m in moments][: len(shapes)] == shapes
    assert not any(
        t.second_moment is not None
        for t in cfck.calibrate(model, [noise(4, 32)], moments=False).values()
    )


def test_all_batches_count_for_moments_and_the_first_for_sensitivities():
    model = mlp()
    batches = [noise(8, 32, seed=s) for s in range(5)]
    calibration = cfck.calibrate(model, iter(batches), n_examples=16)
    assert (calibration.n_examples, calibration.n_moment_examples) == (16, 40)
    first = cfck.calibrate(model, batches[:2], n_examples=16)
    assert calibration["0.weight"].sensitivity == first["0.weight"].sensitivity
    rows = torch.cat(batches).double()
    np.testing.assert_allclose(
        calibration["0.weight"].second_moment[0], rows.T @ rows / 40, rtol=1e-5, atol=1e-6
    )


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
        (mlp, {"batches": [noise(2, 32)], "output": lambda out: None}, "output= gives NoneType"),
        (mlp, {"batches": [noise(2, 32)], "output": lambda out: out.sum()}, "without dimensions"),
        (mlp, {"batches": [noise(2, 32)], "loss": lambda out, b: 1.0}, "loss gives one number"),
        (mlp, {"batches": [noise(2, 32)], "loss": "kl"}, 'loss is a function or "sampled"'),
        (mlp, {"batches": [noise(2, 32)], "input_shape": (32,)}, "input_shape is for generated"),
        (mlp, {"loss": "sampled"}, "a loss needs batches"),
        (mlp, {"inputs": lambda batch: batch}, "inputs= takes apart batches"),
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
    with pytest.raises(TypeError, match="a model is a torch.nn.Module"):
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
    """As of transformers: a linear layer with its weight the other way round."""

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


# As a file


def test_a_calibration_is_a_file(path):
    model = small_conv()
    labels = torch.tensor([1, 2, 3, 4])
    calibration = cfck.calibrate(
        model, [noise(4, 3, 16, 16)], loss=lambda out, _: functional.cross_entropy(out, labels)
    )
    calibration.save(path)
    loaded = cfck.load_calibration(path)
    assert list(loaded) == list(calibration) == list(model.state_dict())
    assert repr(loaded) == repr(calibration)
    for fact in ("distance", "source", "n_examples", "n_moment_examples", "seed", "cap_octaves"):
        assert getattr(loaded, fact) == getattr(calibration, fact)
    for name, tensor in calibration.items():
        for field in tensor.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(loaded[name], field), getattr(tensor, field))
    assert {r.codec for r in records(path).values()} <= {"raw", "lossless"}
    assert "second_moment/4.weight" in records(path)
    loaded.save(path.with_name("again.cfck"))
    assert path.with_name("again.cfck").read_bytes() == path.read_bytes()


def test_digests_are_those_of_files_of_the_model(path):
    model = mlp().to(torch.bfloat16)
    calibration = cfck.calibrate(model)
    save_model(model, path)
    for name, record in records(path).items():
        if calibration[name].is_measured:
            assert (record.digest, record.dtype) == (
                calibration[name].digest,
                calibration[name].dtype,
            )


def test_another_model_is_refused():
    calibration = cfck.calibrate(mlp())
    state = mlp().state_dict()
    calibration.check(state)
    calibration.check({name: tensor.numpy() for name, tensor in state.items()})
    calibration.check({name: tensor.half() for name, tensor in state.items()})
    calibration.check(mlp(1).state_dict(), values=False)
    with pytest.raises(cfck.InvalidArgumentError, match="tensor `0.weight`.*other values"):
        calibration.check(mlp(1).state_dict())
    with pytest.raises(cfck.InvalidArgumentError, match=r"`0.weight`.*\[64, 32\], here \[32, 64\]"):
        calibration.check({**state, "0.weight": state["0.weight"].T})
    with pytest.raises(cfck.InvalidArgumentError, match="`extra`.*no such tensor") as caught:
        calibration.check({**state, "extra": torch.ones(3)})
    assert caught.value.record == "extra"
    part = {name: tensor for name, tensor in state.items() if name != "4.bias"}
    calibration.check(part, complete=False)
    with pytest.raises(cfck.InvalidArgumentError, match="`4.bias`.*missing"):
        calibration.check(part)


def test_a_calibration_for_other_names(path):
    model = Reader()
    calibration = cfck.calibrate(model).renamed(lambda name: f"model.{name}")
    calibration.check({f"model.{name}": t for name, t in model.state_dict().items()})
    assert calibration["model.head.weight"].tied_to == "model.words.weight"
    calibration.save(path)
    assert repr(cfck.load_calibration(path)) == repr(calibration)
    with pytest.raises(cfck.InvalidArgumentError, match="the same name"):
        calibration.renamed(lambda name: "x")


def damaged(path, change):
    """The file of a calibration with one thing changed by hand."""
    import cfck.numpy

    with cfck.safe_open(path, "np") as file:
        metadata, arrays = file.metadata(), file.get_tensors()
    change(metadata, arrays)
    cfck.numpy.save_file(arrays, path, metadata)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda m, a: m.pop("format"), cfck.InvalidArgumentError, "is no calibration"),
        (lambda m, a: m.update(version="2"), cfck.UnsupportedError, "version 2; this is version 1"),
        (lambda m, a: m.pop("tensors"), cfck.CorruptError, "'tensors'"),
        (lambda m, a: m.update(tensors="[" * 9999), cfck.CorruptError, "no JSON"),
        (lambda m, a: m.update(tensors="{}"), cfck.CorruptError, "no list"),
        (lambda m, a: m.update(tensors="[3,3,3,3,3,3]"), cfck.CorruptError, "no object"),
        (lambda m, a: m.update(calibration='{"cap_octaves":NaN}'), cfck.CorruptError, "no JSON"),
        (lambda m, a: m.update(calibration='{"cap_octaves":-1}'), cfck.CorruptError, "cap"),
        (lambda m, a: m.update(calibration='{"cap_octaves":2}'), cfck.CorruptError, "distance"),
        (lambda m, a: a.pop("sigma"), cfck.CorruptError, "`sigma` is not 6 F64"),
        (lambda m, a: a.update(sigma=np.ones(5)), cfck.CorruptError, "`sigma` is not 6 F64"),
        (lambda m, a: a.update(log2_step=np.full(6, np.nan)), cfck.CorruptError, "beyond the cap"),
        (lambda m, a: a.update(other=np.ones(5)), cfck.CorruptError, "`other` belongs to no"),
        (lambda m, a: a.update({"second_moment/0.weight": np.ones((1, 32, 31), np.float32)}),
         cfck.CorruptError, r"second_moment/0.weight` is float32 of \[1, 32, 31\]"),
        (lambda m, a: a.update({"second_moment/0.weight": np.ones((1, 31, 31), np.float32)}),
         cfck.CorruptError, "second_moment/0.weight`"),
        (lambda m, a: a.update({"second_moment/0.weight": np.ones((0, 32), np.float32)}),
         cfck.CorruptError, "second_moment/0.weight`"),
        (lambda m, a: a.update({"second_moment/0.weight": np.ones((), np.float32)}),
         cfck.CorruptError, "second_moment/0.weight`"),
        (lambda m, a: a.update({"row_frequency/0.weight": np.ones(9)}), cfck.CorruptError, "row_"),
        (lambda m, a: m.update(tensors=m["tensors"].replace("[64,32]", "[64,-32]")),
         cfck.CorruptError, "shape of `0.weight`"),
        (lambda m, a: m.update(tensors=m["tensors"].replace('"0.bias"', '"0.weight"')),
         cfck.CorruptError, "two tensors|belongs"),
        (lambda m, a: m.update(tensors=m["tensors"].replace('"0.bias"', '"0.bias","tied_to":"x"')),
         cfck.CorruptError, "`0.bias` is tied to `x`"),
    ],
)  # fmt: skip
def test_damaged_calibrations_are_refused(path, change, error, message):
    cfck.calibrate(mlp(), [noise(4, 32)]).save(path)
    damaged(path, change)
    with pytest.raises(error, match=message):
        cfck.load_calibration(path)


def test_calibrations_are_made_in_other_threads_too():
    results = []
    model = mlp()
    thread = threading.Thread(target=lambda: results.append(cfck.calibrate(model)))
    thread.start()
    thread.join()
    assert results[0]["0.weight"].sensitivity == cfck.calibrate(mlp())["0.weight"].sensitivity
