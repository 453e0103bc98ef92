"""Patches applied to tensors that share memory, or that go by way of a copy: all of it or none."""

import os
import weakref
from collections.abc import Mapping

import cfck
import cfck.numpy
import numpy as np
import pytest
from cfck import _native
from cfck._frameworks.numpy_arrays import NumpyFramework

pytest.importorskip("ml_dtypes")
torch = pytest.importorskip("torch")
import cfck.torch  # noqa: E402


def matrices(seed=0):
    """A matrix, and the same after a step."""
    rng = np.random.default_rng(seed)
    old = rng.standard_normal((200, 300)).astype(np.float32)
    return old, np.where(rng.random(old.shape) < 0.05, old + 1, old).astype(np.float32)


def columns(matrix):
    return {"left": matrix[:, :100], "right": matrix[:, 100:], "other": matrix[0] * 1}


def transposed(matrix):
    return {"embedding": matrix, "head": matrix.T}


def overlapping(matrix):
    return {"left": matrix[:, :200], "right": matrix[:, 100:]}


@pytest.mark.parametrize("make", [columns, transposed, overlapping])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_views_of_one_matrix(make, kind):
    module = getattr(cfck, kind)
    of_kind = (lambda array: array) if kind == "numpy" else torch.from_numpy
    old, new = matrices()
    patch = module.patch(make(of_kind(old)), make(of_kind(new)))
    memory = old.copy()
    tensors = make(of_kind(memory))
    assert module.apply(tensors, patch)[:2] == list(tensors)[:2]
    assert memory.tobytes() == new.tobytes()


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_views_that_are_to_have_different_values_are_refused(kind):
    """The second one would overwrite a part of the first one."""
    module = getattr(cfck, kind)
    of_kind = (lambda array: array) if kind == "numpy" else torch.from_numpy
    old, new = matrices()
    other = {name: view.copy() for name, view in overlapping(new).items()}
    other["right"] = other["right"] + np.float32(1)
    before = {**overlapping(of_kind(old)), "whole": of_kind(old[:50].copy())}
    after = {**{n: of_kind(a) for n, a in other.items()}, "whole": of_kind(new[:50].copy())}
    patch = module.patch(before, after)
    memory, whole = old.copy(), old[:50].copy()
    tensors = {**overlapping(of_kind(memory)), "whole": of_kind(whole)}
    with pytest.raises(cfck.InvalidArgumentError, match="shares memory with another") as error:
        module.apply(tensors, patch)
    assert error.value.record in other
    assert memory.tobytes() == old.tobytes() and whole.tobytes() == old[:50].tobytes()


def test_expanded_tensors_are_refused_before_anything_is_changed():
    def tensors(value):
        expanded = torch.full((1, 300), value).expand(40, 300)
        return {"a": torch.full((5000,), value), "expanded": expanded}

    patch = cfck.torch.patch(tensors(0.0), tensors(1.0))
    changed = tensors(0.0)
    with pytest.raises(cfck.InvalidArgumentError, match="elements that share memory") as error:
        cfck.torch.apply(changed, patch)
    assert error.value.record == "expanded" and not changed["a"].any()
    # Those that keep their values may stay as they are.
    kept = {**tensors(1.0), "expanded": tensors(0.0)["expanded"]}
    patch = cfck.torch.patch(tensors(0.0), kept)
    assert cfck.torch.apply(changed, patch) == ["a"]
    assert changed["a"].all()


def test_parts_in_memory_of_their_own_are_changed_where_they_alone_differ():
    old, new = (torch.from_numpy(array) for array in matrices())
    patch = cfck.torch.patch(transposed(old), transposed(new))
    tensors = {"embedding": old.clone(), "head": torch.zeros(200, 300).T}
    cfck.torch.apply(tensors, patch)
    assert torch.equal(tensors["head"], new.T)
    whole = cfck.torch.save(transposed(new))
    tensors["head"].zero_()
    assert cfck.torch.apply(tensors, whole) == ["head"]
    assert torch.equal(tensors["head"], new.T)


@pytest.mark.parametrize("moment", ["behind the call", "before a copy"])
def test_an_interrupt_waits_until_everything_is_written(monkeypatch, moment):
    old, new = matrices()
    patch = cfck.numpy.patch(columns(old), columns(new))
    interrupts = [KeyboardInterrupt]
    copy, apply_patch = NumpyFramework.copy, _native.apply_patch

    def interrupt():
        if interrupts:
            raise interrupts.pop()

    def copy_interrupted(*arguments):
        interrupt()
        copy(*arguments)

    def apply_interrupted(*arguments, **named):
        apply_patch(*arguments, **named)
        interrupt()

    if moment == "before a copy":
        monkeypatch.setattr(NumpyFramework, "copy", copy_interrupted)
    else:
        monkeypatch.setattr(_native, "apply_patch", apply_interrupted)
    memory = old.copy()
    tensors = columns(memory)
    with pytest.raises(KeyboardInterrupt):
        cfck.numpy.apply(tensors, patch)
    assert memory.tobytes() == new.tobytes()
    assert tensors["other"].tobytes() == new[0].tobytes()


def test_memory_that_is_missing_for_a_copy_changes_nothing(monkeypatch):
    import ml_dtypes

    old = {"four": np.zeros((50, 40), ml_dtypes.float4_e2m1fn), "plain": np.zeros(9)}
    new = {"four": np.ones((50, 40), ml_dtypes.float4_e2m1fn), "plain": np.ones(9)}
    patch = cfck.numpy.patch(old, new)

    def no_memory(*arguments):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(NumpyFramework, "finish", no_memory)
        with pytest.raises(MemoryError):
            cfck.numpy.apply(old, patch)
    assert not old["plain"].any() and not old["four"].view(np.uint8).any()
    assert cfck.numpy.apply(old, patch) == ["four", "plain"]


def test_mappings_that_make_their_arrays_when_asked(monkeypatch):
    old, new = matrices()
    patch = cfck.numpy.patch({"a": old}, {"a": new})
    handed_out = []

    class Made(Mapping):
        def __getitem__(self, name):
            array = old.copy()
            handed_out.append(weakref.ref(array))
            return array

        def __iter__(self):
            return iter("a")

        def __len__(self):
            return 1

    apply_patch = _native.apply_patch

    def alive(address, n_bytes, tensors, **named):
        addresses = {array().ctypes.data for array in handed_out if array() is not None}
        assert {memory[3] for memory in tensors} <= addresses
        apply_patch(address, n_bytes, tensors, **named)

    monkeypatch.setattr(_native, "apply_patch", alive)
    assert cfck.numpy.apply(Made(), patch) == ["a"]


def test_names_and_tensors_that_are_none():
    patch = cfck.numpy.patch({"a": np.zeros(3)}, {"a": np.ones(3)})
    with pytest.raises(TypeError, match="names of tensors are str, not int: 1"):
        cfck.numpy.apply({1: np.zeros(3)}, patch)
    with pytest.raises(cfck.InvalidArgumentError, match="not valid Unicode"):
        cfck.numpy.apply({"\ud800": np.zeros(3)}, patch)
    with pytest.raises(cfck.InvalidArgumentError, match="`b` cannot be changed") as error:
        cfck.numpy.apply({"a": np.zeros(3), "b": torch.zeros(3)}, patch)
    assert error.value.record == "b"
    with pytest.raises(cfck.InvalidArgumentError, match="`a` cannot be changed: it is sparse"):
        cfck.torch.apply({"a": torch.eye(3).to_sparse()}, patch)
    with pytest.raises(cfck.InvalidArgumentError, match="`a` cannot be changed.*meta"):
        cfck.torch.apply({"a": torch.zeros(3, dtype=torch.float64, device="meta")}, patch)


def test_patches_that_are_no_files(tmp_path):
    tensors = {"a": np.zeros(3)}
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 1 << 43)
    for name, error, said in (
        ("", cfck.IoError, "Is a directory"),
        ("pipe", cfck.IoError, "not a regular file"),
        ("large", cfck.OutOfMemoryError, "no memory for the 8796093022208 bytes"),
        ("missing", cfck.MissingFileError, "missing"),
    ):
        with pytest.raises(error, match=said):
            cfck.numpy.apply(tensors, tmp_path / name)


def test_the_memory_of_a_base_is_read_into_as_a_whole_or_not_at_all(tmp_path):
    old, new = matrices()
    path = tmp_path / "patch.cfck"
    path.write_bytes(cfck.torch.patch({"w": torch.from_numpy(old)}, {"w": torch.from_numpy(new)}))
    memory = torch.zeros(old.size + 64)
    base = memory[: old.size].view(old.shape)
    base.copy_(torch.from_numpy(old))
    with cfck.safe_open(path, "pt", base={"w": base}) as file:
        for shift in (1, 64):
            shifted = memory[shift : shift + old.size].view(old.shape)
            with pytest.raises(cfck.InvalidArgumentError, match="overlaps the tensor of the base"):
                file.get_tensor("w", out=shifted)
        assert base.numpy().tobytes() == old.tobytes()
        assert file.get_tensor("w", out=base).numpy().tobytes() == new.tobytes()


def test_a_patch_in_the_memory_of_a_target_is_refused():
    old, new = matrices()
    patch = cfck.numpy.patch({"w": old}, {"w": new})
    memory = np.zeros(old.nbytes + 4 * len(patch), np.uint8)
    target = memory[: old.nbytes].view(np.float32).reshape(old.shape)
    target[:] = old
    where = memory[old.nbytes :][: len(patch)]
    where[:] = np.frombuffer(patch, np.uint8)
    assert cfck.numpy.apply({"w": target}, where)[:1] == ["w"]
    assert target.tobytes() == new.tobytes()
    memory[1000 : 1000 + len(patch)] = np.frombuffer(patch, np.uint8)
    before = memory.tobytes()
    with pytest.raises(cfck.CfckError, match="overlaps the file"):
        cfck.numpy.apply({"w": target}, memory[1000 : 1000 + len(patch)])
    assert memory.tobytes() == before
