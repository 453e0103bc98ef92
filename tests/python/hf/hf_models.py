"""Small models of transformers, their folders, and how these are compared."""

import contextlib
import pathlib
import shutil
import subprocess

import pytest
import torch
from cfck._common.program import find_program
from conftest import assert_same

transformers = pytest.importorskip("transformers")

WORDS = ["the", "a", "red", "blue", "dog", "cat", "house", "runs", "sees", "sleeps", "and", "near"]


def bert(**options):
    config = transformers.BertConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=128, max_position_embeddings=32, **options,
    )  # fmt: skip
    return transformers.BertModel(config)


def masked_bert():
    return transformers.BertForMaskedLM(bert().config)


def gpt2():
    config = transformers.GPT2Config(
        n_layer=2, n_embd=64, n_head=4, vocab_size=100, n_positions=32, bos_token_id=1,
        eos_token_id=2,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def t5():
    config = transformers.T5Config(
        vocab_size=100, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)


def llama():
    config = transformers.LlamaConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=128, max_position_embeddings=32,
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


MODELS = {"bert": bert, "masked": masked_bert, "gpt2": gpt2, "t5": t5, "llama": llama}


def make(name, seed=3):
    torch.manual_seed(seed)
    return MODELS[name]().eval()


def outputs(model, dtype=None):
    """What a model makes of some tokens."""
    torch.manual_seed(0)
    ids = torch.randint(3, 100, (2, 9)).to(next(model.parameters()).device)
    inputs = {"input_ids": ids}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, :4]
    with torch.no_grad():
        return model(**inputs)[0].cpu()


def assert_equal(model, expected):
    """Equal values, dtypes, ties and outputs."""
    assert type(model) is type(expected)
    theirs = expected.state_dict()
    for name, tensor in model.state_dict().items():
        assert_same(tensor, theirs[name])
    assert model.state_dict().keys() == theirs.keys()
    assert_same(outputs(model), outputs(expected))


def convert(source, target, *options):
    """The folder as `cfck convert` makes it."""
    command = [find_program(), "convert", *options, str(source), str(target)]
    subprocess.run(command, check=True, capture_output=True)
    assert not list(pathlib.Path(target).glob("*.safetensors"))
    return target


def save_tokenizer(folder):
    tokenizers = pytest.importorskip("tokenizers")
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    vocabulary = {word: i for i, word in enumerate(names)}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]",
        cls_token="[CLS]", sep_token="[SEP]",
    ).save_pretrained(folder)  # fmt: skip


def folders_in(root):
    """For a fixture: the folder of safetensors of each model, and the converted one."""
    made = {}

    def folder(name):
        if name not in made:
            make(name).save_pretrained(root / name)
            save_tokenizer(root / name)
            made[name] = root / name, convert(root / name, root / f"{name}-cfck")
        return made[name]

    return folder


@contextlib.contextmanager
def quiet():
    """Without messages of transformers that a test expects anyway."""
    logging = transformers.utils.logging
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    yield
    logging.set_verbosity(before)


def copy(source, target):
    shutil.copytree(source, target)
    return target


def cached_repository(home, source, name="someone/model"):
    """A folder as it lies in the cache of the hub: links to blobs."""
    root = home / "hub" / ("models--" + name.replace("/", "--"))
    commit = "a" * 40
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text(commit)
    snapshot = root / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (root / "blobs").mkdir()
    for number, file in enumerate(sorted(pathlib.Path(source).iterdir())):
        blob = root / "blobs" / f"{number:040x}"
        shutil.copy(file, blob)
        (snapshot / file.name).symlink_to(pathlib.Path("..", "..", "blobs", blob.name))
    return snapshot
