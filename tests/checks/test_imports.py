"""scripts/checks/imports.py finds every circle of modules, however they are imported."""

import pytest

GOOD = {
    "python_bindings/cfck/__init__.py": "from ._io.save import save\nfrom . import errors\n",
    "python_bindings/cfck/errors.py": "",
    "python_bindings/cfck/_common/__init__.py": "",
    "python_bindings/cfck/_common/text.py": "from .. import _native\nfrom ..errors import Error\n",
    "python_bindings/cfck/_io/__init__.py": "",
    "python_bindings/cfck/_io/save.py": "import os\nfrom .._common import text\n",
    "python_bindings/cfck/_io/load.py": "from .save import save\nfrom .._common.text import a\n",
    "tests/python/test_io.py": "import cfck\n",
}


def test_what_points_down_passes(tree, run):
    assert run("imports", tree(GOOD)) == []


@pytest.mark.parametrize(
    "text",
    [
        "from .load import load\n",
        "from . import load\n",
        "def save():\n    from .load import load\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .load import load\n",
        "import cfck._io.load\n",
        "from cfck._io import load\n",
    ],
)
def test_modules_that_import_each_other(tree, run, text):
    path = "python_bindings/cfck/_io/save.py"
    lines = run("imports", tree(GOOD | {path: text}))
    assert len(lines) == 2 and all(
        "import each other: cfck._io.load, cfck._io.save" in line for line in lines
    )
    assert lines[1].startswith(f"{path}:{len(text.splitlines())}: ")


def test_a_module_that_imports_its_package(tree, run):
    path = "python_bindings/cfck/_io/load.py"
    (line, _) = run(
        "imports",
        tree(
            GOOD
            | {
                path: "from .. import save\n",
                "python_bindings/cfck/__init__.py": "from ._io.load import load\n",
            }
        ),
    )
    assert "import each other: cfck, cfck._io.load" in line


def test_folders_that_import_each_other(tree, run):
    path = "python_bindings/cfck/_common/files.py"
    (line,) = run("imports", tree(GOOD | {path: "from .._io.load import load\n"}))
    assert line.startswith("python_bindings/cfck/_common:1: these folders import each other")
    assert "python_bindings/cfck/_io" in line
