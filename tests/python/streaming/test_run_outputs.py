"""Models that run from a file give the outputs of loaded models, bit for bit."""

import cfck
import pytest
import torch
from cfck.torch import compressed, load, save, save_file, save_model
from conftest import assert_same, weights
from streamed_models import assert_equal_outputs, loaded, pair, scrambled, two_layers
from torch import nn

FILES = [{}, {"codec": "raw"}, {"bits_per_weight": 3}, {"max_sigma_error": 0.01}]


class Custom(nn.Module):
    """Weights of its own, in lists, and read by a parent."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.matrix = nn.Parameter(torch.randn(64, 64))
        self.listed = nn.ParameterList([nn.Parameter(torch.randn(64, 64)) for _ in range(2)])
        self.named = nn.ParameterDict({"a": nn.Parameter(torch.randn(64, 64))})
        self.linear = nn.Linear(64, 64)
        self.held = nn.Parameter(torch.randn(64, 64))
        self.also = [self.held]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x @ self.matrix + x @ self.listed[0] - x @ self.listed[1]
        return self.linear(x @ self.named["a"]) @ self.linear.weight.t() @ self.also[0]


class Tied(nn.Module):
    """A head that is the token embedding."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Embedding(300, 32)
        self.body = nn.Linear(32, 128)
        self.back = nn.Linear(128, 32)
        self.head = nn.Linear(32, 300, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.back(self.body(self.embed(ids)).relu()))


def models():
    torch.manual_seed(4)
    image = torch.randn(2, 16, 10, 10)
    rows = torch.randn(3, 7, 64)
    return {
        "linear": (two_layers(), torch.randn(5, 64)),
        "conv": (nn.Sequential(nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32)).eval(), image),
        "transposed": (nn.ConvTranspose2d(16, 32, 3, stride=2), image),
        "conv1d": (nn.Conv1d(64, 64, 3), rows.transpose(1, 2)),
        "bilinear": (nn.Bilinear(16, 16, 32), torch.randn(5, 16), torch.randn(5, 16)),
        "lstm": (nn.LSTM(64, 64, 2, bidirectional=True), rows),
        "gru": (nn.GRU(64, 64), rows),
        "cell": (nn.LSTMCell(64, 64), rows[0]),
        "attention": (nn.MultiheadAttention(64, 4, batch_first=True).eval(), rows, rows, rows),
        "apart": (nn.MultiheadAttention(64, 4, vdim=32).eval(), rows, rows, rows[..., :32]),
        "encoder": (nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval(), rows),
        "decoder": (nn.TransformerDecoderLayer(64, 4, 128).eval(), rows, rows),
        "custom": (Custom(), rows),
        "tied": (Tied(), torch.randint(0, 300, (3, 9))),
        "weight norm": (nn.utils.parametrizations.weight_norm(nn.Linear(64, 64)), rows),
        "old weight norm": (nn.Sequential(nn.Linear(64, 64)), rows),
    }  # fmt: skip


def can_run(model, *inputs) -> bool:
    """False for LSTMs in bfloat16 on CPUs without AVX-512, for which PyTorch has no kernels."""
    try:
        model(*inputs)
    except RuntimeError as error:
        if "could not create a primitive descriptor" not in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize("options", FILES, ids=str)
@pytest.mark.parametrize("name", models())
@pytest.mark.filterwarnings("ignore")
def test_outputs_are_those_of_the_loaded_model(path, name, options):
    model, *inputs = models()[name]
    if name == "old weight norm":
        torch.nn.utils.weight_norm(model[0])
        # Only leaves can be copied.
        model[0].weight = model[0].weight.detach()
    streamed, expected = pair(model, path, **options)
    assert_equal_outputs(streamed, expected, *inputs)
    with torch.no_grad():
        assert_equal_outputs(streamed, expected, *inputs)
    with torch.inference_mode():
        assert_equal_outputs(streamed, expected, *inputs)
    assert_equal_outputs(streamed, expected, *inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        if can_run(expected, *inputs):
            assert_equal_outputs(streamed, expected, *inputs)
        else:
            assert not can_run(streamed, *inputs)


@pytest.mark.parametrize("name", models())
@pytest.mark.filterwarnings("ignore")
def test_state_dict_has_the_decoded_values(path, name):
    model = models()[name][0]
    if name == "old weight norm":
        return
    streamed, expected = pair(model, path, bits_per_weight=4)
    state, wanted = streamed.state_dict(), expected.state_dict()
    assert list(state) == list(wanted)
    for key in wanted:
        assert_same(state[key], wanted[key])
    names = [name for name, _ in expected.named_parameters()]
    assert [name for name, _ in streamed.named_parameters()] == names
    for parameter, other in zip(streamed.parameters(), expected.parameters(), strict=True):
        assert (parameter.shape, parameter.dtype) == (other.shape, other.dtype)
        assert isinstance(parameter, nn.Parameter) and not parameter.requires_grad


@pytest.mark.parametrize("name", ["encoder", "attention"])
def test_the_fast_path_of_attention_is_taken(path, name, monkeypatch):
    model, *inputs = models()[name]
    streamed, _ = pair(model, path)
    fused = "_native_multi_head_attention"
    if name == "encoder":
        fused = "_transformer_encoder_layer_fwd"
    taken = []
    before = getattr(torch, fused)
    monkeypatch.setattr(torch, fused, lambda *a, **k: taken.append(1) or before(*a, **k))
    with torch.no_grad():
        streamed(*inputs)
    assert taken


def test_models_on_meta(path):
    model = Tied()
    save_model(model, path)
    with torch.device("meta"):
        other = Tied()
    assert compressed(other, path) is other
    assert not any(tensor.is_meta for tensor in other.state_dict().values())
    assert_equal_outputs(other, loaded(model, path), torch.randint(0, 300, (4, 5)))


def test_bytes_and_other_containers_of_a_model(tmp_path):
    model, x = two_layers(), torch.randn(3, 64)
    data = save(model.state_dict())
    assert_equal_outputs(compressed(scrambled(model), data), model, x)
    flat = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    assert_equal_outputs(compressed(scrambled(model), flat), model, x)
    save_file(load(data), tmp_path / "model.cfck")
    assert_equal_outputs(compressed(scrambled(model), tmp_path), model, x)
    mapped = compressed(scrambled(model), str(tmp_path / "model.cfck"), backend="mmap", threads=2)
    assert_equal_outputs(mapped, model, x)
    assert_equal_outputs(compressed(scrambled(model), data, prefetch=False), model, x)


def test_a_folder_of_shards(tmp_path):
    import json

    model, x = two_layers(), torch.randn(3, 64)
    state = model.state_dict()
    names = list(state)
    parts = {"a.cfck": names[:2], "b.cfck": names[2:]}
    for file, held in parts.items():
        save_file({name: state[name] for name in held}, tmp_path / file)
    places = {name: file for file, held in parts.items() for name in held}
    index = tmp_path / "model.cfck.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    for source in (tmp_path, index):
        assert_equal_outputs(compressed(scrambled(model), source), model, x)


def test_a_safetensors_file(tmp_path):
    import safetensors.torch

    model, ids = Tied(), torch.randint(0, 300, (3, 9))
    safetensors.torch.save_model(model, tmp_path / "a.safetensors")
    assert_equal_outputs(compressed(scrambled(model), tmp_path / "a.safetensors"), model, ids)


@pytest.mark.parametrize("kept", ["embed.weight", "head.weight"])
def test_one_name_of_tied_weights_is_enough(path, kept):
    model = Tied()
    names = {"embed.weight", "head.weight"} - {kept}
    save_file({n: t for n, t in model.state_dict().items() if n not in names}, path)
    streamed = compressed(scrambled(model), path)
    assert_equal_outputs(streamed, model, torch.randint(0, 300, (3, 9)))
    state = streamed.state_dict()
    assert state["embed.weight"].data_ptr() == state["head.weight"].data_ptr()
    assert len(list(streamed.parameters())) == len(list(model.parameters()))


def test_libraries_see_ties(path):
    """As peft looks for them when it has merged an adapter; else it would end them."""
    save_model(Tied(), path)
    streamed = compressed(scrambled(Tied()), path)
    for _ in range(2):
        out, into = streamed.head.weight, streamed.embed.weight
        assert out.data_ptr() == into.data_ptr() != 0
        assert out is into
        del out, into
    streamed.head.weight.data += 1
    out, into = streamed.head.weight, streamed.embed.weight
    assert out.data_ptr() == into.data_ptr() != 0


def test_parameters_of_one_memory_are_tied(path):
    model = Tied()
    model.head.weight = nn.Parameter(model.embed.weight.detach())
    save_file({n: t for n, t in model.state_dict().items() if n != "head.weight"}, path)
    other = Tied()
    other.head.weight = nn.Parameter(other.embed.weight.detach())
    assert_equal_outputs(compressed(other, path), model, torch.randint(0, 300, (3, 9)))


@pytest.mark.parametrize("change", [0, 1])
def test_ties_of_which_the_file_has_two_values(path, change):
    model = Tied()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state["head.weight"] += change
    save_file(state, path)
    if change:
        with pytest.raises(RuntimeError, match='"embed.weight" and "head.weight" share memory'):
            compressed(Tied(), path)
    streamed = compressed(scrambled(model), path, strict=False)
    assert_equal_outputs(streamed, model, torch.randint(0, 300, (3, 9)))


def test_values_of_another_dtype_become_those_of_the_model(path):
    model = two_layers().bfloat16()
    save_model(model, path)
    streamed = compressed(two_layers(), path)
    assert streamed[0].weight.dtype == torch.float32
    assert_equal_outputs(streamed, loaded(two_layers(), path), torch.randn(3, 64))


def test_channels_last_stays(path):
    model = nn.Conv2d(16, 32, 3).to(memory_format=torch.channels_last)
    streamed, expected = pair(model, path)
    assert streamed.weight.stride() == expected.weight.stride()
    image = torch.randn(2, 16, 9, 9).to(memory_format=torch.channels_last)
    assert_equal_outputs(streamed, expected, image)
    streamed.to(memory_format=torch.contiguous_format)
    assert streamed.weight.is_contiguous()
    streamed.to(memory_format=torch.channels_last)
    assert streamed.weight.stride() == expected.weight.stride()
    assert_equal_outputs(streamed, expected, image)


def test_batches_counted_may_be_missing(path):
    for meta in (False, True):
        model = nn.Sequential(nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32))
        state = model.state_dict()
        del state["1.num_batches_tracked"]
        save_file(state, path)
        other = nn.Sequential(nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32))
        streamed = compressed(other.to("meta") if meta else other, path)
        assert streamed[1].num_batches_tracked == 0
        assert_equal_outputs(streamed.eval(), model.eval(), torch.randn(2, 16, 9, 9))


def test_modes_are_kept_and_training_runs(path):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32), nn.Dropout(0.5)).train()
    streamed, expected = pair(model, path)
    assert streamed.training and streamed[1].training
    image = torch.randn(2, 16, 9, 9, requires_grad=True)
    outputs = []
    for one in (streamed, expected):
        torch.manual_seed(6)
        outputs.append(one(image))
        (gradient,) = torch.autograd.grad(outputs[-1].sum(), image)
        outputs.append(gradient)
    assert_same(outputs[0], outputs[2])
    assert_same(outputs[1], outputs[3])
    assert_same(streamed[1].running_mean, expected[1].running_mean)


def test_weights_can_be_replaced(path):
    streamed, _ = pair(two_layers(), path)
    streamed[0].weight = nn.Parameter(weights(128, 64))
    assert streamed[0].weight.requires_grad
    streamed(torch.randn(3, 64)).sum().backward()
    assert streamed[0].weight.grad is not None
    del streamed[0].weight
    with pytest.raises(AttributeError, match="weight"):
        streamed[0].weight  # noqa: B018
    with pytest.raises(TypeError, match="cannot assign"):
        streamed[2].weight = torch.zeros(64, 128)


def test_a_transformer_of_a_library(path):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=128, max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(7)
    model = transformers.BertForMaskedLM(config).eval()
    for options in ({}, {"bits_per_weight": 3}):
        streamed, expected = pair(model, path, **options)
        assert (streamed.device, streamed.dtype) == (model.device, model.dtype)
        for seed in range(3):
            torch.manual_seed(seed)
            ids = torch.randint(0, 500, (2 + seed, 20))
            with torch.no_grad():
                assert_same(streamed(ids).logits, expected(ids).logits)
    assert type(streamed).__name__ == "BertForMaskedLM"
    assert streamed.get_output_embeddings().weight.shape == (500, 64)
    assert cfck.safe_open(path, "pt").keys()
