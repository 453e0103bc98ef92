"""File systems that cannot do all that others can, and limits of the system."""

import errno
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

PROGRAM = Path(sysconfig.get_path("scripts")) / "cfck"

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

SAVES = """
import cfck, cfck.numpy, numpy as np
for epoch in (1, 2):
    cfck.numpy.save_file({"w": np.full((2000, 1100), epoch, "f4")}, "last.cfck", codec="raw")
cfck.update("last.cfck", {"w": np.full((3, 3), 3, "f4")})
assert cfck.numpy.load_file("last.cfck", backend="mmap")["w"].sum() == 27
"""


@pytest.fixture(scope="module")
def cannot(tmp_path_factory):
    library = tmp_path_factory.mktemp("cannot") / "cannot.so"
    source = Path(__file__).with_name("cannot.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def run(cannot, what, folder, *command):
    environment = {**os.environ, "LD_PRELOAD": str(cannot), "CANNOT": what}
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)


NOT_NEEDED = ",".join(
    f"{name}:{number}"
    for name, number in {
        "chmod": errno.EPERM, "fchmod": errno.ENOSYS, "fchown": errno.EPERM, "flock": errno.ENOSYS,
        "locks": errno.EINVAL, "ftruncate": errno.ENOSYS, "fallocate": errno.EOPNOTSUPP,
        "sync_file_range": errno.ENOSYS, "syncdir": errno.EINVAL, "fsync": errno.ENOSYS,
        "mmap": errno.ENODEV, "link": errno.EPERM, "linkat": errno.EPERM,
        "renameat2": errno.ENOSYS,
    }.items()
)  # fmt: skip


@needs_compiler
def test_what_is_not_needed_may_be_missing(cannot, tmp_path):
    done = run(cannot, NOT_NEEDED, tmp_path, sys.executable, "-c", SAVES)
    assert done.returncode == 0, done.stderr
    assert os.listdir(tmp_path) == ["last.cfck"]


@needs_compiler
@pytest.mark.parametrize(
    "number, advice",
    [(errno.ENOSYS, "save to another one"), (errno.EPERM, "save to another one"),
     (errno.EBUSY, "is a mount point"), (errno.EXDEV, "is a mount point")],
)  # fmt: skip
def test_renaming_is_needed(cannot, tmp_path, number, advice):
    done = run(cannot, f"rename:{number}", tmp_path, sys.executable, "-c", SAVES)
    assert done.returncode == 1
    assert "cfck.errors.IoError" in done.stderr and advice in done.stderr
    assert "and copy the file" in done.stderr
    assert os.listdir(tmp_path) == []


@needs_compiler
def test_folders_are_replaced_without_exchanges_links_and_chmod(cannot, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    safetensors.numpy.save_file({"w": np.ones((9, 9), "f4")}, folder / "model.safetensors")
    for _ in range(2):
        done = run(cannot, NOT_NEEDED, tmp_path, PROGRAM, "convert", "-f", "-q", "in", "out")
        assert done.returncode == 0, done.stderr
    assert os.listdir(tmp_path / "out") == ["model.cfck"]


@pytest.mark.parametrize("to", ["a.cfck", "out"])
def test_a_limit_of_the_size_of_files_is_an_error(tmp_path, to):
    """Batch systems set such limits, which would end the program and leave half a file."""
    folder = tmp_path / "in"
    folder.mkdir()
    values = np.random.default_rng(0).integers(0, 256, (4, 100000), dtype="u1")
    safetensors.numpy.save_file({"w": values}, folder / "model.safetensors")
    what = folder if to == "out" else folder / "model.safetensors"
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 64; exec "$@"', "sh", PROGRAM, "convert", "-q", what, to],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 3 and "File too large; the file system or a limit" in done.stderr
    if to == "a.cfck":  # a folder is made under another name
        assert "cannot write 'a.cfck'" in done.stderr
    assert os.listdir(tmp_path) == ["in"]
