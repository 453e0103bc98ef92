"""Files and folders of safetensors, read as .cfck files are; and tied tensors on the way there."""

import json
import subprocess

import cfck
import cfck.numpy
import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from cfck.torch import load, load_checkpoint, load_file, load_model, save_file, save_model
from conftest import TORCH_DTYPES, assert_same, random_bits, shares_memory, weights
from torch import nn


@pytest.fixture
def tensors():
    return {
        "w": weights(60, 70),
        "b": weights(70, seed=2),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5),
        "cube": torch.arange(5 * 6 * 7).reshape(5, 6, 7),
        "large": weights(1500, 1000, seed=3),
    }


@pytest.fixture
def plain(tmp_path, tensors):
    # The name says nothing: contents do.
    path = tmp_path / "weights.bin"
    safetensors.torch.save_file(tensors, path, {"format": "pt"})
    return path


@pytest.mark.parametrize("backend", ["pread", "mmap"])
def test_files_of_safetensors(plain, tensors, backend):
    calls = []
    loaded = load_file(plain, backend=backend, threads=2, progress=lambda *call: calls.append(call))
    assert set(loaded) == set(tensors)
    for name, tensor in tensors.items():
        assert_same(loaded[name], tensor)
    total = sum(tensor.nbytes for tensor in tensors.values())
    assert calls[-1][:2] == (total, total)
    assert_same(load(plain.read_bytes())["w"], tensors["w"])
    as_arrays = cfck.numpy.load_file(plain, backend=backend)
    assert as_arrays["cube"].tolist() == tensors["cube"].tolist()
    as_arrays["cube"][0] = 7  # writable, and not the file


def test_opened_files_of_safetensors(plain, tensors):
    with cfck.safe_open(plain, "pt") as file, safetensors.safe_open(plain, "pt") as other:
        assert file.keys() == sorted(tensors)
        assert file.offset_keys() == other.offset_keys()
        assert file.metadata() == {"format": "pt"}
        assert_same(file.get_tensor("b"), tensors["b"])
        out = torch.empty(60, 70)
        assert_same(file.get_tensor("w", out=out), tensors["w"])
        record = file.get_record("w")
        assert (record.kind, record.codec, record.dtype, record.digest) == (
            "chunked", "raw", "F32", "",
        )  # fmt: skip
        assert record.stored_bytes == record.decoded_bytes == 4 * 60 * 70
        assert file.get_slice("w").get_shape() == [60, 70]
        with pytest.raises(cfck.NotFoundError):
            file.get_tensor("nothing")


@pytest.mark.parametrize(
    "index",
    [
        np.s_[:], np.s_[2:4], np.s_[1], np.s_[:, 3], np.s_[:, 2:5, 6:], np.s_[-1, ::2, 1:6:3],
        np.s_[3:3], np.s_[0, 0, 0], np.s_[..., 2], np.s_[4, 1:, :], [0, 2],
    ],
)  # fmt: skip
def test_slices(plain, tensors, index):
    with cfck.safe_open(plain, "pt") as file:
        assert_same(file.get_slice("cube")[index], tensors["cube"][index])


def test_slices_of_long_rows(tmp_path):
    array = np.arange(3 * 200_000, dtype=np.float64).reshape(3, 200_000)
    safetensors.numpy.save_file({"a": array}, tmp_path / "a")
    with cfck.safe_open(tmp_path / "a", "np") as file:
        for index in (np.s_[:, 5:100_000], np.s_[1:, 199_990:], np.s_[:, 7]):
            assert np.array_equal(file.get_slice("a")[index], array[index])


@pytest.mark.parametrize("dtype", [*TORCH_DTYPES, torch.float4_e2m1fn_x2])
def test_every_dtype(tmp_path, dtype):
    if dtype == torch.float4_e2m1fn_x2:
        tensor = random_bits((4, 6), torch.uint8).view(dtype)
    else:
        tensor = random_bits((4, 6), dtype)
    safetensors.torch.save_file({"t": tensor}, tmp_path / "t")
    loaded = load_file(tmp_path / "t")["t"]
    assert loaded.dtype == dtype
    assert torch.equal(loaded.view(torch.uint8), tensor.view(torch.uint8))
    with cfck.safe_open(tmp_path / "t", "pt") as file:
        part = file.get_slice("t")[1:3]
    assert torch.equal(part.view(torch.uint8), tensor.view(torch.uint8)[1:3])


def test_models_and_devices(tmp_path):
    model, other = nn.Linear(3, 4), nn.Linear(3, 4)
    safetensors.torch.save_model(model, tmp_path / "m")
    assert load_model(other, tmp_path / "m") == (set(), [])
    assert_same(other.weight, model.weight)
    assert load_file(tmp_path / "m", "meta")["weight"].shape == (4, 3)
    with pytest.raises(cfck.LimitExceededError, match="max_decoded_bytes"):
        load_file(tmp_path / "m", max_decoded_bytes=10)
    with pytest.raises(cfck.InvalidArgumentError, match="save_checkpoint"):
        load_checkpoint(tmp_path / "m")


def test_damaged_files_of_safetensors(plain):
    data = plain.read_bytes()
    for damaged, error in (
        (data[:-1], cfck.TruncatedError),
        (data[:100], cfck.TruncatedError),
        (data + b"x", cfck.CorruptError),
        (data.replace(b'"F32"', b'"Q32"'), cfck.CorruptError),
    ):
        plain.write_bytes(damaged)
        with pytest.raises(error, match="safetensors"):
            load_file(plain)
        with pytest.raises(error, match="safetensors"):
            load(damaged)


def test_updates_are_for_cfck_files(plain):
    with pytest.raises(cfck.CfckError, match="safetensors"):
        cfck.update(plain, {"a": weights(3)})


def write(folder, name, seed):
    """One file, or an index and its shard, that can be told from others."""
    kind = "cfck" if "cfck" in name else "safetensors"
    save = save_file if kind == "cfck" else safetensors.torch.save_file
    tensors = {"w": weights(4, seed=seed)}
    if not name.endswith(".json"):
        save(tensors, folder / name)
        return
    shard = f"shard{seed}-00001-of-00001.{kind}"
    save(tensors, folder / shard)
    (folder / name).write_text(json.dumps({"weight_map": {"w": shard}}))


@pytest.mark.parametrize(
    "names",
    [  # the first one is loaded
        ["model.cfck.index.json", "model.cfck", "model.safetensors.index.json"],
        ["model.cfck", "model.safetensors.index.json", "model.safetensors"],
        ["model.safetensors.index.json", "model.safetensors", "model.fp16.safetensors"],
        ["diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.fp16.cfck"],
        ["diffusion_pytorch_model.safetensors.index.fp16.json"],
        ["model.fp16.safetensors.index.json", "unknown.cfck"],
        ["model.fp16.cfck", "model.safetensors.index.fp16.json"],
        ["adapter_model.safetensors", "a.cfck", "b.cfck"],
        ["pytorch_model.cfck.index.json"],
        ["consolidated.safetensors", "x-00001-of-00002.safetensors"],
        ["my own name.safetensors"],
    ],
)
def test_which_file_of_a_folder_is_loaded(tmp_path, names):
    for seed, name in enumerate(names):
        write(tmp_path, name, seed)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.bin.index.json").write_text("{}")
    (tmp_path / "other.cfck").mkdir()
    assert_same(load_file(tmp_path)["w"], weights(4, seed=0))
    with cfck.safe_open(tmp_path, "np") as file:
        assert file.get_tensor("w").tolist() == weights(4, seed=0).tolist()
    assert_same(load_file(tmp_path / names[0])["w"], weights(4, seed=0))


@pytest.mark.parametrize(
    "names",
    [
        ["adapter_model.safetensors", "model.safetensors"],
        ["model.bf16.safetensors", "model.fp16.safetensors"],
        ["a.safetensors", "b.cfck"],
    ],
)
def test_folders_of_several_models_are_ambiguous(tmp_path, names):
    for name in names:
        write(tmp_path, name, 0)
    with pytest.raises(cfck.InvalidArgumentError, match="several models") as caught:
        load_file(tmp_path)
    assert all(name in str(caught.value) for name in names)


def test_shards_without_an_index(tmp_path):
    write(tmp_path, "model-00001-of-00002.safetensors", 0)
    with pytest.raises(FileNotFoundError, match="no index"):
        load_file(tmp_path)


class Tied(nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(40, 16)
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.embed.weight
        self.norm = nn.LayerNorm(16)


def convert(*arguments):
    subprocess.run(["cfck-convert", "--quiet", *map(str, arguments)], check=True)


def test_tied_models_become_what_safetensors_writes(tmp_path):
    model = Tied(1)
    safetensors.torch.save_model(model, tmp_path / "theirs.safetensors")
    save_model(model, tmp_path / "m.cfck")
    convert(tmp_path / "m.cfck", tmp_path / "ours.safetensors")
    theirs = (tmp_path / "theirs.safetensors").read_bytes()
    assert (tmp_path / "ours.safetensors").read_bytes() == theirs
    other = Tied(2)
    expected = safetensors.torch.load_model(Tied(2), tmp_path / "theirs.safetensors")
    assert safetensors.torch.load_model(other, tmp_path / "ours.safetensors") == expected
    assert_same(other.head.weight, model.head.weight)


def test_ties_of_safetensors_come_back(tmp_path):
    model = Tied(1)
    safetensors.torch.save_model(model, tmp_path / "m.safetensors", {"head.weight.dtype": "F32"})
    convert(tmp_path / "m.safetensors", tmp_path / "m.cfck")
    loaded = load_file(tmp_path / "m.cfck")
    assert set(loaded) == set(model.state_dict())
    assert shares_memory(loaded["head.weight"], loaded["embed.weight"])
    other = Tied(2)
    assert load_model(other, tmp_path / "m.cfck") == (set(), [])
    assert_same(other.head.weight, model.head.weight)
    convert(tmp_path / "m.cfck", tmp_path / "back.safetensors")
    back = (tmp_path / "back.safetensors").read_bytes()
    assert back == (tmp_path / "m.safetensors").read_bytes()


def test_a_dropped_name_that_was_only_a_part(tmp_path):
    """safetensors drops views of a part too; its metadata does not tell them from whole ties."""

    class Views(nn.Module):
        def __init__(self, tensor):
            super().__init__()
            self.all = nn.Parameter(tensor)
            self.part = nn.Parameter(self.all.detach()[:3])

    safetensors.torch.save_model(Views(weights(10)), tmp_path / "m.safetensors")
    convert(tmp_path / "m.safetensors", tmp_path / "m.cfck")
    for name in ("m.safetensors", "m.cfck"):
        model = Views(torch.zeros(10))
        assert load_model(model, tmp_path / name) == (set(), [])
        assert_same(model.part, weights(10)[:3])
    # On the way there such a view is kept, with its values.
    save_model(Views(weights(10)), tmp_path / "v.cfck")
    convert(tmp_path / "v.cfck", tmp_path / "v.safetensors")
    loaded = safetensors.torch.load_file(tmp_path / "v.safetensors")
    assert_same(loaded["part"], weights(10)[:3])
