"""Layers that make up for the errors of those before them."""

import copy

import cfck
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from calibrated_models import contents, mlp  # noqa: E402
from torch import nn  # noqa: E402

BITS = {"bits_per_weight": 2.5}


def inputs(count: int, seed: int, shape=(48,)):
    """Batches of vectors that a few directions make up."""
    generator = torch.Generator().manual_seed(7)
    size = int(np.prod(shape))
    mixing = torch.randn(size, size, generator=generator) * torch.logspace(0, -1.5, size)
    generator.manual_seed(seed)
    return [
        (torch.randn(32, size, generator=generator) @ mixing.T / 4).reshape(32, *shape)
        for _ in range(count)
    ]


def deep():
    torch.manual_seed(3)
    layers = [nn.Linear(48, 64), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 32)).eval()


def convolutions():
    torch.manual_seed(4)
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1, stride=2),
        nn.ReLU(), nn.Conv2d(24, 24, 3, groups=4), nn.Flatten(), nn.Linear(24, 64),
    ).eval()  # fmt: skip


def distance(model, decoded, batches):
    other = copy.deepcopy(model)
    other.load_state_dict(decoded)
    with torch.no_grad():
        before = torch.cat([model(batch) for batch in batches])
        after = torch.cat([other(batch) for batch in batches])
    return float((before - after).square().sum() / before.square().sum())


@pytest.fixture(scope="module")
def calibrated():
    return cfck.calibrate(deep(), inputs(32, 1), distance="mse")


@pytest.fixture(scope="module")
def refined(calibrated):
    return cfck.refine(deep(), inputs(32, 1), calibrated, **BITS)


def test_outputs_come_nearer_at_the_same_size(calibrated, refined):
    model = deep()
    tensors = model.state_dict()
    fed = cfck.torch.save(tensors, calibration=calibrated, steps="feedback", **BITS)
    made_up = cfck.torch.save(tensors, calibration=refined, **BITS)
    assert abs(len(made_up) - len(fed)) < 0.01 * len(fed)
    others = inputs(16, 2)
    before = distance(model, cfck.torch.load(fed), others)
    assert distance(model, cfck.torch.load(made_up), others) < 0.85 * before


def test_kernels_are_refined_and_groups_left_alone():
    model, batches = convolutions(), inputs(40, 1, (3, 6, 6))
    calibration = cfck.calibrate(model, batches, distance="mse")
    refined = cfck.refine(model, batches, calibration, nmse=0.03)
    assert {name for name in refined if refined[name].corrected is not None} == {
        "2.weight",
        "6.weight",
    }  # the first has fewer than 1,024 values
    fed = cfck.torch.save(model.state_dict(), calibration=calibration, steps="feedback", nmse=0.03)
    made_up = cfck.torch.save(model.state_dict(), calibration=refined, nmse=0.03)
    others = inputs(16, 2, (3, 6, 6))
    before = distance(model, cfck.torch.load(fed), others)
    assert distance(model, cfck.torch.load(made_up), others) < before


def test_the_model_stays_as_it_was_and_the_result_is_the_same_again(calibrated, refined):
    model = deep()
    model.train()
    before = contents(model)
    seen = []
    again = cfck.refine(
        model,
        inputs(32, 1),
        calibrated,
        progress=lambda done, total, name: seen.append((done, total, name)),
        **BITS,
    )
    assert contents(model) == before
    assert model.training
    assert again.file_bytes() == refined.file_bytes()
    first = {done: (done, total, name) for done, total, name in reversed(seen) if done > 0}
    assert [first[i + 1] for i in range(6)] == [(i + 1, 6, f"{2 * i}.weight") for i in range(6)]


def test_its_step_stands_for_the_target(refined, tmp_path):
    tensors = deep().state_dict()
    summary = cfck.torch.save_file(tensors, tmp_path / "met.cfck", calibration=refined, **BITS)
    assert summary.step == refined.step
    plain = cfck.torch.load(cfck.torch.save(tensors, calibration=refined))
    met = cfck.torch.load_file(tmp_path / "met.cfck")
    assert all(torch.equal(met[name], plain[name]) for name in tensors)
    other = cfck.torch.save_file(
        tensors, tmp_path / "other.cfck", calibration=refined, bits_per_weight=4
    )
    assert other.step < 0.8 * refined.step


def test_what_was_refined_is_refined_anew(calibrated, refined):
    again = cfck.refine(deep(), inputs(32, 1), refined, **BITS)
    assert again.file_bytes() == refined.file_bytes()
    other = cfck.refine(deep(), inputs(32, 1), refined, bits_per_weight=4)
    plain = cfck.refine(deep(), inputs(32, 1), calibrated, bits_per_weight=4)
    assert other.file_bytes() == plain.file_bytes()


def test_files_of_refined_calibrations(refined, tmp_path):
    refined.save(tmp_path / "refined.cfck")
    loaded = cfck.load_calibration(tmp_path / "refined.cfck")
    assert loaded.step == refined.step
    for name in refined:
        np.testing.assert_array_equal(loaded[name].corrected, refined[name].corrected)
    tensors = deep().state_dict()
    by_path = cfck.torch.save(tensors, calibration=tmp_path / "refined.cfck", **BITS)
    assert by_path == cfck.torch.save(tensors, calibration=refined, **BITS)
    renamed = refined.renamed(lambda name: f"body.{name}")
    assert renamed.step == refined.step
    assert renamed["body.0.weight"].corrected is not None


def test_what_does_not_help_is_not_kept(calibrated):
    # Judged by inputs that have nothing to do with those that values are corrected by.
    batches = []
    for known, other in zip(inputs(4, 1), inputs(4, 9)):
        batches += [known[:2] * 1e-3, known[:2] * 1e-3, known[:2] * 1e-3, other.roll(7, 1) * 50]
    refined = cfck.refine(deep(), batches, calibrated, damping=1e-9, **BITS)
    assert refined.step > 0
    assert all(refined[name].corrected is None for name in refined)
    tensors = deep().state_dict()
    unrefined = cfck.torch.save(tensors, calibration=calibrated, steps="feedback", **BITS)
    assert cfck.torch.save(tensors, calibration=refined, **BITS) == unrefined


class Twice(nn.Module):
    """One layer that runs twice, two with the same input, one behind a mask, one shared."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.repeated, self.left, self.right = (nn.Linear(48, 48) for _ in range(3))
        self.last, self.shared = nn.Linear(48, 40), nn.Linear(48, 48)
        self.other = nn.Linear(48, 48)
        self.other.weight = self.shared.weight

    def forward(self, tokens, attention_mask):
        x = torch.relu(self.repeated(torch.relu(self.repeated(tokens))))
        x = torch.relu(self.left(x)) + torch.relu(self.right(x))
        return {"logits": self.last(self.other(torch.relu(self.shared(x))))}


def test_layers_that_cannot_be_refined_are_left_alone():
    model = Twice().eval()
    batches = []
    for batch in inputs(8, 1):
        tokens = batch.reshape(8, 4, 48)
        mask = torch.ones(8, 4, dtype=torch.long)
        mask[:, 3] = 0
        batches.append({"tokens": tokens, "attention_mask": mask})
    calibration = cfck.calibrate(model, batches)
    refined = cfck.refine(model, batches, calibration, **BITS)
    names = {name for name in refined if refined[name].corrected is not None}
    assert names == {"left.weight", "right.weight", "last.weight"}
    # Positions that are masked do not count, even where they are no numbers.
    for batch in batches:
        batch["tokens"][:, 3] = 1e4
    again = cfck.refine(model, batches, calibration, **BITS)
    for name in names:
        np.testing.assert_allclose(
            again[name].corrected, refined[name].corrected, rtol=1e-3, atol=1e-4
        )


class Heads(nn.Module):
    """Two outputs, of which the first counts."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.body, self.first, self.second = (nn.Linear(48, 48) for _ in range(3))

    def forward(self, x):
        x = torch.relu(self.body(x))
        return {"logits": self.first(x), "other": self.second(x)}


def test_weights_that_are_no_numbers_come_through():
    model, batches = Heads().eval(), inputs(8, 1)
    model.second.weight.data[3, 5] = float("nan")
    calibration = cfck.calibrate(model, batches)
    refined = cfck.refine(model, batches, calibration, **BITS)
    assert np.isfinite(refined["second.weight"].corrected).all()
    decoded = cfck.torch.load(cfck.torch.save(model.state_dict(), calibration=refined, **BITS))
    assert decoded["second.weight"][3, 5].isnan()
    assert decoded["second.weight"].isnan().sum() == 1


def test_half_precision():
    model, batches = mlp().bfloat16(), [b[:, :32].bfloat16() for b in inputs(32, 1)]
    calibration = cfck.calibrate(model, batches)
    refined = cfck.refine(model, batches, calibration, bits_per_weight=3)
    tensors = model.state_dict()
    decoded = cfck.torch.load(cfck.torch.save(tensors, calibration=refined, bits_per_weight=3))
    assert decoded["0.weight"].dtype == torch.bfloat16


def test_arguments_that_make_no_sense(calibrated):
    model, batches = deep(), inputs(4, 1)
    for options, message in [
        ({}, "target"),
        ({**BITS, "steps": "flat"}, "feedback"),
        ({**BITS, "n_examples": 0}, "n_examples"),
        ({**BITS, "damping": 0.0}, "damping"),
        ({**BITS, "nmse": 0.1}, "one of"),
        ({"bits_per_weight": 1e-6}, "bits_per_weight"),
    ]:
        with pytest.raises(cfck.InvalidArgumentError, match=message):
            cfck.refine(model, batches, calibrated, **options)
    with pytest.raises(cfck.InvalidArgumentError, match="no batches"):
        cfck.refine(model, [], calibrated, **BITS)
    with pytest.raises(cfck.InvalidArgumentError, match="data"):
        cfck.refine(model, batches, cfck.calibrate(model, input_shape=(48,)), **BITS)
    with pytest.raises(cfck.InvalidArgumentError, match="another model"):
        cfck.refine(mlp(), [b[:, :32] for b in batches], calibrated, **BITS)
    with pytest.raises(TypeError, match="calibrate"):
        cfck.refine(model, batches, "model.calibration.cfck", **BITS)
    with pytest.raises(TypeError, match="Module"):
        cfck.refine("model", batches, calibrated, **BITS)
    with pytest.raises(TypeError, match="unexpected"):
        cfck.refine(model, batches, calibrated, bits_per_wait=2)


def test_whoever_asks_for_progress_can_end_it(calibrated):
    model = deep()
    before = contents(model)

    def stop(done, total, name):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cfck.refine(model, inputs(4, 1), calibrated, progress=stop, **BITS)
    assert contents(model) == before
    assert not any(module._forward_pre_hooks for module in model.modules())
