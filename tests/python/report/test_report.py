"""cfck.report, and that Python and the program group tensors alike."""

import cfck
import pytest
from cfck._common import program
from cfck._report.layers import layer_of
from cfck.numpy import save_file
from conftest import weights

try:
    program.find_program()
except cfck.UnsupportedError as error:
    pytest.skip(str(error), allow_module_level=True)

LAYERS = {
    "encoder.layer.3.query.weight": "encoder.layer.3",
    "encoder.layer.30.query.weight": "encoder.layer.30",
    "layer1.0.conv.weight": "layer1.0",
    "pooler.dense.weight": "pooler.dense",
    "optimizer/0/exp_avg": "optimizer/0",
    "0.weight": "0",
    "12": "12",
    ".x": ".x",
    "a.b.7": "a.b",
    "a..3.w": "a..3",
    "line\nbreak.4.w": "line\nbreak.4",
    "head": "head",
}


@pytest.fixture
def files(tmp_path):
    tensors = {name: weights(64, 64, seed=i).numpy() for i, name in enumerate(LAYERS)}
    save_file(tensors, tmp_path / "model.cfck")
    save_file(tensors, tmp_path / "small.cfck", rules={"*": {"nmse": 0.01}})
    return tmp_path / "small.cfck", tmp_path / "model.cfck"


def test_layers_are_those_of_the_program(files):
    assert {name: layer_of(name) for name in LAYERS} == LAYERS
    said = cfck.report(files[0], output=files[0].with_name("page.md"))
    assert said.n_layers == len(set(LAYERS.values()))
    text = files[0].with_name("page.md").read_text()
    for layer in LAYERS.values():
        assert f"| `{layer}` | 1 |".replace("\n", "\\n") in text or "\n" in layer, layer


def test_the_page_has_what_was_given(files):
    page = files[0].with_name("-page.html")
    said = cfck.report(
        files[0],
        files[1],
        output=page,
        title="-o & <title>",
        figures={"cosine": 0.991, "a<b": "1%"},
    )
    text = page.read_text()
    assert said.output_bytes == page.stat().st_size
    assert said.problems == ()
    assert said.nmse_db == pytest.approx(-20, abs=0.1)
    assert "-o &amp; &lt;title&gt;" in text
    assert "0.991" in text and "cosine" in text
    assert "a&lt;b" in text


def test_a_page_is_not_replaced_without_force(files):
    page = files[0].with_name("page.html")
    page.write_text("mine")
    with pytest.raises(cfck.CfckError, match="exists already"):
        cfck.report(files[0], output=page)
    assert page.read_text() == "mine"
    cfck.report(files[0], output=page, force=True)
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_problems_are_in_the_result(files, tmp_path):
    save_file({"head": weights(8, 8).numpy()}, tmp_path / "other.cfck")
    said = cfck.report(files[0], tmp_path / "other.cfck", output=tmp_path / "page.html")
    assert len(said.problems) == len(LAYERS)
    assert {problem.record for problem in said.problems} == set(LAYERS)


def test_errors(files, tmp_path):
    with pytest.raises(FileNotFoundError):
        cfck.report(tmp_path / "none.cfck", output=tmp_path / "page.html")
    with pytest.raises(cfck.InvalidArgumentError, match="--format"):
        cfck.report(files[0], output=tmp_path / "page.pdf")
    with pytest.raises(cfck.InvalidArgumentError, match="numbers or texts"):
        cfck.report(files[0], output=tmp_path / "page.html", figures={"a": [1]})
    (tmp_path / "bad.cfck").write_bytes(files[0].read_bytes()[:100])
    with pytest.raises(cfck.CfckError):
        cfck.report(tmp_path / "bad.cfck", output=tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_a_missing_program_is_named(files, monkeypatch):
    monkeypatch.setattr(program, "_candidates", lambda: [])
    with pytest.raises(cfck.UnsupportedError, match="is not installed beside"):
        cfck.report(files[0], output=files[0].with_name("page.html"))
