"""Errors say what is wrong, and survive pickling."""

import copy
import inspect
import os
import pickle
import struct

import cfck
import cfck.errors
import pytest
import torch
from cfck.torch import load, load_checkpoint, load_file, save, save_file
from conftest import weights

CLASSES = [
    error
    for _, error in inspect.getmembers(cfck.errors, inspect.isclass)
    if issubclass(error, cfck.CfckError)
]


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_can_be_pickled(error):
    original = error("what happened", record="layer.0", byte_offset=17)
    for restored in (pickle.loads(pickle.dumps(original)), copy.copy(original)):
        assert type(restored) is error
        assert str(restored) == "what happened"
        assert (restored.record, restored.byte_offset) == ("layer.0", 17)
        assert restored.code == original.code


def test_messages_show_every_character(path):
    name = "w\u200b\u202e\U000e0041\ufe0f\x1b[2J"
    shown = r"w\u200b\u202e\U000e0041\ufe0f\x1b[2J"
    save_file({"w": weights(3)}, path)
    with cfck.safe_open(path, "pt") as file, pytest.raises(cfck.NotFoundError) as error:
        file.get_tensor(name)
    assert shown in str(error.value)
    assert error.value.record == name
    again = pickle.loads(pickle.dumps(error.value))
    assert str(again) == str(error.value)
    seen = "two\nlines \u00e9\u4e2d\U0001f600"
    assert str(cfck.CfckError(seen)) == seen


def test_pipes_are_refused(tmp_path):
    for name in ("model.cfck", "model.cfck.index.json"):
        pipe = tmp_path / name
        os.mkfifo(pipe)
        with pytest.raises(cfck.UnsupportedError):
            load_file(pipe)
        pipe.unlink()


def test_contents_where_a_path_is_wanted():
    with pytest.raises(cfck.errors.InvalidArgumentError, match="are not a path") as error:
        load_file(save({"w": weights(70, 100)}))
    assert len(str(error.value)) < 300


def test_every_code_of_the_library_has_a_class():
    codes = [
        "invalid_argument", "not_found", "truncated", "corrupt", "checksum", "unsupported",
        "limit_exceeded", "io", "out_of_memory", "internal",
    ]  # fmt: skip
    for code in codes:
        error = cfck.errors.from_native(code, "text", "", None)
        assert error.code == code
        assert type(error) is not cfck.CfckError
        assert error.record is None


def test_errors_are_also_what_python_code_expects():
    for error, builtin in [
        (cfck.InvalidArgumentError, ValueError),
        (cfck.NotFoundError, KeyError),
        (cfck.MissingFileError, FileNotFoundError),
        (cfck.IoError, OSError),
        (cfck.OutOfMemoryError, MemoryError),
    ]:
        assert issubclass(error, builtin) and issubclass(error, cfck.CfckError)


def test_missing_file(tmp_path):
    missing = tmp_path / "missing.cfck"
    for call in (
        lambda: load_file(missing),
        lambda: cfck.numpy.load_file(str(missing)),
        lambda: cfck.safe_open(missing, "pt"),
        lambda: cfck.torch.load_model(torch.nn.Linear(1, 1), missing),
        lambda: cfck.update(missing, {"a": torch.zeros(1)}),
    ):
        with pytest.raises(FileNotFoundError, match="missing.cfck") as caught:
            call()
        error = pickle.loads(pickle.dumps(caught.value))
        assert isinstance(error, cfck.MissingFileError)
        assert error.filename == str(missing)
        assert error.errno == 2
    assert not missing.exists()


def test_folder_that_is_not_there(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        save_file({"a": torch.zeros(1)}, tmp_path / "nowhere" / "a.cfck")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x80\x02" + bytes(500), "a pickle of another program"),
        (b"GGUF" + bytes(500), "gguf"),
        (b"\x89HDF\r\n\x1a\n" + bytes(500), "HDF5"),
    ],
)
def test_files_of_other_formats(path, content, words):
    path.write_bytes(content)
    # With the module for HDF5, that file is a damaged one.
    refusals = (
        (cfck.UnsupportedError, cfck.CorruptError) if words == "HDF5" else cfck.UnsupportedError
    )
    with pytest.raises(refusals, match=words):
        load_file(path)
    with pytest.raises(refusals, match=words):
        load(content)


def test_files_from_before_pytorch_1_6_are_read(tmp_path):
    path = tmp_path / "legacy.pt"
    state = {"w": torch.arange(6.0).reshape(2, 3)}
    torch.save(state, path, _use_new_zipfile_serialization=False)
    for call in (load_file, load_checkpoint):
        assert torch.equal(call(path)["w"], state["w"])


@pytest.mark.parametrize("content", [b"", b"x", bytes(1000), struct.pack("<Q", 2**60) + b"{}"])
def test_files_of_no_format(path, content):
    path.write_bytes(content)
    for call in (lambda: load_file(path), lambda: load(content)):
        with pytest.raises((cfck.CorruptError, cfck.TruncatedError)):
            call()


def test_damage_is_located(path):
    save_file({"first": weights(3000), "second": weights(400, 400)}, path, codec="raw")
    data = bytearray(path.read_bytes())
    position = data.index(weights(400, 400).numpy().tobytes()[:64]) + 5
    data[position] ^= 4
    path.write_bytes(data)
    with pytest.raises(cfck.ChecksumError) as caught:
        load_file(path)
    assert caught.value.record == "second"
    assert 0 < caught.value.byte_offset <= position
    restored = pickle.loads(pickle.dumps(caught.value))
    assert restored.record == "second"
    assert restored.byte_offset == caught.value.byte_offset
    with cfck.safe_open(path, "pt") as file:
        file.get_tensor("first")
        with pytest.raises(cfck.ChecksumError):
            file.get_tensor("second")
    changed = load_file(path, verify=False)["second"]
    assert (changed != weights(400, 400)).sum() == 1


def test_every_truncation_is_an_error():
    data = save({"a": weights(10), "b": weights(30, 30)})
    for length in range(0, len(data), 7):
        with pytest.raises(cfck.CfckError):
            load(data[:length])


def test_decoded_size_is_limited_until_the_caller_raises_it():
    data = save({"zeros": torch.zeros(1000, 1000)})
    with pytest.raises(cfck.LimitExceededError, match="max_decoded_bytes"):
        load(data, max_decoded_bytes=1_000_000)
    assert load(data, max_decoded_bytes=4_000_000)["zeros"].shape == (1000, 1000)


def test_bad_options(path):
    with pytest.raises(cfck.InvalidArgumentError, match="gzip.*auto"):
        save({}, codec="gzip")
    for threads in (-1, 1.5, "2"):
        with pytest.raises(cfck.InvalidArgumentError, match="threads"):
            save({}, threads=threads)
    with pytest.raises(ValueError, match="null byte"):
        save_file({}, "a\0b")
    with pytest.raises(TypeError):
        load(17)
    with pytest.raises(TypeError):
        load_file(None)


def test_bytes_like_input():
    data = save({"a": weights(10)})
    for form in (bytearray(data), memoryview(data), memoryview(b"x" + data)[1:]):
        assert torch.equal(load(form)["a"], weights(10))


def test_tensors_without_data_raise_what_torch_raises(path):
    meta = torch.zeros(3, device="meta")
    with pytest.raises(RuntimeError, match="Cannot copy out of meta tensor") as caught:
        save_file({"w": meta}, path)
    assert isinstance(caught.value, cfck.UnsupportedError)
    assert caught.value.record == "w"
    assert not path.exists()


def test_an_output_that_exists_is_a_file_exists_error_too():
    error = cfck.errors.from_native("exists", "'m.cfck' exists already", "", None)
    assert isinstance(error, cfck.ExistsError)
    assert isinstance(error, FileExistsError) and isinstance(error, cfck.InvalidArgumentError)
    assert str(error) == "'m.cfck' exists already"
