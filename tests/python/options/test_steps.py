"""Steps of codec spectral by preset or calibration."""

import cfck
import numpy as np
import pytest

torch = pytest.importorskip("torch")


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 32, 3, padding=1),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * 64, 10),
    )


def squared_error(tensors, file):
    loaded = cfck.torch.load(file)
    return sum(float(((loaded[name] - t) ** 2).sum()) for name, t in tensors.items())


@pytest.fixture(scope="module")
def calibration():
    batches = [torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(1))]
    return cfck.calibrate(model(), batches)


def test_a_calibration_changes_the_steps(calibration, tmp_path):
    tensors = model().state_dict()
    flat = cfck.torch.save(tensors, bits_per_weight=3, steps="flat")
    calibrated = cfck.torch.save(tensors, bits_per_weight=3, calibration=calibration)
    assert calibrated != flat
    assert abs(len(calibrated) - len(flat)) < 0.02 * len(flat)
    # The sum of squared errors is no longer what is least.
    assert squared_error(tensors, calibrated) > squared_error(tensors, flat)
    calibration.save(tmp_path / "model.calibration.cfck")
    for path in (tmp_path / "model.calibration.cfck", str(tmp_path / "model.calibration.cfck")):
        assert cfck.torch.save(tensors, bits_per_weight=3, calibration=path) == calibrated
    assert (
        cfck.torch.save(tensors, bits_per_weight=3, calibration=calibration, steps="flat") == flat
    )


def test_a_calibration_of_another_model_is_refused(calibration):
    tensors = {name: t * 1.5 for name, t in model().state_dict().items()}
    with pytest.raises(cfck.InvalidArgumentError, match="2.weight"):
        cfck.torch.save({"2.weight": tensors["2.weight"]}, nmse=0.01, calibration=calibration)
    with pytest.raises(cfck.InvalidArgumentError, match="other.weight"):
        cfck.torch.save({"other.weight": tensors["2.weight"]}, nmse=0.01, calibration=calibration)


def test_a_calibration_without_a_target_is_refused(calibration):
    tensors = model().state_dict()
    for options in ({}, {"max_abs_error": 1e-3}, {"rules": {"*": {"max_abs_error": 1e-3}}}):
        with pytest.raises(
            cfck.InvalidArgumentError, match="calibration needs a quality or a target"
        ):
            cfck.torch.save(tensors, calibration=calibration, **options)
    rules = {"2.weight": {"bits_per_weight": 3}}
    assert cfck.torch.save(tensors, calibration=calibration, rules=rules) != cfck.torch.save(
        tensors
    )


def test_presets_need_no_calibration():
    tensors = model().state_dict()
    files = {
        steps: cfck.torch.save(tensors, bits_per_weight=3, steps=steps)
        for steps in ("flat", "prior", "model")
    }
    assert len(set(files.values())) == 3
    assert cfck.torch.save(tensors, bits_per_weight=3) == files["model"]
    flat = cfck.torch.save(tensors, nmse=0.01, steps="flat")
    assert cfck.torch.save(tensors, nmse=0.01) == flat
    rules = {"2.weight": {"bits_per_weight": 3, "steps": "prior"}}
    assert cfck.torch.save(tensors, rules=rules) != cfck.torch.save(
        tensors, rules={"2.weight": {"bits_per_weight": 3, "steps": "flat"}}
    )


def relative_error(tensors, file):
    loaded = cfck.torch.load(file)
    return max(float((loaded[n] - t).norm() / t.norm()) for n, t in tensors.items() if t.ndim > 1)


def test_qualities_are_steps_relative_to_the_values(calibration):
    tensors = model().state_dict()
    words = ("near-lossless", "high", "balanced", "small")
    for options in ({}, {"calibration": calibration}, {"calibration": cfck.calibrate(model())}):
        files = [cfck.torch.save(tensors, quality=word, **options) for word in words]
        errors = [relative_error(tensors, file) for file in files]
        assert sorted(map(len, files), reverse=True) == list(map(len, files))
        assert errors == sorted(errors)
        assert errors[0] < 0.01 < errors[3] < 0.25
    # The scale of the values does not matter.
    larger = {name: 8 * t for name, t in tensors.items()}
    assert len(cfck.torch.save(larger, quality="high")) == pytest.approx(
        len(cfck.torch.save(tensors, quality="high")), rel=0.01
    )


class Words(torch.nn.Module):
    """Takes tokens, which calibrate() can generate."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.words = torch.nn.Embedding(96, 32)
        self.hidden = torch.nn.Linear(32, 128)
        self.out = torch.nn.Linear(128, 96)

    def forward(self, tokens):
        return self.out(torch.relu(self.hidden(self.words(tokens))))


def test_noise_says_less_than_names_and_sizes():
    tensors = model().state_dict()
    of_noise = cfck.calibrate(model())
    for options in ({"quality": "balanced"}, {"bits_per_weight": 3}, {"size": "40kB"}):
        plain = cfck.torch.save(tensors, **options)
        assert cfck.torch.save(tensors, calibration=of_noise, **options) == plain
        by_frequency = cfck.torch.save(tensors, calibration=of_noise, steps="calibrated", **options)
        assert by_frequency != plain


def test_a_model_is_calibrated_by_itself(tmp_path):
    own = Words()
    tensors = own.state_dict()
    before = {name: t.clone() for name, t in tensors.items()}
    by_itself = cfck.torch.save(tensors, quality="balanced", model=own)
    found = cfck.calibrate(own)
    assert by_itself == cfck.torch.save(tensors, quality="balanced", calibration=found)
    assert by_itself != cfck.torch.save(tensors, quality="balanced")
    assert all(torch.equal(before[name], t) for name, t in own.state_dict().items())
    cfck.torch.save_file(tensors, tmp_path / "m.cfck", bits_per_weight=3, model=own)
    expected = cfck.torch.save(tensors, bits_per_weight=3, calibration=found)
    assert (tmp_path / "m.cfck").read_bytes() == expected
    with pytest.raises(cfck.InvalidArgumentError, match="quality, bits_per_weight or size"):
        cfck.torch.save(tensors, model=own)
    with pytest.raises(cfck.InvalidArgumentError, match="either model or calibration"):
        cfck.torch.save(tensors, quality="high", model=own, calibration=found)


def test_noise_is_not_waited_for(monkeypatch):
    own = model()
    plain = cfck.torch.save(own.state_dict(), quality="balanced")
    monkeypatch.setattr("cfck._calibration.automatic.calibrate", lambda _: pytest.fail("called"))
    assert cfck.torch.save(own.state_dict(), quality="balanced", model=own) == plain


@pytest.mark.parametrize("options", [{}, {"steps": "calibrated"}])
@pytest.mark.parametrize("make", [model, Words])
def test_a_model_of_other_tensors_is_refused(options, make, monkeypatch):
    monkeypatch.setattr("cfck._calibration.automatic.calibrate", lambda _: pytest.fail("called"))
    own = make()
    name = max(own.state_dict(), key=lambda key: own.state_dict()[key].numel())
    tensor = own.state_dict()[name]
    for tensors, message in (
        ({"other": tensor}, "tensor `other` is not one of model=: the model does not have this"),
        ({name: torch.cat([tensor, tensor])}, "it has shape"),
        ({name: 2 * tensor}, "it has other values in the model"),
    ):
        with pytest.raises(cfck.InvalidArgumentError, match=message):
            cfck.torch.save(tensors, quality="balanced", model=own, **options)


def test_tensors_that_stay_as_they_are_need_not_be_of_the_model(tmp_path):
    own, path = model(), tmp_path / "m.cfck"
    extra = {"n": torch.arange(4000), "scale": torch.randn(4000), "mean": torch.randn(64, 64)}
    rules = {"mean": {"codec": "lossless"}}
    part = {"2.weight": own.state_dict()["2.weight"]}
    cfck.torch.save_file(part | extra, path, quality="high", model=own, rules=rules)
    loaded = cfck.torch.load_file(path)
    assert all(torch.equal(loaded[name], tensor) for name, tensor in extra.items())
    halves = {name: t.half() for name, t in own.state_dict().items() if t.is_floating_point()}
    cfck.torch.save(halves, quality="high", model=own)
    with pytest.raises(TypeError, match="pair of pattern"):
        cfck.torch.save(part, quality="high", model=own, rules=[5])


def test_a_model_must_be_one():
    with pytest.raises(TypeError, match="torch.nn.Module"):
        cfck.torch.save(model().state_dict(), quality="balanced", model="resnet20")


def test_a_quality_of_integers_is_refused_by_name():
    tensors = {"n": np.arange(4096).reshape(64, 64)}
    with pytest.raises(cfck.InvalidArgumentError, match="qualities"):
        cfck.numpy.save(tensors, rules={"n": {"quality": "high"}})
    with pytest.warns(cfck.LossWarning, match="none of the tensors"):
        cfck.numpy.save(tensors, quality="high")


def alike(seed):
    """Inputs that a few numbers tell, as those of real layers are."""
    random = torch.Generator().manual_seed(seed)
    few = torch.randn(512, 8, generator=random)
    mixed = few @ torch.randn(8, 64, generator=torch.Generator().manual_seed(7))
    return mixed + 0.1 * torch.randn(512, 64, generator=random)


def layers():
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(64, 128),
        torch.nn.ReLU(),
        torch.nn.Unflatten(1, (8, 4, 4)),
        torch.nn.Conv2d(8, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(512, 48),
    ).eval()


def error_of_outputs(path, batch):
    restored = layers()
    restored.load_state_dict(cfck.torch.load_file(path))
    with torch.no_grad():
        return float(((restored(batch) - layers()(batch)) ** 2).mean())


def test_feedback_keeps_outputs_nearer(tmp_path):
    found = cfck.calibrate(layers(), [alike(seed) for seed in range(4)])
    found.save(tmp_path / "calibration.cfck")
    errors = {}
    sizes = {}
    for steps in ("calibrated", "feedback"):
        path = tmp_path / f"{steps}.cfck"
        tensors = layers().state_dict()
        cfck.torch.save_file(tensors, path, steps=steps, calibration=found, bits_per_weight=3)
        errors[steps] = error_of_outputs(path, alike(11))  # inputs that it was not measured on
        sizes[steps] = path.stat().st_size
        again = cfck.torch.save(
            tensors, steps=steps, calibration=tmp_path / "calibration.cfck", bits_per_weight=3
        )
        assert again == path.read_bytes()
    assert errors["feedback"] < 0.6 * errors["calibrated"]
    assert abs(sizes["feedback"] - sizes["calibrated"]) < 0.01 * sizes["calibrated"]


def test_feedback_needs_data():
    generated = cfck.calibrate(layers(), n_examples=4)
    with pytest.raises(cfck.InvalidArgumentError, match="pass batches to cfck.calibrate"):
        cfck.torch.save(
            layers().state_dict(), steps="feedback", calibration=generated, bits_per_weight=3
        )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"steps": "prior"}, cfck.InvalidArgumentError, "target"),
        ({"nmse": 0.1, "steps": "calibrated"}, cfck.InvalidArgumentError, "need a calibration"),
        ({"nmse": 0.1, "steps": "feedback"}, cfck.InvalidArgumentError, "need a calibration"),
        ({"nmse": 0.1, "steps": "learned"}, cfck.InvalidArgumentError, "calibrated or feedback"),
        ({"nmse": 0.1, "steps": 3}, TypeError, "steps is str"),
        ({"quality": "best"}, cfck.InvalidArgumentError, "near-lossless, high, balanced or small"),
        ({"quality": 0.9}, TypeError, "quality is str"),
        ({"quality": "high", "nmse": 0.1}, cfck.InvalidArgumentError, "either quality or nmse"),
        ({"quality": "high", "steps": "flat"}, cfck.InvalidArgumentError, "leave out steps"),
        ({"quality": "high", "codec": "direct"}, cfck.InvalidArgumentError, "codec"),
        ({"nmse": 0.1, "calibration": 3}, TypeError, "cfck.calibrate"),
        ({"nmse": 0.1, "calibration": "nowhere.cfck"}, FileNotFoundError, "nowhere"),
    ],
)
def test_options_that_make_no_sense(options, error, message):
    with pytest.raises(error, match=message):
        cfck.numpy.save({"w": np.ones((64, 64), np.float32)}, **options)


def test_a_file_that_is_no_calibration(tmp_path):
    cfck.numpy.save_file({"w": np.ones(3, np.float32)}, tmp_path / "model.cfck")
    tensors = {"w": np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)}
    with pytest.raises(cfck.InvalidArgumentError, match="not a calibration file"):
        cfck.numpy.save(tensors, nmse=0.1, calibration=tmp_path / "model.cfck")
