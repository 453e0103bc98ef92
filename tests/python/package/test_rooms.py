"""The sub-packages import each other in one direction, the one that cfck/__init__.py states."""

import ast
import pathlib

import cfck
import pytest

PACKAGE = pathlib.Path(cfck.__file__).parent

# Each sub-package, and those that it may import. Everything may import errors and _native.
MAY_IMPORT = {
    "_common": set(),
    "_frameworks": {"_common"},
    "_options": {"_common", "_frameworks"},
    "_io": {"_common", "_frameworks", "_options"},
    "_checkpoint": {"_common", "_frameworks", "_options", "_io"},
    "_distributed": {"_common", "_frameworks", "_options", "_io"},
    "_embeddings": {"_common", "_frameworks", "_options", "_io", "_distributed"},
    "_embedding_bench": {"_common", "_io", "_embeddings"},
    "embeddings": {"_embeddings", "_embedding_bench"},
    "_evaluation": {"_common", "_frameworks", "_options", "_io"},
    "_report": {"_common", "_frameworks", "_options", "_io"},
    "_streaming": {"_common", "_frameworks", "_options", "_io"},
    "_sync": {"_common", "_frameworks", "_options", "_io"},
    "_calibration": {"_common", "_frameworks", "_options", "_io", "_evaluation"},
    "_shrink": {"_common", "_frameworks", "_options", "_io", "_evaluation", "_calibration"},
    "_training": {"_common", "_frameworks", "_options", "_io", "_evaluation"},
    "_transformers": {"_common", "_frameworks", "_options", "_io", "_streaming"},
    "_program": {"_common", "_options", "_shrink"},
}


def _imported(module):
    """The sub-packages, and the modules of the package itself, that a module imports."""
    inside = len(module.relative_to(PACKAGE).parts) > 1
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == (2 if inside else 1):
            names = [node.module] if node.module else [alias.name for alias in node.names]
            yield from (name.partition(".")[0] for name in names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert node.module.partition(".")[0] != "cfck", module
        elif isinstance(node, ast.Import):
            assert "cfck" not in {alias.name.partition(".")[0] for alias in node.names}, module


def test_every_sub_package_is_listed():
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders == set(MAY_IMPORT)
    text = (PACKAGE / "__init__.py").read_text()
    assert all(folder in text for folder in folders)


@pytest.mark.parametrize("folder", list(MAY_IMPORT))
def test_imports_point_one_way(folder):
    allowed = MAY_IMPORT[folder] | {"errors", "_native"}
    for module in sorted((PACKAGE / folder).glob("*.py")):
        assert set(_imported(module)) <= allowed, module


def test_nothing_imports_what_callers_import():
    for module in PACKAGE.glob("*/*.py"):
        assert not set(_imported(module)) & {"torch", "numpy"}, module
