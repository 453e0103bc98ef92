"""The package is typed: mypy passes in strict mode, and callers see the framework's types."""

import ast
import pathlib
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).parents[3]
SOURCES = REPOSITORY / "python_bindings" / "cfck"
CALLS = pathlib.Path(__file__).with_name("typed_calls.py")

# Any tree may come back, as from json.load().
MAY_RETURN_ANY = {"load_checkpoint"}


@pytest.fixture(scope="module")
def report():
    """The messages of mypy for the package and for calls of it."""
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", str(SOURCES), str(CALLS)]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY).stdout


def test_the_package_is_strictly_typed(report):
    assert "python_bindings" not in report, report
    assert "Success" in report or "typed_calls.py" in report, report


def test_callers_see_the_types_of_their_framework(report):
    assert "typed_calls.py" not in report, report


def _public_functions():
    """Functions of the package that callers import, and methods of public classes."""
    import cfck

    for module in [SOURCES / "torch.py", SOURCES / "numpy.py", *SOURCES.glob("_*/*.py")]:
        is_face = module.parent == SOURCES
        for node in ast.parse(module.read_text()).body:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            if not is_face and node.name not in cfck.__all__:
                continue
            functions = node.body if isinstance(node, ast.ClassDef) else [node]
            for function in functions:
                if isinstance(function, ast.FunctionDef):
                    if not function.name.startswith("_") or function.name == "__init__":
                        yield f"{module.stem}.{node.name}.{function.name}", function


def test_no_public_signature_has_any():
    names = 0
    for name, function in _public_functions():
        names += 1
        arguments = function.args
        annotations = [
            argument.annotation
            for argument in [*arguments.args, *arguments.kwonlyargs, arguments.kwarg]
            if argument is not None and argument.annotation is not None
        ]
        if function.name not in MAY_RETURN_ANY and function.returns is not None:
            annotations.append(function.returns)
        for annotation in annotations:
            used = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
            assert "Any" not in used, (name, ast.unparse(annotation))
    assert names > 30
