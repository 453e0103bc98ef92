"""The HDF5 filter in processes of its own: without memory, and with two copies of libhdf5."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

pytest.importorskip("h5py", reason="h5py is not installed")

import cfck.hdf5  # noqa: E402

_LITTLE_MEMORY = """
import resource, sys
import cfck.hdf5, h5py, numpy as np

path = sys.argv[1]
rows = np.random.default_rng(1).standard_normal((4, 1 << 22), dtype=np.float32)
failures = {}
file = h5py.File(path, "w", rdcc_nbytes=1 << 20)
file.create_dataset("small", data=rows[0, :1000], chunks=(1000,), **cfck.hdf5.filter())
options = dict(chunks=(1, 1 << 22), **cfck.hdf5.filter(max_abs_error=1e-3))
written = file.create_dataset("rows", rows.shape, "f4", **options)
written[0] = rows[0]
file.flush()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (18 << 20), resource.RLIM_INFINITY))
for i in range(1, len(rows)):
    try:
        written[i] = rows[i]
    except OSError as error:
        failures[i] = str(error)
for last in (file.flush, file.close):
    try:
        last()
    except (OSError, RuntimeError) as error:
        failures[last.__name__] = str(error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert failures and all("memory" in text for text in failures.values()), failures
with h5py.File(path) as file:
    assert (file["small"][...] == rows[0, :1000]).all()
    for i, row in enumerate(rows):
        stored = file["rows"][i]
        kept = np.abs(stored - row).max() <= 1e-3
        assert kept or (i in failures and not stored.any()), (i, failures)
print("encoding failed" if "cfck" in str(failures) else "libhdf5 failed")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits of address space")
def test_no_memory_to_encode(tmp_path):
    """The caller learns of each chunk that is not written; the others are in the file.

    The chunks are above the cache, so that each write encodes one. Where the last flush fails,
    libhdf5 crashes as the program ends, with its own filters too.
    """
    run = subprocess.run(
        [sys.executable, "-c", _LITTLE_MEMORY, str(tmp_path / "a.h5")],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "encoding failed\n"


_TWO_LIBRARIES = """
import ctypes, sys
import cfck.hdf5, h5py, numpy as np

first = sys.argv[1]
other = ctypes.CDLL("libhdf5_serial.so.103")
hid = ctypes.c_int64
for name in ("H5Fopen", "H5Dopen2", "H5Dget_create_plist", "H5Dget_space", "H5Dcreate2"):
    getattr(other, name).restype = hid
other.H5open()
mine = np.random.default_rng(0).normal(size=(64, 64)).astype("f4")


def by_h5py():
    with h5py.File(first, "a") as file:
        file.require_dataset("x", mine.shape, "f4", chunks=(32, 32), **cfck.hdf5.filter())
        file["x"][...] = mine


def by_other(name):
    file = hid(other.H5Fopen(first.encode(), 1, hid(0)))
    x = hid(other.H5Dopen2(file, b"x", hid(0)))
    f4 = hid.in_dll(other, "H5T_NATIVE_FLOAT_g")
    got = np.zeros_like(mine)
    pointer = got.ctypes.data_as(ctypes.c_void_p)
    assert other.H5Dread(x, f4, hid(0), hid(0), hid(0), pointer) >= 0
    assert (got == mine).all()
    plist, space = hid(other.H5Dget_create_plist(x)), hid(other.H5Dget_space(x))
    y = hid(other.H5Dcreate2(file, name, f4, space, hid(0), plist, hid(0)))
    assert y.value >= 0
    assert other.H5Dwrite(y, f4, hid(0), hid(0), hid(0), pointer) >= 0
    for close, what in (("D", x), ("D", y), ("P", plist), ("S", space), ("F", file)):
        assert getattr(other, f"H5{close}close")(what) >= 0


for name in (b"y", b"z"):
    by_h5py()
    by_other(name)
with h5py.File(first) as file:
    assert all((file[name][...] == mine).all() for name in "xyz")
    assert file["z"].id.get_storage_size() < 0.95 * mine.nbytes
print(h5py.version.hdf5_version)
"""


def test_two_libraries_in_one_process(tmp_path):
    try:
        ctypes.CDLL("libhdf5_serial.so.103")
    except OSError:
        pytest.skip("Debian's libhdf5 is not installed")
    done = subprocess.run(
        [sys.executable, "-c", _TWO_LIBRARIES, str(tmp_path / "a.h5")],
        env=os.environ
        | {"HDF5_PLUGIN_PATH": cfck.hdf5.plugin_path(), "HDF5_USE_FILE_LOCKING": "FALSE"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
