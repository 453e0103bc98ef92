"""Gradients are clipped, and those that are not finite stay so."""

import math

import pytest
import torch
from cfck._distributed.clipping import Clipping


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_values_that_are_not_finite_stay_so(bad):
    for clipping in (Clipping(value=1.0), Clipping(norm=1.0)):
        gradient = torch.tensor([3.0, bad, -0.5])
        clipping.apply([gradient], None)
        assert torch.equal(gradient.isfinite(), torch.tensor([True, False, True]))
        assert str(float(gradient[1])) == str(bad)
    gradient = torch.tensor([3.0, bad, -0.5])
    Clipping(value=1.0).apply([gradient], None)
    assert gradient[[0, 2]].tolist() == [1.0, -0.5]


def test_the_norm_of_large_values():
    gradient = torch.full((4,), 1e25)
    Clipping(norm=1.0).apply([gradient], None)
    assert torch.allclose(gradient, torch.full((4,), 0.5))
