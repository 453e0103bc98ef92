"""python -m cfck shrink: folders of transformers, and what is wrong with text."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import cfck
import pytest
import torch
from cfck.__main__ import main

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

pytestmark = pytest.mark.usefixtures("one_thread")

WORDS = ["the", "a", "red", "blue", "dog", "cat", "house", "runs", "sees", "sleeps", "and", "near"]


def sentences(n):
    generator = torch.Generator().manual_seed(1)
    lines = []
    for _ in range(n):
        length = int(torch.randint(4, 12, (), generator=generator))
        picked = torch.randint(0, len(WORDS), (length,), generator=generator)
        lines.append(" ".join(WORDS[i] for i in picked))
    return lines


def save_tokenizer(folder):
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(folder)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "my-model"
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=128, max_position_embeddings=32,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    save_tokenizer(folder)
    (folder / "notes").mkdir()
    (folder / "notes" / "README.md").write_text("hello")
    (folder / "notes" / "old.bin").write_bytes(b"weights")
    return folder


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("writer") / "my-model"
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=96, max_position_embeddings=64,
        tie_word_embeddings=True,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join(sentences(200)))
    return path


def run(*arguments):
    return main(["shrink", *map(str, arguments)])


def test_a_folder_is_shrunk(encoder, corpus, tmp_path, capsys):
    target = tmp_path / "small"
    code = run(encoder, target, "--keep", "cosine=0.98", "--text", corpus, "--examples", 128)
    out = capsys.readouterr().out
    assert code == 0, out
    assert f"{target}{os.sep}model.cfck: " in out
    names = sorted(path.name for path in target.iterdir())
    expected = {path.name for path in encoder.iterdir()} - {"model.safetensors"} | {"model.cfck"}
    assert names == sorted(expected)
    assert (target / "notes" / "README.md").read_text() == "hello"
    assert not (target / "notes" / "old.bin").exists()
    assert oct(target.stat().st_mode & 0o777) == oct(0o777 & ~_umask())
    before = transformers.BertModel.from_pretrained(encoder).eval()
    after = cfck.transformers.from_pretrained(target)
    batch = torch.randint(2, 14, (16, 8))
    assert 0.9 < cfck.evaluate(before, after, [batch]).cosine_mean < 1


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_model_that_writes_keeps_its_perplexity(writer, corpus, tmp_path, capsys):
    code = run(writer, tmp_path / "small", "--keep", "perplexity=1.05", "--text", corpus,
               "--tokens", 16, "--confidence", 0.8, "--json")  # fmt: skip
    told = capsys.readouterr()
    assert code == 0, told.err
    result = json.loads(told.out)
    assert result["kept"]["perplexity"] <= result["bounds"]["perplexity"] <= 1.05
    assert result["confidence"] == 0.8
    assert result["filename"] == str(tmp_path / "small" / "model.cfck")
    with cfck.safe_open(result["filename"], framework="pt") as file:
        metadata = file.metadata()
    assert metadata.pop("format") == "pt"
    assert json.loads(metadata.pop("cfck.shrink"))["goal"] == {"perplexity": 1.05}
    assert metadata == {}


def test_a_size_needs_no_text(writer, tmp_path):
    assert run(writer, tmp_path / "small", "--size", "40kB", "-q") == 0
    assert 30_000 < (tmp_path / "small" / "model.cfck").stat().st_size <= 40_000


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_logs_tell_of_progress(encoder, tmp_path, monkeypatch, capsys):
    """Standard error is no terminal here; minutes are short."""
    monkeypatch.setattr("cfck._common.progress._SECONDS_BETWEEN_LINES", 0.0)
    assert run(encoder, tmp_path / "small", "--bits-per-weight", 6) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("shrink: 0 of 8, 0:00, calibrate")]
    assert run(encoder, tmp_path / "quiet", *SIX_BITS) == 0
    assert not [line for line in capsys.readouterr().err.splitlines() if "shrink: " in line]


SIX_BITS = ("--bits-per-weight", 6, "-q")


def test_an_old_folder_is_replaced_on_request_only(encoder, corpus, tmp_path, capsys):
    target = tmp_path / "small"
    (target / "notes" / "mine").mkdir(parents=True)
    old = {
        "model.cfck": "old", "model-00001-of-00002.safetensors": "old",
        "model.safetensors.index.json": "old", "config.json": "old", "notes.txt": "mine",
        "notes/mine/a.bin": "mine", ".hidden": "mine",
    }  # fmt: skip
    for name, text in old.items():
        (target / name).write_text(text)
    (target / "link").symlink_to("nowhere")
    assert run(encoder, target, *SIX_BITS) == 8
    assert "exists already; --force replaces it" in capsys.readouterr().err
    assert contents(target) == {name: text.encode() for name, text in old.items()}
    assert run(encoder, target, "--bits-per-weight", 6, "--force") == 0
    assert "note: kept of the old folder: .hidden, link, notes/mine" in capsys.readouterr().out
    found = contents(target)
    assert {name for name in old if found.get(name) == b"old"} == set()
    assert {name for name in old if found.get(name) == b"mine"} == {
        "notes.txt", "notes/mine/a.bin", ".hidden",
    }  # fmt: skip
    assert found["notes/README.md"] == b"hello" and "model.cfck" in found
    assert not [name for name in found if "safetensors" in name]
    assert os.readlink(target / "link") == "nowhere"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.txt", "small"]


def test_a_folder_behind_a_link_is_replaced(encoder, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "small").symlink_to("real")
    assert run(encoder, tmp_path / "small", *SIX_BITS) == 8
    assert run(encoder, tmp_path / "small", *SIX_BITS, "--force") == 0
    assert (tmp_path / "small").is_symlink() and (tmp_path / "real" / "model.cfck").exists()


@pytest.fixture
def place(encoder, tmp_path, monkeypatch):
    """The current folder, with things in it that must not be lost."""
    folder = tmp_path / "place"
    for name in ("m", "par/m"):
        shutil.copytree(encoder, folder / name)
    (folder / "par" / "notes.txt").write_text("precious")
    (folder / "other").mkdir()
    (folder / "other" / "notes.txt").write_text("precious")
    (folder / "old").mkdir()
    (folder / "old" / "model.cfck").write_text("old")
    (folder / "old" / "corpus.txt").write_text("\n".join(sentences(64)))
    shutil.copytree(encoder, folder / "linked")
    (folder / "linked" / "vocabulary.txt").symlink_to(folder / "old" / "corpus.txt")
    (folder / "alias").symlink_to("par")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m", ""], "the name of the new folder is empty"),
        (["", "new"], "the name of the folder of the model is empty"),
        (["m", "new", "--text", ""], "the name of the file of --text is empty"),
        (["par/m", "par"], "must not contain each other"),
        (["par/m", "alias"], "must not contain each other"),
        (["par/m", "."], "must not contain each other"),
        (["par/m", ".."], "must not contain each other"),
        (["m", "m/small"], "must not contain each other"),
        (["m", "m/"], "the new folder is that of the model"),
        (["m", "other"], "other is not the folder of a model"),
        (["m", "old", "--text", "old/corpus.txt"], "old/corpus.txt is in old"),
        (["linked", "old"], "vocabulary.txt of the model is a link into old"),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_nothing_is_lost(place, capsys, arguments, message, force):
    before = contents(place)
    code = run(*arguments, "--size", "30kB", "-q", *(["--force"] if force else []))
    err = capsys.readouterr().err
    assert code == 2 and message in err or code == 8 and not force, err
    assert contents(place) == before


def test_the_current_folder_is_not_replaced(place, monkeypatch, capsys):
    monkeypatch.chdir(place / "old")
    assert run("../m", ".", *SIX_BITS, "--force") == 2
    assert "the current folder is in ." in capsys.readouterr().err
    assert (place / "old" / "corpus.txt").exists()


@pytest.mark.parametrize("existed", [False, True])
def test_a_folder_that_appears_meanwhile_stays(encoder, tmp_path, monkeypatch, capsys, existed):
    target = tmp_path / "small"
    if existed:
        target.mkdir()

    def appears(*_, **__):
        if existed:
            target.rename(tmp_path / "moved")
        target.mkdir()
        (target / "notes.txt").write_text("precious")

    monkeypatch.setattr("cfck._program.folder.shrink", appears)
    assert run(encoder, target, *SIX_BITS, "--force") == 8
    assert "by now; it was left as it is" in capsys.readouterr().err
    assert contents(target) == {"notes.txt": b"precious"}
    assert len(list(tmp_path.iterdir())) == 1 + existed


def test_what_is_no_file_is_left_out(encoder, tmp_path, capsys):
    source, target = tmp_path / "source", tmp_path / "small"
    shutil.copytree(encoder, source)
    (source / "gone").symlink_to("nowhere")
    (source / "notes" / "loop").symlink_to("..")
    (source / "copy.txt").symlink_to("notes/README.md")
    os.mkfifo(source / "pipe")
    assert run(source, target, "--bits-per-weight", 6) == 0
    out = capsys.readouterr().out
    assert "note: not copied, being neither files nor folders: gone, notes/loop, pipe\n" in out
    assert not (target / "copy.txt").is_symlink()
    assert (target / "copy.txt").read_text() == "hello"


@pytest.mark.parametrize(
    ("name", "written", "code"),
    [
        ("model.safetensors", b"\xff" * 200, 4),
        ("model.safetensors", b"", 4),
        ("config.json", b"{", 6),
        ("tokenizer.json", b"{", 6),
    ],
)
def test_damaged_models(encoder, corpus, tmp_path, capsys, name, written, code):
    source = tmp_path / "source"
    shutil.copytree(encoder, source)
    (source / name).write_bytes(written)
    arguments = (source, tmp_path / "small", "--keep", "cosine=0.9", "--text", corpus)
    found = run(*arguments)
    err = capsys.readouterr().err
    lines = [line for line in err.splitlines() if line.startswith("cfck shrink: ")]
    assert found == code, err
    assert len(lines) == 1 and "transformers cannot load" in lines[0] and str(source) in lines[0]
    assert not (tmp_path / "small").exists()


def test_a_tokeniser_that_cannot_pad(encoder, corpus, tmp_path, capsys):
    source = tmp_path / "source"
    shutil.copytree(encoder, source)
    settings = json.loads((source / "tokenizer_config.json").read_text())
    del settings["pad_token"]
    (source / "tokenizer_config.json").write_text(json.dumps(settings))
    arguments = (source, tmp_path / "small", "--keep", "cosine=0.9", "--text", corpus)
    assert run(*arguments) == 6
    assert "does not take the text: Asking to pad" in capsys.readouterr().err


WAITS = (
    "import sys, time\n"
    "import cfck._program.folder as folder\n"
    "from cfck.__main__ import main\n"
    "folder.shrink = lambda *_, **__: (print('begun', flush=True), time.sleep(60))\n"
    "sys.exit(main(sys.argv[1:]))"
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_leave_nothing(encoder, tmp_path, number):
    arguments = ["shrink", str(encoder), str(tmp_path / "small"), "--size", "1MB", "-q"]
    with subprocess.Popen(
        [sys.executable, "-c", WAITS, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # As in a terminal, even if the tests run under nohup.
        preexec_fn=lambda: signal.signal(
            number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        ),
    ) as program:  # fmt: skip
        assert program.stdout.readline() == "begun\n"
        assert len(list(tmp_path.iterdir())) == 1
        program.send_signal(number)
        _, err = program.communicate(timeout=60)
    assert program.returncode == 128 + number
    assert err.endswith("cfck shrink: interrupted; nothing was written\n")
    assert list(tmp_path.iterdir()) == []


KEEPS = (
    "import sys, time\n"
    "import cfck._shrink.run as run\n"
    "from cfck.__main__ import main\n"
    "inner = run.Shrinker._try\n"
    "def outer(self, *given, **options):\n"
    "    trial = inner(self, *given, **options)\n"
    "    if trial.told.met:\n"
    "        print('met', file=sys.stderr, flush=True)\n"
    "        time.sleep(60)\n"
    "    return trial\n"
    "run.Shrinker._try = outer\n"
    "sys.exit(main(sys.argv[1:]))"
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_keep_what_meets_the_goal(encoder, corpus, tmp_path, number):
    target = tmp_path / "small"
    arguments = ["shrink", str(encoder), str(target), "--keep", "cosine=0.9", "--text", str(corpus)]
    with subprocess.Popen(
        [sys.executable, "-c", KEEPS, *arguments, "--examples", "64", "--threads", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(
            number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        ),
    ) as program:  # fmt: skip
        line = program.stderr.readline()
        while line and line != "met\n":
            line = program.stderr.readline()
        program.send_signal(number)
        out, err = program.communicate(timeout=60)
    assert program.returncode == 128 + number, err
    model = os.path.join(target, "model.cfck")
    assert err == f"cfck shrink: interrupted; the best file so far was written to {model}\n"
    assert "1 files tried" in out and "interrupted, so smaller files may keep as much" in out
    assert "cosine" in cfck.safe_open(model, framework="pt").metadata()["cfck.shrink"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.txt", "small"]


def test_a_reader_may_stop_early(encoder, tmp_path):
    script = "import sys; from cfck.__main__ import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["shrink", str(encoder), str(tmp_path / "small"), "--size", "1MB"]
    with subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        program.stdout.close()
        err = program.stderr.read()
    assert program.returncode == 0 and "pipe" not in err, err
    assert (tmp_path / "small" / "model.cfck").exists()


@pytest.mark.parametrize(
    ("written", "options", "code", "message"),
    [
        (b"caf\xe9 au lait\n" * 50, [], 2, "is not text in utf-8 at byte 3; --encoding names"),
        ("the dog\n".encode("utf-16-le") * 50, [], 2, "null characters"),
        (b"the dog\n" * 50, ["--encoding", "utf-99"], 2, "no encoding 'utf-99'"),
        (b" \n\n", [], 2, "there are no words"),
        (b"the dog\n" * 3, [], 2, "the text has 3 lines with words, too few"),
        (b"the dog\n" * 50, ["--keep", "cosine=often"], 2, "NAME=NUMBER"),
        (b"the dog\n" * 50, ["--keep", "kl=-2"], 2, "in nats, above 0"),
        (b"the dog\n" * 50, ["--confidence", "2"], 2, "confidence is a number from 0.5"),
        (b"the dog\n" * 50, ["--text", "missing.txt"], 3, "no file missing.txt"),
        (b"the dog\n" * 50, ["--examples", "0"], 2, "at least 8"),
    ],
)
def test_bad_text(encoder, tmp_path, capsys, written, options, code, message):
    path = tmp_path / "text.txt"
    path.write_bytes(written)
    arguments = [encoder, tmp_path / "small", "--keep", "cosine=0.9", "--text", path, *options]
    assert run(*arguments) == code
    assert message in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["text.txt"]


def test_text_in_another_encoding(encoder, tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("\n".join(sentences(64)).encode("utf-16"))
    arguments = (encoder, tmp_path / "small", "--keep", "cosine=0.9", "--text", path, "-q")
    assert run(*arguments, "--encoding", "utf-16") == 0


def test_folders_that_are_none_of_transformers(encoder, tmp_path, capsys):
    assert run(tmp_path / "missing", tmp_path / "small", "--size", "1MB") == 3
    assert "there is no folder" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert run(tmp_path / "empty", tmp_path / "small", "--size", "1MB") == 2
    assert "has no config.json" in capsys.readouterr().err
    (tmp_path / "empty" / "config.json").write_text("{}")
    assert run(tmp_path / "empty", tmp_path / "small", "--size", "1MB") == 2
    assert "has no weights, such as model.safetensors" in capsys.readouterr().err
    (tmp_path / "empty" / "model.safetensors").write_bytes(b"")
    assert run(tmp_path / "empty", tmp_path / "small", "--size", "1MB") == 6
    assert "transformers cannot load" in capsys.readouterr().err
    assert run(encoder, tmp_path / "small", "--keep", "cosine=0.9") == 2
    assert "--keep needs --text" in capsys.readouterr().err
    assert run(encoder, encoder, "--size", "1MB", "--force") == 2
    assert "the new folder is that of the model" in capsys.readouterr().err
    assert run(encoder, tmp_path / "a" / "b", "--size", "1MB") == 3
    assert not (tmp_path / "small").exists()


def test_transformers_may_be_missing(encoder, tmp_path):
    script = (
        "import sys; sys.modules['transformers'] = None\n"
        "from cfck.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    arguments = ["shrink", str(encoder), str(tmp_path / "small"), "--size", "1MB"]
    run = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)
    assert run.returncode == 6
    assert "does not have transformers: pip install transformers" in run.stderr


def test_the_program_hands_over(tmp_path):
    program = pathlib.Path(sys.executable).parent / "cfck"
    if not program.exists():
        pytest.skip("the program is not installed beside Python")
    run = subprocess.run([program, "shrink", "--help"], capture_output=True, text=True)
    assert run.returncode == 0 and "--keep NAME=VALUE" in run.stdout
    environment = {**os.environ, "CFCK_PYTHON": "/nowhere/python"}
    run = subprocess.run(
        [program, "shrink", "a", "b"], capture_output=True, text=True, env=environment
    )
    assert run.returncode == 6 and "/nowhere/python cannot be started" in run.stderr
    # A Python without the package.
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    environment = {**os.environ, "CFCK_PYTHON": str(bare), "PYTHONPATH": ""}
    run = subprocess.run(
        [program, "shrink", "a", "b"], capture_output=True, text=True, env=environment
    )
    assert run.returncode == 6 and "has no Python package cfck" in run.stderr
