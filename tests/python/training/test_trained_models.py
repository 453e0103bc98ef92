"""Models in training stay models of torch."""

import copy

import cfck
import numpy as np
import pytest
import torch
from cfck.train import (
    SpectralModel,
    compress_weights,
    decompress_weights,
    quantization_loss,
    spectral,
)
from torch import nn
from trained_models import images, network, same, train

pytestmark = pytest.mark.usefixtures("one_thread")


# The model stays one of torch.


def test_copies_states_and_removal():
    model = network()
    q = spectral(model, bits=4)
    train(q, 3)
    model.eval()
    expected = model(images())
    copied = copy.deepcopy(model)
    assert same(copied(images()), expected)
    assert SpectralModel(copied).fit_rate() == q.fit_rate()
    other = network(2)
    spectral(other, bits=7)
    other.load_state_dict(model.state_dict())
    assert same(other.eval()(images()), expected)
    names = set(network().state_dict())
    assert set(q.state_dict()) == names
    plain = q.remove()
    assert plain is model and set(model.state_dict()) == names
    assert type(model[0]) is nn.Conv2d
    assert same(model(images()), expected)


def test_functions_of_the_first_implementation():
    model = network()
    q = spectral(model, bits=4)
    loss = quantization_loss(model)
    assert float(loss.detach()) == pytest.approx(q.fit_rate(), rel=1e-3)
    loss.backward()
    compressed = compress_weights(model)
    assert all(isinstance(data, bytes) for data in compressed.values())
    for name, data in compressed.items():
        assert cfck.message_info(data).shape == tuple(q.state_dict()[name].shape), name
    plain = network(2)
    result = decompress_weights(plain, compressed)
    assert not result.missing_keys and not result.unexpected_keys
    assert same(plain.eval()(images()), model.eval()(images()))
    del compressed["0.weight"]
    with pytest.raises(RuntimeError, match="0.weight"):
        decompress_weights(plain, compressed)
    assert decompress_weights(plain, compressed, strict=False).missing_keys == ["0.weight"]


def test_weights_that_were_compressed_before_there_were_messages():
    values = {name: torch.randn_like(t) for name, t in nn.Linear(8, 8).state_dict().items()}
    files = {name: cfck.torch.save({"": tensor}) for name, tensor in values.items()}
    plain = nn.Linear(8, 8)
    decompress_weights(plain, files)
    assert all(same(tensor, values[name]) for name, tensor in plain.state_dict().items())
    with pytest.raises(
        cfck.InvalidArgumentError, match="`bias`: this is not what compress_weights"
    ):
        decompress_weights(plain, files | {"bias": cfck.torch.save(values)})
    with pytest.raises(cfck.CfckError, match="tensor `bias`"):
        decompress_weights(plain, files | {"bias": b"\x00" * 100})
    with pytest.raises(TypeError):
        decompress_weights(plain, files | {"bias": 3})
    damaged = bytearray(cfck.encode_message(values["bias"]))
    damaged[-20] ^= 1
    with pytest.raises(cfck.ChecksumError, match="tensor `bias`") as raised:
        decompress_weights(plain, files | {"bias": bytes(damaged)})
    assert raised.value.record == "bias" and raised.value.byte_offset is not None
    for wrap in (
        bytearray,
        memoryview,
        lambda data: np.frombuffer(data, np.uint8),
        lambda data: torch.frombuffer(bytearray(data), dtype=torch.uint8),
    ):
        decompress_weights(plain, {name: wrap(data) for name, data in files.items()})


def test_views_of_one_memory_that_have_other_values():
    model = network()
    values = torch.randn(4, dtype=torch.complex64)
    for name, view in {
        "x": values,
        "y": values.conj(),
        "z": values.imag,
        "n": values.conj().imag,
    }.items():
        model.register_buffer(name, view)
    q = spectral(model, bits=4)
    compressed = compress_weights(model)
    for name in ("x", "y", "z", "n"):
        found = cfck.torch.decode_message(compressed[name])
        assert torch.equal(found, getattr(model, name)), name
    loaded = cfck.torch.load(q.to_bytes())
    assert torch.equal(loaded["y"], values.conj())


def test_errors_of_compressed_weights_name_the_tensor():
    for what, error in {
        torch.zeros(3, dtype=torch.complex128): cfck.UnsupportedError,
        torch.zeros(3, device="meta"): cfck.UnsupportedError,
        torch.eye(3).to_sparse(): cfck.InvalidArgumentError,
    }.items():
        model = network()
        model.register_buffer("buffer", what)
        spectral(model, bits=4)
        with pytest.raises(error, match="tensor `buffer`"):
            compress_weights(model)
    for octaves in (127.0, 2000.0, -2000.0):
        model = network()
        q = spectral(model, bits=4)
        with torch.no_grad():
            q.places[0].weight.scale.fill_(octaves)
        with pytest.raises(FloatingPointError, match="weight `0.weight`"):
            compress_weights(model)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_weights(tmp_path, dtype):
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32)).to(dtype)
    q = spectral(model, bits=3)
    q.finish()
    q.save(tmp_path / "model.cfck")
    loaded = cfck.torch.load_file(tmp_path / "model.cfck")
    assert loaded["0.weight"].dtype == dtype
    for name, tensor in q.state_dict().items():
        assert same(loaded[name], tensor), name


def test_autocast_and_checkpointing():
    from torch.utils.checkpoint import checkpoint

    model = network()
    q = spectral(model, bits=4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = checkpoint(model, images(), use_reentrant=False)
        loss = out.float().square().mean() + q.bits_per_weight()
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_tied_weights_stay_tied(tmp_path):
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(100, 32)
            self.head = nn.Linear(32, 100, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens):
            return self.head(self.embedding(tokens))

    model = Tied()
    q = spectral(model, bits=4)
    assert len(q.places) == 1 and len(list(q.parameters())) == 2
    tokens = torch.arange(20)
    model(tokens).square().mean().backward()
    assert same(model.head.weight, model.embedding.weight)
    q.finish()
    compressed = compress_weights(model)
    assert compressed["head.weight"] is compressed["embedding.weight"]
    q.save(tmp_path / "tied.cfck")
    expected = model(tokens)
    loaded = Tied()
    cfck.torch.load_model(loaded, tmp_path / "tied.cfck")
    assert same(loaded(tokens), expected)
    assert float(q.bits_per_weight()) < 8


def test_attention_and_blocks(tmp_path):
    model = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0)
    q = spectral(model, bits=4, block=(8, 8))
    assert all(place.weight.bands.numel() > 1 for place in q.places)
    x = torch.randn(2, 5, 32)
    (model(x).square().mean() + q.bits_per_weight()).backward()
    with torch.no_grad():
        for step in q.parameters():
            step.sub_(0.3 * torch.randn_like(step))
    q.finish()
    q.save(tmp_path / "layer.cfck")
    loaded = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0).eval()
    cfck.torch.load_model(loaded, tmp_path / "layer.cfck")
    assert same(loaded(x), model.eval()(x))


@pytest.mark.parametrize("block", [(1, 1), (1,), (1, 3), (3, 3)])
def test_convolution_kernels_in_blocks_of_choice(tmp_path, block):
    q = spectral(network(), bits=3, block=block)
    train(q, 3)
    q.finish()
    q.save(tmp_path / "model.cfck")
    loaded = network(2)
    cfck.torch.load_model(loaded, tmp_path / "model.cfck")
    assert same(loaded.eval()(images()), q.model.eval()(images()))


# Operators.


def operands() -> tuple:
    weight = torch.randn(16, 8, 3, 3, generator=torch.Generator().manual_seed(1)) * 0.1
    scale = torch.tensor(-5.0)
    bands, columns = torch.linspace(-1, 1, 9), torch.linspace(-0.5, 0.5, 8)
    parts = (weight, scale, bands, torch.zeros(0), columns)
    return tuple(part.requires_grad_() for part in parts)


def test_operators_are_as_torch_wants_them():
    bins = torch.full((16, 8, 3, 3), 40, dtype=torch.uint8)
    torch.library.opcheck(torch.ops.cfck.quantise.default, (*operands(), [], 0.0))
    torch.library.opcheck(torch.ops.cfck.coefficient_bits.default, (*operands(), bins, 7, []))


def test_operators_check_what_they_are_given():
    weight, *steps = (part.detach() for part in operands())
    bins = torch.zeros(weight.shape, dtype=torch.uint8)
    bits = torch.ops.cfck.coefficient_bits
    for wrong in (bins[:8], bins.int()):
        with pytest.raises(ValueError, match="bins"):
            bits(weight, *steps, wrong, 7, [])
    with pytest.raises(ValueError, match="bins and family"):
        bits(weight, *steps, bins, 8, [])
    with pytest.raises(ValueError, match="another length"):
        torch.ops.cfck.quantise(weight, steps[0], torch.zeros(8), *steps[2:], [], 0.0)
    with pytest.raises(ValueError, match="sides"):
        torch.ops.cfck.quantise(weight, *steps, [65], 0.0)
    with pytest.raises(RuntimeError):
        torch.ops.cfck.quantise_backward(weight[:8], weight, *steps, [], 0.0)


def test_models_compile_and_export():
    model = network()
    q = spectral(model, bits=4)
    model.eval()
    expected = model(images())
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    out = compiled(images())
    assert same(out, expected)
    (out.square().mean() + q.bits_per_weight()).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())
    exported = torch.export.export(model, (images(),))
    assert same(exported.module()(images()), expected)


def _train_a_part(rank: int, folder: str, results) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2
    )
    q = spectral(network(), bits=4)
    wrapped = nn.parallel.DistributedDataParallel(q.model)
    q.target(bits_per_weight=3, by=2)
    optimizer = torch.optim.AdamW(q.param_groups(lr=1e-2, step_lr=3e-2))
    for step in range(6):
        loss = wrapped(images(seed=10 * step + rank)).square().mean()
        loss = loss + 0.1 * q.bits_per_weight() + q.rate_loss()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 2:
            q.snap()
    results.put((rank, [p.detach().numpy().tobytes() for p in q.model.parameters()]))
    torch.distributed.destroy_process_group()


def test_training_on_two_processes(tmp_path):
    spawn = torch.multiprocessing.get_context("spawn")
    results = spawn.Queue()
    workers = [
        spawn.Process(target=_train_a_part, args=(rank, str(tmp_path), results))
        for rank in range(2)
    ]
    for worker in workers:
        worker.start()
    found = dict(results.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    assert found[0] == found[1], "steps and weights agree in all processes"
