"""Runs of benchmarks that ask for sizes alone leave the pages with speeds as they are."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from common.measure import Seconds
from common.targets import Targets
from entropy import command as entropy
from entropy import version_speeds, versions
from lossless import command as lossless
from lossless.context import Context, Measurement

FACTS = {"processor": "A CPU", "cores": "2"}
SECONDS = Seconds(0.25, 0.125)
ONE = Measurement("data", "cfck", "1", 1000, 600, 500, SECONDS, SECONDS, 9)


def lossless_files(rows):
    context = Context(Path(), False, None)
    context.measurements["data"] = [ONE]
    context.judge("a row", "data", "ratio", "2", "-", "-", True)
    run = SimpleNamespace(context=context, options=SimpleNamespace(rows=rows))
    return lossless.Lossless.files(run, FACTS, "python bench lossless")


def test_lossless():
    files = lossless_files(["file", "sparse"])
    (page,) = files.values()
    assert list(files) == ["sizes-a-cpu-2-cores.md"]
    assert "| data | cfck | 1 | 1000 | 600 | 500 | 1.6667 | 2.0000 |\n" in page
    assert "GB/s" not in page and "repetitions" not in page
    assert "a-cpu-2-cores.md" in lossless_files(["file", "speed"])


@pytest.mark.parametrize(
    ("rows", "stem"),
    [
        (["sizes", "versions"], "entropy-sizes-"),
        (["version_speeds"], "entropy-versions-"),
        (["sizes", "speed"], "entropy-"),
    ],
)
def test_entropy(rows, stem):
    shared = SimpleNamespace(context=Context(Path(), False, None), limits=[])
    run = SimpleNamespace(
        shared=shared, options=SimpleNamespace(rows=rows), tables=lambda: {"sizes": ("T", [], [[]])}
    )
    files = entropy.Entropy.files(run, FACTS, "python bench entropy")
    assert set(files) == {f"{stem}a-cpu-2-cores.md", f"{stem}a-cpu-2-cores-sizes.csv"}


def test_versions_are_compared_file_by_file(monkeypatch):
    found = {None: {"f": {"lossless": 1002}}, "old": {"f": {"lossless": 1000}}}
    monkeypatch.setattr(versions, "printed_by", lambda module, folder: found[folder])
    run = SimpleNamespace(before="old", targets=Targets(), say=lambda _: None)
    versions.compare(run)
    ((*_, value, told, must, _, verdict),) = run.targets.lines
    assert (value, told) == ("1.00200", "1,002, 1,000 before")
    assert must == "at most 1.00100" and verdict == "FAIL"
    run.before = None
    versions.compare(run)
    assert run.targets.lines[1][-1] == "skipped"


def test_speeds_of_versions_take_turns(monkeypatch):
    seconds = {"old": [0.1, 0.3, 0.2], None: [0.9, 0.1, 0.201]}
    asked = []

    def printed_by(module, folder):
        asked.append(folder)
        return {"saved": seconds[folder][asked.count(folder) - 1]}

    monkeypatch.setattr(version_speeds, "printed_by", printed_by)
    monkeypatch.setattr(version_speeds, "TURNS", 3)
    run = SimpleNamespace(before="old", quick=False, targets=Targets(), say=lambda _: None)
    version_speeds.compare(run)
    assert asked == 3 * ["old", None]
    ((*_, value, told, must, _, verdict),) = run.targets.lines
    assert (value, told) == ("1.005", "201.00 ms, 200.00 ms before")
    assert must == "at most 1.030" and verdict == "pass"
