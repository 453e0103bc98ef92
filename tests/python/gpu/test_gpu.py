"""On a real device: values and errors are those of the host. Skipped where there is none.

pytest -m gpu
"""

import copy
import itertools
import struct

import cfck
import pytest
import torch
from cfck.torch import load, load_file, load_model, save, save_file, save_model
from cfck.train import spectral

REASON = None if torch.cuda.is_available() else "torch sees no CUDA device"
if REASON is None:
    REASON = cfck.cuda.why_not(0)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(REASON is not None, reason=f"needs a CUDA device: {REASON}"),
]

FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
SHORT = [torch.float8_e4m3fn, torch.float8_e5m2]
BOUNDS = [
    {},
    {"max_abs_error": 1e-3},
    {"max_rel_error": 1e-3, "per_row": True},
    {"max_sigma_error": 1e-2, "codec": "direct"},
    {"nmse": 1e-3},
    {"entropy": "zstd"},
    {"codec": "raw"},
]
SIZES = [1, 31, 128, 129, 8191, 8192, 32768, 100_000, (1 << 18) + 77, 1 << 20]


def rows(n: int, seed: int = 0) -> torch.Tensor:
    """Values of a spread that differs from row to row."""
    generator = torch.Generator().manual_seed(seed)
    columns = 64 if n % 64 == 0 else 1
    values = torch.randn(n // columns, columns, generator=generator)
    return values * torch.exp2(-torch.arange(n // columns) % 7).unsqueeze(1)


def expect_same(one: torch.Tensor, other: torch.Tensor) -> None:
    assert one.is_cuda and one.dtype == other.dtype and one.shape == other.shape
    mine, theirs = (t.contiguous().reshape(-1).view(torch.uint8) for t in (one.cpu(), other))
    assert torch.equal(mine, theirs)


def expect_as_on_host(data: bytes) -> None:
    on_host = load(data)
    on_device = load(data, device="cuda:0", decode="device")
    assert list(on_device) == list(on_host)
    for name, tensor in on_host.items():
        expect_same(on_device[name], tensor)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("options", BOUNDS, ids=str)
def test_sizes(dtype, options):
    tensors = {str(n): rows(n, n).to(dtype) for n in SIZES}
    expect_as_on_host(save(tensors, **options))


@pytest.mark.parametrize("dtype", SHORT, ids=str)
def test_bytes_of_floats(dtype):
    expect_as_on_host(save({str(n): rows(n, n).to(dtype) for n in SIZES}))


def test_other_dtypes_and_kinds():
    base = rows(6400).reshape(80, 80)
    expect_as_on_host(
        save(
            {
                "complex": torch.complex(rows(5000), rows(5000, 1)),
                "ids": torch.arange(100_000),
                "bools": torch.arange(5000) % 3 == 0,
                "zeros": torch.zeros(70_000),
                "constant": torch.full((70_000,), 1.5, dtype=torch.bfloat16),
                "sparse": rows(64_000) * (torch.arange(64_000) % 5 == 0).reshape(-1, 64),
                "base": base,
                "turned": base.t(),
                "part": base[3:40],
                "equal": base.clone(),
                "scalar": torch.tensor(2.5),
                "empty": torch.empty(0, 3),
                **{f"small{i}": rows(i + 1, i) for i in range(300)},
            }
        )
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_all_words_of_16_bits(dtype):
    words = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)
    expect_as_on_host(save({"words": words, "twice": words.repeat(4)}))
    finite = torch.nan_to_num(words, 0, 1, -1).clamp(-100, 100).reshape(256, 256)
    for bound in (1e-4, 1e-2, 1.0):
        expect_as_on_host(save({"w": finite}, max_abs_error=bound, codec="direct"))


def test_extreme_doubles():
    patterns = [0, 1, (1 << 52) - 1, 1 << 52, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000]
    bits = [p | s << 63 for p in patterns for s in (0, 1)] + [0x7FF8000000000001]
    values = torch.tensor([struct.unpack("<d", struct.pack("<Q", b))[0] for b in bits])
    expect_as_on_host(save({"w": values.double().repeat(1000).reshape(100, -1)}))


def test_no_contraction():
    """a * b + c of indices and steps, where a fused operation would round otherwise."""
    steps = torch.tensor([1 + 2.0**-11, 1 - 2.0**-11, 3.0**-0.5])
    values = torch.arange(-2000, 2000).unsqueeze(0) * steps.unsqueeze(1)
    for dtype, bound in itertools.product((torch.float32, torch.float64), (0.3, 1e-3)):
        data = save({"w": values.to(dtype)}, max_abs_error=bound, codec="direct")
        expect_as_on_host(data)


def test_convolutions_with_prediction():
    kernels = rows(64 * 32 * 9).reshape(64, 32, 3, 3).cumsum(-1)
    expect_as_on_host(save({"w": kernels}, max_abs_error=1e-3))


def expect_many_chunks_as_on_host(tensor: torch.Tensor, chunk_elems: int, **options) -> None:
    """All chunks in one launch, since their bytes are on the device already."""
    data = save({"w": tensor}, chunk_elems=chunk_elems, entropy="rans", **options)
    on_device = torch.frombuffer(bytearray(data), dtype=torch.uint8).cuda()
    expect_same(load(on_device, device="cuda:0", decode="device")["w"], load(data)["w"])


@pytest.mark.parametrize("options", [{}, {"max_abs_error": 0.03, "codec": "direct"}], ids=str)
@pytest.mark.parametrize("dtype", FLOATS + SHORT, ids=str)
def test_a_warp_for_each_of_many_chunks(dtype, options):
    """Where there are more than four for each multiprocessor; fewer have a block each."""
    if dtype in SHORT and options:
        pytest.skip("codec direct has no such dtype")
    for chunk_elems in (1 << 11, 1 << 15):
        expect_many_chunks_as_on_host(rows(640 * chunk_elems).to(dtype), chunk_elems, **options)


@pytest.mark.parametrize("options", [{}, {"max_abs_error": 0.03, "codec": "direct"}], ids=str)
def test_a_warp_for_each_of_many_chunks_with_zeros_and_prediction(options):
    values = rows(640 << 11)
    shown = (torch.arange(values.numel()) % 3 == 0).reshape(values.shape)
    kernels = values.reshape(-1, 64, 4, 4).cumsum(-1)
    for tensor in (values * shown, kernels):
        expect_many_chunks_as_on_host(tensor, 1 << 11, **options)


@pytest.mark.parametrize("verify", [True, False])
def test_damage(verify):
    tensors = {
        "lossless": rows(1 << 16).bfloat16(),
        "direct": rows(1 << 16),
        "sparse": rows(1 << 14) * (torch.arange(1 << 14) % 3 == 0).reshape(-1, 64),
    }
    data = save(tensors, rules={"direct": {"max_abs_error": 1e-3}})
    generator = torch.Generator().manual_seed(1)
    for _ in range(60):
        place = int(torch.randint(len(data) * 9 // 10, (1,), generator=generator))
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(torch.randint(8, (1,), generator=generator))
        outcomes = []
        for device in ("cpu", "cuda:0"):
            try:
                loaded = load(bytes(damaged), device=device, verify=verify, threads=1)
                outcomes.append({n: t.cpu().view(torch.uint8).tolist() for n, t in loaded.items()})
            except cfck.CfckError as error:
                outcomes.append((type(error), str(error)))
        assert outcomes[0] == outcomes[1]


def test_models_slices_and_memory_of_the_caller(path):
    net = torch.nn.Sequential(torch.nn.Linear(300, 500), torch.nn.LSTM(500, 40)).cuda()
    save_model(net, path)
    other = torch.nn.Sequential(torch.nn.Linear(300, 500), torch.nn.LSTM(500, 40)).cuda()
    addresses = [p.data_ptr() for p in other.parameters()]
    load_model(other, path, decode="device")
    assert addresses == [p.data_ptr() for p in other.parameters()]
    for one, two in zip(net.state_dict().values(), other.state_dict().values()):
        assert torch.equal(one, two)
    with cfck.safe_open(path, "pt", "cuda:0", decode="device") as file:
        weight = net.state_dict()["0.weight"]
        assert torch.equal(file.get_slice("0.weight")[7:300, 11:40:3], weight[7:300, 11:40:3])
        out = torch.empty_like(weight)
        assert file.get_tensor("0.weight", out=out) is out and torch.equal(out, weight)


def test_streams_and_threads_of_the_caller(path):
    tensors = {f"t{i}": rows(1 << 18, i).bfloat16() for i in range(20)}
    save_file(tensors, path)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        loaded = load_file(path, "cuda:0", decode="device")
        total = sum(t.double().sum() for t in loaded.values())
    stream.synchronize()
    for name, tensor in tensors.items():
        expect_same(loaded[name], tensor)
    assert torch.isfinite(total)


def test_models_that_run_from_a_file(path):
    layers = [torch.nn.Conv2d(16, 64, 3), torch.nn.Conv2d(64, 64, 3), torch.nn.Flatten()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(1024, 64), torch.nn.Linear(64, 10))
    x = torch.randn(4, 16, 8, 8, device="cuda:0")
    for options in ({}, {"max_rel_error": 1e-3}, {"nmse": 1e-3}):
        save_model(model, path, **options)
        loaded, running = (copy.deepcopy(model).eval().requires_grad_(False) for _ in range(2))
        load_model(loaded, path)
        running = cfck.torch.compressed(running, path).to("cuda:0")
        expected = loaded.to("cuda:0")(x)
        for _ in range(2):
            expect_same(running(x), expected.cpu())
        for name, tensor in loaded.state_dict().items():
            expect_same(running.state_dict()[name], tensor.cpu())


def test_weights_that_are_trained_on_the_device(path):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.Flatten()).to("cuda:0")
    q = spectral(model, bits=4)
    q.target(bits_per_weight=2, by=5)
    optimizer = torch.optim.AdamW(q.param_groups(lr=1e-2, step_lr=3e-2))
    x = torch.randn(4, 3, 8, 8, device="cuda:0")
    for _ in range(8):
        loss = model(x).square().mean() + q.rate_loss()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    q.finish()
    q.save(path)
    for name, tensor in load_file(path).items():
        expect_same(q.state_dict()[name], tensor)


def test_more_than_the_device_has(path):
    save({"w": torch.zeros(10)})
    free, _ = torch.cuda.mem_get_info()
    hog = torch.empty(max(0, free - (256 << 20)), dtype=torch.uint8, device="cuda")
    save_file({"w": torch.zeros(1 << 28)}, path)
    with pytest.raises(MemoryError, match="memory"):
        load_file(path, "cuda:0")
    del hog
    torch.cuda.empty_cache()
    save_file({"w": rows(1 << 16)}, path)
    expect_same(load_file(path, "cuda:0", decode="device")["w"], rows(1 << 16))
