"""Files of tensors of a device are those of equal tensors of the host, byte for byte. Skipped where
there is no device; test_save_on_fake_device.py runs these tests on the fake driver.

pytest -m gpu
"""

import os
import subprocess
import sys
from pathlib import Path

import cfck
import pytest
import torch
from cfck._distributed import frames
from cfck._distributed.frames import decode_frame, encode_frame, for_frame
from cfck._io import message_on_device
from cfck.torch import (
    decode_message,
    encode_message,
    encode_messages,
    load,
    load_checkpoint,
    load_file,
    save,
    save_checkpoint,
    save_file,
    save_model,
)

REASON = None if torch.cuda.is_available() else "torch sees no CUDA device"
if REASON is None:
    REASON = cfck.cuda.why_not(0)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(REASON is not None, reason=f"needs a CUDA device: {REASON}"),
]

FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
SIZES = [1, 129, 8192, 32768, 32769, 100_000, (1 << 18) + 77]
CUDA = "cuda:0"


def values(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(seed)) * 0.02


def on_device(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies that share memory where these do."""
    copies: dict[int, torch.Tensor] = {}
    for tensor in tensors.values():
        copies.setdefault(id(tensor), tensor.to(CUDA))
    return {name: copies[id(tensor)] for name, tensor in tensors.items()}


def expect_same(tensors: dict[str, torch.Tensor], **options) -> None:
    expected = save(tensors, **options)
    assert save(on_device(tensors), encode="device", **options) == expected
    assert save(on_device(tensors), encode="host", **options) == expected


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sizes(dtype):
    expect_same({str(n): values(n, n).to(dtype) for n in SIZES})


@pytest.mark.parametrize(
    "options",
    [
        {"level": "fast"},
        {"level": "archive"},
        {"entropy": "zstd"},
        {"codec": "lossless"},
        {"codec": "raw"},
        {"chunk_elems": 40_000},
        {"max_abs_error": 1e-3},
        {"max_rel_error": 1e-3, "per_row": True},
        {"codec": "direct", "max_sigma_error": 1e-2},
        {"rules": {"w0": {"max_sigma_error": 1e-2}}},
        {"quality": "high"},
    ],
    ids=str,
)
def test_options(options):
    tensors = {f"w{i}": values(90_000, i).reshape(300, 300) for i in range(3)}
    expect_same({**tensors, "b": tensors["w1"].bfloat16()}, **options)


def test_other_dtypes_and_kinds():
    base = values(90_000).reshape(300, 300)
    rows = values(32 * 100).reshape(32, 100)
    expect_same(
        {
            "base": base,
            "tied": base,
            "complex": torch.complex(values(50_000), values(50_000, 1)),
            "ids": torch.arange(100_000),
            "bools": torch.arange(50_000) % 3 == 0,
            "zeros": torch.zeros(70_000),
            "constant": torch.full((70_000,), 1.5, dtype=torch.bfloat16),
            "sparse": values(64_000) * (torch.arange(64_000) % 5 == 0),
            "noise": torch.randint(-(1 << 31), 1 << 31, (50_000,))
            .to(torch.int32)
            .view(torch.float32),
            "rows": rows[torch.arange(2000) % 32],
            "equal": base.clone(),
            "e4m3": values(50_000).to(torch.float8_e4m3fn),
            "specials": values(50_000).index_fill(0, torch.arange(0, 50_000, 999), float("nan")),
            "scalar": torch.tensor(2.5),
            "empty": torch.empty(0, 3),
        }
    )


def test_views():
    base = values(90_000).reshape(300, 300)
    copy = base.to(CUDA)
    views = [lambda t: t, lambda t: t[3:40], lambda t: t.t(), lambda t: t[:, 5:9]]
    for some in (views[:2], views[1:2], views[2:3], views[:3], views):
        of_host = {str(i): view(base) for i, view in enumerate(some)}
        of_device = {str(i): view(copy) for i, view in enumerate(some)}
        assert save(of_device) == save(of_host)


def test_who_has_encoded(tmp_path):
    tensors = {
        "w": values(1 << 20).bfloat16(),
        "ids": torch.arange(1000),
        "small": values(100),
    }
    path = tmp_path / "model.cfck"
    summary = save_file(on_device(tensors), path)
    assert summary.device_bytes == 2 << 20
    assert summary.host_bytes == 8000 + 400
    assert path.read_bytes() == save(tensors)
    summary = save_file(on_device(tensors), path, encode="host")
    assert (summary.device_bytes, summary.host_bytes) == (0, (2 << 20) + 8000 + 400)
    summary = save_file(tensors, path)
    assert (summary.device_bytes, summary.host_bytes) == (0, 0)


def test_who_has_encoded_views(tmp_path):
    square = values(1 << 20).reshape(1024, 1024).to(CUDA)
    path = tmp_path / "model.cfck"
    summary = save_file({"w": square, "turned": square.clone().t()}, path)
    assert (summary.device_bytes, summary.host_bytes) == (4 << 20, 4 << 20)
    summary = save_file({"w": square, "part": square[3:9]}, path)
    assert (summary.device_bytes, summary.host_bytes) == (4 << 20, 0)
    summary = save_file({"w": square[:, :512], "same": square[:, :512]}, path)
    assert (summary.device_bytes, summary.host_bytes) == (0, 2 << 20)
    summary = save_file({"w": square[:, :512], "part": square[:, 100:612]}, path)
    assert (summary.device_bytes, summary.host_bytes) == (0, (4 << 20) - 4 * (1024 - 612))


def test_there_is_nothing_for_the_device(tmp_path):
    path = tmp_path / "model.cfck"
    tensor = values(10_000).reshape(100, 100)
    with pytest.raises(cfck.UnsupportedError, match='`w` is on none.*encode="auto"'):
        save_file({"w": tensor}, path, encode="device")
    with pytest.raises(cfck.UnsupportedError, match="contiguous.*`w` of cuda:0 is no such"):
        save_file({"w": tensor.to(CUDA).t(), "host": tensor}, path, encode="device")
    save_file({"w": tensor.to(CUDA), "v": tensor}, path, encode="device")
    cfck.update(path, {}, remove=["v"], encode="device")
    cfck.update(path, {}, metadata={"step": "3"}, encode="device")
    assert list(load_file(path)) == ["w"]
    save_file({"empty": torch.zeros(0, 3, device=CUDA)}, path, encode="device")
    assert load_file(path)["empty"].shape == (0, 3)


def test_ten_runs_are_equal():
    tensors = on_device({str(i): values(70_000, i).bfloat16() for i in range(20)})
    assert len({save(tensors, encode="device") for _ in range(10)}) == 1


def test_models_and_checkpoints(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.Linear(400, 300))
    device_model = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.Linear(400, 300))
    device_model.load_state_dict(model.state_dict())
    device_model.to(CUDA)
    paths = [tmp_path / name for name in ("host.cfck", "device.cfck")]
    save_model(model, paths[0])
    save_model(device_model, paths[1], encode="device")
    assert paths[0].read_bytes() == paths[1].read_bytes()
    if type(values(1).to(CUDA)) is not torch.Tensor:
        return  # of the fake device, whose type a checkpoint would lose
    for path, place in zip(paths, ("cpu", CUDA)):
        weights = {name: tensor.to(place) for name, tensor in model.state_dict().items()}
        save_checkpoint({"model": weights, "step": 3}, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert load_checkpoint(paths[1])["step"] == 3


def test_update(tmp_path):
    old = {"a": values(100_000), "b": values(1000)}
    new = {"a": values(100_000, 5), "c": values(100_000, 6).bfloat16()}
    contents = []
    for number, tensors in enumerate((new, on_device(new))):
        path = tmp_path / f"{number}.cfck"
        save_file(old, path)
        summary = cfck.update(path, tensors, encode="auto" if number == 0 else "device")
        assert summary.device_bytes == (0 if number == 0 else 600_000)
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]


def test_verified_and_loaded(tmp_path):
    tensors = {"w": values(300_000).reshape(300, 1000)}
    path = tmp_path / "model.cfck"
    save_file(on_device(tensors), path, encode="device", verify=True)
    assert torch.equal(load(path.read_bytes())["w"], tensors["w"])


def test_many_messages_at_once(monkeypatch):
    tensors = [
        values(n, n + i).to(dtype)
        for n in (40_000, 0, 33_000, 7, 300_000)
        for i, dtype in enumerate([*FLOATS, torch.int32])
    ]
    expected = [encode_message(tensor) for tensor in tensors]
    of_device = [tensor.to(CUDA) for tensor in tensors]
    made = encode_messages(of_device, out="device")
    assert all(message.is_cuda and message.dtype == torch.uint8 for message in made)
    assert [message.cpu().numpy().tobytes() for message in made] == expected
    assert encode_messages(of_device) == expected
    assert encode_messages(tensors) == expected
    mixed = [tensor.to(CUDA) if i % 2 else tensor for i, tensor in enumerate(tensors)]
    assert encode_messages(mixed) == expected
    assert encode_messages([]) == []
    monkeypatch.setattr(message_on_device, "_BATCH_BYTES", 500_000)
    made = encode_messages(of_device, out="device")
    assert [message.cpu().numpy().tobytes() for message in made] == expected
    assert encode_messages(of_device) == expected
    with pytest.raises(TypeError, match="list of tensors"):
        encode_messages(of_device[0])
    with pytest.raises(cfck.UnsupportedError, match="of a tensor of that CUDA device"):
        encode_messages(mixed, out="device")
    with pytest.raises(cfck.InvalidArgumentError, match="out is"):
        encode_messages(of_device, out="cuda")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_messages(dtype):
    for n in (0, 1, 32768, 32769, 700_000):
        tensor = values(n, n).to(dtype)
        expected = encode_message(tensor)
        of_device = tensor.to(CUDA)
        message = encode_message(of_device, out="device")
        assert message.is_cuda and message.dtype == torch.uint8
        assert message.cpu().numpy().tobytes() == expected
        assert encode_message(of_device) == expected
        out = torch.zeros(cfck.max_message_bytes(tensor) + 10, dtype=torch.uint8, device=CUDA)
        assert encode_message(of_device, out=out) == len(expected)
        assert out.cpu().numpy().tobytes()[: len(expected)] == expected
        assert not out[-10:].cpu().any()
        assert torch.equal(decode_message(message), tensor)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int32], ids=str)
@pytest.mark.parametrize("n", [0, 1000, 700_000, 3_000_000])
def test_frames_of_ranks(dtype, n, monkeypatch):
    """What a rank sends is the same whoever encodes it (cfck.distributed)."""
    tensor = values(n, n).to(dtype)
    expected = encode_frame(for_frame(tensor), {})
    flat = for_frame(tensor.to(CUDA))
    assert flat.is_cuda == (dtype.is_floating_point and n * dtype.itemsize >= 1 << 20)
    frame = encode_frame(flat, {})
    assert frame.is_cuda == flat.is_cuda
    assert torch.equal(frame.cpu(), expected)
    received = torch.empty_like(tensor)
    decode_frame(frame.cpu(), received)
    assert torch.equal(received, tensor)

    def without_memory(*arguments, **options):
        raise torch.cuda.OutOfMemoryError("there is none")

    monkeypatch.setattr(frames, "encode_messages", without_memory)
    assert torch.equal(encode_frame(flat, {}), expected)


def test_collectives_of_two_ranks(tmp_path):
    script = Path(__file__).with_name("two_ranks.py")
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(rank), tmp_path / "ranks"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=200)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(said)


def test_messages_with_options_and_views():
    matrix = values(90_000).reshape(300, 300)
    copy = matrix.to(CUDA)
    for options in (
        {"max_abs_error": 1e-3},
        {"max_sigma_error": 0.1},
        {"codec": "raw"},
        {"level": "archive"},
        {"chunk_elems": 20_000},
        {"entropy": "zstd"},
    ):
        message = encode_message(copy, out="device", **options)
        assert message.cpu().numpy().tobytes() == encode_message(matrix, **options)
    turned = encode_message(copy.t(), out="device")
    assert turned.cpu().numpy().tobytes() == encode_message(matrix.t())
    ids = torch.arange(50_000)
    assert encode_message(ids.to(CUDA), out="device").cpu().numpy().tobytes() == encode_message(ids)


def test_messages_that_cannot_be():
    tensor = values(50_000)
    with pytest.raises(cfck.UnsupportedError, match="made of a tensor of that CUDA device"):
        encode_message(tensor, out="device")
    with pytest.raises(cfck.UnsupportedError, match="made of a tensor of that CUDA device"):
        encode_message(tensor, out=torch.zeros(1 << 20, dtype=torch.uint8, device=CUDA))
    with pytest.raises(cfck.InvalidArgumentError, match='or "device", not'):
        encode_message(tensor.to(CUDA), out="host")
    with pytest.raises(cfck.InvalidArgumentError, match="space for 1000"):
        encode_message(tensor.to(CUDA), out=torch.zeros(1000, dtype=torch.uint8, device=CUDA))
    with pytest.raises(cfck.InvalidArgumentError, match="torch.uint8"):
        encode_message(tensor.to(CUDA), out=torch.zeros(1 << 20, device=CUDA))
    memory = torch.zeros(1 << 18, dtype=torch.uint8, device=CUDA)
    with pytest.raises(cfck.InvalidArgumentError, match="overlaps the tensor"):
        encode_message(memory[: 4 * 50_000].view(torch.float32), out=memory)
    with pytest.raises(cfck.InvalidArgumentError, match="overlaps the tensor"):
        square = memory[: 4 * 10_000].view(torch.float32).reshape(100, 100)
        encode_message(square.t(), out=memory)
    most = cfck.max_message_bytes(values(9000))  # 36,024: the tensor may lie right behind
    behind = memory[most : most + 4 * 9000].view(torch.float32)
    assert encode_message(behind, out=memory[:most]) > 0
    for wrong in ([1.0], "tensor", None):
        with pytest.raises(cfck.InvalidArgumentError, match="expected torch.Tensor but received"):
            encode_message(wrong, out="device")


def test_messages_in_memory_of_the_host():
    tensor = values(400_000)
    for out in (bytearray(2_000_000), torch.zeros(2_000_000, dtype=torch.uint8)):
        n_bytes = encode_message(tensor.to(CUDA), out=out)
        made = bytes(out) if isinstance(out, bytearray) else out.numpy().tobytes()
        assert made[:n_bytes] == encode_message(tensor)
    with pytest.raises(cfck.InvalidArgumentError, match="may take 1600024 bytes"):
        encode_message(tensor.to(CUDA), out=bytearray(1_600_023))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_small_files_of_f64_with_an_error(tmp_path, n):
    tensor = values(n << 18).double()
    summary = save_file({"w": tensor.to(CUDA)}, tmp_path / "w.cfck", max_abs_error=1e-3)
    assert (summary.device_bytes, summary.host_bytes) == (tensor.nbytes, 0)


def test_errors_of_many_messages_say_which():
    tensors = [values(400_000).to(CUDA), torch.arange(9).to(CUDA), values(4)]
    with pytest.raises(cfck.InvalidArgumentError, match="^tensor number 1: maximum errors"):
        encode_messages(tensors, max_abs_error=1.0)
    with pytest.raises(cfck.UnsupportedError, match="^tensor number 2: .* is on cpu"):
        encode_messages(tensors, out="device")
    for options in ({"max_abs_error": 1.0, "max_rel_error": 1.0}, {"codec": "spectral"}):
        with pytest.raises(cfck.CfckError, match="^(?!tensor number)"):
            encode_messages(tensors[:1], **options)
    with pytest.raises(cfck.InvalidArgumentError, match="^tensor number 3: expected torch.Tensor"):
        encode_messages([*tensors, [1.0]])
    with pytest.raises(cfck.InvalidArgumentError, match="or None, not a DeviceTensor|a Tensor$"):
        encode_messages(tensors, out=tensors[0])


@pytest.mark.parametrize(
    ("base", "shape"), [((1000,), (300, -1)), ((1000, 1), (-1, 70)), ((1000, 1), (40, 1000, 3))]
)
def test_expanded_tensors(base, shape):
    """They are stored as what they repeat, wherever they are."""
    base, other = values(1000).reshape(base), values(40_000)
    expected = save({"tensor": base.expand(shape), "other": other})
    assert len(expected) < 2 * (base.nbytes + other.nbytes)
    tensors = {"tensor": base.to(CUDA).expand(shape), "other": other.to(CUDA)}
    for encode in ("device", "host"):
        assert save(tensors, encode=encode) == expected


def test_compressed_tensors_on_the_device():
    for n in (1, 40_000, 700_000):
        tensor = values(n)
        for options in ({}, {"max_rel_error": 1e-3}):
            there = cfck.compress(tensor.to(CUDA), out="device", **options)
            assert there.device == torch.device(CUDA) and there.dtype == torch.uint8
            assert there.cpu().numpy().tobytes() == cfck.compress(tensor, **options)
    found = cfck.decompress(there, framework="pt", device=CUDA)
    assert torch.equal(found.cpu(), cfck.decompress(there, framework="pt"))
    with pytest.raises(cfck.UnsupportedError, match="of a tensor of that CUDA device"):
        cfck.compress(tensor, out="device")
    with pytest.raises(cfck.InvalidArgumentError, match='out is "device"'):
        cfck.compress(tensor.to(CUDA), out="cuda")


def test_compressed_tensors():
    tensor = values(700_000).bfloat16()
    assert cfck.compress(tensor.to(CUDA)) == cfck.compress(tensor)
    assert cfck.compress(tensor.to(CUDA), max_abs_error=1e-3) == cfck.compress(
        tensor, max_abs_error=1e-3
    )


def test_a_maximum_error_is_kept_there(tmp_path):
    tensors = {
        "chunks": values(600_000).reshape(6, 100_000),
        "chunk": values(120_000, 1).reshape(300, 400),
        "b": values(200_000).reshape(2, 100_000).bfloat16(),
    }
    path = tmp_path / "model.cfck"
    for options in ({"max_rel_error": 1e-3}, {"max_sigma_error": 0.02}, {"max_abs_error": 1e-3}):
        summary = save_file(on_device(tensors), path, **options)
        assert path.read_bytes() == save(tensors, **options)
        assert summary.host_bytes <= 400_000 < summary.device_bytes, options
        for name, decoded in load_file(path).items():
            tensor = tensors[name].double()
            bound = {
                "max_rel_error": tensor.max() - tensor.min(),
                "max_sigma_error": tensor.std(correction=0),
                "max_abs_error": 1.0,
            }[next(iter(options))] * next(iter(options.values()))
            assert 0 < (decoded.double() - tensor).abs().max() <= bound


def test_what_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.cfck"
    save_file({"a": values(10)}, path)
    before = path.read_bytes()
    tensors = on_device({str(i): values(300_000, i) for i in range(4)})

    def give_up(done_bytes, total_bytes, name):
        if done_bytes > 1_000_000:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        save_file(tensors, path, encode="device", progress=give_up)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.cfck"]
    with pytest.raises(cfck.UnsupportedError, match="tensors of CUDA devices"):
        save_file({"a": values(100_000)}, path, encode="device")
    with pytest.raises(cfck.InvalidArgumentError, match='"auto", "device" or "host"'):
        save_file(tensors, path, encode="gpu")
    assert path.read_bytes() == before
