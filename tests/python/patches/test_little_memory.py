"""Memory runs out while patches are made and applied, and while files are stored against others: an
exception, never the end of the interpreter, and either all new values or none."""

import subprocess
import sys

import pytest

pytest.importorskip("ml_dtypes")

# Runs each operation in forked children that may have little memory beyond what they have taken
# already. Prints what became of each.
SWEEP = """
import os, resource, sys
import ml_dtypes
import numpy as np
import cfck.numpy

folder, n_small = sys.argv[1], int(sys.argv[2])
base, path = os.path.join(folder, "base.cfck"), os.path.join(folder, "new.cfck")
rng = np.random.default_rng(1)
old = {f"small{i}": np.full(5, i, np.float32) for i in range(n_small)}
old["matrix"] = rng.normal(size=(512, 1024)).astype(np.float32)
old["transposed"] = rng.normal(size=(300, 200)).astype(np.float32).T
old["four"] = rng.normal(size=(300, 200)).astype(ml_dtypes.float4_e2m1fn)
new = {name: array.copy(order="K") for name, array in old.items()}
for array in new.values():
    array[::3] += 1
cfck.numpy.save_file(old, base)
patch = cfck.numpy.patch(old, new)
state = {name: array.copy(order="K") for name, array in old.items()}
hoard = []

def limit(n_bytes):
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, resource.RLIM_INFINITY))

def have(arrays):
    return all(state[name].tobytes() == array.tobytes() for name, array in arrays.items())

OPERATIONS = {
    "apply": lambda: cfck.numpy.apply(state, patch, threads=3),
    "load": lambda: cfck.numpy.load(patch, base=old, threads=3),
    "save": lambda: cfck.numpy.save_file(new, path, base=base, threads=3),
}

def attempt(name, extra):
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    limit(used)
    for size in (1 << 20, 1 << 16, 1 << 12):  # what the heap has, too
        try:
            while True:
                hoard.append(bytearray(size))
        except MemoryError:
            pass
    limit(used + extra)
    try:
        OPERATIONS[name]()
        code = 0
    except MemoryError:
        code = 7
    limit(resource.RLIM_INFINITY)
    hoard.clear()
    if name == "apply" and not have(new if code == 0 else old):
        return 3
    return code

for name in OPERATIONS:
    codes = set()
    for extra in range(0, 42_000_000, 3_500_000):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = attempt(name, extra)
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        codes.add(code)
        assert code in (0, 7), (name, extra, code)
        left = set(os.listdir(folder)) - {"base.cfck", "new.cfck"}
        assert not left and (code == 0 or "new.cfck" not in os.listdir(folder)), (name, left)
        if os.path.exists(path):
            os.unlink(path)
    print(name, sorted(codes))
"""


@pytest.mark.parametrize("n_small", [10, 3000])
def test_exhausted_memory_raises_and_changes_nothing(tmp_path, n_small):
    command = [sys.executable, "-c", SWEEP, str(tmp_path), str(n_small)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    codes = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert len(codes) == 3 and all("7" in found for found in codes.values())
    if n_small == 10:
        assert all("0" in found for found in codes.values())
