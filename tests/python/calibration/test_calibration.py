"""Calibrations: the second moments of inputs, and what becomes of them as files."""

import dataclasses
import sys
import threading

import cfck
import cfck.torch
import numpy as np
import pytest
import torch
from calibrated_models import Reader, mlp, noise, small_conv
from cfck.torch import save_model
from conftest import records
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.usefixtures("one_thread")


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
    import cfck._calibration.moments as module

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


class FixedLength(nn.Module):
    """Takes no fewer rows than it was made for."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(40, 32, generator=torch.Generator().manual_seed(0)))
        self.head = nn.Linear(32, 8)

    def forward(self, x):
        return self.head(x + self.places)


@pytest.mark.parametrize("make", [lambda x: x, lambda x: (x,), lambda x: {"input": x}])
def test_sensitivities_need_no_more_than_the_first_examples_of_a_large_batch(make):
    model = nn.Linear(32, 16)
    rows = noise(40, 32)
    calibration = cfck.calibrate(model, [make(rows)], n_examples=16)
    assert (calibration.n_examples, calibration.n_moment_examples) == (16, 40)
    first = cfck.calibrate(model, [make(rows[:16])], n_examples=16)
    assert calibration["weight"].sensitivity == first["weight"].sensitivity


def test_batches_that_cannot_be_cut_are_taken_whole():
    assert cfck.calibrate(FixedLength(), [noise(40, 32)], n_examples=16).n_examples == 40
    pairs = nn.Bilinear(32, 32, 8)
    calibration = cfck.calibrate(pairs, [(noise(40, 32), noise(40, 32))], n_examples=16)
    assert calibration.n_examples == 16
    attention = nn.Transformer(32, 2, 1, 1, 64)
    calibration = cfck.calibrate(attention, [(noise(40, 1, 32), noise(7, 1, 32))], n_examples=16)
    assert (
        calibration.n_examples == 40
    )  # two lengths: the leading dimension is not that of examples


@pytest.mark.parametrize(
    ("layer", "given"),
    [
        (nn.Conv2d(3, 8, 3, padding=1), noise(40, 3, 24, 24)),
        (nn.Conv2d(6, 8, (1, 3), stride=(2, 1), groups=2), noise(40, 6, 24, 24)),
        (nn.Conv1d(4, 8, 5, dilation=2), noise(40, 4, 500)),
        (nn.ConvTranspose2d(3, 8, 3, stride=2), noise(40, 3, 12, 12)),
    ],
)
def test_moments_of_many_positions_are_those_of_a_sample(layer, given, monkeypatch):
    # Neighbours that are alike, as in images.
    given = given.cumsum(2) / 5 + 1
    sampled = cfck.calibrate(layer, [given], distance="mse")["weight"]
    columns = sampled.second_moment.shape[1]
    assert sampled.n_positions == max(64 * columns, 4096)
    monkeypatch.setattr("cfck._calibration.moments._POSITIONS_BY_COLUMN", 1 << 40)
    whole = cfck.calibrate(layer, [given], distance="mse")["weight"]
    assert whole.n_positions > 1.3 * sampled.n_positions
    for own, all_of_them in zip(sampled.second_moment, whole.second_moment, strict=True):
        scale = np.sqrt(np.outer(all_of_them.diagonal(), all_of_them.diagonal()))
        assert np.abs(own - all_of_them).max() < 0.1 * scale.max()
        assert np.trace(own) == pytest.approx(np.trace(all_of_them), rel=0.05)


# Files of calibrations


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


def test_writers_use_arrays_where_they_are():
    calibration = cfck.calibrate(small_conv(), [noise(4, 3, 16, 16)])
    state = small_conv().state_dict()
    expected = cfck.torch.save(state, calibration=calibration, bits_per_weight=3)
    moment = calibration["4.weight"].second_moment
    before = sys.getrefcount(moment)
    native = calibration._for_library()
    assert sys.getrefcount(moment) == before + 1
    del native
    assert sys.getrefcount(moment) == before
    # Other layouts of the same numbers give the same bytes.
    for other in (
        np.asfortranarray(moment),
        moment.astype(">f4"),
        np.repeat(moment, 2, 2)[..., ::2],
    ):
        changed = dataclasses.replace(calibration["4.weight"], second_moment=other)
        again = _with(calibration, {"4.weight": changed})
        assert cfck.torch.save(state, calibration=again, bits_per_weight=3) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"log2_step": 41.0},
        {"log2_step": float("nan")},
        {"second_moment": np.zeros((4, 36, 36))},
        {"second_moment": np.zeros((4, 36, 36), np.float16)},
        {"second_moment": np.zeros((4, 36, 35, 1), np.float32)},
        {"second_moment": np.full((4, 36, 36), np.inf, np.float32)},
        {"corrected": np.zeros((3, 3), np.float32)},
    ],
)
def test_writers_refuse_what_does_not_fit(path, change):
    calibration = cfck.calibrate(small_conv(), [noise(4, 3, 16, 16)])
    changed = dataclasses.replace(calibration["4.weight"], **change)
    again = _with(calibration, {"4.weight": changed})
    state = small_conv().state_dict()
    with pytest.raises(cfck.CorruptError, match="the calibration is invalid") as from_memory:
        cfck.torch.save(state, calibration=again, bits_per_weight=3)
    again.save(path)
    with pytest.raises(cfck.CorruptError, match="the calibration is invalid") as from_file:
        cfck.torch.save(state, calibration=path, bits_per_weight=3)
    assert str(from_memory.value) == str(from_file.value)


def _with(calibration, tensors):
    return cfck.Calibration({**calibration, **tensors}, **calibration._facts())


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
    with pytest.raises(
        cfck.InvalidArgumentError, match=r"`0.weight`.*\[64, 32\] there, but \[32, 64\] here"
    ):
        calibration.check({**state, "0.weight": state["0.weight"].T})
    with pytest.raises(cfck.InvalidArgumentError, match="`extra`.*does not have") as caught:
        calibration.check({**state, "extra": torch.ones(3)})
    assert caught.value.record == "extra"
    part = {name: tensor for name, tensor in state.items() if name != "4.bias"}
    calibration.check(part, complete=False)
    with pytest.raises(cfck.InvalidArgumentError, match="`4.bias`.*missing"):
        calibration.check(part)


@pytest.mark.parametrize(
    "options",
    [
        {"bits_per_weight": 4},
        {"quality": "high"},
        {"nmse": 1e-3},
        {"bits_per_weight": 4, "steps": "flat"},
        {"bits_per_weight": 4, "steps": "model"},
        {"rules": {"*": {"bits_per_weight": 4}}},
    ],
)
@pytest.mark.parametrize("given", [None, [noise(4, 3, 16, 16)]])
def test_writers_refuse_a_calibration_of_another_model(options, given):
    """Also where nothing of it is used: steps of models come before those of noise."""
    state = small_conv().state_dict()
    calibration = cfck.calibrate(small_conv(), given, input_shape=None if given else (3, 16, 16))
    cfck.torch.save(state, calibration=calibration, **options)
    with pytest.raises(cfck.InvalidArgumentError, match="does not have this tensor.*'other'"):
        cfck.torch.save({"other": torch.randn(64, 64)}, calibration=calibration, **options)
    other_shape = {**state, "4.weight": torch.randn(64, 64)}
    with pytest.raises(cfck.InvalidArgumentError, match="another shape in the calibration"):
        cfck.torch.save(other_shape, calibration=calibration, **options)


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
        (lambda m, a: m.pop("format"), cfck.InvalidArgumentError, "is not a calibration file"),
        (lambda m, a: m.update(version="2"), cfck.UnsupportedError, "version 2; this is version 1"),
        (lambda m, a: m.pop("tensors"), cfck.CorruptError, "'tensors'"),
        (lambda m, a: m.update(tensors="[" * 9999), cfck.CorruptError, "no JSON"),
        (lambda m, a: m.update(tensors="{}"), cfck.CorruptError, "not a list"),
        (lambda m, a: m.update(tensors="[3,3,3,3,3,3]"), cfck.CorruptError, "not an object"),
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
