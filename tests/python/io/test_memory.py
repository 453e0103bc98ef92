"""Memory runs out: an exception, never the end of the interpreter, and no file left over."""

import subprocess
import sys

import cfck
import numpy as np
import pytest
from cfck import _native
from cfck._frameworks.numpy_arrays import NumpyFramework
from cfck.numpy import load_file, save_file

# Runs each operation again and again in forked children that may have little memory beyond what
# they have taken already. Prints what became of each.
SWEEP = """
import os, resource, sys
import numpy as np
import cfck
from cfck.numpy import load_file, save, save_file

folder = sys.argv[1]
path = os.path.join(folder, "m.cfck")
rng = np.random.default_rng(1)
tensors = {"w": rng.normal(size=(512, 1024)).astype(np.float32)}
old = {"old": tensors["w"][:100]}

OPERATIONS = {
    "save": lambda: save_file(tensors, path, threads=4),
    "bounded": lambda: save_file(tensors, path, threads=4, max_rel_error=1e-3),
    "bytes": lambda: save(tensors),
    "update": lambda: cfck.update(path, tensors, threads=4),
    "load": lambda: load_file(path, threads=4),
    "verified": lambda: save_file(tensors, path, threads=4, verify=True),
}

def attempt(operation, extra):
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used, most))
    hoard = []
    for size in (1 << 20, 1 << 16, 1 << 12):   # what the heap has, too
        try:
            while True:
                hoard.append(bytearray(size))
        except MemoryError:
            pass
    resource.setrlimit(resource.RLIMIT_AS, (used + extra, most))
    try:
        operation()
    except MemoryError:
        return 7
    except BaseException as error:
        os.write(2, repr(error).encode()[:300])
        return 1
    return 0

save_file(tensors, path + ".warm", threads=4)   # what is imported late
load_file(path + ".warm")
os.remove(path + ".warm")
for name, operation in OPERATIONS.items():
    codes = set()
    for extra in range(0, 24_000_000, 1_500_000):
        save_file(old, path, fsync=False)
        before = open(path, "rb").read()
        child = os.fork()
        if child == 0:
            os._exit(attempt(operation, extra))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        codes.add(code)
        assert code in (0, 7), (name, extra, code)
        assert os.listdir(folder) == ["m.cfck"], (name, extra, os.listdir(folder))
        if code == 7:
            assert open(path, "rb").read() == before, (name, extra)
    print(name, sorted(codes))
"""


def test_exhausted_memory_raises(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SWEEP, str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    codes = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert len(codes) == 6
    assert codes["save"] == "[0, 7]"


@pytest.mark.parametrize("claim", ["load", "get_tensor", "get_slice", "get_tensors"])
def test_the_limit_is_asked_before_there_is_memory(tmp_path, monkeypatch, claim):
    path = tmp_path / "m.cfck"
    tensors = {"a": np.zeros((100, 100), np.float32), "b": np.ones((100, 100), np.float32)}
    save_file(tensors, path)

    def no_memory(self, dtype, shape):
        raise AssertionError("memory was taken before the limit was asked")

    monkeypatch.setattr(NumpyFramework, "allocate", no_memory)
    with pytest.raises(cfck.LimitExceededError, match="max_decoded_bytes") as error:
        if claim == "load":
            load_file(path, max_decoded_bytes=50_000)
        with cfck.safe_open(path, "np", max_decoded_bytes=30_000) as file:
            if claim == "get_tensor":
                file.get_tensor("b")
            elif claim == "get_slice":
                file.get_slice("b")[5:95]
            else:
                file.get_tensors()
    assert error.value.record == ("a" if claim == "get_tensors" else "b")


def test_native_sizes_are_summed(tmp_path):
    path = tmp_path / "m.cfck"
    save_file({"a": np.zeros(10, np.float32)}, path)
    file = _native.Archive.open_path(
        str(path).encode(), map=False, only_tensors=False, threads=1, verify=True,
        max_decoded_bytes=100, limits={}, base=None, base_dirs=[],
    )  # fmt: skip
    file.check_sizes([(0, 50), (0, 50)])
    with pytest.raises(cfck.LimitExceededError):
        file.check_sizes([(0, 50), (0, 51)])
    with pytest.raises(cfck.LimitExceededError):
        file.check_sizes([(0, 2**63), (0, 2**64 - 1)])
    with pytest.raises(IndexError):
        file.check_sizes([(1, 1)])
