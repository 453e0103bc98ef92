"""HDF5 files that claim more than they have, or whose names are those of cfck."""

from __future__ import annotations

import h5py
import numpy as np
from test_hdf5_files import convert, run


def test_claims_are_checked_before_anything_is_read(tmp_path):
    """A file without elements claims 4 TiB of them, at once or together."""
    whole, together = tmp_path / "whole.h5", tmp_path / "together.h5"
    with h5py.File(whole, "w") as file:
        file.create_dataset("w", (2**40,), "f4", chunks=(2**20,))
    with h5py.File(together, "w") as file:
        for i in range(1024):
            file.create_dataset(f"{i:04}", (2**30,), "f4", chunks=(2**20,))
    commands = [["digest", whole]]  # which reads one after another
    for path in (whole, together):
        commands += [["convert", path, tmp_path / name] for name in ("out.npz", "out.cfck")]
    for command in commands:
        done = run("cfck", *command)
        assert done.returncode == 7
        assert "max_decoded_bytes" in done.stderr
    assert sorted(tmp_path.iterdir()) == [together, whole]


def test_small_chunks_are_read_together(tmp_path):
    values = np.arange(400_000, dtype="f4").reshape(-1, 8)
    with h5py.File(tmp_path / "small.h5", "w") as file:
        file.create_dataset("w", data=values, chunks=(1, 8), compression="gzip")
    convert(tmp_path / "small.h5", tmp_path / "small.npz")  # with a time limit
    assert (np.load(tmp_path / "small.npz")["w"] == values).all()


def test_an_attribute_named_as_the_note_comes_back(tmp_path):
    path, packed, back = tmp_path / "a.h5", tmp_path / "a.cfck", tmp_path / "back.h5"
    with h5py.File(path, "w") as file:
        file["w"] = np.arange(3.0)
        file.attrs["hdf5.left_out"] = "mine"
    for _ in range(2):  # the second time something is left out
        assert run("cfck", "convert", "--force", path, packed).returncode == 0
        assert run("cfck", "convert", "--force", packed, back).returncode == 0
        with h5py.File(back) as file:
            assert file.attrs["hdf5.left_out"] == "mine"
        with h5py.File(path, "a") as file:
            file["w"].attrs["of"] = file["w"].ref
