"""The largest values by torch operations: those of native code, and nothing else is copied."""

import math

import cfck
import pytest
import torch
import torch.distributed as dist
from cfck._distributed import accumulation, gradients, selection
from cfck.distributed import GradientCodec, GradientCompression, SparseGradient, select_largest
from conftest import bits, random_bits, weights
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
GIVEN = {
    "weights": lambda: weights(30_000),
    "ties": lambda: torch.randint(-3, 4, (20_000,), generator=torch.Generator().manual_seed(1)),
    "zeros": lambda: torch.zeros(1000),
    "signed zeros": lambda: torch.tensor([0.0, -0.0] * 50),
    "one": lambda: torch.tensor([2.0]),
    "none": lambda: torch.zeros(0),
    "all equal": lambda: torch.full((5000,), -1.5),
    "not finite": lambda: torch.tensor([1.0, math.nan, math.inf, -math.inf, -math.nan, 3.0] * 99),
    "any bits": None,
}


def elsewhere(values, k):
    """What select_largest() finds where the values are not on the host."""
    return selection.largest_of_rows(values.reshape(1, -1), k)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("given", GIVEN)
def test_it_is_the_selection_of_native_code(given, dtype):
    values = random_bits((9000,), dtype) if given == "any bits" else GIVEN[given]().to(dtype)
    n = values.numel()
    for k in sorted({0, min(1, n), math.ceil(0.01 * n), n // 2, max(n - 1, 0), n}):
        expected = select_largest(values, k)
        assert torch.equal(elsewhere(values, k), expected)
        by_sort = values.view(torch.int16 if values.itemsize == 2 else torch.int32)
        by_sort = by_sort & (0x7FFF if values.itemsize == 2 else 0x7FFFFFFF)
        order = by_sort.sort(descending=True, stable=True).indices[:k].sort().values
        assert torch.equal(expected, order)


def test_rows_are_chosen_from_by_themselves():
    rows = torch.cat([weights(6, 40), torch.zeros(1, 40), torch.full((1, 40), math.nan)])
    for k in (0, 1, 7, 39, 40):
        expected = [select_largest(row, k) + 40 * i for i, row in enumerate(rows)]
        assert torch.equal(selection.largest_of_rows(rows, k), torch.cat(expected))


def test_a_default_device_does_not_count():
    values = weights(1000)
    expected = select_largest(values, 10)
    with torch.device("meta"):
        assert torch.equal(elsewhere(values, 10), expected)
        assert torch.equal(elsewhere(values, 1000), select_largest(values, 1000))


class Away(torch.Tensor):
    """A tensor that says it is on a device; its values are on the host."""

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), dtype=held.dtype, device="xla:0"
        )

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return _WITHOUT_DRIVER.get(func, func)(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} outside of a Device")


def _put(tensor, places, values):
    held = values if isinstance(values, torch.Tensor) else Away(torch.tensor(float(values)))
    torch.ops.aten.index_put_.default(tensor, [places], held)


# These methods ask for the driver of the device, before anything of it is done.
_WITHOUT_DRIVER = {
    torch.Tensor.nonzero: torch.ops.aten.nonzero.default,
    torch.Tensor.__getitem__: lambda tensor, at: torch.ops.aten.index.Tensor(tensor, [at]),
    torch.Tensor.__setitem__: _put,
}


class Device(TorchDispatchMode):
    """Runs what is asked of the device on the host, and notes what is copied from it."""

    def __init__(self):
        super().__init__()
        self.copied = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        given = pytree.tree_leaves((args, kwargs))
        is_away = any(isinstance(one, Away) for one in given)
        to = kwargs.get("device")
        if to is not None and torch.device(to).type == "xla":
            kwargs["device"], is_away = "cpu", True
        elif to is not None and is_away:
            self.copied.append(args[0].numel())
            is_away = False
        if func is torch.ops.aten._local_scalar_dense.default:
            is_away = False
        elif is_away:
            # Memory of the host has to be copied to the device before.
            assert all(isinstance(one, Away) or one.dim() == 0 for one in given
                       if isinstance(one, torch.Tensor)) or to is not None, func  # fmt: skip
        args, kwargs = pytree.tree_map_only(Away, lambda one: one.held, (args, kwargs))
        found = func(*args, **kwargs)
        if func.__name__.split(".")[0].endswith("_") and is_away:
            return given[0]
        return pytree.tree_map_only(torch.Tensor, Away, found) if is_away else found


@pytest.mark.parametrize("momentum, nesterov", [(0.0, False), (0.9, False), (0.9, True)])
def test_what_is_sent_alone_is_copied_to_the_host(momentum, nesterov):
    n, k = 10_000, 100
    parameter = nn.Parameter(torch.zeros(100, 100))
    here = accumulation.Accumulated("here", parameter, momentum > 0)
    there = accumulation.Accumulated("there", parameter, momentum > 0)
    codec = GradientCodec()
    device = Device()
    for step in range(3):
        gradient = weights(n, seed=step)
        expected = here.take(gradient, k / n, momentum, nesterov)
        packet, (decoded,) = codec.encode([expected])
        here.sent(expected, decoded, True)
        total = weights(n)
        codec.add(packet, [total], 0.5)
        device.copied.clear()
        with device:
            found = there.take(Away(gradient.clone()), k / n, momentum, nesterov)
            there.sent(found, decoded, True)
            total_there = Away(weights(n))
            codec.add(packet, [total_there], 0.5)
        assert device.copied == [k, k]
        assert torch.equal(found.indices, expected.indices.to(torch.int64))
        assert bits(found.values) == bits(expected.values)
        assert bits(there.velocity.held) == bits(here.velocity)
        if momentum:
            assert bits(there.momentum.held) == bits(here.momentum)
        assert bits(total_there.held) == bits(total)


def test_packets_of_other_tensors_are_refused_there():
    packet, _ = GradientCodec().encode([SparseGradient(10, torch.tensor([1]), torch.ones(1))])
    with Device():
        total = Away(torch.zeros(9))
        with pytest.raises(cfck.InvalidArgumentError, match="1 tensors is not of these 1"):
            GradientCodec().add(packet, [total])
    assert not total.held.any()


def trained(is_away, options):
    """Weights and state after some steps, with the operations of devices or those of the host."""
    places = [(module, module.is_on_host) for module in (accumulation, gradients, selection)]
    for module, _ in places if is_away else []:
        module.is_on_host = lambda tensor: False
    try:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 4)).to(
            options.pop("dtype", torch.float32)
        )
        state = GradientCompression(model, 0.05, **options)
        ddp = DistributedDataParallel(model)
        ddp.register_comm_hook(state, GradientCompression.hook)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        for step in range(4):
            generator = torch.Generator().manual_seed(10 * step + dist.get_rank())
            x = torch.randn(8, 20, generator=generator).to(model[0].weight.dtype)
            optimizer.zero_grad()
            ddp(x).float().square().mean().backward()
            optimizer.step()
        return list(model.state_dict().values()), state.state_dict()["velocity"]
    finally:
        for module, function in places:
            module.is_on_host = function


@pytest.mark.parametrize("options", [
    {}, {"nesterov": True, "clip_global_norm": 0.1}, {"momentum": 0.0, "dtype": torch.bfloat16},
    {"chunk_elems": 16}, {"vectors": "f16"},
], ids=str)  # fmt: skip
def test_training_is_the_same(two, options):
    for (a, u), (b, v) in zip(
        two(trained, False, options), two(trained, True, options), strict=True
    ):
        assert all(map(torch.equal, a, b))
        assert all(bits(u[name]) == bits(v[name]) for name in u)
