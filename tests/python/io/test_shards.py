"""Folders of shards."""

import json
import os
import subprocess

import cfck
import cfck.numpy
import pytest
import safetensors.torch
import torch
from cfck.torch import load_checkpoint, load_file, load_model, save_file
from conftest import assert_same, shares_memory, weights


@pytest.fixture
def folder(tmp_path):
    base = weights(20, 30)
    first = {"embed": base, "head": base.t(), "a": weights(5)}
    second = {"b": weights(600, 700, seed=2), "c": torch.arange(7)}
    save_file(first, tmp_path / "model-00001-of-00002.cfck", {"format": "pt", "who": "first"})
    save_file(second, tmp_path / "model-00002-of-00002.cfck", {"format": "pt", "who": "second"})
    weight_map = {name: "model-00001-of-00002.cfck" for name in first}
    weight_map |= {name: "model-00002-of-00002.cfck" for name in second}
    write_index(tmp_path, weight_map)
    return tmp_path, {**first, **second}


def write_index(folder, weight_map):
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "model.cfck.index.json").write_text(json.dumps(index))


def test_folder_and_index_are_accepted_wherever_a_file_is(folder):
    path, tensors = folder
    for filename in (path, str(path), path / "model.cfck.index.json"):
        loaded = load_file(filename)
        assert list(loaded) == list(tensors)
        for name, tensor in tensors.items():
            assert_same(loaded[name], tensor)
        assert shares_memory(loaded["embed"], loaded["head"])
    with cfck.safe_open(path, "np") as file:
        assert file.keys() == sorted(tensors)
        assert file.metadata() == {"format": "pt", "who": "first"}
        assert file.get_slice("b")[599].tolist() == tensors["b"][599].tolist()
        assert file.get_tensor("c").tolist() == list(range(7))
    assert set(cfck.numpy.load_file(path)) == set(tensors)


def test_records_of_all_shards(folder):
    path, tensors = folder
    with cfck.safe_open(path, "pt") as file:
        found = {record.name: record for record in file.records()}
    assert list(found) == list(tensors)
    assert found["head"].shares_with == "embed"
    assert found["b"].shares_with is None
    assert [found[name].dtype for name in ("b", "c")] == ["F32", "I64"]


def test_progress_goes_over_all_shards(folder):
    path, tensors = folder
    calls = []
    load_file(path, progress=lambda *call: calls.append(call))
    total = sum(4 * t.numel() for n, t in tensors.items() if n not in ("c", "head")) + 7 * 8
    assert calls[-1][:2] == (total, total)
    assert [c[0] for c in calls] == sorted(c[0] for c in calls)


def test_load_model(folder):
    path, tensors = folder
    model = torch.nn.ParameterDict(
        {
            n: torch.nn.Parameter(torch.zeros_like(t), t.is_floating_point())
            for n, t in tensors.items()
        }
    )
    assert load_model(model, path) == (set(), [])
    for name, tensor in tensors.items():
        assert_same(model[name], tensor)


def test_folder_with_a_single_file(tmp_path):
    save_file({"a": weights(3)}, tmp_path / "model.cfck")
    assert_same(load_file(tmp_path)["a"], weights(3))


def test_folder_without_a_model(tmp_path):
    with pytest.raises(FileNotFoundError, match="model.cfck.index.json"):
        load_file(tmp_path)
    (tmp_path / "optimizer.bin").write_bytes(b"")
    (tmp_path / ".model.cfck").write_bytes(b"")
    (tmp_path / "._model.safetensors").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="model.cfck.index.json"):
        load_file(tmp_path)


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x.cfck", "a/../../x.cfck", "", ".", "..", "a//b", "a\0b", 3, None]
)
def test_shards_that_leave_the_folder_are_refused(tmp_path, name):
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({"w": weights(3)}, tmp_path / "x.cfck")
    write_index(folder, {"w": name})
    with pytest.raises(cfck.CorruptError, match="not a file of this folder") as caught:
        load_file(folder)
    assert caught.value.record == "w"


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"weight_map": 3}', "{}", "[" * 100_000])
def test_broken_index(tmp_path, text):
    (tmp_path / "model.cfck.index.json").write_text(text)
    with pytest.raises(cfck.CorruptError, match="model.cfck.index.json"):
        load_file(tmp_path)


def test_missing_shard_and_missing_tensor(folder):
    path, tensors = folder
    write_index(path, {"a": "model-00001-of-00002.cfck", "b": "gone.cfck"})
    with pytest.raises(FileNotFoundError, match="gone.cfck"):
        load_file(path)
    write_index(path, {"a": "model-00001-of-00002.cfck", "b": "model-00001-of-00002.cfck"})
    with pytest.raises(cfck.CorruptError, match="model-00001.*lacks this tensor") as caught:
        load_file(path)
    assert caught.value.record == "b"


def test_the_index_says_which_shard_counts(folder):
    path, tensors = folder
    save_file({"a": weights(9, seed=5)}, path / "other.cfck")
    write_index(path, {"a": "other.cfck", "embed": "model-00001-of-00002.cfck"})
    loaded = load_file(path)
    assert set(loaded) == {"a", "embed", "head"}  # the last one is tied to "embed"
    assert_same(loaded["a"], weights(9, seed=5))


def test_shards_in_sub_folders(tmp_path):
    (tmp_path / "parts").mkdir()
    save_file({"a": weights(3)}, tmp_path / "parts" / "1.cfck")
    write_index(tmp_path, {"a": "parts/1.cfck"})
    assert_same(load_file(tmp_path)["a"], weights(3))


def test_copies_that_the_index_does_not_name_are_not_read(tmp_path):
    first = {"a": weights(9, seed=1), "b": weights(9, seed=2), "left over": weights(3)}
    safetensors.torch.save_file(first, tmp_path / "1.safetensors")
    safetensors.torch.save_file({"b": weights(9, seed=3)}, tmp_path / "overlay.safetensors")
    safetensors.torch.save_file({"c": weights(9)}, tmp_path / "2.safetensors")
    (tmp_path / "._1.safetensors").write_bytes(bytes(4096))
    weight_map = {"a": "1.safetensors", "b": "overlay.safetensors"}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    subprocess.run(["cfck", "convert", "-q", tmp_path, tmp_path.parent / "packed"], check=True)
    for path in (tmp_path, index, tmp_path.parent / "packed"):
        loaded = load_file(path)
        assert set(loaded) == {"a", "b"}
        assert_same(loaded["b"], weights(9, seed=3))
        with cfck.safe_open(path, "pt") as file:
            assert_same(file.get_tensor("b"), weights(9, seed=3))
        model = torch.nn.ParameterDict({name: torch.zeros(9) for name in "ab"})
        assert load_model(model, path) == (set(), [])
        assert_same(model["b"], weights(9, seed=3))


def test_shards_of_pytorch(tmp_path):
    source, packed, back = (tmp_path / name for name in ("source", "packed", "back"))
    source.mkdir()
    names = [f"pytorch_model-0000{i}-of-00002.bin" for i in (1, 2)]
    tied = weights(6, 7)
    tensors = {"a": weights(5), "embed.weight": tied, "head.weight": tied, "b": weights(4, seed=3)}
    torch.save({n: t for n, t in tensors.items() if n != "b"}, source / names[0])
    torch.save({"b": tensors["b"]}, source / names[1])
    torch.save({"step": 3}, source / "optimizer.pt")
    weight_map = {name: names[name == "b"] for name in tensors}
    index = source / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    done = subprocess.run(
        ["cfck", "convert", "--verify", source, packed], check=True, capture_output=True, text=True
    )
    assert "copied unchanged: optimizer.pt" in done.stdout
    subprocess.run(["cfck", "convert", "-q", packed, back], check=True)
    assert sorted(os.listdir(packed)) == [
        "model-00001-of-00002.cfck",
        "model-00002-of-00002.cfck",
        "model.cfck.index.json",
        "optimizer.pt",
    ]
    assert "model.safetensors.index.json" in os.listdir(back)
    for path in (source, index, packed, back):
        loaded = load_file(path)
        assert set(loaded) == set(tensors) - ({"head.weight"} if path == back else set())
        for name, tensor in loaded.items():
            assert_same(tensor, tensors[name])
        if path != back:
            assert shares_memory(loaded["embed.weight"], loaded["head.weight"])
            with pytest.raises(cfck.InvalidArgumentError, match="load_file returns all tensors"):
                load_checkpoint(path)
    (source / "model.safetensors").write_bytes(b"")  # comes before files of PyTorch
    with pytest.raises(cfck.CfckError, match="model.safetensors"):
        load_file(source)


def test_update_names_the_way_for_folders(folder):
    with pytest.raises(cfck.InvalidArgumentError, match="shard"):
        cfck.update(folder[0], {"a": weights(3)})


def test_a_folder_with_files_of_two_checkpoints_is_refused(folder):
    path, _ = folder
    (path / ".cfck-convert-unfinished").touch()
    for filename in (path, path / "model.cfck.index.json"):
        with pytest.raises(cfck.CorruptError, match="two checkpoints.*--force"):
            load_file(filename)
    # A single shard is whole all the same.
    assert list(load_file(path / "model-00002-of-00002.cfck")) == ["b", "c"]
