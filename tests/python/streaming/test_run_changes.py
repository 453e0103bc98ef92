"""Weights of models that run from a file, written into: what was written counts."""

import copy

import pytest
import torch
from conftest import assert_same
from streamed_models import assert_equal_outputs, pair
from torch import nn
from torch.nn.utils import prune as prune_weights

IDS = torch.arange(24).reshape(3, 8)
X = torch.linspace(-1, 1, 3 * 64).reshape(3, 64)
DELTA = torch.linspace(-0.1, 0.1, 64 * 64).reshape(64, 64)


class Model(nn.Module):
    """An embedding that is tied to the head, two linear layers and a convolution."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(100, 64)
        self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 64)
        self.c = nn.Conv1d(8, 64, 9, padding=4)
        self.head = nn.Linear(64, 100, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.c(self.b(self.a(self.embedding(ids)))))


def add(model):
    model.a.weight.data += DELTA


def add_in_place(model):
    model.a.weight.data.add_(DELTA)


def add_without_data(model):
    with torch.no_grad():
        model.a.weight.add_(DELTA)


def add_to_the_attribute(model):
    with torch.no_grad():
        model.a.weight += DELTA
        model.embedding.weight += 1


def copy_into(model):
    model.a.weight.data.copy_(DELTA)


def replace_data(model):
    model.a.weight.data = DELTA.clone()


def replace_parameter(model):
    model.a.weight = nn.Parameter(DELTA.clone(), requires_grad=False)


def change_items(model):
    with torch.no_grad():
        model.a.weight[3] = 7
        model.b.weight.data[2, 3:9] = 5


def change_views(model):
    model.a.weight.data.T[0].zero_()
    model.b.weight.detach().view(-1)[5:9] = 3
    model.c.weight.data.view(torch.int32).zero_()


def load_a_state_dict(model):
    model.load_state_dict({name: 2 * tensor for name, tensor in model.state_dict().items()})


def write_into_a_state_dict(model):
    model.state_dict()["a.weight"].add_(DELTA)


def change_memory(model):
    model.a.weight.data.numpy()[:] = 0.5
    torch.from_dlpack(model.b.weight.detach()).mul_(2)
    zeros = torch.zeros(model.c.weight.numel()).untyped_storage()
    model.c.weight.untyped_storage().copy_(zeros)


def set_memory(model):
    with torch.no_grad():
        model.a.weight.set_(DELTA.clone())


def change_several(model):
    with torch.no_grad():
        torch._foreach_add_([model.a.weight, model.b.weight, model.embedding.weight], 1.0)


def write_results(model):
    torch.add(model.a.weight, 1, out=model.a.weight)


def initialise(model):
    nn.init.ones_(model.b.weight)
    model.apply(lambda module: isinstance(module, nn.Conv1d) and module.weight.data.fill_(0.1))


def step(model):
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def step_of_one_weight(model):
    weight = model.a.weight
    weight.grad = torch.ones_like(weight)
    torch.optim.AdamW([weight], lr=0.1).step()


def from_vector(model):
    values = torch.linspace(0, 1, sum(p.numel() for p in model.parameters()))
    nn.utils.vector_to_parameters(values, model.parameters())


def change_parameters(model):
    for parameter in model.parameters():
        parameter.data.clamp_(-0.01, 0.01)
    dict(model.named_parameters())["a.weight"].data += DELTA


def change_the_embedding(model):
    model.embedding.weight.data.mul_(0.5)


def prune(model):
    prune_weights.l1_unstructured(model.a, "weight", 0.5)
    nn.utils.parametrizations.weight_norm(model.b)
    model.b.parametrizations.weight.original0.data.mul_(2)


def change_in_inference_mode(model):
    with torch.inference_mode():
        model.a.weight.mul_(2)
        model.b.weight[0].zero_()


def change_in_hooks(model):
    def halve(module, *_):
        module.weight.data.mul_(0.5)

    hooks = [model.a.register_forward_pre_hook(halve), model.b.register_forward_hook(halve)]
    model(IDS)
    for hook in hooks:
        hook.remove()


def change_after_runs(model):
    weight = model.a.weight
    model(IDS), model(IDS)
    weight.data.add_(DELTA)


def change_between_conversions(model):
    model.a.weight.data.mul_(2)
    model.double()
    model.b.weight.data.mul_(3)
    model.float()


def convert_one(model):
    model.a.weight.data = model.a.weight.data.half()
    model.a.float()


def held(module):
    """The parameter as the module has it, which may stand for a weight that is in the file."""
    return module._parameters["weight"]


def change_held(model):
    with torch.no_grad():
        held(model.a).mul_(2)
        torch._foreach_mul_([held(model.b), held(model.b)], 2.0)
        torch.add(held(model.c), 1, out=held(model.c))


def change_held_data(model):
    held(model.a).data.zero_()
    held(model.b).data = DELTA.clone()
    nn.init.zeros_(held(model.c))


def load_a_state_dict_by_assignment(model):
    state = {name: 2 * tensor for name, tensor in model.state_dict().items()}
    model.load_state_dict(state, assign=True)
    model.head.weight = model.embedding.weight


WAYS = [
    add, add_in_place, add_without_data, add_to_the_attribute, copy_into, replace_data,
    replace_parameter, change_items, change_views, load_a_state_dict, write_into_a_state_dict,
    change_memory, set_memory, change_several, write_results, initialise, step,
    step_of_one_weight, from_vector, change_parameters, change_the_embedding, prune,
    change_in_inference_mode, change_in_hooks, change_after_runs, change_between_conversions,
    convert_one, change_held, change_held_data, load_a_state_dict_by_assignment,
]  # fmt: skip


@pytest.mark.parametrize("runs", [0, 2])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_written_counts(path, way, runs):
    streamed, expected = pair(Model(), path)
    with torch.no_grad():
        for _ in range(runs):
            streamed(IDS)
    for model in (streamed, expected):
        way(model)
    with torch.no_grad():
        assert_equal_outputs(streamed, expected, IDS)
        assert_equal_outputs(copy.deepcopy(streamed), expected, IDS, runs=1)
        assert_equal_outputs(streamed.double(), expected.double(), IDS, runs=1)
    for name, tensor in expected.state_dict().items():
        assert_same(streamed.state_dict()[name], tensor)


def test_what_is_only_read_stays_in_the_file(path):
    streamed, expected = pair(Model(), path)
    for _ in range(2):
        read = [
            streamed.a.weight.data.sum(),
            streamed.b.weight.numpy().sum(),
            streamed.c.weight.untyped_storage().nbytes(),
            streamed.embedding.weight.data.abs(),
            copy.deepcopy(streamed.a.weight),
            streamed.state_dict(),
        ]
        del read
        streamed(IDS)
    assert all(isinstance(m._parameters["weight"].weight.own(), type(None)) for m in kept(streamed))
    assert_equal_outputs(streamed, expected, IDS)


def kept(model):
    return [model.a, model.b, model.c, model.embedding, model.head]


def test_a_changed_weight_is_an_ordinary_parameter(path):
    streamed, _ = pair(Model(), path)
    weight = streamed.a.weight
    add(streamed)
    streamed(IDS)
    assert streamed.a.weight is weight is dict(streamed.named_parameters())["a.weight"]
    assert type(weight) is nn.Parameter
    streamed.embedding.weight.data += 1
    streamed(IDS)
    assert streamed.embedding.weight is streamed.head.weight
    weight.requires_grad_()
    streamed(IDS).sum().backward()
    assert weight.grad is not None
    assert "compressed" in repr(streamed.b)


def test_weights_cannot_be_swapped(path):
    streamed, expected = pair(Model(), path)
    with pytest.raises(RuntimeError, match="weakref"):
        torch.utils.swap_tensors(streamed.a.weight, nn.Parameter(DELTA))
    assert_equal_outputs(streamed, expected, IDS)


def test_values_become_ordinary_tensors_elsewhere(path, tmp_path):
    streamed, expected = pair(Model(), path)
    for made in (copy.deepcopy(streamed.a.weight), nn.Parameter(streamed.a.weight.clone())):
        assert type(made) is nn.Parameter
    torch.save([streamed.a.weight, streamed.a.weight.data], tmp_path / "a.pt")
    for stored in torch.load(tmp_path / "a.pt", weights_only=True):
        assert_same(stored.detach(), expected.a.weight)
    other = nn.Linear(64, 64)
    other.weight = nn.Parameter(streamed.a.weight)
    other.bias = nn.Parameter(streamed.a.bias.clone())
    assert_same(other(X), expected.a(X))
    assert type(streamed.a.weight + 1) is torch.Tensor
    assert repr(streamed.a.weight) == repr(expected.a.weight)


@pytest.mark.parametrize("safe", [False, True])
def test_adapters_are_merged(path, safe):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(
        r=4, target_modules=["a", "b", "embedding", "c"], init_lora_weights=False
    )

    def adapted(model):
        torch.manual_seed(1)
        return peft.get_peft_model(model, config).eval()

    streamed, expected = (adapted(model) for model in pair(Model(), path))
    with torch.no_grad():
        assert_equal_outputs(streamed, expected, IDS)
        merged, wanted = (m.merge_and_unload(safe_merge=safe) for m in (streamed, expected))
        assert_equal_outputs(merged, wanted, IDS)
