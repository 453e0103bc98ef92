"""HDF5 files as other programs leave them: each is read as it is, or refused with what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
import zlib

import h5py
import numpy as np
import pytest
from test_hdf5_files import PROGRAMS, UNREADABLE, run

W = np.random.default_rng(0).standard_normal((64, 96)).astype("f4")


def tensors(path, tmp_path):
    done = run("cfck-convert", "--force", path, tmp_path / "out.npz")
    assert done.returncode == 0, done.stderr
    return dict(np.load(tmp_path / "out.npz"))


def refusal(path, tmp_path):
    done = run("cfck-convert", path, tmp_path / "out.npz")
    assert done.returncode != 0
    assert not (tmp_path / "out.npz").exists()
    return done.stderr


@pytest.mark.parametrize("block", [512, 1024, 2048, 65536])
def test_files_with_a_user_block(tmp_path, block):
    path = tmp_path / "a.mat"
    with h5py.File(path, "w", userblock_size=block) as file:
        file["plain"] = W
        file.create_dataset("packed", data=W, chunks=(16, 96), compression="gzip")
        file.create_dataset("never", (3,), "i4")
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\x00\x02IM")
    found = tensors(path, tmp_path)
    assert np.array_equal(found["plain"], W)
    assert np.array_equal(found["packed"], W)
    assert not found["never"].any()


def test_the_tensors_alone(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["w"] = W
        file["w"].attrs["unit"] = "m"
        file["labels"] = ["cat", "dog"]
        file.create_dataset("pieces", (2,), h5py.vlen_dtype("i4"))
    refused = run("cfck-convert", path, tmp_path / "a.cfck")
    assert refused.returncode == UNREADABLE
    assert "'pieces'" in refused.stderr and "--only-tensors" in refused.stderr
    done = run("cfck-convert", "--only-tensors", path, tmp_path / "a.cfck")
    assert done.returncode == 0, done.stderr
    assert "1 dataset that is no tensor was left out: 'labels'" in done.stderr
    assert "1 attribute was left out" in done.stderr
    assert "'pieces'" in done.stderr
    found = tensors(tmp_path / "a.cfck", tmp_path)
    assert list(found) == ["w"] and np.array_equal(found["w"], W)


def test_lzf_of_h5py(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for name, data in (("random", W), ("equal", np.ones_like(W)), ("few", np.round(W))):
            file.create_dataset(name, data=data, compression="lzf", shuffle=name == "few")
    found = tensors(path, tmp_path)
    assert np.array_equal(found["random"], W)
    assert np.array_equal(found["equal"], np.ones_like(W))
    assert np.array_equal(found["few"], np.round(W))


def test_filters_that_are_missing_are_named_without_advice_that_loses_data(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((64, 96))
        properties.set_filter(32001, h5py.h5z.FLAG_OPTIONAL, (2, 2, 4))
        space = h5py.h5s.create_simple((64, 96))
        dataset = h5py.h5d.create(file.id, b"w", h5py.h5t.IEEE_F32LE, space, properties)
        dataset.write_direct_chunk((0, 0), W.tobytes(), 0)
    said = refusal(path, tmp_path)
    assert "32001" in said
    assert "HDF5_PLUGIN_PATH" in said
    assert "h5repack" not in said


def test_chunks_that_were_never_written_are_fill_values(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("all", (3000, 3000), "f4", chunks=(1, 1), fillvalue=7)
        file.create_dataset("big", (100, 3), ">f8", chunks=(7, 2), fillvalue=np.nan)[8:20] = 2
        corners = file.create_dataset("corners", (3000, 3000), "i2", chunks=(1, 1), fillvalue=-3)
        corners[0, 0], corners[2999, 17], corners[5, 2999] = 1, 2, 3
        file.create_dataset("texts", (2000, 1000), h5py.string_dtype(), chunks=(1, 1))[4, 2] = "a"
    found = tensors(path, tmp_path)  # with a limit of time
    assert (found["all"] == 7).all()
    with h5py.File(path) as file:
        assert np.array_equal(found["big"], file["big"][()], equal_nan=True)
    expected = np.full((3000, 3000), -3, "i2")
    expected[0, 0], expected[2999, 17], expected[5, 2999] = 1, 2, 3
    assert np.array_equal(found["corners"], expected)


def test_types_that_tensors_do_not_have(tmp_path):
    for name, value in (("complex128", np.ones(3, "c16")), ("null", h5py.Empty("f4"))):
        path, packed, back = (tmp_path / f"{name}{end}" for end in (".h5", ".cfck", "-back.h5"))
        with h5py.File(path, "w") as file:
            file["w"] = W
            file["other"] = value
            file["w"].attrs["unset"] = h5py.Empty("f4")
            file.attrs["text"] = h5py.Empty(h5py.string_dtype())
        assert np.array_equal(tensors(path, tmp_path)["w"], W)
        assert run("cfck-convert", path, packed).returncode == 0
        assert run("cfck-convert", packed, back).returncode == 0
        with h5py.File(back) as file:
            kept = file["other"][()]
            assert kept == value if name == "null" else np.array_equal(kept, value)


def test_sequences_and_long_doubles_are_refused_by_name(tmp_path):
    for name in ("ragged", "long"):
        path = tmp_path / f"{name}.h5"
        with h5py.File(path, "w") as file:
            file["w"] = W
            if name == "ragged":
                file.create_dataset(name, (2,), h5py.vlen_dtype("f4"))[0] = np.ones(3, "f4")
            else:
                file[name] = np.arange(5, dtype=np.longdouble) / 3
        done = run("cfck-convert", path, tmp_path / "a.cfck")
        assert done.returncode != 0
        assert f"'{name}'" in done.stderr
        assert "sequences of varying length, long doubles" in done.stderr


def test_files_whose_writer_was_killed(tmp_path):
    for swmr in (True, False):
        path = tmp_path / f"killed{swmr}.h5"
        lines = (
            "import h5py, os, sys, numpy as np\n"
            "f = h5py.File(sys.argv[1], 'w', libver='latest')\n"
            "f.create_dataset('w', data=np.ones((8, 8), 'f4'), maxshape=(None, 8), chunks=(8, 8))\n"
            f"if {swmr}: f.swmr_mode = True\n"
            "f.flush()\n"
            "os._exit(9)\n"
        )
        subprocess.run([sys.executable, "-c", lines, str(path)], check=False)
        assert np.array_equal(tensors(path, tmp_path)["w"], np.ones((8, 8), "f4"))


def test_cut_files_are_refused(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("w", data=W, chunks=(16, 96), compression="gzip")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "download it again" in refusal(path, tmp_path)


def write_short_chunk(path):
    """A chunk of 32 KiB that decompresses to 100 bytes."""
    with h5py.File(path, "w") as file:
        made = file.create_dataset("d", (256, 128), "u1", chunks=(256, 128), compression="gzip")
        made.id.write_direct_chunk((0, 0), zlib.compress(b"A" * 100), 0)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_keras_archives_with_short_chunks_are_refused(tmp_path, method):
    write_short_chunk(tmp_path / "model.weights.h5")
    with zipfile.ZipFile(tmp_path / "a.keras", "w", method) as file:
        for name in ("metadata.json", "config.json"):
            file.writestr(name, "{}")
        file.write(tmp_path / "model.weights.h5", "model.weights.h5")
    for name in ("a.keras", "model.weights.h5"):
        said = refusal(tmp_path / name, tmp_path)
        assert "100 bytes after its filters, and should have 32768" in said


def test_the_index_of_keras_weights_is_named(tmp_path):
    path = tmp_path / "model.weights.json"
    path.write_text('{"metadata": {}, "weight_map": {"/layers/dense/vars": ["a.weights.h5"]}}')
    said = refusal(path, tmp_path)
    assert "Keras" in said
    assert "each of the .weights.h5 files" in said


def test_without_the_program_that_reads_files_are_refused(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("w", data=W, chunks=(16, 96))
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib/cfck").mkdir(parents=True)
    shutil.copy(PROGRAMS / "cfck", tmp_path / "bin/cfck")
    installed = PROGRAMS / "../lib/cfck"
    shutil.copy(installed / "cfck_archive_hdf5.so", tmp_path / "lib/cfck")
    environment = {name: os.environ[name] for name in ("PATH",)}

    def shown():
        command = [str(tmp_path / "bin/cfck"), "inspect", "show", str(path)]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=60
        )

    missing = shown()
    if missing.returncode != 0:  # an installed one may be found
        assert missing.returncode == UNREADABLE
        assert "the program cfck-hdf5-reader was not found in" in missing.stderr
    program = tmp_path / "lib/cfck/cfck-hdf5-reader"
    shutil.copy(installed / "cfck-hdf5-reader", program)
    program.chmod(0o644)
    refused = shown()
    if os.geteuid() != 0 or refused.returncode != 0:
        assert "may not be executed" in refused.stderr
    program.chmod(0o755)
    assert shown().returncode == 0


def test_advice_where_there_is_no_module_keeps_every_name(tmp_path):
    shutil.copy(PROGRAMS / "cfck", tmp_path / "cfck")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["embed/w"] = W
        file["head/w"] = file["embed/w"]
        file["soft"] = h5py.SoftLink("/embed/w")
        file["away"] = h5py.ExternalLink("/no/such/file.h5", "/w")
        file["names"] = np.array(["a", "b"], dtype=h5py.string_dtype())
        file["nothing"] = h5py.Empty("f4")
    done = subprocess.run(
        [str(tmp_path / "cfck"), "inspect", "show", str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    if done.returncode == 0:
        pytest.skip("an installed module was found")
    saved = {}
    lines = "\n".join(done.stderr.splitlines()[1:]).replace("cfck.numpy.save_file(", "kept.update(")
    lines = lines.replace("import cfck.numpy, h5py", "import h5py").replace(
        '"' + str(tmp_path / "a.cfck") + '"', "()"
    )
    exec(lines.replace("kept.update(", "saved.update(").replace(", ())", ")"), {"saved": saved})
    assert sorted(saved) == ["embed/w", "head/w"]
    assert np.array_equal(saved["head/w"], W)
