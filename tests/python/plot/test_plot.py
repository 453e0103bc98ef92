"""The pictures of cfck.plot: what they show, and what they refuse."""

import subprocess
import sys

import cfck
import numpy as np
import pytest
from cfck.numpy import save_file
from conftest import weights

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import cfck.plot  # noqa: E402


@pytest.fixture
def tensors():
    rows = np.cumsum(weights(1024, 64, seed=3).numpy(), axis=0)
    return {
        "h.0.weight": weights(64, 64).numpy(),
        "h.0.bias": weights(64, seed=2).numpy(),
        "h.1.weight": rows,
        "head.weight": weights(128, 64, seed=4).numpy(),
        "ids": np.arange(4096).reshape(64, 64),
    }


@pytest.fixture
def files(tmp_path, tensors):
    original, small = tmp_path / "model.cfck", tmp_path / "small.cfck"
    save_file(tensors, original)
    save_file(tensors, small, rules={"*": {"nmse": 0.01}})
    return small, original


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def _records(path):
    with cfck.safe_open(path, "np") as file:
        return {record.name: record for record in file.records()}


def test_sizes_are_those_of_the_layers(files):
    records = _records(files[0])
    ax = cfck.plot.sizes(files[0])
    names = [label.get_text() for label in ax.get_yticklabels()]
    widths = [bar.get_width() * 1e6 for bar in ax.patches]
    expected = {"h.0": 0, "h.1": 0, "head": 0, "ids": 0}
    for name, record in records.items():
        layer = next(layer for layer in expected if name.startswith(layer))
        expected[layer] += record.stored_bytes
    assert dict(zip(names, widths)) == pytest.approx(expected)
    assert widths == sorted(widths, reverse=True)


def test_small_layers_share_a_bar(files):
    ax = cfck.plot.sizes(files[0], most=1)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[1:] == ["3 smaller layers"]
    total = sum(record.stored_bytes for record in _records(files[0]).values())
    assert sum(bar.get_width() for bar in ax.patches) * 1e6 == pytest.approx(total)
    with pytest.raises(cfck.InvalidArgumentError, match="at least one"):
        cfck.plot.sizes(files[0], most=0)


def test_the_area_of_bits_is_the_size(files):
    ax = cfck.plot.bits(files[0])
    area = sum(bar.get_width() * bar.get_height() for bar in ax.patches) * 1e6 / 8
    total = sum(record.stored_bytes for record in _records(files[0]).values())
    assert area == pytest.approx(total)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["lossy", "lossless"]


def test_a_few_high_columns_are_cut_off(tmp_path):
    tensors = {"large": weights(512, 256).numpy(), "bias": weights(1024, seed=2).numpy()}
    save_file(tensors, tmp_path / "x.cfck", bits_per_weight=4)
    ax = cfck.plot.bits(tmp_path / "x.cfck")
    assert ax.get_ylim()[1] < 8
    assert "cut off" in ax.get_ylabel()
    save_file(tensors, tmp_path / "y.cfck")
    assert "cut off" not in cfck.plot.bits(tmp_path / "y.cfck").get_ylabel()
    with pytest.warns(cfck.EmptyFileWarning):
        save_file({}, tmp_path / "empty.cfck")
    assert not cfck.plot.bits(tmp_path / "empty.cfck").patches


@pytest.mark.parametrize("measured", [True, False])
def test_errors_are_measured_or_those_of_the_file(files, tensors, measured):
    small, original = files
    ax = cfck.plot.errors(small, original if measured else None)
    tops = [bar.get_y() + bar.get_height() for bar in ax.patches]
    decoded = cfck.numpy.load_file(small)
    lossy = [name for name, record in _records(small).items() if record.nmse_db is not None]
    assert len(lossy) == len(tops) == 3
    for name, top in zip(lossy, tops):
        before = tensors[name].astype(float)
        errors = decoded[name].astype(float) - before
        nmse = 10 * np.log10((errors**2).sum() / (before**2).sum())
        assert top == pytest.approx(nmse, abs=1e-4)


def test_errors_that_cannot_be_drawn(files, tmp_path, tensors):
    small, original = files
    with pytest.raises(cfck.InvalidArgumentError, match="pass the original as ref"):
        cfck.plot.errors(original)
    with pytest.raises(cfck.InvalidArgumentError, match="no tensor"):
        cfck.plot.errors(original, original)
    save_file({**tensors, "head.weight": tensors["head.weight"].T.copy()}, tmp_path / "other.cfck")
    with pytest.raises(cfck.InvalidArgumentError, match="not comparable") as refused:
        cfck.plot.errors(small, tmp_path / "other.cfck")
    assert refused.value.record == "head.weight"
    save_file({"ids": tensors["ids"]}, tmp_path / "few.cfck")
    with pytest.raises(cfck.NotFoundError):
        cfck.plot.errors(small, tmp_path / "few.cfck")


def test_histograms_have_equal_bins(files, tensors):
    small, original = files
    ax = cfck.plot.histogram(small, "head.weight", original)
    before, after = (patch.get_data() for patch in ax.patches)
    assert np.array_equal(before.edges, after.edges)
    values = tensors["head.weight"].astype(float).ravel()
    inside = (values >= before.edges[0]) & (values <= before.edges[-1])
    assert before.values.sum() == inside.sum() > 0.99 * values.size
    assert before.values.tolist() != after.values.tolist()
    assert len(cfck.plot.histogram(small, "head.weight").patches) == 1


@pytest.mark.parametrize("values", [
    np.array([np.nan, np.inf, 1, 2], np.float32), np.zeros(8, np.float32),
    np.arange(8), np.array([1 + 2j, 3j], np.complex64),
])  # fmt: skip
def test_histograms_of_unusual_values(tmp_path, values):
    save_file({"x": values}, tmp_path / "x.cfck")
    ax = cfck.plot.histogram(tmp_path / "x.cfck", "x", tmp_path / "x.cfck")
    n_finite = np.isfinite(values).sum() * (2 if values.dtype.kind == "c" else 1)
    assert ax.patches[0].get_data().values.sum() == n_finite


def test_histograms_need_values(tmp_path):
    save_file({"x": np.full(4, np.nan, np.float32)}, tmp_path / "x.cfck")
    with pytest.raises(cfck.InvalidArgumentError, match="no finite values"):
        cfck.plot.histogram(tmp_path / "x.cfck", "x")
    with pytest.raises(cfck.NotFoundError):
        cfck.plot.histogram(tmp_path / "x.cfck", "y")


def test_pictures_go_into_axes_of_the_caller(files, tmp_path):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2)
    small, original = files
    assert cfck.plot.sizes(small, ax=axes[0, 0]) is axes[0, 0]
    assert cfck.plot.bits(small, ax=axes[0, 1]) is axes[0, 1]
    assert cfck.plot.errors(small, original, ax=axes[1, 0]) is axes[1, 0]
    assert cfck.plot.histogram(small, "ids", ax=axes[1, 1]) is axes[1, 1]
    figure.savefig(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_hostile_names_are_drawn(tmp_path):
    names = ["$\\frac{$.w", "a\nb.w", "\u202egnp.w", "<script>.w", "$x$"]
    save_file({name: weights(64, 64, seed=i).numpy() for i, name in enumerate(names)},
              tmp_path / "x.cfck")  # fmt: skip
    ax = cfck.plot.sizes(tmp_path / "x.cfck")
    ax.figure.savefig(tmp_path / "x.png")
    labels = {label.get_text() for label in ax.get_yticklabels()}
    assert {"a\\nb", "\\u202egnp", "<script>"} <= labels
    for name in names:
        figure = cfck.plot.histogram(tmp_path / "x.cfck", name).figure
        figure.savefig(tmp_path / "x.png")


def test_without_matplotlib_the_error_says_what_to_install(files):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import cfck\n"
        f"try: cfck.plot.sizes({str(files[0])!r})\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install matplotlib" in done.stdout


def test_importing_cfck_does_not_import_matplotlib():
    code = "import sys, cfck; assert 'matplotlib' not in sys.modules; cfck.plot; print('ok')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "ok\n"
