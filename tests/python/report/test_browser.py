"""The page of ``cfck report`` in a real browser; skipped where there is none."""

import html
import json
import re
import shutil
import struct
import subprocess
import zlib

import cfck
import numpy as np
import pytest
from cfck._common import program
from cfck.numpy import save_file
from conftest import weights

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)

try:
    program.find_program()
except cfck.UnsupportedError as error:
    pytest.skip(str(error), allow_module_level=True)
if BROWSER is None:
    pytest.skip("no Chromium or Chrome here", allow_module_level=True)

# Names that would run, load, or turn around what follows them.
HOSTILE = [
    "<script>document.title='run'</script>",
    '"><img src=x onerror="document.title=\'run\'">',
    "</style></svg><b>bold</b>",
    "\u202ereversed.weight",
    "a.very.long.name." + "with_many_parts." * 12 + "weight",
    "averylongnamewithoutanyplacetobreak" * 6,
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    names = [f"encoder.layer.{i}.{part}.weight" for i in range(6) for part in ("query", "dense")]
    tensors = {
        name: weights(96 + 8 * i, 64, seed=i).numpy() for i, name in enumerate(names + HOSTILE)
    }
    tensors["conv.weight"] = np.cumsum(weights(512, 64, seed=40).numpy(), axis=0)
    tensors["norm.bias"] = weights(64, seed=41).numpy()
    save_file(tensors, folder / "model.cfck")
    save_file(tensors, folder / "small.cfck", rules={"*": {"nmse": 0.01}})
    cfck.report(
        folder / "small.cfck", folder / "model.cfck", output=folder / "page.html",
        figures={"cosine to the original": 0.991},
    )  # fmt: skip
    return folder / "page.html"


def _browse(folder, *arguments):
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        "--force-device-scale-factor=1", f"--user-data-dir={folder / 'profile'}", *arguments,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, check=True, timeout=200).stdout


def _measured(page, width):
    """A browser measures the page in a frame of a width, with every tensor unfolded."""
    script = """
      const frame = document.querySelector('iframe');
      frame.onload = () => {
        const inside = frame.contentDocument, all = [...inside.querySelectorAll('*')];
        const folds = [...inside.querySelectorAll('details')];
        folds.forEach(fold => { fold.open = true; });
        const width = inside.documentElement.clientWidth;
        const wide = all.filter(element => !element.closest('svg') &&
          element.getBoundingClientRect().right > width + 1);
        const letters = [...inside.querySelectorAll('svg text')].filter(
          text => text.getClientRects().length).map(text => text.getBoundingClientRect().height);
        const seen = [...inside.querySelectorAll('.wide, .narrow')].filter(
          picture => picture.getClientRects().length).length;
        document.body.textContent = JSON.stringify({
          title: document.title, inner: inside.title, width,
          scrolled: inside.documentElement.scrollWidth,
          wide: wide.map(element => element.outerHTML.slice(0, 200)),
          least_letter: Math.min(...letters), seen, n_folds: folds.length,
          scripts: inside.scripts.length, images: inside.images.length,
          bold: inside.querySelectorAll('b b, bdi b, .name b').length,
          loaded: frame.contentWindow.performance.getEntriesByType('resource').length,
          names: [...inside.querySelectorAll('.label bdi')].map(name => name.textContent)});
      };
      frame.srcdoc = new TextDecoder().decode(
        Uint8Array.from(atob(document.querySelector('template').innerHTML), c => c.charCodeAt()));
    """
    import base64

    text = base64.b64encode(page.read_bytes()).decode()
    outer = page.with_name(f"outer{width}.html")
    outer.write_text(
        f"<!DOCTYPE html><title>outer</title><body><template>{text}</template>"
        f"<iframe style='width:{width}px;height:900px;border:0'></iframe>"
        f"<script>{script}</script>"
    )
    out = _browse(page.parent, "--virtual-time-budget=20000", "--dump-dom", outer.as_uri()).decode()
    return json.loads(html.unescape(re.search(r"<body>(\{.*\})", out, re.DOTALL)[1]))


@pytest.mark.parametrize("width", [320, 390, 820, 1400])
def test_nothing_runs_loads_or_overflows(page, width):
    found = _measured(page, width)
    assert found["width"] == width
    assert found["title"] == "outer" and found["inner"] == "small.cfck"
    assert (found["scripts"], found["images"], found["bold"], found["loaded"]) == (0, 0, 0, 0)
    assert found["wide"] == []
    assert found["scrolled"] <= width
    # Two pictures have a form for wide windows and one for narrow ones.
    assert found["seen"] == 2
    assert found["n_folds"] >= 20
    assert found["least_letter"] >= 9
    assert "<script>document.title='run'</script>" in found["names"]
    assert "\\u202ereversed.weight" in found["names"]


def _pixels(path):
    """An 8-bit RGB or RGBA image as [height, width, channels]; PNG filters are undone."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        (n_bytes,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + n_bytes]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8 and colour in (2, 6)
            channels = 3 if colour == 2 else 4
        packed += body if kind == b"IDAT" else b""
        at += 12 + n_bytes
    raw = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * channels)
    rows = np.zeros((height + 1, width * channels + channels), np.int64)
    for y in range(height):
        line, above, now = raw[y, 1:].astype(np.int64), rows[y], rows[y + 1]
        match raw[y, 0]:
            case 0:
                now[channels:] = line
            case 1:
                for c in range(channels):
                    now[channels + c :: channels] = np.cumsum(line[c::channels]) % 256
            case 2:
                now[channels:] = (line + above[channels:]) % 256
            case kind:
                for i in range(channels, now.size):
                    left, up, corner = (
                        int(now[i - channels]),
                        int(above[i]),
                        int(above[i - channels]),
                    )
                    if kind == 3:
                        guess = (left + up) // 2
                    else:
                        near = [abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)]
                        guess = (left, up, corner)[near.index(min(near))]
                    now[i] = (line[i - channels] + guess) % 256
    return rows[1:, channels:].reshape(height, width, channels)[:, :, :3]


def _screenshot(page, name, *arguments, size=(700, 500)):
    path = page.with_name(name)
    _browse(
        page.parent, f"--screenshot={path}", f"--window-size={size[0]},{size[1]}", *arguments,
        page.as_uri(),
    )  # fmt: skip
    return _pixels(path)


def test_colours_follow_the_system(page):
    light = _screenshot(page, "light.png", "--blink-settings=preferredColorScheme=1")
    dark = _screenshot(page, "dark.png", "--blink-settings=preferredColorScheme=0")
    assert light.shape == dark.shape == (500, 700, 3)
    assert np.median(light) > 200
    assert np.median(dark) < 60
    # Something is drawn: the accent of the first card is in both.
    for picture in (light, dark):
        accent = np.abs(picture - np.array([0x1F, 0x7A, 0x99])).max(axis=2) < 8
        assert accent.mean() > 0.005
