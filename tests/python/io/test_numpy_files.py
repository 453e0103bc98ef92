"""Files that numpy wrote, and files for numpy."""

import io
import subprocess
import warnings
import zipfile

import cfck
import cfck.numpy
import numpy as np
import pytest
import safetensors.numpy
from cfck.numpy import load_file, save_file
from conftest import assert_same

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8"]


def convert(source, *more):
    return subprocess.run(
        ["cfck", "convert", source, *more, "--quiet"], capture_output=True, text=True
    )


def converted(source, target, *more):
    done = convert(source, target, *more)
    assert done.returncode == 0, done.stderr
    return target


def array_of(dtype, *shape, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "?":
        return rng.random(shape) < 0.5
    if np.dtype(dtype).kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return (100 * rng.standard_normal(shape)).astype(dtype)


def arrays():
    return {
        **{f"of/{dtype}".replace("?", "b"): array_of(dtype, 7, 11) for dtype in DTYPES},
        "scalar": np.float32(3.5),
        "empty": np.zeros((0, 4), np.int16),
        "columns": np.asfortranarray(array_of("f4", 30, 50)),
        "cube": np.asfortranarray(array_of("f8", 5, 6, 7)),
        "big": array_of("f4", 9, 8).astype(">f4"),
        "big columns": np.asfortranarray(array_of("c8", 9, 8).astype(">c8")),
        "\u00fc": array_of("i4", 3),
        "large": array_of("f4", 700, 900),
    }


def assert_equal(loaded, expected):
    assert set(loaded) == set(expected)
    for name, array in expected.items():
        native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        assert_same(np.asarray(loaded[name]), native.reshape(array.shape))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_there_and_back(tmp_path, save):
    save(tmp_path / "a.npz", **arrays())
    assert_equal(load_file(tmp_path / "a.npz"), arrays())
    cfck_file = converted(tmp_path / "a.npz", tmp_path / "a.cfck")
    assert_equal(load_file(cfck_file), arrays())
    back = converted(cfck_file, tmp_path / "back.npz")
    with np.load(back) as file:
        assert_equal(dict(file), arrays())
    assert zipfile.ZipFile(back).testzip() is None


def test_order_and_names(tmp_path):
    np.savez(tmp_path / "a.npz", z=np.ones(2), **{"a/b": np.ones(3)})
    assert list(load_file(tmp_path / "a.npz")) == ["z", "a/b"]
    back = converted(
        converted(tmp_path / "a.npz", tmp_path / "a.cfck"), tmp_path / "b.npz", "--force"
    )
    assert zipfile.ZipFile(back).namelist() == ["z.npy", "a/b.npy"]
    # Equal contents make equal files, which other programs can map: arrays are aligned.
    again = converted(tmp_path / "a.cfck", tmp_path / "c.npz")
    assert again.read_bytes() == back.read_bytes()
    assert back.read_bytes().index(b"\x93NUMPY") % 64 == 0


def test_from_and_to_safetensors(tmp_path):
    tensors = {"w": array_of("f4", 60, 70), "n": array_of("i8", 5)}
    safetensors.numpy.save_file(tensors, tmp_path / "a.safetensors")
    npz = converted(tmp_path / "a.safetensors", tmp_path / "a.npz")
    with np.load(npz) as file:
        assert_equal(dict(file), tensors)
    back = converted(npz, tmp_path / "b.safetensors")
    assert_equal(safetensors.numpy.load_file(back), tensors)


def test_single_arrays(tmp_path):
    array = array_of("f4", 40, 50)
    np.save(tmp_path / "w.npy", array)
    cfck_file = converted(tmp_path / "w.npy", tmp_path / "w.cfck")
    assert_equal(load_file(cfck_file), {"array": array})
    back = converted(cfck_file, tmp_path / "back.npy", "--verify")
    assert back.read_bytes() == (tmp_path / "w.npy").read_bytes()
    save_file({"a": array, "b": array + 1}, tmp_path / "two.cfck")
    refused = convert(tmp_path / "two.cfck", tmp_path / "two.npy")
    assert refused.returncode != 0 and ".npz" in refused.stderr
    assert not (tmp_path / "two.npy").exists()


def test_an_error_bound_holds(tmp_path):
    array = array_of("f4", 300, 400)
    np.savez(tmp_path / "a.npz", w=array)
    lossy = converted(tmp_path / "a.npz", tmp_path / "a.cfck", "--max-abs-error", "0.01")
    assert lossy.stat().st_size < array.nbytes / 2
    with np.load(converted(lossy, tmp_path / "b.npz")) as file:
        assert 0 < np.abs(file["w"].astype(np.float64) - array.astype(np.float64)).max() <= 0.01


@pytest.mark.parametrize("compressed", [False, True])
def test_slices_of_large_arrays(tmp_path, compressed):
    rng = np.random.default_rng(0)
    # More than the distance between the places where decompression can start.
    tensors = {
        "rows": rng.integers(0, 50, (3000, 1000)).astype("f4"),
        "columns": np.asfortranarray(rng.integers(0, 50, (3000, 1000)).astype("f4")),
    }
    (np.savez_compressed if compressed else np.savez)(tmp_path / "a.npz", **tensors)
    with cfck.safe_open(tmp_path / "a.npz", "np") as file:
        for name, array in tensors.items():
            view = file.get_slice(name)
            for box in (np.s_[2900:2950, 10:20], np.s_[5:7], np.s_[:, 999:], np.s_[1500:1501, 3:]):
                assert_same(view[box], np.ascontiguousarray(array[box]))
    loaded = load_file(converted(tmp_path / "a.npz", tmp_path / "a.cfck"))
    assert_equal(loaded, tensors)


def test_bfloat16_is_refused(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    save_file({"w": array_of("f4", 4).astype(ml_dtypes.bfloat16)}, tmp_path / "a.cfck")
    (tmp_path / "a.npz").write_bytes(b"old")
    refused = convert(tmp_path / "a.cfck", tmp_path / "a.npz", "--force")
    assert refused.returncode != 0 and "BF16" in refused.stderr
    assert (tmp_path / "a.npz").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "x\\y"])
def test_names_that_leave_the_folder(tmp_path, name):
    """They are read, as numpy reads them, since nothing is unpacked; they are not written."""
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as file:
        file.writestr(name + ".npy", npy(np.ones(3)))
    assert_equal(load_file(tmp_path / "b.npz"), {name: np.ones(3)})
    packed = converted(tmp_path / "b.npz", tmp_path / "b.cfck")
    refused = convert(packed, tmp_path / "a.npz")
    assert refused.returncode != 0 and "folder" in refused.stderr
    assert not (tmp_path / "a.npz").exists()


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    "content, words",
    [
        (npy(np.array(["a", "b"])), "'<U1'"),
        (npy(np.array([b"a"])), "'|S1'"),
        (npy(np.array([{}], object), allow_pickle=True), "'|O'"),
        (npy(np.ones(2, np.complex128)), "'<c16'"),
        (npy(np.zeros(2, [("x", "f4")])), "structures"),
        (npy(np.zeros(2, "M8[s]")), "M8"),
        (npy(np.ones(20))[:-1], "159 bytes"),
        (npy(np.ones(20)) + b"x", "behind"),
        (npy(np.ones(20)).replace(b"(20,)", b"(-1,)"), "damaged"),
        (npy(np.ones(20)).replace(b"(20,)", b"(2**"), "damaged"),
        (npy(np.ones(20)).replace(b"(20,), }" + b" " * 18, b"(" + b"9" * 22 + b",)}"), "damaged"),
        (npy(np.ones(20)).replace(b"(20,), }" + b" " * 18, b"(" + b"9" * 19 + b",9),}  "), "large"),
        (b"\x93NUMPY\x02\0\xff\xff\xff\x7f{}", "claims"),
        (b"\x93NUMPY\x09\0\x10\0{}", "version 9"),
        (b"\x93NUMPY\x01\0\x02\0{}", "damaged"),
        (b"", "0 bytes"),
        (b"\x93NUMPX" + npy(np.ones(2))[6:], "first bytes"),
    ],
)
def test_what_is_refused(tmp_path, content, words):
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as file:
        file.writestr("good.npy", npy(np.ones(3)))
        file.writestr("bad.npy", content)
    (tmp_path / "bad.cfck").write_bytes(b"old")
    refused = convert(tmp_path / "bad.npz", tmp_path / "bad.cfck", "--force")
    assert refused.returncode in (4, 6, 7), refused.stderr
    assert words in refused.stderr and "bad.npy" in refused.stderr
    assert (tmp_path / "bad.cfck").read_bytes() == b"old"


@pytest.mark.parametrize("first", [False, True])
def test_the_arrays_alone(tmp_path, first):
    others = {
        "readme.txt": b"hello",
        "labels.npy": npy(np.array(["cat"])),
        "settings.npy": npy(np.array({"lr": 1}, object), allow_pickle=True),
        "codes.npy": npy(np.zeros(3, "V1")),
    }
    members = [*others.items(), ("good.npy", npy(np.ones(3)))]
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.mkdir("folder")
        for name, content in members if first else members[::-1]:
            file.writestr(name, content)
    refused = convert(tmp_path / "a.npz")
    assert refused.returncode == 6 and "--only-tensors" in refused.stderr
    assert ("readme.txt" if first else "codes.npy") in refused.stderr
    done = subprocess.run(
        ["cfck", "convert", "--only-tensors", "--verify", tmp_path / "a.npz"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert all(f"'{name}' was left out" in done.stderr for name in others)
    assert_equal(load_file(tmp_path / "a.cfck"), {"good": np.ones(3)})


def test_damaged_arrays_are_not_left_out(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("good.npy", npy(np.ones(3)))
        file.writestr("bad.npy", npy(np.ones(3))[:-1])
    assert convert(tmp_path / "a.npz", "--only-tensors").returncode == 4


def test_dtypes_that_numpy_does_not_know(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = array_of("f4", 6, 8)
    arrays = {
        "b": values.astype(ml_dtypes.bfloat16),
        "e": values.astype(ml_dtypes.float8_e5m2),
        "f": values,
    }
    np.savez(tmp_path / "a.npz", **arrays)
    packed = converted(tmp_path / "a.npz", tmp_path / "a.cfck", "--verify")
    loaded = load_file(packed)
    for name, array in arrays.items():
        assert_same(loaded[name], array)
    np.save(tmp_path / "c.npy", values.astype(ml_dtypes.float8_e4m3fn))
    refused = convert(tmp_path / "c.npy")
    assert refused.returncode == 6 and "float8_e4m3fn" in refused.stderr


def test_members_of_equal_names(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a name that is there twice
        for name, value in (("a", 1), ("a.npy", 2), ("a.npy.npy", 3), ("b.npy", 4), ("b.npy", 5)):
            file.writestr(name, npy(np.full(3, value)))
    with np.load(tmp_path / "a.npz") as theirs:
        assert [theirs[name][0] for name in ("a", "a.npy", "a.npy.npy", "b")] == [1, 2, 3, 5]
    done = subprocess.run(
        ["cfck", "convert", tmp_path / "a.npz"], capture_output=True, text=True, check=True
    )
    assert "several members are called 'b.npy'" in done.stderr
    loaded = load_file(tmp_path / "a.cfck")
    assert {name: array[0] for name, array in loaded.items()} == {
        "a": 1, "a.npy": 2, "a.npy.npy": 3, "b": 5
    }  # fmt: skip


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_streamed_files(tmp_path, save):
    class Pipe(io.RawIOBase):
        def __init__(self, file):
            self.file = file

        def writable(self):
            return True

        def seekable(self):
            return False

        def write(self, data):
            return self.file.write(data)

    tensors = {"w": array_of("f4", 20, 30), "n": np.arange(5)}
    with open(tmp_path / "a.npz", "wb") as file:
        save(Pipe(file), **tensors)
    assert_equal(load_file(tmp_path / "a.npz"), tensors)


def test_files_of_several_arrays(tmp_path):
    with open(tmp_path / "two.npy", "wb") as file:
        np.save(file, np.ones(3))
        np.save(file, np.zeros(3))
    refused = convert(tmp_path / "two.npy")
    assert refused.returncode == 6 and "another array follows" in refused.stderr


def test_damage_is_noticed(tmp_path):
    """Whatever is changed in the compressed data is an error, never other values."""
    array = array_of("i1", 3000)
    np.savez_compressed(tmp_path / "a.npz", a=array)
    whole = bytearray((tmp_path / "a.npz").read_bytes())
    for at in range(0, len(whole), 41):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        (tmp_path / "b.npz").write_bytes(damaged)
        try:
            loaded = load_file(tmp_path / "b.npz")
        except (cfck.CfckError, OSError):
            continue
        # The header, whose times and versions nobody needs, and the name.
        assert_same(next(iter(loaded.values())), array)
    for n_bytes in range(0, len(whole), 89):
        (tmp_path / "b.npz").write_bytes(whole[:n_bytes])
        with pytest.raises(cfck.CfckError):
            load_file(tmp_path / "b.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_checksums_are_verified(tmp_path, save):
    def verify():
        return subprocess.run(
            ["cfck", "verify", tmp_path / "a.npz"], capture_output=True, text=True
        )

    save(tmp_path / "a.npz", **arrays())
    assert verify().returncode == 0
    damaged = bytearray((tmp_path / "a.npz").read_bytes())
    damaged[damaged.index(b"large.npy") + 100_000] ^= 1
    (tmp_path / "a.npz").write_bytes(damaged)
    verified = verify()
    assert verified.returncode in (4, 5) and "large.npy" in verified.stderr


def test_a_zip_bomb(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as file:
        header = npy(np.zeros(0, "u1")).replace(b"(0,), }", b"(" + b"9" * 11 + b",), }")
        file.writestr("a.npy", header[:128] + bytes(1 << 20))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24
    data[at : at + 4] = (0xFFFFFFF0).to_bytes(4, "little")
    (tmp_path / "a.npz").write_bytes(data)
    refused = convert(tmp_path / "a.npz")
    assert refused.returncode == 4 and "claims more bytes" in refused.stderr


def test_more_arrays_than_an_old_zip_file_has(tmp_path):
    names = [f"a{i}" for i in range(66_000)]
    save_file(dict.fromkeys(names, np.zeros(1, "u1")), tmp_path / "many.cfck")
    npz = converted(tmp_path / "many.cfck", tmp_path / "many.npz")
    with zipfile.ZipFile(npz) as file:
        assert file.namelist() == [f"{name}.npy" for name in names]
    assert list(load_file(npz)) == names


def test_an_empty_file(tmp_path):
    np.savez(tmp_path / "none.npz")
    assert load_file(tmp_path / "none.npz") == {}
