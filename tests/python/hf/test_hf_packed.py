"""from_pretrained(compressed=True): the weights stay in the file."""

import json
import logging

import cfck
import pytest
import torch
from cfck._streaming.placeholder import Placeholder
from conftest import assert_same
from hf_models import MODELS, convert, copy, folders_in, make, outputs, quiet, transformers

DTYPE = "dtype" if tuple(map(int, transformers.__version__.split(".")[:2])) >= (4, 56) else (
    "torch_dtype"
)  # fmt: skip

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return folders_in(tmp_path_factory.mktemp("hf"))


@pytest.fixture(autouse=True)
def enabled():
    cfck.transformers.enable()
    with quiet():
        yield
    cfck.transformers.disable()


def packed(folder, cls=None, **options):
    """Through transformers, and without a change to it."""
    cls = cls or transformers.AutoModel
    yield cls.from_pretrained(folder, compressed=True, **options)
    yield cfck.transformers.from_pretrained(cls, folder, compressed=True, **options)


def n_packed(model):
    return sum(isinstance(p, Placeholder) for p in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_the_loaded_model(folders, name):
    source, converted = folders(name)
    cls = MODELS[name]().__class__
    expected = cls.from_pretrained(source).requires_grad_(False)
    for model in packed(converted, cls):
        assert n_packed(model) > 4
        assert not model.training and model.name_or_path == str(converted)
        for _ in range(2):
            assert_same(outputs(model), outputs(expected))
        for name, tensor in model.state_dict().items():
            assert_same(tensor, expected.state_dict()[name])


def test_nothing_large_is_in_memory(folders):
    _, converted = folders("bert")
    model = transformers.BertModel.from_pretrained(converted, compressed=True)
    loaded = [p for p in model.parameters() if not isinstance(p, Placeholder)]
    assert max(p.numel() for p in loaded) < 4096
    assert not any(p.is_meta for p in loaded)
    assert not any(b.is_meta for b in model.buffers())


def test_dtypes(folders):
    source, converted = folders("llama")
    cls = transformers.AutoModelForCausalLM
    expected = cls.from_pretrained(source, **{DTYPE: torch.bfloat16}).requires_grad_(False)
    for dtype in (torch.bfloat16, "bfloat16"):
        for model in packed(converted, cls, **{DTYPE: dtype}):
            assert model.dtype == torch.bfloat16
            assert_same(outputs(model), outputs(expected))


def test_shards_heads_and_ties(tmp_path):
    make("gpt2").save_pretrained(tmp_path / "a", max_shard_size="100KB")
    folder = convert(tmp_path / "a", tmp_path / "b")
    expected = transformers.GPT2Model.from_pretrained(tmp_path / "a").requires_grad_(False)
    for model in packed(folder):
        assert type(model) is transformers.GPT2Model
        assert_same(outputs(model), outputs(expected))
    for model in packed(folder, transformers.GPT2LMHeadModel):
        places = (model.lm_head._parameters, model.transformer.wte._parameters)
        assert places[0]["weight"] is places[1]["weight"]
        ids = torch.tensor([[5, 6, 7]])
        made = model.generate(ids, max_length=6, do_sample=False, pad_token_id=0)
        assert made.shape == (1, 6)


def test_lossy_files(folders, tmp_path):
    source, _ = folders("bert")
    folder = convert(source, tmp_path / "small", "--bits-per-weight", "5")
    expected = transformers.BertModel.from_pretrained(folder).requires_grad_(False)
    for model in packed(folder):
        assert_same(outputs(model), outputs(expected))


def test_one_device(folders):
    _, converted = folders("bert")
    for device_map in ("auto", "cpu", {"": "cpu"}, torch.device("cpu")):
        for model in packed(converted, device_map=device_map):
            assert outputs(model).shape == (2, 9, 64)
    device_map = {"embeddings": "cpu", "encoder": "disk", "pooler": "cpu"}
    with pytest.raises(cfck.UnsupportedError, match="a model is on one device"):
        transformers.BertModel.from_pretrained(converted, compressed=True, device_map=device_map)


def test_what_packed_weights_exclude(folders, tmp_path):
    _, converted = folders("bert")
    call = transformers.BertModel.from_pretrained
    for option in ({"key_mapping": {"a": "b"}}, {"output_loading_info": True}):
        with pytest.raises(cfck.UnsupportedError, match=f"{next(iter(option))} cannot be given"):
            call(converted, compressed=True, **option)
    with pytest.raises(TypeError, match="compressed is a bool, not str"):
        call(converted, compressed="yes")
    with pytest.raises(TypeError, match="compressed is a bool, not int"):
        cfck.transformers.from_pretrained(converted, compressed=1)
    with pytest.raises(RuntimeError, match="Missing key.*pooler"):
        call(folders("masked")[1], compressed=True)
    with pytest.raises(cfck.InvalidArgumentError, match="no dtype of floats"):
        call(converted, compressed=True, **{DTYPE: torch.int8})
    folder = copy(converted, tmp_path / "quantised")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(cfck.UnsupportedError, match="quantises"):
        call(folder, compressed=True)
    with pytest.raises(cfck.UnsupportedError, match="keeps some layers in float32"):
        name = {DTYPE: torch.float16}
        transformers.T5ForConditionalGeneration.from_pretrained(
            folders("t5")[1], compressed=True, **name
        )


def logged(call):
    """What transformers logs meanwhile."""
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    log = logging.getLogger("transformers")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.WARNING)
    try:
        call()
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    return records


def test_what_the_file_has_beyond_the_model_is_logged(folders, tmp_path):
    _, converted = folders("bert")
    call = cfck.transformers.from_pretrained
    assert not logged(lambda: call(converted, compressed=True))
    folder = copy(converted, tmp_path / "folder")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    (line,) = logged(lambda: call(folder, compressed=True))
    assert "has tensors that BertModel does not have" in line
    assert "'encoder.layer.1." in line and "13 more" in line


def test_no_deprecated_name_is_read(folders, tmp_path):
    folder = copy(folders("bert")[1], tmp_path / "folder")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({k: v for k, v in config.items() if k not in ("dtype", "torch_dtype")})
    )
    transformers.utils.logging.get_logger("x").warning_once.cache_clear()
    assert not logged(lambda: cfck.transformers.from_pretrained(folder, compressed=True))


def test_nothing_of_pytorch_is_changed(folders):
    _, converted = folders("llama")
    transformers.AutoModel.from_pretrained(converted, compressed=True, **{DTYPE: torch.float16})
    assert torch.get_default_dtype() == torch.float32
    assert not torch.nn.Linear(2, 2).weight.is_meta
