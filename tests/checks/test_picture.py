"""The picture of README is that of the committed points, and its words can be read."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from quality import picture
from rate_distortion.plot import Plot

ROOT = Path(__file__).parents[2]


def test_the_committed_picture_is_that_of_the_newest_points():
    run = picture.Picture.__new__(picture.Picture)
    run.draw()
    assert run.files({}, "") == {"quality.svg": (ROOT / "docs" / "quality.svg").read_text()}
    assert "](docs/quality.svg)" in (ROOT / "README.md").read_text()


def test_every_peer_is_a_point():
    points = max(picture.RESULTS.glob("quality-*-points.csv"), key=lambda path: path.name)
    table = [line for line in picture.read_table(points) if line["model"] == picture.MODEL]
    plot = picture.overview(table)
    peers = {line["codec"] for line in table if not line["codec"].startswith("cfck")}
    drawn = sum(map(len, plot.marks.values())) + len(plot.curves["NNCodec"])
    assert drawn == sum(line["codec"] in peers for line in table) > 20
    assert set(plot.marks) == {"GGUF", "bitsandbytes", "HQQ", "torchao"}


def test_words_beside_marks_do_not_cover_each_other():
    plot = Plot("a", "b", "c")
    plot.marks["peer"] = [(x / 100, 1.0, "word") for x in range(3)] + [(9.0, 2.0, "far")]
    places = re.findall(r"<text x='([\d.]+)' y='([\d.]+)' font-size='9'>word", plot.svg())
    boxes = [(float(x), float(y)) for x, y in places]
    assert len(boxes) == 3
    for i, (x, y) in enumerate(boxes):
        for other_x, other_y in boxes[:i]:
            assert abs(x - other_x) >= 5.2 * len("word") - 0.1 or abs(y - other_y) >= 8
