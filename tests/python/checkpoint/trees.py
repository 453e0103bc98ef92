"""Checkpoints that several tests make, and how they are compared."""

import struct

import numpy as np
import torch
from conftest import assert_same


def assert_equal(actual, expected):
    """Asserts equal types and bits, in the same order."""
    assert type(actual) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert_same(actual, expected)
    elif isinstance(expected, np.ndarray | np.generic):
        assert actual.dtype == expected.dtype
        assert actual.shape == expected.shape
        assert actual.tobytes() == expected.tobytes()
    elif isinstance(expected, dict):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_equal(one, other)
        for one, other in zip(actual.values(), expected.values(), strict=True):
            assert_equal(one, other)
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_equal(one, other)
    elif isinstance(expected, float):
        assert struct.pack("<d", actual) == struct.pack("<d", expected)
    elif isinstance(expected, complex):
        assert struct.pack("<2d", actual.real, actual.imag) == struct.pack(
            "<2d", expected.real, expected.imag
        )
    else:
        assert actual == expected


def trained():
    """A model of two layers after a few steps, its optimizer and its scheduler."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 32, bias=False)
    )
    optimizer = torch.optim.AdamW(
        [
            {"params": model[0].parameters(), "lr": 0.01},
            {"params": model[2].parameters(), "betas": (0.8, 0.95)},
        ]
    )
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(16, 64)).square().mean().backward()
        optimizer.step()
        scheduler.step()
    return model, optimizer, scheduler
