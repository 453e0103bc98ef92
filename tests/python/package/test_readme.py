"""README and docs/python.md: commands and Python run as printed. Links of all pages resolve."""

import contextlib
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
import torch
from cfck._common.program import find_program
from cfck.torch import load_model
from conftest import assert_same

ROOT = pathlib.Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# These install packages and take long: the gate is one of them, and the other is a script like it.
SCRIPTS = ["scripts/demo.sh", "scripts/test.sh"]


def commands():
    """The indented lines of the page, without what is behind #."""
    lines = re.findall(r"^    (\S.*)$", re.sub(r"```.*?```", "", README, flags=re.DOTALL), re.M)
    return [shlex.split(line, comments=True) for line in lines]


def python_code():
    """The code of the only block."""
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    return block


@contextlib.contextmanager
def working_in(folder):
    """contextlib.chdir, which Python has from 3.11 on."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a small model of transformers, and one that was trained on, in which the
    commands have run."""
    transformers = pytest.importorskip("transformers")
    root = tmp_path_factory.mktemp("readme")
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=128, max_position_embeddings=32,
    )  # fmt: skip
    model = transformers.BertModel(config).eval()
    model.save_pretrained(root / "my-model")
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[::10] += 1e-3
    model.save_pretrained(root / "my-model-next")
    ran = 0
    for command in commands():
        if command[0] == "cfck":
            done = subprocess.run([find_program(), *command[1:]], cwd=root, capture_output=True)
            assert done.returncode == 0, (command, done.stderr.decode())
            ran += 1
    assert ran == 8
    return root


@pytest.fixture(scope="module")
def state(folder):
    """The tensors of the model that the Python of the page loads, in a process of its own, since
    other tests of this one may have taken back what the import does."""
    code = python_code() + "import torch\ntorch.save(model.state_dict(), 'state.pt')\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return torch.load(folder / "state.pt", weights_only=True)


def test_a_page_and_a_half():
    assert len(README.splitlines()) <= 100
    assert len(python_code().splitlines()) == 4


def test_every_command_is_known():
    """Those that are not programs of cfck are the installation and the two scripts."""
    others = [command for command in commands() if command[0] != "cfck"]
    assert others == [["pip", "install", "."], *([script] for script in SCRIPTS)]
    for script in SCRIPTS:
        assert os.access(ROOT / script, os.X_OK)


def test_the_installation_is_that_of_a_package():
    """With all but the build, which every test of this package has seen."""
    command = [sys.executable, "-m", *commands()[0], "--dry-run", "--no-deps"]
    done = subprocess.run(
        [*command, "--no-build-isolation", "--disable-pip-version-check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Would install cfck-" in done.stdout


def test_commands_do_what_the_page_says(folder):
    """The way back gives the same bytes, and a quality less than half of them."""
    original = folder / "my-model" / "model.safetensors"
    assert (folder / "back" / "model.safetensors").read_bytes() == original.read_bytes()
    converted = folder / "my-model-cfck" / "model.cfck"
    assert converted.stat().st_size < original.stat().st_size
    assert (folder / "small" / "model.cfck").stat().st_size < original.stat().st_size / 2


def test_transformers_loads_and_saves_the_folder(folder, state):
    from transformers import AutoModel

    expected = AutoModel.from_pretrained(folder / "my-model").state_dict()
    assert state.keys() == expected.keys()
    for name, tensor in state.items():
        assert_same(tensor, expected[name])
    assert (folder / "my-model-small" / "model.cfck").exists()


class Averages(torch.nn.Module):
    """A model with the names that docs/python.md has."""

    def __init__(self):
        super().__init__()
        self.embeddings = torch.nn.Embedding(1100, 64)
        self.hidden = torch.nn.Linear(64, 64)
        self.head = torch.nn.Linear(64, 64)

    def forward(self, ids):
        return self.head(self.hidden(self.embeddings(ids)).relu()).mean(1)


def test_python_of_the_page_about_it(tmp_path):
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    torch.manual_seed(0)
    model = Averages().eval()
    before = model.embeddings.weight.detach().clone()
    names = {
        "model": model,
        "new_head": torch.randn(64, 64),
        "batches": [torch.randint(0, 1100, (40, 8)) for _ in range(8)],
        "tensor": torch.randn(64, 64),
    }
    with working_in(tmp_path):
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
            exec(block, names)
    assert_same(names["rows"], before[1000:1010])
    assert_same(names["again"], names["tensor"])
    assert set(names["saved"].kept_lossless) == {"hidden.bias", "head.bias"}
    assert (tmp_path / "small.cfck").stat().st_size < (tmp_path / "bounded.cfck").stat().st_size
    loaded = Averages().eval()
    load_model(loaded, tmp_path / "model.cfck")  # with the new head
    assert_same(loaded.head.weight.detach(), names["new_head"])
    with torch.no_grad():
        assert_same(names["model"](names["batches"][0]), loaded(names["batches"][0]))


def anchor(heading):
    """As GitHub names the places of headings."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.M)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+://", target):
            continue
        path, _, place = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (place and file.suffix == ".md" and place not in anchors(file)):
            wrong.append(target)
    assert not wrong
