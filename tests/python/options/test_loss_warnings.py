"""Warnings of losses that are likely to be mistakes."""

import warnings

import cfck
import cfck.torch
import pytest
import torch
from cfck.torch import save_file
from conftest import weights


def warnings_of(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught if warning.category is cfck.LossWarning]


def test_a_model_that_cannot_work(path):
    tensors = {"a": weights(64, 64), "b": weights(128, 64)}
    for save in (
        lambda: save_file(tensors, path, bits_per_weight=0.5),
        lambda: cfck.torch.save(tensors, nmse=0.5),
    ):
        (message,) = warnings_of(save)
        assert "above -10 dB" in message
    assert warnings_of(lambda: save_file(tensors, path, bits_per_weight=4)) == []
    assert warnings_of(lambda: save_file(tensors, path)) == []


def test_maximum_errors_that_are_large(path):
    tensors = {"a": weights(64, 64), "b": weights(128, 64)}
    rms = float(tensors["a"].square().mean().sqrt())
    for bound in ({"max_rel_error": 0.9}, {"max_rel_error": 0.1}, {"max_abs_error": rms}):
        (message,) = warnings_of(lambda bound=bound: save_file(tensors, path, **bound))
        assert "errors above -10 dB" in message
        assert "ask for a smaller maximum error" in message
        assert ("range of the values" in message) == ("max_rel_error" in bound)
    assert warnings_of(lambda: save_file(tensors, path, max_rel_error=0.01)) == []


def test_updates_warn_too(path):
    save_file({"a": weights(64, 64), "b": weights(128, 64)}, path)
    (message,) = warnings_of(lambda: cfck.update(path, {"b": weights(128, 64)}, nmse=0.3))
    assert "above -10 dB" in message
    assert warnings_of(lambda: cfck.update(path, {"b": weights(128, 64)}, nmse=0.01)) == []
    assert warnings_of(lambda: cfck.update(path, {}, remove=["b"])) == []


def test_psnr_of_weights(path):
    (message,) = warnings_of(lambda: save_file({"a": weights(64, 64)}, path, psnr=30))
    assert message.startswith("psnr relates errors to the range")


def test_norms_that_a_rule_takes(path):
    tensors = {"a": weights(64, 64), "norm": weights(2048)}
    rules = {"*": {"nmse": 0.01, "force": True}}
    (message,) = warnings_of(lambda: save_file(tensors, path, rules=rules))
    assert "'norm' the first" in message
    assert warnings_of(lambda: cfck.compress(weights(2048), nmse=0.01)) == []


def test_a_rule_that_takes_nothing_beside_other_options(path):
    tensors = {"a": weights(64, 64), "a.bias": weights(64), "ids": torch.arange(5)}
    rules = {"*.bias": {"max_abs_error": 1e-2}, "id*": {"nmse": 0.01}}
    for options in ({"max_abs_error": 1e-3}, {"bits_per_weight": 4}, {"quality": "high"}):
        for save in (save_file, lambda tensors, _, **given: cfck.torch.save(tensors, **given)):
            said = warnings_of(lambda s=save, o=options: s(tensors, path, rules=rules, **o))
            assert [message.partition(" stays")[0] for message in said] == [
                "rule '*.bias' has no effect: what it matches",
                "rule 'id*' has no effect: what it matches",
            ]
            assert (
                "(1: fewer than two dimensions); with force it reaches such tensors too" in said[0]
            )
    rules = {"*.bias": {"max_abs_error": 1e-2, "force": True}}
    (message,) = warnings_of(lambda: save_file(tensors, path, max_abs_error=1e-3, rules=rules))
    assert "has no effect" not in message  # but a tensor of one dimension lost bits


def test_nothing_taken(path):
    tensors = {"bias": weights(64), "ids": torch.arange(5)}
    (message,) = warnings_of(lambda: save_file(tensors, path, max_abs_error=1e-3))
    assert "1: not floating-point; 1: fewer than two dimensions" in message
    assert issubclass(cfck.LossWarning, UserWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("error", cfck.LossWarning)
        with pytest.raises(cfck.LossWarning):
            save_file(tensors, path, max_abs_error=1e-3)
    assert cfck.torch.load_file(path)["ids"].tolist() == [0, 1, 2, 3, 4]
