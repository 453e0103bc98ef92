"""Rules: which tensors they reach, in which order, and what is said of wrong ones."""

import warnings

import cfck
import cfck.numpy
import cfck.torch
import pytest
import torch
from cfck.torch import load_file, save_file
from conftest import assert_same, records, state, weights


def test_rules_in_order_of_a_dict_or_of_pairs(path):
    rules = {
        "layer.bias": {"max_abs_error": 1e-4},
        "layer.*": {"max_rel_error": 1e-2, "per_row": True},
        "*.exp_avg": {"max_sigma_error": 1e-2, "codec": "direct", "force": True},
        "[st]*.weight": {"codec": "raw"},
        "other.weigh?": {},
    }
    for given in (rules, list(rules.items()), [list(pair) for pair in rules.items()]):
        summary = save_file(state(), path, max_abs_error=1e-3, rules=given)
        assert summary.kept_lossless == {"ids": "not_float", "constant.weight": "not_smaller"}
        found = records(path)
        assert found["layer.bias"].bound == 1e-4
        assert (found["layer.weight"].bound_kind, found["layer.weight"].per_row) == ("rel", True)
        assert (found["a.exp_avg"].bound_kind, found["a.exp_avg"].codec) == ("sigma", "direct")
        assert found["small.weight"].codec == found["tiny.weight"].codec == "raw"
        assert found["other.weight"].bound is None
    turned = dict(reversed(rules.items()))
    with pytest.warns(cfck.RuleWarning, match=r"'layer.bias' .*earlier rules.*'layer.bias'"):
        summary = save_file(state(), path, rules=turned)
    assert summary.unmatched_rules == ("layer.bias",)
    assert records(path)["layer.weight"].bound_kind == "rel"
    assert summary.kept_lossless["layer.bias"] == "few_dimensions"


def test_wildcards_leave_alone_what_plain_options_do(path):
    plain = save_file(state(), path, max_abs_error=1e-3).kept_lossless
    for options in ({}, {"force": False}):
        rule = {"max_abs_error": 1e-3, **options}
        assert save_file(state(), path, rules={"*": rule}).kept_lossless == plain
    named = save_file(state(), path, rules={"layer.bias": {"max_abs_error": 1e-3}, "*": rule})
    assert set(plain) - set(named.kept_lossless) == {"layer.bias"}
    with pytest.raises(TypeError, match=r"rule '\*': force is bool, not int"):
        save_file(state(), path, rules={"*": {"force": 1}})


def test_with_force_a_rule_reaches_all_floats(path):
    tensors = {**state(), "scalar": torch.tensor(3.25), "empty": torch.empty(0, 5)}
    rules = {"*": {"max_abs_error": 1e-3, "force": True}}
    summary = save_file(tensors, path, rules=rules)
    assert summary.kept_lossless["ids"] == "not_float"
    for name in ("layer.bias", "small.weight", "tiny.weight", "a.exp_avg"):
        assert records(path)[name].max_abs_error <= 1e-3
    assert_same(load_file(path)["ids"], tensors["ids"])
    assert load_file(path)["empty"].shape == (0, 5)


@pytest.mark.parametrize("module", [cfck.torch, cfck.numpy])
@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("layer.wieght", "matches no tensor; the closest names are 'layer.weight'"),
        ("*.wieght", "closest names are .*weight'"),
        ("laier*", "closest names are 'layer"),
        ("?", "matches no tensor$"),
        ("completely different", "matches no tensor$"),
    ],
)
def test_a_rule_without_effect_is_a_warning(path, module, pattern, message):
    tensors = {name: tensor for name, tensor in state().items() if "small" not in name}
    if module is cfck.numpy:
        tensors = {name: tensor.numpy() for name, tensor in tensors.items()}
    rules = {pattern: {"max_abs_error": 1e-3}}
    for call in (
        lambda: module.save_file(tensors, path, rules=rules),
        lambda: module.save_checkpoint(tensors, path, rules=rules),
        lambda: cfck.update(path, tensors, rules=rules),
        lambda: module.save(tensors, rules=rules),
    ):
        with pytest.warns(cfck.RuleWarning, match=message) as caught:
            result = call()
        assert len(caught) == 1
        assert caught[0].filename == __file__
        if not isinstance(result, bytes):
            assert result.unmatched_rules == (pattern,)
    assert issubclass(cfck.RuleWarning, UserWarning)


def test_rules_by_the_hundred(path):
    tensors = {f"block.{i}.weight": weights(3) for i in range(300)}
    rules = {f"block.{i}.wieght": {} for i in range(100)}
    with pytest.warns(cfck.RuleWarning) as caught:
        summary = save_file(tensors, path, rules=rules)
    assert summary.unmatched_rules == tuple(rules)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 100
    assert "closest names are 'block.0.weight'" in messages[0]
    assert messages[99] == "rule 'block.99.wieght' has no effect: it matches no tensor"


def test_as_an_error_the_warning_comes_after_the_file(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", cfck.RuleWarning)
        with pytest.raises(cfck.RuleWarning, match="'b' has no effect"):
            save_file({"a": weights(3)}, path, rules={"b": {}})
    assert_same(load_file(path)["a"], weights(3))


def test_an_exact_name_of_integers_is_an_error(path):
    path.write_bytes(b"old")
    with pytest.raises(cfck.InvalidArgumentError, match="wildcards") as caught:
        save_file(state(), path, rules={"ids": {"max_abs_error": 1.0}})
    assert caught.value.record == "ids"
    assert path.read_bytes() == b"old"
    summary = save_file(state(), path, rules={"id[s]": {"max_abs_error": 1.0}})
    assert summary.kept_lossless == {"ids": "not_float"}
    assert_same(load_file(path)["ids"], state()["ids"])


@pytest.mark.parametrize(
    ("rules", "error", "message"),
    [
        (
            {"*": {"max_abs_eror": 1}},
            ValueError,
            r"rule '\*'.*'max_abs_eror'; did you mean max_abs",
        ),
        (
            {"*": {"threads": 1}},
            ValueError,
            r"rule '\*': unknown option 'threads'; there are codec",
        ),
        ({"*": {1: 1}}, ValueError, r"rule '\*': unknown option 1"),
        ({"*": 1e-3}, TypeError, r"rule '\*': its options are a dict, not float"),
        ({1: {}}, TypeError, r"rules\[0\]: a pattern is str, not int"),
        ([("a", {}), "b"], TypeError, r"rules\[1\] is a pair"),
        ([("a",)], TypeError, r"rules\[0\] is a pair"),
        ("*", TypeError, "rules is a dict"),
        (7, TypeError, "rules is a dict"),
        ({("a", "b")}, TypeError, "rules is a dict"),
        ({"\ud800": {}}, ValueError, "Unicode"),
        (
            [("w", {"max_abs_error": 1}), ("w", {"max_abs_error": 2})],
            ValueError,
            "two different rules",
        ),
    ],
    ids=str,
)
def test_wrong_rules(path, rules, error, message):
    save_file({}, path)
    before = path.read_bytes()
    for call in (
        lambda: save_file({"w": weights(64, 64)}, path, rules=rules),
        lambda: cfck.update(path, {"w": weights(64, 64)}, rules=rules),
    ):
        with pytest.raises(error, match=message):
            call()
    assert path.read_bytes() == before
