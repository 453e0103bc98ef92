"""The pictures of README and of bench/results: what they show, and that it can be read."""

import itertools
import re
import sys
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from quality import picture
from rate_distortion import looks, plot
from rate_distortion.plot import Plot, drawn

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
PICTURES = [ROOT / "docs" / "quality.svg", *sorted(RESULTS.glob("*.svg"))]
SVG = "{http://www.w3.org/2000/svg}"


def text_box(text):
    """What a line of text covers, in the wide font that matplotlib has."""
    textpath = pytest.importorskip("matplotlib.textpath")
    size = float(text.get("font-size", plot.SIZE))
    box = textpath.TextPath((0, 0), text.text, size=size).get_extents()
    x, y = float(text.get("x")), float(text.get("y"))
    x -= {"start": 0, "middle": box.x1 / 2, "end": box.x1}[text.get("text-anchor", "start")]
    return x + box.x0, y - box.y1, x + box.x1, y - box.y0


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def series_of(svg):
    """The groups of a picture by their labels: colour, dash, and form of the marker."""
    found = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        line, marker = group.find(f"{SVG}polyline"), group.find(f"{SVG}path")
        numbers = [float(n) for n in re.findall(r"-?[\d.]+", marker.get("d"))]
        # The form of a marker is what is left where it does not depend on its place.
        form = re.sub(r"-?[\d.]+", "", marker.get("d")), marker.get("fill") == "#fff"
        spread = round(max(numbers[::2]) - min(numbers[::2])), len(numbers)
        dash = "none" if line is None else line.get("stroke-dasharray", "")
        found[group.get("data-series")] = marker.get("stroke"), (dash, (form, spread))
    return found


def contrast(one, other):
    """The contrast of two colours, as WCAG defines it."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted(map(luminance, (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_committed_picture_is_that_of_the_newest_points():
    run = picture.Picture.__new__(picture.Picture)
    run.draw()
    assert run.files({}, "") == {"quality.svg": (ROOT / "docs" / "quality.svg").read_text()}
    assert "](docs/quality.svg)" in (ROOT / "README.md").read_text()


def test_every_peer_is_a_point():
    points = max(picture.RESULTS.glob("quality-*-points.csv"), key=lambda path: path.name)
    table = [line for line in picture.read_table(points) if line["model"] == picture.MODEL]
    overview = picture.overview(table)
    peers = {line["codec"] for line in table if not line["codec"].startswith("cfck")}
    shown = sum(map(len, overview.marks.values())) + len(overview.curves["NNCodec"])
    assert shown == sum(line["codec"] in peers for line in table) > 20
    assert set(overview.marks) == {"GGUF", "bitsandbytes", "HQQ", "torchao"}


def test_looks_can_be_told_apart_with_and_without_colours():
    labels = [f"series {i}" for i in range(len(looks.COLOURS))]
    found = list(looks.looks_of(labels).values())
    assert len(found) == 16
    assert len({look.colour for look in found}) == len(found)
    assert len({(look.dash, look.shape, look.is_filled) for look in found}) == len(found)
    assert len({(look.shape, look.is_filled) for look in found}) == len(found)
    with pytest.raises(ValueError, match="17 series are more than"):
        looks.looks_of([*labels, "one more"])


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_series_of_committed_pictures(path):
    series = series_of(path.read_text())
    assert len(series) >= 5
    assert len({colour for colour, _ in series.values()}) == len(series)
    assert len({form for _, form in series.values()}) == len(series)


def test_a_series_looks_the_same_in_all_pictures_of_a_page():
    for page in RESULTS.glob("*.md"):
        found = {}
        for name in re.findall(r"\]\((.*\.svg)\)", page.read_text()):
            for label, (colour, (dash, _)) in series_of((RESULTS / name).read_text()).items():
                found.setdefault(label, set()).add((colour, dash.replace("none", "")))
        assert all(len({colour for colour, _ in same}) == 1 for same in found.values()), found
    one, other = Plot("1", "x", "y"), Plot("2", "x", "y")
    one.curves.update(a=[(0, 1), (1, 2)], b=[(0, 2), (1, 3)])
    other.curves.update(c=[(0, 1), (1, 2)], b=[(0, 2), (1, 3)])
    pictures = drawn({"one": one, "other": other})
    assert series_of(pictures["one"])["b"] == series_of(pictures["other"])["b"]
    assert len({series_of(pictures["other"])[label] for label in "bc"}) == 2


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_labels_do_not_cover_each_other(path):
    texts = [
        text
        for text in ElementTree.fromstring(path.read_text()).iter(f"{SVG}text")
        if text.get("transform") is None
    ]
    boxes = [(text_box(text), text.text) for text in texts]
    assert len(boxes) > 15
    for (a, first), (b, second) in itertools.combinations(boxes, 2):
        assert not overlap(a, b), (first, second)
    assert all(0 <= box[0] and box[2] <= plot.WIDTH and box[3] <= plot.HEIGHT for box, _ in boxes)


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_text_has_contrast(path):
    root = ElementTree.fromstring(path.read_text())
    background = root.find(f"{SVG}rect").get("fill")
    colours = {text.get("fill", root.get("fill")) for text in root.iter(f"{SVG}text")}
    assert all(contrast(colour, background) >= 4.5 for colour in colours)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def test_words_beside_marks_do_not_cover_each_other():
    crowded = Plot("a", "b", "c")
    crowded.marks["peer"] = [(x / 100, 1.0, "word") for x in range(8)] + [(9.0, 2.0, "far")]
    texts = [
        text for text in ElementTree.fromstring(crowded.svg()).iter(f"{SVG}text")
        if text.text == "word"
    ]  # fmt: skip
    assert len(texts) == 8
    for a, b in itertools.combinations(map(text_box, texts), 2):
        assert not overlap(a, b)


def test_few_curves_have_their_labels_beside_them():
    few = Plot("a", "b", "c")
    few.curves["<one>"] = [(1, 3), (2, 1)]
    few.curves["other"] = [(1, 4), (2, 3)]
    svg = few.svg()
    ends = {
        unescape(label): float(x)
        for x, label in re.findall(r"<text x='([\d.]+)'.*font-size='12'.*>(.*)</text>", svg)
    }
    assert set(ends) == {"<one>", "other"}
    assert svg.count("<polyline") == 2  # no legend has further ones
