"""python -m cfck shrink: folders of transformers, and what is wrong with text."""

import json
import os
import pathlib
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
    after = transformers.BertModel(before.config).eval()
    cfck.torch.load_model(after, target)
    batch = torch.randint(2, 14, (16, 8))
    assert 0.9 < cfck.evaluate(before, after, [batch]).cosine_mean < 1


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_model_that_writes_keeps_its_perplexity(writer, corpus, tmp_path, capsys):
    code = run(writer, tmp_path / "small", "--keep", "perplexity=1.05", "--text", corpus,
               "--tokens", 16, "--json")  # fmt: skip
    told = capsys.readouterr()
    assert code == 0, told.err
    result = json.loads(told.out)
    assert result["kept"]["perplexity"] <= 1.05
    assert result["filename"] == str(tmp_path / "small" / "model.cfck")
    with cfck.safe_open(result["filename"], framework="pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_a_size_needs_no_text(writer, tmp_path):
    assert run(writer, tmp_path / "small", "--size", "40kB", "-q") == 0
    assert 30_000 < (tmp_path / "small" / "model.cfck").stat().st_size <= 40_000


def test_an_old_folder_is_replaced_on_request_only(encoder, corpus, tmp_path, capsys):
    target = tmp_path / "small"
    target.mkdir()
    (target / "old").write_text("old")
    arguments = (encoder, target, "--bits-per-weight", 6, "-q")
    assert run(*arguments) == 2
    assert "exists already; --force replaces it" in capsys.readouterr().err
    assert (target / "old").exists()
    assert run(*arguments, "--force") == 0
    assert not (target / "old").exists() and (target / "model.cfck").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.txt", "small"]


@pytest.mark.parametrize(
    ("written", "options", "code", "message"),
    [
        (b"caf\xe9 au lait\n" * 50, [], 2, "is not text in utf-8 at byte 3; --encoding names"),
        ("the dog\n".encode("utf-16-le") * 50, [], 2, "null characters"),
        (b"the dog\n" * 50, ["--encoding", "utf-99"], 2, "no encoding 'utf-99'"),
        (b" \n\n", [], 2, "there are no words"),
        (b"the dog\n" * 3, [], 2, "3 examples in 1 batches, too few"),
        (b"the dog\n" * 50, ["--keep", "cosine=often"], 2, "NAME=NUMBER"),
        (b"the dog\n" * 50, ["--keep", "cosine=2"], 2, "between 0 and 1"),
        (b"the dog\n" * 50, ["--text", "missing.txt"], 3, "no file missing.txt"),
        (b"the dog\n" * 50, ["--examples", "0"], 2, "at least 1"),
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
    assert "pip install torch transformers" in run.stderr


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
