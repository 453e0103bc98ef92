"""save_pretrained(format="cfck")."""

import json

import cfck
import pytest
import torch
from conftest import assert_same
from hf_models import assert_equal, make, quiet, transformers

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def enabled():
    cfck.transformers.enable()
    with quiet():
        yield
    cfck.transformers.disable()


def names(folder):
    return sorted(path.name for path in folder.iterdir() if "model" in path.name)


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "llama"])
def test_a_model_comes_back(tmp_path, name):
    model = make(name)
    model.save_pretrained(tmp_path, format="cfck")
    assert names(tmp_path) == ["model.cfck"]
    with cfck.safe_open(tmp_path / "model.cfck", "pt") as file:
        assert file.metadata()["format"] == "pt"
    assert_equal(type(model).from_pretrained(tmp_path), model)


@pytest.mark.parametrize("variant", [None, "fp16"])
def test_shards(tmp_path, variant):
    model = make("gpt2")
    model.save_pretrained(tmp_path, format="cfck", max_shard_size="100KB", variant=variant)
    index = "model.cfck.index.json" if variant is None else "model.cfck.index.fp16.json"
    assert index in names(tmp_path)
    assert not list(tmp_path.glob("*safetensors*"))
    shards = set(json.loads((tmp_path / index).read_text())["weight_map"].values())
    assert shards == {path.name for path in tmp_path.glob("*.cfck")} and len(shards) > 2
    assert_equal(type(model).from_pretrained(tmp_path, variant=variant), model)


def test_options_of_save_file(tmp_path):
    model = make("bert")
    model.save_pretrained(tmp_path, format="cfck", max_sigma_error=0.01, rules={"pooler.*": {}})
    with cfck.safe_open(tmp_path / "model.cfck", "pt") as file:
        bounds = {record.name: record.bound for record in file.records()}
    assert bounds["embeddings.word_embeddings.weight"] is not None
    assert bounds["pooler.dense.weight"] is None
    with pytest.raises(cfck.CfckError, match="max_sigma_error"):
        model.save_pretrained(tmp_path, format="cfck", max_sigma_error=-1)


def test_a_folder_is_saved_into_again(tmp_path):
    """The weights of an earlier call, in whichever format, are not loaded in place of the new."""
    first, second = make("gpt2", 1), make("gpt2", 2)
    calls = [
        {"format": "cfck"},
        {},
        {"format": "cfck", "max_shard_size": "100KB"},
        {"format": "cfck", "max_shard_size": "200KB"},
        {"max_shard_size": "100KB"},
        {"format": "cfck"},
        {"format": "safetensors"},
    ]
    for number, options in enumerate(calls):
        model = (first, second)[number % 2]
        model.save_pretrained(tmp_path, **options)
        assert_equal(transformers.GPT2LMHeadModel.from_pretrained(tmp_path), model)
        formats = {"cfck" if "cfck" in name else "safetensors" for name in names(tmp_path)}
        assert formats == {options.get("format", "safetensors")}


def test_other_variants_stay(tmp_path):
    make("bert", 1).save_pretrained(tmp_path, format="cfck", variant="a")
    make("bert", 2).save_pretrained(tmp_path, format="cfck")
    make("bert", 3).save_pretrained(tmp_path)
    assert names(tmp_path) == ["model.a.cfck", "model.safetensors"]
    assert_equal(transformers.BertModel.from_pretrained(tmp_path, variant="a"), make("bert", 1))


def test_what_cannot_be_saved(tmp_path):
    model = make("bert")
    with pytest.raises(cfck.InvalidArgumentError, match="not \"zip\"|not 'zip'"):
        model.save_pretrained(tmp_path, format="zip")
    with pytest.raises(cfck.UnsupportedError, match="does not upload"):
        model.save_pretrained(tmp_path, format="cfck", push_to_hub=True)
    with pytest.raises(TypeError, match="did you mean quality"):
        model.save_pretrained(tmp_path, format="cfck", qualty="high")
    assert not names(tmp_path)


@pytest.mark.parametrize("options", [{}, {"format": "safetensors"}, {"format": None}])
def test_options_of_cfck_need_its_format(tmp_path, options):
    for given in ({"quality": "high"}, {"max_abs_error": 0.1, "rules": {}}):
        message = f'{", ".join(given)}: .* with format="cfck" alone'
        with pytest.raises(cfck.InvalidArgumentError, match=message):
            make("bert").save_pretrained(tmp_path, **given, **options)
    assert not names(tmp_path)


@pytest.mark.parametrize("shards", [{}, {"max_shard_size": "100KB"}])
def test_warnings_are_of_the_code_that_saves(tmp_path, shards):
    with pytest.warns(cfck.LossWarning) as caught:
        make("gpt2").save_pretrained(tmp_path, format="cfck", bits_per_weight=0.2, **shards)
    assert {warning.filename for warning in caught} == {__file__}


def test_models_that_run_from_a_file(tmp_path):
    model = make("bert")
    model.save_pretrained(tmp_path / "a", format="cfck")
    packed = transformers.BertModel.from_pretrained(tmp_path / "a", compressed=True)
    packed.save_pretrained(tmp_path / "b", format="cfck")
    assert_equal(transformers.BertModel.from_pretrained(tmp_path / "b"), model)


def test_dtypes(tmp_path):
    model = make("llama").to(torch.bfloat16)
    model.save_pretrained(tmp_path, format="cfck")
    loaded = transformers.LlamaForCausalLM.from_pretrained(tmp_path, torch_dtype="auto")
    for name, tensor in loaded.state_dict().items():
        assert_same(tensor, model.state_dict()[name])
