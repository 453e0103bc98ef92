"""Folders and caches that have no model that could be loaded: each with an error that says why."""

import functools
import json
import os
import pathlib
import subprocess
import sys

import cfck
import pytest
import torch
from hf_models import (
    cached_repository,
    convert,
    copy,
    folders_in,
    make,
    outputs,
    quiet,
    transformers,
)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return folders_in(tmp_path_factory.mktemp("hf"))


@pytest.fixture(autouse=True)
def enabled(monkeypatch):
    # transformers asks the hub about folders, too, and waits for it.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    cfck.transformers.enable()
    with quiet():
        yield
    cfck.transformers.disable()


def calls():
    """Loads a folder through transformers, without a change to it, and packed."""
    return (
        transformers.AutoModel.from_pretrained,
        cfck.transformers.from_pretrained,
        functools.partial(transformers.AutoModel.from_pretrained, compressed=True),
        functools.partial(cfck.transformers.from_pretrained, compressed=True),
    )


def refused(folder, error, message, **options):
    for call in calls():
        with pytest.raises(error, match=message):
            call(folder, **options)


def test_a_folder_without_weights(folders, tmp_path):
    folder = copy(folders("bert")[1], tmp_path / "folder")
    (folder / "model.cfck").unlink()
    refused(folder, cfck.MissingFileError, "has no weights .*: no model.cfck or model.cfck.index")
    refused(folder, OSError, "none of safetensors or PyTorch")
    refused(folder, OSError, "no model.half.cfck", variant="half")


def test_weights_under_another_name(folders, tmp_path):
    folder = copy(folders("bert")[1], tmp_path / "folder")
    (folder / "model.cfck").rename(folder / "small.cfck")
    refused(folder, cfck.MissingFileError, "it has small.cfck: rename it")


def test_without_safetensors(folders, tmp_path):
    message = "no pytorch_model.bin.*; use_safetensors=False leaves out model.cfck"
    refused(folders("bert")[1], cfck.MissingFileError, message, use_safetensors=False)
    folder = copy(folders("bert")[1], tmp_path / "folder")
    torch.save(make("bert").state_dict(), folder / "pytorch_model.bin")
    (folder / "model.cfck").write_bytes(b"")
    for call in calls():
        assert torch.equal(outputs(call(folder, use_safetensors=False)), outputs(make("bert")))


def test_a_missing_folder(tmp_path):
    refused(tmp_path / "nothing", (OSError, ValueError), "nothing")


def sharded(tmp_path):
    make("gpt2").save_pretrained(tmp_path / "a", max_shard_size="100KB")
    return convert(tmp_path / "a", tmp_path / "b")


def test_an_index_that_names_missing_shards(tmp_path):
    folder = sharded(tmp_path)
    shard = sorted(folder.glob("*.cfck"))[1]
    shard.unlink()
    refused(folder, cfck.MissingFileError, shard.name)


@pytest.mark.parametrize("index", ["", "{", "[]", '{"weight_map": {"a": 3}}'])
def test_a_damaged_index(tmp_path, index):
    folder = sharded(tmp_path)
    (folder / "model.cfck.index.json").write_text(index)
    refused(folder, cfck.CfckError, "model.cfck.index.json")


def test_a_config_of_another_architecture(folders, tmp_path):
    folder = copy(folders("bert")[1], tmp_path / "folder")
    (folder / "config.json").write_bytes((folders("llama")[1] / "config.json").read_bytes())
    refused(folder, cfck.InvalidArgumentError, "has no tensor that Llama.* has: its names are emb")


def test_other_shapes(folders, tmp_path):
    folder = copy(folders("bert")[1], tmp_path / "folder")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 32}))
    for call in calls():
        with pytest.raises(RuntimeError, match="mismatch"):
            call(folder)


def test_a_file_that_was_renamed(folders, tmp_path):
    folder = copy(folders("bert")[1], tmp_path / "folder")
    (folder / "model.cfck").rename(folder / "model.safetensors")
    refused(folder, cfck.InvalidArgumentError, "is a .cfck file .* rename it to model.cfck")


def test_safetensors_that_were_renamed(folders, tmp_path):
    folder = copy(folders("bert")[0], tmp_path / "folder")
    (folder / "model.safetensors").rename(folder / "model.cfck")
    for call in calls():
        assert torch.equal(outputs(call(folder)), outputs(make("bert")))


def test_damaged_weights(folders, tmp_path):
    folder = copy(folders("bert")[1], tmp_path / "folder")
    path = folder / "model.cfck"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    refused(folder, cfck.ChecksumError, "model.cfck")
    path.write_bytes(data[: len(data) // 2])
    refused(folder, cfck.CfckError, "model.cfck")
    path.write_bytes(b"")
    refused(folder, cfck.CfckError, "model.cfck")


def test_a_broken_link(folders, tmp_path):
    folder = copy(folders("bert")[1], tmp_path / "folder")
    (folder / "model.cfck").unlink()
    (folder / "model.cfck").symlink_to(tmp_path / "gone")
    refused(folder, cfck.MissingFileError, "is a link to .*gone, which is not there")


def in_cache(home):
    """Loads a model of the hub, all ways, from a cache alone: the models, or the errors."""
    results = []
    for call in calls():
        try:
            results.append(call("someone/model", cache_dir=home / "hub", local_files_only=True))
        except OSError as error:
            results.append(error)
    return results


def assert_outputs(models, source):
    expected = outputs(transformers.BertModel.from_pretrained(source))
    for model in models:
        assert torch.equal(outputs(model), expected)


def test_a_cache_of_the_hub(folders, tmp_path):
    cached_repository(tmp_path, folders("bert")[1])
    assert_outputs(in_cache(tmp_path), folders("bert")[0])


def test_subfolders_in_the_cache(folders, tmp_path):
    snapshot = cached_repository(tmp_path, folders("gpt2")[1])
    copy(folders("bert")[1], snapshot / "sub")
    options = {"cache_dir": tmp_path / "hub", "local_files_only": True, "subfolder": "sub"}
    models = [call("someone/model", **options) for call in calls()]
    assert_outputs(models, folders("bert")[0])


def test_shards_in_the_cache(tmp_path):
    make("bert").save_pretrained(tmp_path / "a", max_shard_size="100KB")
    snapshot = cached_repository(tmp_path, convert(tmp_path / "a", tmp_path / "b"))
    assert_outputs(in_cache(tmp_path), tmp_path / "a")
    shard = sorted(snapshot.glob("*.cfck"))[0]
    pathlib.Path(os.path.realpath(shard)).unlink()
    for error in in_cache(tmp_path):
        assert isinstance(error, cfck.MissingFileError)
        assert shard.name in str(error) and "is a link to" in str(error)
    shard.unlink()
    for error in in_cache(tmp_path):
        assert isinstance(error, cfck.MissingFileError)
        assert f"{shard} is not there, which model.cfck.index.json names" in str(error)


@pytest.mark.parametrize("size", ["5GB", "100KB"])
def test_a_cache_of_safetensors(tmp_path, size):
    make("bert").save_pretrained(tmp_path / "a", max_shard_size=size)
    cached_repository(tmp_path, tmp_path / "a")
    assert_outputs(in_cache(tmp_path), tmp_path / "a")


def test_a_broken_link_in_the_cache(folders, tmp_path):
    snapshot = cached_repository(tmp_path, folders("bert")[1])
    blob = pathlib.Path(os.path.realpath(snapshot / "model.cfck"))
    blob.unlink()
    for error in in_cache(tmp_path):
        assert isinstance(error, cfck.MissingFileError)
        assert f"model.cfck is a link to {blob}, which is not there" in str(error)


def test_a_cache_without_weights(folders, tmp_path):
    snapshot = cached_repository(tmp_path, folders("bert")[1])
    (snapshot / "model.cfck").unlink()
    first, *others = in_cache(tmp_path)
    assert isinstance(first, OSError) and "someone/model" in str(first)
    for error in others:
        assert isinstance(error, cfck.MissingFileError) and "offline" in str(error)


PROGRAM = """
import sys, cfck.transformers, transformers
for call in (transformers.AutoModel.from_pretrained, cfck.transformers.from_pretrained):
    print(type(call("someone/model")).__name__)
    try:
        call("someone/other")
    except OSError:
        print("refused")
"""


def test_another_process_offline(folders, tmp_path):
    """The variables of the hub are read when it is imported."""
    cached_repository(tmp_path, folders("bert")[1])
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["BertModel", "refused"] * 2, done.stderr


def test_a_read_only_cache(folders, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    cached_repository(tmp_path, folders("bert")[1])
    for folder, _, _ in os.walk(tmp_path):
        os.chmod(folder, 0o555)
    try:
        assert_outputs(in_cache(tmp_path), folders("bert")[0])
    finally:
        for folder, _, _ in os.walk(tmp_path):
            os.chmod(folder, 0o755)
