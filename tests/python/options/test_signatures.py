"""Names and arguments are those of safetensors."""

import ast
import inspect
import pathlib
import re
import sys
import typing

import cfck
import cfck.numpy
import cfck.torch
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import torch
from cfck._options import kinds
from conftest import records, weights

FUNCTIONS = [
    (getattr(cfck_module, name), getattr(safetensors_module, name))
    for cfck_module, safetensors_module, names in [
        (cfck.torch, safetensors.torch,
         ["save", "save_file", "load", "load_file", "save_model", "load_model"]),
        (cfck.numpy, safetensors.numpy, ["save", "save_file", "load", "load_file"]),
    ]
    for name in names
]  # fmt: skip


def _fields_of(function):
    """The options that a function takes by keyword."""
    parameter = inspect.signature(function).parameters.get("fields")
    if parameter is None:
        return []
    (kind,) = re.fullmatch(r"Unpack\[(\w+)\]", parameter.annotation).groups()
    return list((vars(kinds) | {"ShrinkOptions": cfck.ShrinkOptions})[kind].__annotations__)


@pytest.mark.parametrize(("ours", "theirs"), FUNCTIONS)
def test_arguments_come_in_the_order_of_safetensors(ours, theirs):
    expected = list(inspect.signature(theirs).parameters.values())
    actual = list(inspect.signature(ours).parameters.values())
    positional = [p for p in actual if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert [(p.name, p.default) for p in positional] == [
        (p.name, p.default) for p in expected if p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    fields = set(_fields_of(ours))
    for parameter in expected:
        assert parameter.name in {p.name for p in actual} | fields
    others = actual[len(positional) :]
    assert all(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in others)


def test_safe_open_has_the_arguments_and_methods_of_safetensors():
    parameters = list(inspect.signature(cfck.safe_open).parameters)
    expected = list(inspect.signature(safetensors.safe_open).parameters)
    positional = [name for name in expected if name not in _fields_of(cfck.safe_open)]
    assert parameters[: len(positional)] == positional
    for name in dir(safetensors.safe_open):
        if not name.startswith("_"):
            assert hasattr(cfck.safe_open, name), name


OF_TENSORS = [
    "codec", "max_abs_error", "max_rel_error", "max_sigma_error", "per_row",
    "nmse", "psnr", "bits_per_weight", "trellis_states", "steps", "block", "quality",
]  # fmt: skip


OF_SAVES = [
    *OF_TENSORS, "entropy", "level", "chunk_elems", "size", "calibration", "base", "rules",
    "threads", "encode", "progress",
]  # fmt: skip
OF_LOADS = [
    "threads", "max_decoded_bytes", "limits", "verify", "decode", "base", "backend", "base_dirs",
    "only_tensors", "progress",
]  # fmt: skip
# Each function, and the fields of its options.
EVERYDAY = [
    *[(getattr(module, name), OF_SAVES)
      for module in (cfck.torch, cfck.numpy) for name in ("save",)],
    *[(getattr(module, name), [*OF_SAVES, "replace_base", "verify", "fsync"])
      for module in (cfck.torch, cfck.numpy) for name in ("save_file", "save_checkpoint")],
    (cfck.torch.save_model, [*OF_SAVES, "replace_base", "verify", "fsync"]),
    (cfck.update, [*OF_SAVES, "replace_base"]),
    (cfck.compress, [name for name in OF_SAVES
                     if name not in ("size", "calibration", "base", "rules", "encode",
                                     "progress")]),
    *[(module.load, [*OF_LOADS[:6], "progress"])
      for module in (cfck.torch, cfck.numpy)],
    *[(getattr(module, name), OF_LOADS)
      for module in (cfck.torch, cfck.numpy) for name in ("load_file", "load_checkpoint")],
    (cfck.torch.load_model, OF_LOADS),
    (cfck.safe_open.__init__, OF_LOADS[:9]),
    (cfck.decompress, OF_LOADS[:5]),
    (cfck.shrink, [
        "at_least", "at_most", "confidence", "held_back", "inputs", "labels", "output", "pool",
        "n_examples", "metadata", "seed", "threads", "progress", "report",
    ]),
]  # fmt: skip
EVERYDAY_IDS = [f"{f.__module__}.{f.__qualname__}" for f, _ in EVERYDAY]
EXPERT = ["psnr", "trellis_states", "steps", "block", "entropy", "level"]
PACKAGE = pathlib.Path(cfck.__file__).parent


@pytest.mark.parametrize(("function", "fields"), EVERYDAY, ids=EVERYDAY_IDS)
def test_help_shows_at_most_eight_parameters(function, fields):
    parameters = [name for name in inspect.signature(function).parameters if name != "self"]
    assert len(parameters) <= 8, parameters
    assert parameters[-2:] == ["options", "fields"]
    assert sorted(_fields_of(function)) == sorted(fields)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no typing.Unpack")
def test_types_are_there_at_run_time():
    for module in (cfck.torch, cfck.numpy):
        hints = typing.get_type_hints(module.save_file)
        assert hints["return"] is cfck.SaveSummary
        assert hints["options"] == cfck.SaveOptions | None
        assert typing.get_args(hints["fields"]) == (cfck.SaveOptions,)
        assert typing.get_type_hints(module.load_file)["options"] == cfck.LoadOptions | None


def test_type_checkers_see_at_most_eight_parameters():
    names = {function.__name__ for function, _ in EVERYDAY}
    found = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef) or node.name not in names:
                continue
            arguments = node.args
            if arguments.kwarg is None or arguments.kwarg.arg != "fields":
                continue
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            count = len([argument for argument in every if argument.arg != "self"]) + 1
            assert count <= 8, (path, node.name)
            found.setdefault(node.name, []).append(path.name)
    assert set(found) == names
    # Each overload counts.
    assert len(found["decompress"]) == 5 and found["__init__"].count("safe_open.py") == 4


@pytest.mark.parametrize(("function", "fields"), EVERYDAY, ids=EVERYDAY_IDS)
def test_docstrings_have_the_options_that_most_calls_want(function, fields):
    text = (cfck.safe_open if function.__name__ == "__init__" else function).__doc__
    entries = re.findall(r"^ +(\w+): ", text, re.MULTILINE)
    assert not set(entries) & set(EXPERT)
    if "    options: " in text:
        assert set(fields) - set(EXPERT) <= set(entries)
        assert "docs/options.md has all" in text
    else:
        assert re.search(r"as in (save|load)_file", text)


@pytest.mark.parametrize("kind", [cfck.SaveOptions, cfck.LoadOptions, cfck.ShrinkOptions])
def test_types_of_options_describe_all_of_their_fields(kind):
    entries = re.findall(r"^ *(\w+): ", kind.__doc__, re.MULTILINE)
    assert sorted(entries) == sorted(kind.__annotations__)


PAGE = pathlib.Path(__file__).parents[3] / "docs" / "options.md"


@pytest.mark.parametrize(
    "kind", [cfck.SaveOptions, cfck.RuleOptions, cfck.LoadOptions, cfck.ShrinkOptions]
)
def test_a_page_lists_every_option(kind):
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert set(kind.__annotations__) <= set(listed)


def test_options_come_from_a_dict_or_by_keyword(tmp_path):
    path = tmp_path / "m.cfck"
    tensors = {"w": weights(64, 64)}
    common = cfck.SaveOptions(max_abs_error=1e-2, verify=True)
    cfck.torch.save_file(tensors, path, options=common)
    assert records(path)["w"].bound == 1e-2
    cfck.torch.save_file(tensors, path, options=common, max_abs_error=1e-3)
    assert records(path)["w"].bound == 1e-3
    assert common == {"max_abs_error": 1e-2, "verify": True}
    reading = cfck.LoadOptions(threads=1, limits={"max_records": 1})
    for loaded in (
        cfck.torch.load_file(path, options=reading),
        cfck.torch.load_file(path, "cpu", options=reading, threads=2),
        cfck.torch.load_checkpoint(_checkpoint(tmp_path), options=reading),
    ):
        assert (loaded["w"] - tensors["w"]).abs().max() <= 1e-2
    with cfck.safe_open(path, "pt", options={"backend": "mmap"}, threads=1) as file:
        assert file.keys() == ["w"]
    data = cfck.compress(tensors["w"], options={"codec": "raw"})
    assert torch.equal(cfck.decompress(data, framework="pt", options={"verify": False}),
                       tensors["w"])  # fmt: skip
    cfck.update(path, {"v": tensors["w"]}, options={"codec": "raw"})
    assert records(path)["v"].codec == "raw"


def _checkpoint(folder):
    cfck.torch.save_checkpoint({"w": weights(64, 64)}, folder / "c.cfck")
    return folder / "c.cfck"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"verfy": True}, "options has no 'verfy' here; did you mean verify"),
        ({3: True}, "options has no 3 here; there are "),
        ([("verify", True)], "options is a dict, such as .*, not list"),
        ("verify", "options is a dict, such as .*, not str"),
    ],
    ids=str,
)
def test_wrong_dicts_of_options(tmp_path, options, message):
    path = tmp_path / "m.cfck"
    for call in (
        lambda: cfck.torch.save_file({"w": torch.ones(3)}, path, options=options),
        lambda: cfck.numpy.save_checkpoint({"a": 1}, path, options=options),
        lambda: cfck.torch.load_file(path, options=options),
        lambda: cfck.numpy.load_file(path, options=options),
        lambda: cfck.safe_open(path, "pt", options=options),
        lambda: cfck.decompress(b"", options=options),
    ):
        with pytest.raises(TypeError, match=message):
            call()
    assert not path.exists()


def test_options_that_a_call_does_not_take_are_named():
    with pytest.raises(TypeError, match="options has no 'fsync' here"):
        cfck.torch.save({}, options=cfck.SaveOptions(fsync=False))
    with pytest.raises(TypeError, match="options has no 'backend' here"):
        cfck.torch.load(b"", options=cfck.LoadOptions(backend="mmap"))


def test_options_of_rules_are_a_type():
    assert list(typing.get_type_hints(cfck.TensorOptions)) == OF_TENSORS
    assert list(typing.get_type_hints(cfck.RuleOptions)) == [*OF_TENSORS, "force"]


@pytest.mark.parametrize("module", [cfck.torch, cfck.numpy])
def test_everything_public_is_documented(module):
    for name in module.__all__:
        assert getattr(module, name).__doc__


@pytest.mark.parametrize("call, text", [
    (lambda **f: cfck.shrink(None, "x", **f), "kep; did you mean keep?"),
    (lambda **f: cfck.shrink(None, "x", **f), "other; there are model, filename, keep, size,"),
    (lambda **f: cfck.torch.save_file({}, "x", **f), "metdata; did you mean metadata?"),
    (lambda **f: cfck.torch.save_file({}, "x", **f), "modle; did you mean model?"),
    (lambda **f: cfck.torch.save_checkpoint({}, "x", **f), "defualt; did you mean default?"),
    (lambda **f: cfck.torch.load_checkpoint("x", **f), "map_location; its name is device here"),
    (lambda **f: cfck.torch.load_file("x", **f), "map_location; its name is device here"),
    (lambda **f: cfck.torch.load(b"", **f), "map_location; its name is device here"),
    (lambda **f: cfck.safe_open("x", "pt", **f), "map_location; its name is device here"),
    (lambda **f: cfck.torch.encode_message(None, **f), "encode; a tensor is encoded where it is"),
    (lambda **f: cfck.torch.load_checkpoint("x", **f), "weights_only; it is not needed: load"),
    (lambda **f: cfck.numpy.load_file("x", **f), "weights_only; it is not needed: loading imports"),
    (lambda **f: cfck.numpy.load_file("x", **f), "map_location; there are filename, threads"),
])  # fmt: skip
def test_advice_on_arguments_that_do_not_exist(call, text):
    name, _, advice = text.partition("; ")
    message = re.escape(f"unexpected keyword argument {name!r}; {advice}")
    with pytest.raises(TypeError, match=message):
        call(**{name: 1})
