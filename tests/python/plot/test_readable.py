"""The pictures of cfck.plot can be read: without colours, and with labels that cover nothing."""

import itertools

import cfck
import numpy as np
import pytest
from cfck.numpy import save_file
from conftest import weights

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import cfck.plot  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402
from cfck._common import program  # noqa: E402
from matplotlib import colors  # noqa: E402

LONG = "encoder.a_very_long_name_of_a_layer_that_nobody_wants_to_read.block.attention.{}.weight"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plots")
    tensors = {f"h.{i}.weight": weights(64, 32 + 8 * i, seed=i).numpy() for i in range(24)}
    tensors |= {LONG.format(i): weights(64, 64, seed=i).numpy() for i in range(2)}
    tensors["smooth.weight"] = np.cumsum(weights(1024, 64, seed=7).numpy(), axis=0)
    tensors["ids"] = np.arange(4096).reshape(64, 64)
    save_file(tensors, folder / "model.cfck")
    save_file(tensors, folder / "small.cfck", rules={"*": {"nmse": 0.01}})
    return folder / "small.cfck", folder / "model.cfck"


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def shown_texts(figure):
    """The texts that are seen, with what they cover, in pixels."""
    figure.canvas.draw()
    texts = [figure._suptitle] if figure._suptitle else []
    for ax in figure.axes:
        texts += [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
        texts += ax.get_legend().get_texts() if ax.get_legend() else []
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            margin = 1e-9 * (high - low)
            texts += [
                tick.label1
                for tick in axis.get_major_ticks()
                if low - margin <= tick.get_loc() <= high + margin
            ]
    texts = [text for text in texts if text.get_visible() and text.get_text().strip()]
    return [(text, text.get_window_extent()) for text in texts]


def contrast(one, other):
    def luminance(colour):
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
                 for c in colors.to_rgb(colour)]  # fmt: skip
        return float(np.dot((0.2126, 0.7152, 0.0722), parts))

    light, dark = sorted(map(luminance, (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def check(figure):
    """Asserts that all texts can be read."""
    texts = shown_texts(figure)
    assert len(texts) > 6
    for ax in figure.axes:
        drawn = ax.get_window_extent()
        for text in ax.get_legend().get_texts() if ax.get_legend() else []:
            assert not drawn.overlaps(text.get_window_extent()), "a legend covers what is drawn"
    for (a, first), (b, second) in itertools.combinations(texts, 2):
        inside = min(first.x1, second.x1) - max(first.x0, second.x0) > 0.5
        inside = inside and min(first.y1, second.y1) - max(first.y0, second.y0) > 0.5
        assert not inside, (a.get_text(), b.get_text())
    width, height = figure.canvas.get_width_height()
    for text, box in texts:
        assert -1 <= box.x0 and box.x1 <= width + 1, text.get_text()
        assert -1 <= box.y0 and box.y1 <= height + 1, text.get_text()
        assert contrast(text.get_color(), figure.get_facecolor()) >= 4.5, text.get_text()


def looks(ax):
    """Colour, pattern and kind of what the legend names."""
    found = []
    for handle in ax.get_legend().legend_handles:
        if isinstance(handle, matplotlib.lines.Line2D):
            found.append((colors.to_hex(handle.get_color()), "line"))
        else:
            found.append((colors.to_hex(handle.get_facecolor()), handle.get_hatch()))
    return found


def check_looks(ax):
    found = looks(ax)
    assert len(found) == 2
    assert len({colour for colour, _ in found}) == len(found)
    assert len({form for _, form in found}) == len(found)


@pytest.mark.parametrize("most", [3, 20, 60])
def test_sizes(files, most):
    check(cfck.plot.sizes(files[0], most=most).figure)


def test_bits(files):
    ax = cfck.plot.bits(files[0])
    check(ax.figure)
    check_looks(ax)


def test_errors(files):
    check(cfck.plot.errors(*files).figure)


@pytest.mark.parametrize("name", ["smooth.weight", LONG.format(1), "ids"])
def test_histogram(files, name):
    ax = cfck.plot.histogram(files[0], name, files[1])
    check(ax.figure)
    check_looks(ax)


def test_bands(files):
    try:
        program.find_program()
    except cfck.UnsupportedError as error:
        pytest.skip(str(error))
    figure = cfck.plot.bands(files[0], "smooth.weight", files[1])
    check(figure)
    check_looks(figure.axes[1])


def test_a_page_of_the_caller(files):
    figure, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
    small, original = files
    cfck.plot.sizes(small, ax=axes[0, 0])
    bits = cfck.plot.bits(small, ax=axes[0, 1])
    cfck.plot.errors(small, original, ax=axes[1, 0])
    histogram = cfck.plot.histogram(small, "smooth.weight", original, ax=axes[1, 1])
    check(figure)
    # Values that a file holds after a loss have one colour in all of them.
    assert looks(bits)[0][0] == looks(histogram)[1][0]
