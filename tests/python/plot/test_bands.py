"""cfck.plot.bands, which asks the program."""

import json
import subprocess

import cfck
import numpy as np
import pytest
from cfck.numpy import save_file
from conftest import weights

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import cfck.plot  # noqa: E402
from cfck._common import program  # noqa: E402

NAMES = ["-h.weight", "[x]*", "smooth.weight"]


@pytest.fixture
def files(tmp_path):
    try:
        program.find_program()
    except cfck.UnsupportedError as error:
        pytest.skip(str(error))
    tensors = {
        name: np.cumsum(weights(1024, 64, seed=i).numpy(), axis=0) for i, name in enumerate(NAMES)
    }
    tensors["x*"] = weights(64, 64).numpy()
    tensors["bias"] = weights(64).numpy()
    save_file(tensors, tmp_path / "model.cfck")
    save_file(tensors, tmp_path / "small.cfck", nmse=1e-4)
    return tmp_path / "small.cfck", tmp_path / "model.cfck"


@pytest.mark.parametrize("name", NAMES)
def test_bands_are_those_of_the_program(files, name):
    small, original = files
    said = subprocess.run(
        [program.find_program(), "bands", "--json", str(small), "--ref", str(original)],
        capture_output=True, check=True,
    )  # fmt: skip
    records = {record["name"]: record for record in json.loads(said.stdout)["records"]}
    expected = records[name]["codings"][0]["bands"]
    assert len(expected) > 8
    figure = cfck.plot.bands(small, name, original)
    top, bottom = figure.axes
    heights = [bar.get_height() for bar in top.patches]
    assert heights == [band["bits_per_weight"] for band in expected]
    errors = [bar.get_height() for bar in bottom.patches[len(expected) :]]
    assert errors == [band["rms_error"] for band in expected]
    figure.savefig(small.with_suffix(".png"))


def test_errors_are_estimated_without_a_reference(files):
    _, bottom = cfck.plot.bands(files[0], NAMES[2]).axes
    assert bottom.get_legend().get_texts()[0].get_text() == "errors, estimated"


def test_tensors_without_bands(files):
    with pytest.raises(cfck.InvalidArgumentError, match="codec spectral"):
        cfck.plot.bands(files[0], "bias")
    with pytest.raises(cfck.InvalidArgumentError, match="one band"):
        cfck.plot.bands(files[0], "x*")
    with pytest.raises(cfck.NotFoundError):
        cfck.plot.bands(files[0], "none")
    save_file({NAMES[0]: weights(8, 8).numpy()}, files[0].with_name("other.cfck"))
    with pytest.raises(cfck.InvalidArgumentError, match="not comparable"):
        cfck.plot.bands(files[0], NAMES[0], files[0].with_name("other.cfck"))
