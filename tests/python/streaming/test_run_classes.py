"""The classes of the modules of models that run from a file."""

import cfck.torch
import pytest
import torch
from cfck import UnsupportedError
from cfck.torch import compressed, save_model
from conftest import assert_same
from streamed_models import assert_equal_outputs, pair, scrambled, two_layers
from torch import nn

X = torch.ones(2, 128)


class _Names(nn.Module):
    """Has attributes of its own under likely names."""

    _names = ("a", "b")

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(128, 128))

    def forward(self, x):
        return x @ self.weight * len(self._names)


def test_attributes_of_a_class_are_its_own(path):
    torch.manual_seed(1)
    streamed, expected = pair(nn.Sequential(_Names()), path)
    assert streamed[0]._names == ("a", "b")
    assert_equal_outputs(streamed, expected, X)


def test_subclass_hooks_see_only_the_classes_of_the_model(path):
    known = {}

    class Registered(nn.Linear):
        def __init_subclass__(cls, *, tag):
            known[tag] = cls

    class Layer(Registered, tag="layer"):
        pass

    torch.manual_seed(1)
    streamed, expected = pair(nn.Sequential(Layer(128, 128)), path)
    assert known == {"layer": Layer}
    assert_equal_outputs(streamed, expected, X)


@pytest.mark.parametrize("kind", [nn.Linear, nn.LSTM])
def test_classes_make_plain_modules(path, kind):
    torch.manual_seed(1)
    streamed, _ = pair(nn.Sequential(kind(128, 128)), path)
    torch.manual_seed(2)
    made = type(streamed[0])(128, 128)
    torch.manual_seed(2)
    assert_equal_outputs(made, kind(128, 128), X)


def test_nothing_is_loaded_into_them(path):
    save_model(two_layers(), path)
    streamed = compressed(scrambled(two_layers()), path)
    with pytest.raises(UnsupportedError, match="runs from a file .*a model of its own"):
        cfck.torch.load_model(streamed, path)


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_weights_may_be_computed_from_others(path):
    torch.manual_seed(1)
    streamed, expected = pair(two_layers(), path)
    x = torch.ones(2, 64)
    for model in (streamed, expected):
        nn.utils.weight_norm(model[0])
    assert_same(streamed(x), expected(x))
    for model in (streamed, expected):
        nn.utils.remove_weight_norm(model[0])
    assert isinstance(streamed[0].weight, nn.Parameter)
    assert_same(streamed(x), expected(x))
