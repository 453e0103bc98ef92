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


def test_prior_needs_no_calibration():
    tensors = model().state_dict()
    flat = cfck.torch.save(tensors, bits_per_weight=3, steps="flat")
    assert flat == cfck.torch.save(tensors, bits_per_weight=3)
    assert flat != cfck.torch.save(tensors, bits_per_weight=3, steps="prior")
    rules = {"2.weight": {"bits_per_weight": 3, "steps": "prior"}}
    assert cfck.torch.save(tensors, rules=rules) != cfck.torch.save(
        tensors, rules={"2.weight": {"bits_per_weight": 3}}
    )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"steps": "prior"}, cfck.InvalidArgumentError, "target"),
        ({"nmse": 0.1, "steps": "calibrated"}, cfck.InvalidArgumentError, "no calibration"),
        ({"nmse": 0.1, "steps": "learned"}, cfck.InvalidArgumentError, "flat, prior or calibrated"),
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
    with pytest.raises(cfck.InvalidArgumentError, match="no calibration"):
        cfck.numpy.save(tensors, nmse=0.1, calibration=tmp_path / "model.cfck")
