"""Wrong arguments of shrink are answered at once: before torch is imported, or the model runs."""

import json
import os
import pathlib
import subprocess
import sys
import time

import cfck
import pytest
import torch

# Loading torch and transformers takes half a minute; whoever imports them here fails.
TOO_EARLY = "raise SystemExit('imported too early')"
MOST_SECONDS = 1.0


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with models that cannot be loaded, and text."""
    folder = tmp_path_factory.mktemp("home")
    for name in ("torch", "transformers"):
        (folder / "modules" / name).mkdir(parents=True)
        (folder / "modules" / name / "__init__.py").write_text(TOO_EARLY)
    for name, kind in {"encoder": "BertModel", "writer": "LlamaForCausalLM"}.items():
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps({"architectures": [kind]}))
        (folder / name / "model.safetensors").write_bytes(b"")
    (folder / "bare").mkdir()
    (folder / "bare" / "config.json").write_text("{}")
    (folder / "empty").mkdir()
    (folder / "text.txt").write_text("the dog sees the cat\n" * 200)
    (folder / "few.txt").write_text("the dog\n" * 3)
    (folder / "blank.txt").write_text("\n \n")
    (folder / "latin.txt").write_bytes(b"caf\xe9 au lait\n" * 200)
    (folder / "wide.txt").write_bytes(("the dog\n" * 200).encode("utf-16-le"))
    return folder


def run(home, *arguments):
    """Exit code, what was said, and how long it took."""
    environment = {**os.environ, "PYTHONPATH": str(home / "modules")}
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "cfck", "shrink", *arguments],
        cwd=home, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    return done.returncode, done.stderr, time.monotonic() - begin


KEEP = ["--keep", "cosine=0.99", "--text", "text.txt"]
WRONG = [
    (["encoder", "new", "--text", "text.txt", "--keep", "cosin=0.99"], "did you mean cosine?"),
    (["encoder", "new", "--text", "text.txt", "--keep", "cosine="], "NAME=NUMBER"),
    (["encoder", "new", "--text", "text.txt", "--keep", "cosine"], "NAME=NUMBER"),
    (["encoder", "new", "--text", "text.txt", "--keep", "cosine=99"], "between 0 and 1"),
    (["encoder", "new", "--text", "text.txt", "--keep", "kl=-1"], "above 0"),
    (["encoder", "new", *KEEP, "--keep", "cosine=0.9"], "--keep cosine is given twice"),
    (["encoder", "new", "--keep", "perplexity=1.02", "--text", "text.txt"],
     "--keep perplexity is for models that write text, and encoder has a BertModel"),
    (["encoder", "new", "--keep", "top1=-1", "--text", "text.txt"], "From Python, cfck.shrink"),
    (["encoder", "new", "--keep", "cosine=0.99"], "--keep needs --text"),
    (["encoder", "new", "--keep", "cosine=0.99", "--text", "tetx.txt"], "no file tetx.txt"),
    (["encoder", "new", "--keep", "cosine=0.99", "--text", "few.txt"], "3 lines with words, too"),
    (["encoder", "new", "--keep", "cosine=0.99", "--text", "blank.txt"], "there are no words"),
    (["encoder", "new", "--keep", "cosine=0.99", "--text", "latin.txt"], "not text in utf-8"),
    (["encoder", "new", "--keep", "cosine=0.99", "--text", "wide.txt"], "null characters"),
    (["encoder", "new", *KEEP, "--encoding", "utf-88"], "no encoding 'utf-88'"),
    (["encoder", "new", *KEEP, "--size", "60MB"], "keep and size were given"),
    (["encoder", "new"], "none of them was given"),
    (["encoder", "new", "--size", "60XB"], "'60XB' is not a size"),
    (["encoder", "new", "--bits-per-weight", "-2"], "bits_per_weight is a finite number above 0"),
    (["encoder", "new", "--bits-per-weight", "two"], "invalid float value: 'two'"),
    (["encoder", "new", *KEEP, "--confidence", "95"], "confidence is a number from 0.5"),
    (["encoder", "new", *KEEP, "--examples", "3"], "--examples is at least 8"),
    (["encoder", "new", *KEEP, "--tokens", "1"], "--tokens 2"),
    (["encoder", "new", "--size", "1MB", "--examples", "0"], "--examples is at least 1"),
    (["encoder", "new", *KEEP, "--threads", "-1"], "threads is a number from 0"),
    (["encoder", "new", *KEEP, "--txt", "text.txt"], "--txt text.txt; did you mean --text?"),
    (["encodr", "new", *KEEP], "there is no folder encodr"),
    (["empty", "new", *KEEP], "empty has no config.json"),
    (["bare", "new", *KEEP], "bare has no weights"),
    (["encoder", "empty", *KEEP], "empty exists already"),
    (["encoder", "no/new", *KEEP], "no folder"),
    (["encoder"], "arguments are required: output"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=lambda value: str(value)[:60])
def test_a_wrong_argument_is_answered_in_a_second(home, arguments, message):
    code, told, seconds = run(home, *arguments)
    assert code in (2, 3, 8), told
    assert message in told, told
    assert told.splitlines()[-1].startswith("cfck shrink: error: ")
    assert "too early" not in told
    assert seconds < MOST_SECONDS
    assert not (home / "new").exists()


@pytest.mark.parametrize("model", ["encoder", "writer"])
def test_right_arguments_go_on_to_the_model(home, model):
    code, told, _ = run(home, model, "new", *KEEP)
    assert (code, told) == (1, "imported too early\n")


def test_missing_packages_are_named_at_once(home, tmp_path):
    script = (
        "import importlib.util, sys\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: (\n"
        "    None if name == 'transformers' else found(name, *rest))\n"
        "from cfck.__main__ import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "shrink", "encoder", "new", *KEEP],
        cwd=home, env={**os.environ, "PYTHONPATH": str(home / "modules")},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 6
    assert "does not have transformers: pip install transformers" in done.stderr


class Untouched(torch.nn.Module):
    """A model that must not run."""

    def forward(self, _):
        raise AssertionError("the model ran")


BATCHES = [torch.zeros(16, 4)]
GOAL = {"keep": {"cosine": 0.99}, "batches": BATCHES}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"keep": {"cosin": 0.99}}, ValueError, "did you mean cosine"),
        ({**GOAL, "keep": {"cosine": 2}}, ValueError, "between 0 and 1"),
        ({**GOAL, "keep": 0.99}, TypeError, "keep is a dict"),
        ({**GOAL, "confidence": 2}, ValueError, "confidence is a number"),
        ({**GOAL, "confidance": 0.9}, TypeError, "'confidance'; did you mean confidence"),
        ({**GOAL, "options": {"poool": "mean"}}, TypeError, "no 'poool' here; did you mean pool"),
        ({**GOAL, "pool": "most"}, ValueError, "pool"),
        ({**GOAL, "threads": -1}, ValueError, "threads"),
        ({**GOAL, "seed": 0.5}, TypeError, "seed is int"),
        ({**GOAL, "n_examples": 0}, ValueError, "n_examples is at least 1"),
        ({**GOAL, "metadata": {"a": 1}}, TypeError, "metadata"),
        ({**GOAL, "size": "60MB"}, ValueError, "keep and size were given"),
        ({**GOAL, "at_least": 1.0}, ValueError, "are for a function"),
        ({**GOAL, "keep": len, "at_least": "1"}, ValueError, "finite numbers, not '1'"),
        ({**GOAL, "output": "logits"}, TypeError, "output is a function, not str"),
        ({**GOAL, "labels": 3}, TypeError, "labels is a function, not int"),
        ({**GOAL, "inputs": 3}, TypeError, "inputs is a function, not int"),
        ({**GOAL, "batches": BATCHES[0]}, ValueError, "batches is an iterable of batches, not"),
        ({**GOAL, "held_back": BATCHES[0]}, ValueError, "held_back is an iterable of batches, not"),
        ({**GOAL, "report": "yes"}, TypeError, "report is called with a sentence"),
        ({**GOAL, "progress": "yes"}, TypeError, "progress is called as"),
        ({"keep": {"cosine": 0.99}}, ValueError, "keep needs batches="),
        ({"size": "60XB"}, ValueError, "'60XB' is not a size"),
    ],
    ids=lambda value: str(value)[-60:],
)  # fmt: skip
def test_wrong_arguments_of_the_function(tmp_path, arguments, error, message):
    with pytest.raises(error, match=message):
        cfck.shrink(Untouched(), tmp_path / "m.cfck", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_file_to_write(tmp_path):
    with pytest.raises(cfck.InvalidArgumentError, match="is a folder; name the file"):
        cfck.shrink(Untouched(), tmp_path, **GOAL)
    with pytest.raises(cfck.MissingFileError, match="there is no folder"):
        cfck.shrink(Untouched(), pathlib.Path(tmp_path, "no", "m.cfck"), **GOAL)


def test_options_of_a_dict(tmp_path):
    options = cfck.ShrinkOptions(n_examples=0)
    with pytest.raises(ValueError, match="n_examples is at least 1, not 0"):
        cfck.shrink(Untouched(), tmp_path / "m.cfck", **GOAL, options=options)
    with pytest.raises(ValueError, match="n_examples is at least 1, not -1"):
        cfck.shrink(Untouched(), tmp_path / "m.cfck", **GOAL, options=options, n_examples=-1)
