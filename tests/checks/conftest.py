"""Small trees of sources for the checks of scripts/checks."""

import pathlib
import subprocess
import sys

import pytest

CHECKS = pathlib.Path(__file__).parents[2] / "scripts" / "checks"
sys.path.insert(0, str(CHECKS))


@pytest.fixture
def tree(tmp_path):
    """Writes files into a folder: tree({"base/a.hpp": "text"})."""

    def write(files):
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8")
        return tmp_path

    return write


@pytest.fixture
def run():
    """Runs a check on a folder, as check.sh does; its lines, which are there if it fails."""

    def run_check(name, folder):
        command = [sys.executable, str(CHECKS / f"{name}.py"), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        lines = done.stderr.splitlines()
        assert done.returncode == (1 if lines else 0), done.stderr
        return lines

    return run_check
