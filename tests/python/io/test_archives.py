"""Files that are opened, whatever they are of: errors, limits, and what out= gets."""

import json
import os
import subprocess
import sys

import cfck
import cfck.numpy
import cfck.torch
import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from cfck.torch import load_file, load_model, save_file, save_model
from conftest import assert_same, weights


@pytest.fixture
def folder(tmp_path):
    weight_map = {}
    for i in range(3):
        name = f"model-0000{i + 1}-of-00003.cfck"
        save_file({f"w{i}": weights(1000, seed=i)}, tmp_path / name)
        weight_map[f"w{i}"] = name
    (tmp_path / "model.cfck.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return tmp_path


def flip(path, offset=3000):
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("spelling", [{"max_decoded_bytes": 9000}, {"max_decoded_bytes": "9KB"},
                                      {"limits": {"max_decoded_bytes": "9KB"}}])  # fmt: skip
def test_a_limit_counts_for_all_files_of_a_call(folder, spelling):
    with pytest.raises(cfck.LimitExceededError, match="max_decoded_bytes is 9000"):
        load_file(folder, **spelling)
    with cfck.safe_open(folder, "pt", **spelling) as file:
        assert_same(file.get_tensor("w2"), weights(1000, seed=2))
        with pytest.raises(cfck.LimitExceededError):
            file.get_tensors()
    model = torch.nn.ParameterDict({f"w{i}": torch.zeros(1000) for i in range(3)})
    for kind in (torch.float32, torch.float64):
        with pytest.raises(cfck.LimitExceededError):
            load_model(model.to(kind), folder, **spelling)
    assert set(load_file(folder, max_decoded_bytes=12000)) == {"w0", "w1", "w2"}


@pytest.mark.parametrize("wrong", [-1, 1.5, True, None, "much", [3]])
def test_limits_that_are_none(folder, wrong):
    with pytest.raises(cfck.InvalidArgumentError, match="max_decoded_bytes|size"):
        load_file(folder, max_decoded_bytes=wrong)


def test_options_that_contradict_themselves_or_are_none(folder):
    with pytest.raises(cfck.InvalidArgumentError, match="give it once"):
        load_file(folder, max_decoded_bytes=5, limits={"max_decoded_bytes": 10**9})
    with pytest.raises(TypeError, match="verify is a bool"):
        load_file(folder, verify="no")


def test_errors_name_the_file(folder, tmp_path):
    single = tmp_path / "single.cfck"
    save_file({"w": weights(1000)}, single)
    flip(single)
    flip(folder / "model-00002-of-00003.cfck")
    with pytest.raises(cfck.ChecksumError, match="single.cfck") as caught:
        load_file(single)
    assert caught.value.record == "w"
    with cfck.safe_open(single, "pt") as file, pytest.raises(cfck.ChecksumError, match="single"):
        file.get_slice("w")[3:5]
    with pytest.raises(cfck.ChecksumError, match="model-00002-of-00003.cfck"):
        load_file(folder)


@pytest.mark.parametrize("kind", ["same length", "shorter"])
def test_a_file_that_is_overwritten_is_not_called_damaged(tmp_path, kind):
    path, other = tmp_path / "a.cfck", tmp_path / "b.cfck"
    save_file({"w": weights(100, 100)}, path)
    save_file({"w": weights(100, 100, seed=2)} if kind == "same length" else {}, other)
    with cfck.safe_open(path, "pt") as file:
        data = other.read_bytes()
        with path.open("r+b") as stream:
            stream.write(data)
            stream.truncate(len(data))
        with pytest.raises(cfck.IoError, match="was changed after it was opened"):
            file.get_tensor("w")


def _replace(path):
    other = path.with_name("new")
    safetensors.torch.save_file({"w": weights(9, seed=9)}, other)
    other.rename(path)


@pytest.mark.parametrize("backend", ["pread", "mmap"])
@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.unlink(),
        lambda path: path.rename(path.with_name("moved")),
        _replace,
        lambda path: os.link(path, path.with_name("link")),
        lambda path: os.chdir("/"),
    ],
)
def test_what_becomes_of_the_name_of_an_open_file(tmp_path, monkeypatch, change, written, backend):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "m.safetensors"
    first, second = ({"w": weights(9, seed=seed)} for seed in (1, 2))
    safetensors.torch.save_file(first, path)
    with cfck.safe_open("m.safetensors", "pt", backend=backend) as file:
        if written:
            with path.open("r+b") as stream:
                stream.write(safetensors.torch.save(second))
        change(path)
        if written:
            with pytest.raises(cfck.IoError, match="was changed after it was opened"):
                file.get_tensor("w")
        else:
            assert_same(file.get_tensor("w"), first["w"])


def test_names_that_shards_tie_and_the_index_does_not_place(tmp_path):
    for number, name in enumerate(("a", "b")):
        tensor = weights(8, seed=number)
        shard = {name: tensor, "tied": tensor, f"{name}.tied": tensor}
        save_file(shard, tmp_path / f"{name}.cfck")
    index = tmp_path / "model.cfck.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "a.cfck", "b": "b.cfck"}}))
    loaded = load_file(tmp_path)
    assert set(loaded) == {"a", "b", "a.tied", "b.tied"}
    assert_same(loaded["b.tied"], weights(8, seed=1))


def test_a_duplicate_whose_base_is_none_of_the_model(tmp_path):
    tensor = weights(500)
    save_file({"base": tensor, "duplicate": tensor.clone()}, tmp_path / "m.cfck")
    index = tmp_path / "model.cfck.index.json"
    index.write_text(json.dumps({"weight_map": {"duplicate": "m.cfck"}}))
    with cfck.safe_open(index, "pt") as file:
        assert file.keys() == ["duplicate"]
        assert file.get_record("duplicate").shares_with is None
        assert_same(file.get_tensor("duplicate"), tensor)


def test_tensors_in_a_file_that_is_called_json(tmp_path):
    safetensors.torch.save_file({"w": weights(9)}, tmp_path / "real.json")
    assert_same(load_file(tmp_path / "real.json")["w"], weights(9))
    (tmp_path / "text.json").write_text("{}")
    with pytest.raises(cfck.CorruptError, match="shard index"):
        load_file(tmp_path / "text.json")


LISTING = """
import os, resource, sys
from cfck import _native

archive = _native.Archive.open_path(
    os.fsencode(sys.argv[1]), map=False, only_tensors=True, threads=1, verify=True,
    max_decoded_bytes=0, limits={}, base=None, base_dirs=[],
)
outcomes = set()
for extra in range(0, 60_000_000, 500_000):
    child = os.fork()
    if child == 0:
        with open("/proc/self/statm") as statm:
            used = int(statm.read().split()[0]) * resource.getpagesize()
        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (used + extra, most))
        try:
            archive.records()
            archive.check_sizes([(index, 1) for index in range(60_000)])
        except MemoryError:
            os._exit(7)
        os._exit(0)
    outcomes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(sorted(outcomes))
"""


def test_a_long_list_that_does_not_fit_into_memory(tmp_path):
    path = tmp_path / "many.safetensors"
    tensors = {f"n{i}": np.zeros(1, np.int8) for i in range(60_000)}
    safetensors.numpy.save_file(tensors, path)
    done = subprocess.run(
        [sys.executable, "-c", LISTING, path], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[0, 7]\n", done.stderr


def test_load_model_shows_the_progress_of_converted_tensors(tmp_path):
    save_model(torch.nn.Linear(50, 50), tmp_path / "m.cfck")
    calls = []
    model = torch.nn.Linear(50, 50).double()
    load_model(model, tmp_path / "m.cfck", progress=lambda *call: calls.append(call))
    assert [call[:2] for call in calls] == [(10000, 10200), (10200, 10200)]

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_model(model, tmp_path / "m.cfck", progress=stop)


@pytest.mark.parametrize("call", ["get_tensor", "decode_message", "decompress"])
def test_autograd_is_told_of_what_out_gets(tmp_path, call):
    zeros = torch.zeros(1000)
    save_file({"w": zeros}, tmp_path / "m.cfck")
    buffer = torch.randn(1000)
    weight = torch.randn(1000, requires_grad=True)
    product = (weight * buffer).sum()
    if call == "get_tensor":
        with cfck.safe_open(tmp_path / "m.cfck", "pt") as file:
            file.get_tensor("w", out=buffer)
    elif call == "decompress":
        cfck.decompress(cfck.compress(zeros), out=buffer)
    else:
        cfck.torch.decode_message(cfck.torch.encode_message(zeros), out=buffer)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_shapes_that_numpy_cannot_have(tmp_path):
    shape = (2**31, 0, 2**31)
    message = cfck.torch.encode_message(torch.empty(shape))
    save_file({"w": torch.empty(shape)}, tmp_path / "m.cfck")
    assert cfck.torch.decode_message(message).shape == shape
    for decode in (lambda: cfck.decode_message(message),
                   lambda: cfck.numpy.load_file(tmp_path / "m.cfck")):  # fmt: skip
        with pytest.raises(cfck.UnsupportedError, match="numpy cannot have an array of shape"):
            decode()


def test_messages_of_tensors_on_meta():
    real = torch.empty(30, 40)
    bound = cfck.max_message_bytes(real, max_rel_error=1e-3)
    assert cfck.max_message_bytes(torch.empty(30, 40, device="meta"), max_rel_error=1e-3) == bound
    with pytest.raises(cfck.CfckError):
        cfck.max_message_bytes(torch.empty(3, dtype=torch.complex128, device="meta"))
    message = cfck.torch.encode_message(real)
    with pytest.raises(cfck.InvalidArgumentError, match="meta"):
        cfck.torch.decode_message(message, out=torch.empty(30, 40, device="meta"))


def test_diff_does_not_trust_an_index_alone(tmp_path):
    tensors = {"w": weights(100, 100)}
    save_file(tensors, tmp_path / "a.cfck")
    safetensors.torch.save_file(tensors, tmp_path / "a.safetensors")

    def diff(*arguments):
        return subprocess.run(
            ["cfck", "diff", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    assert diff("a.cfck", "a.safetensors").returncode == 0
    flip(tmp_path / "a.cfck")
    for pair in (("a.cfck", "a.safetensors"), ("a.safetensors", "a.cfck")):
        done = diff(*pair)
        assert done.returncode == 5 and "a.cfck" in done.stderr, done
        assert diff("--fast", *pair).returncode == 0


@pytest.mark.parametrize("command", [["convert"], ["repair", "-o", "out.cfck"]])
def test_an_index_where_a_file_is_meant(folder, command):
    done = subprocess.run(
        ["cfck", *command, folder / "model.cfck.index.json"],
        capture_output=True, text=True, check=False, cwd=folder.parent,
    )  # fmt: skip
    assert done.returncode != 0
    assert f"give their folder, '{folder}'" in done.stderr
    assert not os.path.exists(folder.parent / "out.cfck")


def test_a_message_that_is_damaged_in_its_shape():
    message = bytearray(cfck.encode_message(np.zeros((0, 3), np.float32)))
    message[23] ^= 0x40
    with pytest.raises(cfck.CfckError):
        cfck.decode_message(message)
