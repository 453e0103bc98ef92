"""from_pretrained of folders with .cfck weights."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import cfck
import pytest
import torch
from cfck._transformers import lazy
from cfck._transformers.lazy import Weights
from conftest import assert_same
from hf_models import (
    MODELS,
    assert_equal,
    convert,
    copy,
    folders_in,
    make,
    outputs,
    transformers,
)

DTYPE = "dtype" if tuple(map(int, transformers.__version__.split(".")[:2])) >= (4, 56) else (
    "torch_dtype"
)  # fmt: skip

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return folders_in(tmp_path_factory.mktemp("hf"))


@pytest.fixture(autouse=True)
def enabled():
    """Each test begins with what importing cfck.transformers does."""
    cfck.transformers.enable()
    yield
    cfck.transformers.disable()


def both(folder, cls=None, **options):
    """The model by transformers' own way, and without a change to transformers."""
    cls = cls or transformers.AutoModel
    cfck.transformers.enable()
    yield cls.from_pretrained(folder, **options)
    cfck.transformers.disable()
    yield cfck.transformers.from_pretrained(cls, folder, **options)
    cfck.transformers.enable()


@pytest.mark.parametrize("name", MODELS)
def test_a_converted_folder_is_a_model(folders, name):
    safetensors, converted = folders(name)
    cls = MODELS[name]().__class__
    expected = cls.from_pretrained(safetensors)
    for model in both(converted, cls):
        assert_equal(model, expected)
        assert not model.training
        assert all(p.requires_grad for p in model.parameters())
        assert model.name_or_path == str(converted)
    assert_equal(cfck.transformers.from_pretrained(converted), expected)


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_tied_tensors_stay_tied(folders, name):
    for model in both(folders(name)[1], MODELS[name]().__class__):
        first, second = model.get_input_embeddings(), model.get_output_embeddings()
        assert first.weight is second.weight


def test_ties_of_a_file(folders, tmp_path):
    """A file in which two names are one tensor, which the model does not tie."""
    source, _ = folders("llama")
    state = transformers.LlamaForCausalLM.from_pretrained(source).state_dict()
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    for name in ("config.json", "generation_config.json"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    cfck.torch.save_file(state, tmp_path / "model.cfck")
    for model in both(tmp_path, transformers.LlamaForCausalLM):
        assert_same(model.lm_head.weight.detach(), state["lm_head.weight"])
        assert model.lm_head.weight.data_ptr() != model.model.embed_tokens.weight.data_ptr()


@pytest.mark.parametrize("variant", [None, "fp16"])
def test_shards_and_variants(tmp_path, variant):
    model = make("gpt2")
    model.save_pretrained(tmp_path / "a", max_shard_size="100KB", variant=variant)
    converted = convert(tmp_path / "a", tmp_path / "b")
    assert len(list(converted.glob("*.cfck"))) > 2
    expected = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "a", variant=variant)
    for model in both(converted, transformers.GPT2LMHeadModel, variant=variant):
        assert_equal(model, expected)


def test_lossy_files(folders, tmp_path):
    source, _ = folders("bert")
    converted = convert(source, tmp_path / "small", "--max-sigma-error", "0.01")
    state = cfck.torch.load_file(converted / "model.cfck")
    for model in both(converted):
        for name, tensor in model.state_dict().items():
            assert_same(tensor, state[name])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, "auto"])
def test_dtypes(folders, dtype):
    source, converted = folders("llama")
    options = {DTYPE: dtype}
    expected = transformers.AutoModelForCausalLM.from_pretrained(source, **options)
    for model in both(converted, transformers.AutoModelForCausalLM, **options):
        assert_equal(model, expected)


@pytest.mark.parametrize("device_map", ["auto", "cpu", {"": "cpu"}])
def test_device_maps(folders, device_map):
    pytest.importorskip("accelerate")
    source, converted = folders("bert")
    expected = transformers.BertModel.from_pretrained(source)
    for model in both(converted, device_map=device_map):
        assert_equal(model.to("cpu"), expected)


def test_layers_on_the_disk(folders, tmp_path):
    """transformers writes them again, as safetensors."""
    pytest.importorskip("accelerate")
    source, converted = folders("bert")
    names = ("embeddings", "encoder.layer.0", "encoder.layer.1", "pooler")
    device_map = dict(zip(names, ("cpu", "cpu", "disk", "cpu")))
    expected = transformers.BertModel.from_pretrained(source)
    model = transformers.BertModel.from_pretrained(
        converted, device_map=device_map, offload_folder=tmp_path
    )
    assert_same(outputs(model), outputs(expected))


def test_subfolders(folders, tmp_path):
    source, converted = folders("gpt2")
    copy(converted, tmp_path / "sub")
    expected = transformers.GPT2Model.from_pretrained(source)
    for model in both(tmp_path, subfolder="sub"):
        assert_equal(model, expected)


def test_heads_and_models_without_them(folders):
    """A prefix more or less in the names, and parameters that are new."""
    source, converted = folders("masked")
    expected = transformers.BertModel.from_pretrained(source, add_pooling_layer=False)
    for model in both(converted, add_pooling_layer=False):
        assert_equal(model, expected)
    source, converted = folders("bert")
    for model in both(converted, transformers.BertForSequenceClassification):
        for name, tensor in transformers.BertModel.from_pretrained(source).state_dict().items():
            assert_same(model.bert.state_dict()[name], tensor)
    _, info = transformers.BertForSequenceClassification.from_pretrained(
        converted, output_loading_info=True
    )
    assert set(info["missing_keys"]) == {"classifier.weight", "classifier.bias"}


def test_generation(folders):
    source, converted = folders("gpt2")
    config = json.loads((converted / "generation_config.json").read_text())
    (converted / "generation_config.json").write_text(json.dumps({**config, "max_length": 17}))
    ids = torch.tensor([[5, 6, 7]])
    expected = transformers.GPT2LMHeadModel.from_pretrained(source)
    for model in both(converted, transformers.AutoModelForCausalLM):
        assert model.generation_config.max_length == 17
        made = [
            m.generate(ids, max_length=9, do_sample=False, pad_token_id=0)
            for m in (model, expected)
        ]
        assert torch.equal(*made)


def test_pipelines(folders):
    source, converted = folders("masked")
    answers = [
        transformers.pipeline("fill-mask", model=str(folder), device="cpu")("the [MASK] runs")
        for folder in (source, converted)
    ]
    assert answers[0] == answers[1]


def test_sentence_transformers(folders, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    source, converted = folders("bert")
    options = {"device": "cpu"}
    expected = library.SentenceTransformer(str(source), **options).encode(["the red dog"])
    for model_kwargs in ({}, {"compressed": True}):
        model = library.SentenceTransformer(str(converted), model_kwargs=model_kwargs, **options)
        assert model.encode(["the red dog"]).tobytes() == expected.tobytes()


def test_modules_of_sentence_transformers_are_copied(folders, tmp_path):
    """The library loads them by itself, and knows no .cfck files."""
    library = pytest.importorskip("sentence_transformers")
    source, _ = folders("bert")
    model = library.SentenceTransformer(str(source), device="cpu")
    n_features = model.encode(["a"]).shape[1]
    dense = pytest.importorskip("sentence_transformers.models").Dense
    model.append(dense(n_features, 8))
    model.save_pretrained(str(tmp_path / "dense"))
    converted = convert(tmp_path / "dense", tmp_path / "converted")
    assert (converted / "model.cfck").exists()
    again = library.SentenceTransformer(str(converted), device="cpu")
    assert again.encode(["the red dog"]).tobytes() == model.encode(["the red dog"]).tobytes()


def test_models_can_be_trained_and_saved(folders, tmp_path):
    """Parameters are ordinary ones, each with memory of its own."""
    _, converted = folders("bert")
    model = transformers.BertModel.from_pretrained(converted).train()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    made = model(input_ids=torch.tensor([[5, 6, 7]]))[0]
    (made * torch.linspace(0, 1, made.numel()).reshape(made.shape)).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    changed = [n for n, p in model.named_parameters() if not torch.equal(p, before[n])]
    assert len(changed) > 20
    torch.save(model.state_dict(), tmp_path / "state.pt")
    state = cfck.torch.load_file(converted / "model.cfck")
    n_bytes = sum(t.numel() * t.element_size() for t in state.values())
    assert (tmp_path / "state.pt").stat().st_size < 1.2 * n_bytes
    model.save_pretrained(tmp_path / "again")
    assert_equal(transformers.BertModel.from_pretrained(tmp_path / "again"), model.eval())


def test_many_more_weights_than_are_decoded_ahead(folders, monkeypatch):
    source, converted = folders("gpt2")
    monkeypatch.setattr(lazy, "_AHEAD_BYTES", 40_000)
    expected = transformers.GPT2LMHeadModel.from_pretrained(source)
    for model in both(converted, transformers.GPT2LMHeadModel):
        assert_equal(model, expected)


def test_weights_are_decoded_in_batches(folders, monkeypatch):
    source, converted = folders("bert")
    monkeypatch.setattr(lazy, "_BATCH_BYTES", 5_000)
    expected = transformers.BertModel.from_pretrained(source)
    for model in both(converted, transformers.BertModel):
        assert_equal(model, expected)


def test_damage_in_one_batch_is_that_of_its_tensors(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(lazy, "_BATCH_BYTES", 1)
    path = folders("bert")[1] / "model.cfck"
    state = cfck.torch.load_file(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "damaged.cfck").write_bytes(data)
    n_damaged = 0
    for name, tensor in Weights(str(tmp_path / "damaged.cfck")).start().lazy().items():
        try:
            assert_same(tensor[...], state[name])
        except cfck.ChecksumError:
            n_damaged += 1
    assert 0 < n_damaged < len(state)


def test_weights_that_are_left(folders, monkeypatch):
    """Memory and file outlive the thread that decodes, also in a forked child."""
    monkeypatch.setattr(lazy, "_BATCH_BYTES", 1)
    path = folders("bert")[1] / "model.cfck"
    for _ in range(20):
        Weights(str(path)).start()
    weights = Weights(str(path)).start()
    child = os.fork()
    if child == 0:
        found = len(weights.decoded())
        del weights
        os._exit(0 if found else 1)
    assert os.waitpid(child, 0)[1] == 0
    weights.stop()
    weights.stop()
    for name, tensor in cfck.torch.load_file(path).items():
        assert_same(weights.take(name), tensor)


def test_folders_without_cfck_load_as_before(folders):
    source, _ = folders("bert")
    expected = make("bert")
    for model in both(source):
        assert_equal(model, expected)


def test_both_formats_in_a_folder(folders, tmp_path):
    source, converted = folders("bert")
    folder = copy(converted, tmp_path / "both")
    other = make("bert", seed=9)
    other.save_pretrained(tmp_path / "other")
    (folder / "model.safetensors").write_bytes((tmp_path / "other/model.safetensors").read_bytes())
    with pytest.warns(
        cfck.transformers.StaleWeightsWarning, match="model.safetensors beside"
    ) as caught:
        model = transformers.BertModel.from_pretrained(folder)
    assert caught[0].filename == __file__
    assert_equal(model, transformers.BertModel.from_pretrained(source))


def test_lazy_tensors_stand_for_their_values(folders):
    _, converted = folders("bert")
    path = converted / "model.cfck"
    tensors = Weights(str(path)).start().lazy()
    for name, tensor in cfck.torch.load_file(path).items():
        one = tensors[name]
        assert (one.shape, one.dtype) == (tensor.shape, tensor.dtype)
        assert one.get_shape() == list(tensor.shape) and one.get_dtype() == "F32"
        assert_same(one[...], tensor)
        assert_same(one[0], tensor[0])
        assert_same(torch.stack([one, one]), torch.stack([tensor, tensor]))
        assert_same(torch.zeros(tensor.shape).copy_(one), tensor)
        assert_same(one.to(torch.bfloat16), tensor.to(torch.bfloat16))
        assert one.numel() == tensor.numel()


def test_deepspeed_gets_tensors(folders):
    """The call that transformers makes for models that DeepSpeed shards."""
    _, converted = folders("bert")
    read = transformers.modeling_utils.load_state_dict
    path = str(converted / "model.cfck")
    state = cfck.torch.load_file(path)
    found = read(path, map_location="cpu")
    assert found.keys() == state.keys()
    for name, tensor in found.items():
        assert_same(tensor[...], state[name])
    assert all(t.is_meta for t in read(path, map_location="meta").values())


def test_threads_read_at_once(folders):
    """from_pretrained() of transformers is for one thread at a time; reading weights is not."""
    path = folders("bert")[1] / "model.cfck"
    state = cfck.torch.load_file(path)
    for _ in range(5):
        tensors = Weights(str(path)).start().lazy()
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda tensor: tensor[...], [*tensors.values()] * 2))
        for tensor, expected in zip(found, [*state.values()] * 2, strict=True):
            assert_same(tensor, expected)
