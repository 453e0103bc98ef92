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
    flat = cfck.torch.save(tensors, bits_per_weight=3)
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
        with pytest.raises(cfck.InvalidArgumentError, match="calibration needs a target"):
            cfck.torch.save(tensors, calibration=calibration, **options)
    rules = {"2.weight": {"bits_per_weight": 3}}
    assert cfck.torch.save(tensors, calibration=calibration, rules=rules) != cfck.torch.save(
        tensors
    )


def test_prior_needs_no_calibration():
    tensors = model().state_dict()
    flat = cfck.torch.save(tensors, bits_per_weight=3, steps="flat")
    assert flat == cfck.torch.save(tensors, bits_per_weight=3)
    assert flat != cfck.torch.save(tensors, bits_per_weight=3, steps="prior")
    rules = {"2.weight": {"bits_per_weight": 3, "steps": "prior"}}
    assert cfck.torch.save(tensors, rules=rules) != cfck.torch.save(
        tensors, rules={"2.weight": {"bits_per_weight": 3}}
    )


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
