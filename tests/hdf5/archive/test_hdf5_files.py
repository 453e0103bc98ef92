"""HDF5 files of h5py and Keras, through the programs, there and back."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pytest

PROGRAMS = pathlib.Path(os.environ["CFCK_PROGRAM_FOLDER"])
UNREADABLE = 6  # the exit code for files that cannot be read


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAMS / program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def convert(source: pathlib.Path, target: pathlib.Path) -> None:
    done = run("cfck-convert", source, target)
    assert done.returncode == 0, done.stderr


def attributes(item: h5py.HLObject) -> list[tuple[str, str, object, object]]:
    """Names, types, shapes and values, in order."""
    found = []
    for name in item.attrs:
        kind = item.attrs.get_id(name)
        value = item.attrs[name]
        if isinstance(value, h5py.Empty):
            value = "empty"
        elif isinstance(value, np.ndarray):
            value = value.tolist()
        string = h5py.check_string_dtype(kind.dtype)
        found.append((name, repr((kind.dtype, string)), kind.shape, value))
    return found


def orders(item: h5py.HLObject) -> tuple[int, ...]:
    properties = item.id.get_create_plist()
    flags = [properties.get_attr_creation_order()]
    if isinstance(item, h5py.Group):
        flags.append(properties.get_link_creation_order())
    return tuple(flags)


def contents(group: h5py.Group, prefix: str = "") -> list[object]:
    """All that h5py sees of a file, in its order."""
    found: list[object] = [(prefix, attributes(group), orders(group), list(group))]
    for name in group:
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.SoftLink):
            found.append((prefix + name, "soft", link.path))
            continue
        item = group[name]
        if isinstance(item, h5py.Group):
            found.extend(contents(item, prefix + name + "/"))
            continue
        value = item[()]
        data = "empty" if isinstance(value, h5py.Empty) else np.asarray(value).tolist()
        if isinstance(value, np.ndarray | np.generic) and item.dtype.kind != "O":
            data = value.tobytes()
        kind = repr((item.dtype, h5py.check_enum_dtype(item.dtype)))
        found.append((prefix + name, kind, item.shape, data, attributes(item), orders(item)))
    return found


def assert_back_equal(path: pathlib.Path) -> pathlib.Path:
    packed, back = path.with_name("packed.cfck"), path.with_name("back.weights.h5")
    convert(path, packed)
    convert(packed, back)
    with h5py.File(path) as before, h5py.File(back) as after:
        assert contents(before) == contents(after)
    return back


@pytest.fixture
def keras(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    return pytest.importorskip("keras")


def model_of(keras):
    layers = keras.layers
    model = keras.Sequential([
        layers.Input((8,)), layers.Dense(16, activation="relu"), layers.BatchNormalization(),
        layers.Dropout(0.1), layers.Dense(3),
    ])  # fmt: skip
    model.compile("adam", "mse")
    return model


def test_keras_weights(keras, tmp_path):
    model = model_of(keras)
    path = tmp_path / "model.weights.h5"
    model.save_weights(path)
    back = assert_back_equal(path)
    other = model_of(keras)
    other.load_weights(back)
    for mine, theirs in zip(model.get_weights(), other.get_weights(), strict=True):
        assert mine.tobytes() == theirs.tobytes()


def test_keras_whole_model(keras, tmp_path):
    model = model_of(keras)
    path = tmp_path / "model.h5"
    model.save(path)
    back = assert_back_equal(path)
    other = keras.models.load_model(back, compile=False)
    inputs = np.ones((2, 8), np.float32)
    assert np.array_equal(model.predict(inputs, verbose=0), other.predict(inputs, verbose=0))


def test_keras_archives(keras, tmp_path):
    model = keras.Sequential(
        [keras.layers.Input((4,)), keras.layers.Dense(5, "relu"), keras.layers.BatchNormalization()]
    )
    model.compile("adam", "mse")
    model.fit(np.ones((8, 4)), np.ones((8, 5)), verbose=0)
    source, packed, back = (tmp_path / name for name in ("a.keras", "a.cfck", "back.keras"))
    model.save(source)
    convert(source, packed)
    convert(packed, back)
    loaded = keras.models.load_model(back)
    inputs = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    assert np.array_equal(loaded(inputs).detach().numpy(), model(inputs).detach().numpy())
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(back) as after:
        assert before.namelist() == after.namelist()
        assert after.testzip() is None
        for name in before.namelist():
            if name.endswith(".h5"):
                before.extract(name, tmp_path / "before")
                after.extract(name, tmp_path / "after")
            else:
                assert before.read(name) == after.read(name)
    weights = "model.weights.h5"
    with h5py.File(tmp_path / "before" / weights) as one:
        with h5py.File(tmp_path / "after" / weights) as other:
            assert contents(one) == contents(other)
    assert run("cfck-inspect", "verify", source).returncode == 0
    assert run("cfck-inspect", "diff", source, packed).returncode == 0
    # Weights alone are no model; compressed members are read as well.
    weights_only = run("cfck-convert", source, tmp_path / "a.safetensors")
    assert weights_only.returncode == 0
    assert "the model beside the weights (metadata.json, config.json)" in weights_only.stderr
    alone = run("cfck-convert", "--only-tensors", source, tmp_path / "alone.cfck")
    assert alone.returncode == 0 and "'config.json' was left out" in alone.stderr
    refused = run("cfck-convert", tmp_path / "a.safetensors", tmp_path / "b.keras")
    assert refused.returncode == UNREADABLE and "load_weights" in refused.stderr
    assert not (tmp_path / "b.keras").exists()
    with zipfile.ZipFile(source) as before:
        with zipfile.ZipFile(tmp_path / "c.keras", "w", zipfile.ZIP_DEFLATED) as small:
            for name in before.namelist():
                small.writestr(name, before.read(name))
    assert run("cfck-inspect", "diff", source, tmp_path / "c.keras").returncode == 0


def test_every_kind_of_data(tmp_path):
    path = tmp_path / "all.h5"
    random = np.random.default_rng(1)
    with h5py.File(path, "w", track_order=True) as file:
        file.attrs["title"] = "a file"
        file.attrs["fixed"] = np.bytes_(b"abc  ")
        file.attrs["names"] = ["zeta", "alpha", "größe"]
        file.attrs["numbers"] = np.arange(6, dtype=">i2").reshape(2, 3)
        file.attrs["none"] = h5py.Empty("f4")
        file.attrs["no_names"] = np.array([], dtype="f8")
        file.attrs["padded"] = np.array([b"a", b"bcd"], dtype="S5")
        group = file.create_group("z", track_order=True)
        for name in ("b", "a", "c"):
            group[name] = random.standard_normal((3, 4), dtype=np.float32)
        file.create_group("empty").create_group("inside")
        for name in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8"):
            data = random.integers(0, 100, (5, 3)).astype(name)
            file.create_dataset(f"plain/{name}", data=data)
        file["bool"] = np.array([True, False, True])
        file["scalar"] = np.float64(2.5)
        file["nothing"] = np.zeros((0, 4), np.float32)
        file["null"] = h5py.Empty("i4")
        file["text"] = "some text"
        file["texts"] = np.array(["one", "two ", ""], dtype=h5py.string_dtype())
        file["fixed_texts"] = np.array([b"x", b"yz"], dtype="S4")
        file["records"] = np.array([(1, 2.5), (3, 4.5)], dtype=[("n", "<i4"), ("v", "<f8")])
        file["c16"] = np.array([1 + 2j], np.complex128)
        file["opaque"] = np.void(b"\0\1\2")
        levels = h5py.enum_dtype({"LOW": 0, "HIGH": 300}, basetype="i2")
        file.create_dataset("enum", data=[0, 300], dtype=levels)
        file["tied"] = file["plain/f4"]
        file["group_again"] = file["z"]
        file["soft"] = h5py.SoftLink("/z/b")
        file["z/a"].attrs["unit"] = "mm"
    back = assert_back_equal(path)
    with h5py.File(back) as file:
        assert file["tied"] == file["plain/f4"]
        assert file["group_again"] == file["z"]


def test_stored_otherwise_has_equal_values(tmp_path):
    path, packed, back = tmp_path / "a.h5", tmp_path / "a.cfck", tmp_path / "back.h5"
    random = np.random.default_rng(2)
    data = random.standard_normal((37, 21, 5)).astype(np.float32)
    with h5py.File(path, "w", userblock_size=1024) as file:
        file.create_dataset("gzip", data=data, chunks=(8, 4, 5), compression="gzip", shuffle=True)
        file.create_dataset("sum", data=data, chunks=(7, 21, 5), fletcher32=True)
        file.create_dataset("big", data=data.astype(">f4"))
        file.create_dataset("big_half", data=data.astype(">f2"))
        file.create_dataset("fill", shape=(1000, 3), chunks=(10, 3), dtype="i4", fillvalue=7)
        file.create_dataset("unwritten", shape=(10,), dtype="f8")
        file.create_dataset("bits", data=data > 0, chunks=(37, 21, 5), compression="lzf")
        small = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        small.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((4,))
        compact = h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I32BE, space, small)
        compact.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(4, dtype=">i4"))
    with h5py.File(path, "a") as file:
        del file["bits"]  # lzf is h5py's own filter
    convert(path, packed)
    convert(packed, back)
    with h5py.File(path) as before, h5py.File(back) as after:
        assert list(before) == list(after)
        for name in before:
            assert np.array_equal(before[name][()], after[name][()]), name
            assert before[name].dtype.newbyteorder("<") == after[name].dtype


def test_bfloat16_as_keras_writes_it(tmp_path):
    types = pytest.importorskip("ml_dtypes")
    path = tmp_path / "a.h5"
    values = np.array([1, -2.5, 3], dtype=types.bfloat16)
    with h5py.File(path, "w") as file:
        file.create_dataset("w", data=values).attrs["dtype"] = "bfloat16"
    back = assert_back_equal(path)
    assert "BF16" in run("cfck-inspect", "show", path).stdout
    convert(path.with_name("packed.cfck"), tmp_path / "a.safetensors")
    convert(tmp_path / "a.safetensors", tmp_path / "b.cfck")
    convert(tmp_path / "b.cfck", tmp_path / "b.h5")
    for file_path in (back, tmp_path / "b.h5"):
        with h5py.File(file_path) as file:
            assert file["w"].attrs["dtype"] == "bfloat16"
            assert np.array_equal(file["w"][()].view(types.bfloat16), values)


def test_programs_take_them_as_any_other_file(tmp_path):
    path, other = tmp_path / "a.h5", tmp_path / "b.hdf5"
    with h5py.File(path, "w") as file, h5py.File(other, "w") as changed:
        for target in (file, changed):
            target["g/w"] = np.arange(12, dtype=np.float32).reshape(3, 4)
            target.create_dataset("g/z", data=np.arange(100.0), chunks=(9,), compression="gzip")
        changed["g/w"][1, 1] = 9
    shown = run("cfck-inspect", "show", path)
    assert shown.returncode == 0
    assert "g/w" in shown.stdout
    assert run("cfck-inspect", "stats", path).returncode == 0
    assert run("cfck-inspect", "diff", path, path).returncode == 0
    assert "1 changed" in run("cfck-inspect", "diff", path, other).stdout
    extracted = run("cfck-inspect", "extract", path, "g/z", "-o", tmp_path / "z.npy")
    assert extracted.returncode == 0, extracted.stderr
    assert np.array_equal(np.load(tmp_path / "z.npy"), np.arange(100.0))
    for target in ("a.cfck", "again.h5", "a.npz"):
        verified = run("cfck-convert", "--verify", path, tmp_path / target)
        assert verified.returncode == 0, verified.stderr
        assert verified.stderr == ""
    assert "0 changed" in run("cfck-inspect", "diff", path, tmp_path / "again.h5").stdout


def test_what_is_not_kept_is_said(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["w"] = np.arange(3.0)
        file["w"].attrs["of"] = file["w"].ref
    done = run("cfck-convert", path, tmp_path / "a.cfck")
    assert done.returncode == 0
    assert f"warning: '{path}': 1 attribute cannot be kept" in done.stderr
    assert "'of' of 'w'" in done.stderr
    assert "w@of" in run("cfck-inspect", "show", "--json", tmp_path / "a.cfck").stdout
    with h5py.File(path, "a") as file:
        file.create_dataset("ragged", (2,), dtype=h5py.vlen_dtype("i4"))
    assert run("cfck-inspect", "show", path).returncode == 0
    lost = run("cfck-convert", path, tmp_path / "b.cfck")
    assert lost.returncode != 0
    assert "ragged" in lost.stderr
    assert not (tmp_path / "b.cfck").exists()
    # The tensors alone go into other formats, with a warning.
    tensors = run("cfck-convert", path, tmp_path / "b.safetensors")
    assert tensors.returncode == 0
    assert "1 object that is no tensor cannot be kept" in tensors.stderr
    assert "'ragged'" in tensors.stderr


def test_dimension_scales_are_named(tmp_path):
    path, packed = tmp_path / "climate.h5", tmp_path / "climate.cfck"
    with h5py.File(path, "w") as file:
        for name in ("lat", "lon", "time"):
            file[name] = np.arange(4.0)
            file[name].make_scale(name)
        for name in ("pressure", "temperature", "wind"):
            file[name] = np.zeros((4, 4, 4), np.float32)
            for axis, scale in enumerate(("time", "lat", "lon")):
                file[name].dims[axis].attach_scale(file[scale])
        file["wind"].attrs["unit"] = "m/s"
        file.attrs["first"] = file["wind"].regionref[0:1]
    done = run("cfck-convert", path, packed)
    assert done.returncode == 0, done.stderr
    (warning,) = done.stderr.splitlines()
    assert "7 attributes cannot be kept" in warning
    assert "'first' of the root, 'REFERENCE_LIST' of 'lat'" in warning
    assert "'DIMENSION_LIST' of 'temperature' and 2 more" in warning
    convert(packed, tmp_path / "back.h5")
    with h5py.File(tmp_path / "back.h5") as back:
        assert back["wind"].attrs["unit"] == "m/s"
        assert "DIMENSION_LIST" not in back["wind"].attrs
    quiet = run("cfck-convert", "--no-warnings", "--force", path, packed)
    assert quiet.stderr == ""


def test_formats_that_hold_less_are_warned_of(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["w"] = np.arange(3.0)
    for target in ("plain.safetensors", "plain.npz"):
        done = run("cfck-convert", path, tmp_path / target)
        assert (done.returncode, done.stderr) == (0, "")
    with h5py.File(path, "a") as file:
        file.attrs["title"] = "a file"
        file["w"].attrs["unit"] = "mm"
        file["w"].attrs["scale"] = 2.5
        file["notes"] = ["one", "two"]
        file["soft"] = h5py.SoftLink("/w")
    convert(path, tmp_path / "a.cfck")
    common = "2 attributes, 1 dataset of strings or records, 1 soft link"
    for source in (path, tmp_path / "a.cfck"):
        done = run("cfck-convert", source, tmp_path / "a.safetensors", "--force")
        assert done.returncode == 0
        assert f"without it: {common}; keep the input" in done.stderr
        done = run("cfck-convert", source, tmp_path / "a.npz", "--force")
        assert f"without it: {common}, 1 entry of metadata; keep the input" in done.stderr
        assert run("cfck-convert", source, tmp_path / "b.h5", "--force").stderr == ""


def write_filtered(path: pathlib.Path) -> np.ndarray:
    """A file whose dataset the filter of cfck compresses, by h5py with the plug-in of the build."""
    script = (
        "import h5py, numpy, sys; file = h5py.File(sys.argv[1], 'w'); file.create_dataset('x', "
        "data=numpy.arange(4096, dtype='f4').reshape(64, 64), chunks=(32, 32), compression=300)"
    )
    plugins = PROGRAMS / "../lib/hdf5/plugin"
    command = [sys.executable, "-c", script, str(path)]
    subprocess.run(command, check=True, env=os.environ | {"HDF5_PLUGIN_PATH": str(plugins)})
    return np.arange(4096, dtype="f4").reshape(64, 64)


def test_datasets_of_the_filter_of_cfck(tmp_path):
    path = tmp_path / "fields.h5"
    data = write_filtered(path)
    clean = {name: text for name, text in os.environ.items() if name != "HDF5_PLUGIN_PATH"}

    def converted(program: pathlib.Path) -> subprocess.CompletedProcess[str]:
        command = [str(program), "convert", "--force", str(path), str(tmp_path / "out.npz")]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=clean)

    done = converted(PROGRAMS / "cfck")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "out.npz")["x"], data)
    # Without the plug-in beside the module it says what to do; in a Python environment it is found.
    library = tmp_path / "env/lib"
    (library / "cfck").mkdir(parents=True)
    (tmp_path / "env/bin").mkdir()
    shutil.copy(PROGRAMS / "cfck", tmp_path / "env/bin/cfck")
    for name in ("cfck_archive_hdf5.so", "cfck-hdf5-reader"):
        shutil.copy(PROGRAMS / "../lib/cfck" / name, library / "cfck")
    refused = converted(tmp_path / "env/bin/cfck")
    assert refused.returncode != 0
    assert "python -m cfck.hdf5" in refused.stderr
    assert "HDF5_PLUGIN_PATH" in refused.stderr
    plugins = library / "python3.99/site-packages/cfck/hdf5_plugin"
    shutil.copytree(PROGRAMS / "../lib/hdf5/plugin", plugins)
    done = converted(tmp_path / "env/bin/cfck")
    assert done.returncode == 0, done.stderr


def write_external_link(file: h5py.File, secret: pathlib.Path) -> None:
    file["bad"] = h5py.ExternalLink(str(secret), "/w")


def write_external_storage(file: h5py.File, secret: pathlib.Path) -> None:
    file.create_dataset("bad", (2,), "i4", external=[(str(secret), 0, 8)])


def write_virtual(file: h5py.File, secret: pathlib.Path) -> None:
    layout = h5py.VirtualLayout((3,), "f8")
    layout[:] = h5py.VirtualSource(str(secret), "w", (3,))
    file.create_virtual_dataset("bad", layout)


@pytest.mark.parametrize("write", [write_external_link, write_external_storage, write_virtual])
def test_no_other_file_is_opened(tmp_path, write):
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["w"] = np.arange(3.0)
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        write(file, secret)
    shown = run("cfck-inspect", "show", path)
    assert shown.returncode == UNREADABLE
    assert "bad" in shown.stderr
    assert "other file" in shown.stderr or "another file" in shown.stderr


def test_circles_of_groups_end(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        inner = file.create_group("a/b")
        inner["up"] = file["a"]
        inner["self"] = inner
        inner["root"] = file["/"]
        file["a/w"] = np.arange(3)
    packed, back = tmp_path / "a.cfck", tmp_path / "b.h5"
    convert(path, packed)
    convert(packed, back)
    with h5py.File(back) as file:
        assert file["a/b/up/b/root/a/w"][()].tolist() == [0, 1, 2]
        assert file["a/b/self"] == file["a/b"]


def test_without_the_module_it_says_what_to_do(tmp_path):
    shutil.copy(PROGRAMS / "cfck", tmp_path / "cfck")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["w"] = np.arange(3)
    command = [str(tmp_path / "cfck"), "inspect", "show", str(tmp_path / "a.h5")]
    clean = {"PATH": os.environ["PATH"], "CFCK_ADAPTER_PATH": "relative"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
    assert done.returncode == UNREADABLE
    assert "the module cfck_archive_hdf5.so was not found in /" in done.stderr
    assert "CFCK_ADAPTER_PATH can name its folder" in done.stderr
    assert "relative folders are ignored, as there ('relative')" in done.stderr
    assert "h5py.File" in done.stderr
    assert "this build" not in done.stderr
    command[1:] = ["convert", str(tmp_path / "w.npz"), str(tmp_path / "b.h5")]
    np.savez(tmp_path / "w.npz", w=np.arange(3))
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
    assert done.returncode == UNREADABLE
    assert "the module cfck_archive_hdf5.so was not found in /" in done.stderr
    assert "another format" in done.stderr
    command[1:] = ["inspect", "show", str(tmp_path / "a.h5")]
    clean["CFCK_ADAPTER_PATH"] = str(PROGRAMS / "../lib/cfck")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
    assert done.returncode == 0, done.stderr
    # A module of another build is refused.
    clean["CFCK_ADAPTER_PATH"] = os.environ["CFCK_OTHER_MODULE_FOLDER"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
    assert done.returncode == UNREADABLE
    assert "of another build" in done.stderr


def test_names_that_hdf5_cannot_have(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    one = np.ones(3, np.float32)
    for names in (["a", "a/b"], ["a/b", "a"], ["a//b"], ["../a"], ["/a"], ["."]):
        safetensors.save_file(dict.fromkeys(names, one), tmp_path / "a.safetensors")
        packed = tmp_path / "a.cfck"
        packed.unlink(missing_ok=True)
        convert(tmp_path / "a.safetensors", packed)
        refused = run("cfck-convert", packed, tmp_path / "a.h5")
        assert refused.returncode != 0, names
        assert "rename" in refused.stderr
        assert not (tmp_path / "a.h5").exists()


def test_two_writes_are_the_same_bytes(tmp_path):
    path, packed = tmp_path / "a.h5", tmp_path / "a.cfck"
    with h5py.File(path, "w") as file:
        file["g/w"] = np.arange(3)
    convert(path, packed)
    for name in ("b.h5", "c.h5"):
        convert(packed, tmp_path / name)
    assert (tmp_path / "b.h5").read_bytes() == (tmp_path / "c.h5").read_bytes()
