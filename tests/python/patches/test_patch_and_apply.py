"""Patches between versions of the same tensors: made, applied in place, refused."""

import cfck
import cfck.numpy
import numpy as np
import pytest

pytest.importorskip("ml_dtypes")
import ml_dtypes


def versions(seed=0, share=0.01):
    """Arrays of several dtypes, and the same after a step."""
    rng = np.random.default_rng(seed)
    old = {
        "large": rng.standard_normal((700, 600)).astype(ml_dtypes.bfloat16),
        "masters": rng.standard_normal((300, 50)).astype(np.float32),
        "bytes": rng.integers(0, 200, (64, 64)).astype(np.uint8),
        "steps": np.array(7),
        "empty": np.zeros((0, 4), np.float32),
        "same": rng.standard_normal(5000),
    }
    new = {name: array.copy() for name, array in old.items()}
    for name in ("large", "masters", "bytes"):
        bits = new[name].view(f"u{new[name].itemsize}")
        bits[rng.random(bits.shape) < share] ^= 1
    new["steps"][...] = 8
    return old, new


def same(one, other):
    return list(one) == list(other) and all(
        one[name].dtype == other[name].dtype
        and one[name].shape == other[name].shape
        and one[name].tobytes() == other[name].tobytes()
        for name in one
    )


def copies(arrays):
    return {name: array.copy() for name, array in arrays.items()}


def test_a_patch_is_small_and_changes_arrays_in_place():
    old, new = versions()
    patch = cfck.numpy.patch(old, new, {"step": "8"})
    assert len(patch) * 10 < len(cfck.numpy.save(new))
    arrays = copies(old)
    held = arrays["large"]
    assert cfck.numpy.apply(arrays, patch) == ["large", "masters", "bytes", "steps"]
    assert same(arrays, new) and arrays["large"] is held
    assert same(cfck.numpy.load(patch, base=old), new)


def test_what_is_not_contiguous_or_not_native_is_changed_too():
    old, new = versions()
    arrays = copies(old)
    arrays["large"] = np.asfortranarray(arrays["large"])
    arrays["masters"] = arrays["masters"].astype(">f4")
    arrays["same"] = np.repeat(arrays["same"], 2)[::2]
    cfck.numpy.apply(arrays, cfck.numpy.patch(old, new))
    assert arrays["masters"].dtype == ">f4"
    assert same({name: array.astype(new[name].dtype) for name, array in arrays.items()}, new)


def test_other_values_are_refused_by_name_and_nothing_is_changed():
    old, new = versions()
    patch = cfck.numpy.patch(old, new)
    arrays = copies(old)
    arrays["masters"][3, 4] += 1
    before = copies(arrays)
    with pytest.raises(cfck.MissingBaseError, match="other values") as caught:
        cfck.numpy.apply(arrays, patch)
    assert caught.value.record == "masters"
    assert same(arrays, before)


@pytest.mark.parametrize("change", ["less", "more", "shape", "dtype"])
def test_other_names_shapes_and_dtypes_are_refused(change):
    old, new = versions()
    patch = cfck.numpy.patch(old, new)
    arrays = copies(old)
    if change == "less":
        del arrays["same"]
    elif change == "more":
        arrays["another"] = np.zeros(3)
    elif change == "shape":
        arrays["same"] = arrays["same"].reshape(50, 100)
    else:
        arrays["same"] = arrays["same"].view(np.int64)
    before = copies(arrays)
    with pytest.raises(cfck.MissingBaseError) as caught:
        cfck.numpy.apply(arrays, patch)
    assert caught.value.record == ("another" if change == "more" else "same")
    assert same(arrays, before)


def test_damage_changes_nothing():
    old, new = versions()
    patch = cfck.numpy.patch(old, new)
    rng = np.random.default_rng(1)
    for place in rng.integers(0, len(patch), 40):
        damaged = bytearray(patch)
        damaged[place] ^= 1 + int(rng.integers(255))
        arrays = copies(old)
        with pytest.raises(cfck.CfckError):
            cfck.numpy.apply(arrays, bytes(damaged))
        assert same(arrays, old)


def test_read_only_arrays_are_refused_before_anything_is_changed():
    old, new = versions()
    arrays = copies(old)
    arrays["same"].flags.writeable = False
    with pytest.raises(
        cfck.InvalidArgumentError, match="`same` cannot be changed: it is read-only"
    ):
        cfck.numpy.apply(arrays, cfck.numpy.patch(old, new))
    assert same(arrays, old)


def test_nan_payloads_and_signed_zeros_are_kept():
    old = {"x": np.array([np.nan, 0.0, -0.0, 1.0, np.inf] * 400, np.float32)}
    new = {"x": old["x"].copy()}
    bits = new["x"].view(np.uint32)
    bits[::5] = 0x7FA00001
    bits[1::5] ^= 0x80000000
    arrays = copies(old)
    cfck.numpy.apply(arrays, cfck.numpy.patch(old, new))
    assert same(arrays, new)


def test_paths_of_any_format_make_patches(tmp_path):
    safetensors_numpy = pytest.importorskip("safetensors.numpy")
    old, new = versions()
    for arrays in (old, new):
        arrays.pop("empty")
        arrays["large"] = arrays["large"].view(np.uint16)
    safetensors_numpy.save_file(old, tmp_path / "old.safetensors")
    cfck.numpy.save_file(new, tmp_path / "new.cfck")
    patch = cfck.numpy.patch(tmp_path / "old.safetensors", tmp_path / "new.cfck")
    (tmp_path / "update.cfck").write_bytes(patch)
    arrays = copies(old)
    cfck.numpy.apply(arrays, tmp_path / "update.cfck")
    assert same(dict(sorted(arrays.items())), dict(sorted(new.items())))
    loaded = cfck.numpy.load(patch, base=tmp_path / "old.safetensors")
    assert same(dict(sorted(loaded.items())), dict(sorted(new.items())))


def test_arguments_that_make_no_sense():
    old, new = versions()
    patch = cfck.numpy.patch(old, new)
    with pytest.raises(cfck.InvalidArgumentError, match="first argument"):
        cfck.numpy.patch(old, new, base=old)
    with pytest.raises(cfck.InvalidArgumentError, match="leave out base"):
        cfck.numpy.apply(copies(old), patch, base=old)
    with pytest.raises(TypeError, match="base"):
        cfck.numpy.save(new, base=3)
    with pytest.raises(cfck.MissingFileError):
        cfck.numpy.apply(copies(old), "missing.cfck")
    with pytest.raises(cfck.MissingFileError):
        cfck.numpy.patch("missing.safetensors", new)
    with pytest.raises(cfck.MissingBaseError, match="in memory"):
        cfck.numpy.load(patch)


def test_progress_and_its_exceptions():
    old, new = versions()
    patch = cfck.numpy.patch(old, new)
    told = []
    arrays = copies(old)
    cfck.numpy.apply(arrays, patch, progress=lambda *seen: told.append(seen))
    assert told[-1][:2] == (told[-1][1], sum(array.nbytes for array in old.values()))

    def stop(*_):
        raise KeyError("enough")

    arrays = copies(old)
    with pytest.raises(KeyError):
        cfck.numpy.apply(arrays, patch, progress=stop)
    assert same(arrays, old)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda patch: b"\x02" + bytes(7) + b"{}", "safetensors file"),
        (lambda patch: patch[:-20], "cut off"),
        (lambda patch: patch[:40] + bytes([patch[40] ^ 1]) + patch[41:], "damaged"),
        (lambda patch: b"", "empty"),
    ],
)
def test_files_that_cannot_be_applied_are_named(tmp_path, spoil, said):
    old, new = versions()
    path = tmp_path / "step8.cfck"
    path.write_bytes(spoil(cfck.numpy.patch(old, new)))
    for name in (path, str(path)):
        with pytest.raises(cfck.CfckError, match=said) as caught:
            cfck.numpy.apply(old, name)
        assert str(caught.value).count(str(path)) == 1 and "<memory>" not in str(caught.value)


def test_what_cannot_be_changed_or_patched_is_said(tmp_path):
    old, new = versions()
    patch = cfck.numpy.patch(old, new)
    for path in ("m0.safetensors", tmp_path):
        with pytest.raises(TypeError, match="not a path; load the file first, or .*`cfck apply`"):
            cfck.numpy.apply(path, patch)
    with pytest.raises(TypeError, match="a dict of tensors or a model, not list"):
        cfck.numpy.apply([1], patch)
    with pytest.raises(TypeError, match="a dict of tensors, a model, or a path, not list"):
        cfck.numpy.patch([1], new)
