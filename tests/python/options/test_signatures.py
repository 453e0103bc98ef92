"""Names and arguments are those of safetensors."""

import inspect
import typing

import cfck
import cfck.numpy
import cfck.torch
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch

FUNCTIONS = [
    (getattr(cfck_module, name), getattr(safetensors_module, name))
    for cfck_module, safetensors_module, names in [
        (cfck.torch, safetensors.torch,
         ["save", "save_file", "load", "load_file", "save_model", "load_model"]),
        (cfck.numpy, safetensors.numpy, ["save", "save_file", "load", "load_file"]),
    ]
    for name in names
]  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs"), FUNCTIONS)
def test_arguments_come_in_the_order_of_safetensors(ours, theirs):
    expected = list(inspect.signature(theirs).parameters.values())
    actual = list(inspect.signature(ours).parameters.values())
    positional = [p for p in actual if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert [(p.name, p.default) for p in positional] == [
        (p.name, p.default) for p in expected if p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    for parameter in expected:
        assert parameter.name in {p.name for p in actual}
    assert all(p.kind is p.KEYWORD_ONLY for p in actual[len(positional) :])


def test_safe_open_has_the_arguments_and_methods_of_safetensors():
    parameters = list(inspect.signature(cfck.safe_open).parameters)
    expected = list(inspect.signature(safetensors.safe_open).parameters)
    assert parameters[: len(expected)] == expected
    for name in dir(safetensors.safe_open):
        if not name.startswith("_"):
            assert hasattr(cfck.safe_open, name), name


OF_TENSORS = [
    "codec", "max_abs_error", "max_rel_error", "max_sigma_error", "per_row",
    "nmse", "psnr", "bits_per_weight", "trellis_states", "steps", "block", "quality",
]  # fmt: skip


@pytest.mark.parametrize(
    ("functions", "others"),
    [
        ([cfck.compress], {"threads": 0}),
        (
            [cfck.torch.save, cfck.numpy.save, cfck.update],
            {"size": None, "calibration": None, "rules": None, "threads": 0, "progress": None},
        ),
        (
            [cfck.torch.save_file, cfck.torch.save_model, cfck.torch.save_checkpoint,
             cfck.numpy.save_file, cfck.numpy.save_checkpoint],
            {"size": None, "calibration": None, "rules": None, "threads": 0, "progress": None,
             "verify": False, "fsync": True},
        ),
    ],
)  # fmt: skip
def test_everything_that_writes_spells_out_its_options(functions, others):
    for function in functions:
        signature = inspect.signature(function)
        options = {
            name: parameter
            for name, parameter in signature.parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        defaults = {name: parameter.default for name, parameter in options.items()}
        if function in (cfck.torch.save, cfck.torch.save_file):
            assert defaults.pop("model") is None  # the tensors alone do not have it
        assert defaults == {
            **dict.fromkeys(OF_TENSORS, None), "codec": "auto", "per_row": False,
            "entropy": cfck._native.default_entropy(), "level": "default",
            "chunk_elems": 0, **others
        }  # fmt: skip
        hints = typing.get_type_hints(function)
        assert hints["max_abs_error"] == float | None
        assert hints["return"] in (bytes, cfck.SaveSummary)
        assert set(options) < set(hints) and "options" not in hints
        for name in signature.parameters:
            assert name in function.__doc__ or "as in save_file" in function.__doc__


def test_options_of_rules_are_a_type():
    assert list(typing.get_type_hints(cfck.TensorOptions)) == OF_TENSORS
    assert list(typing.get_type_hints(cfck.RuleOptions)) == [*OF_TENSORS, "force"]


@pytest.mark.parametrize("module", [cfck.torch, cfck.numpy])
def test_everything_public_is_documented(module):
    for name in module.__all__:
        assert getattr(module, name).__doc__
