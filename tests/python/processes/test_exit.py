"""The end of a program while threads of it are in calls: exit code 0, and nothing on stderr."""

import os
import subprocess
import sys

import pytest

# The long tier ends more of them.
N_PROGRAMS = int(os.environ.get("CFCK_ENDED_PROGRAMS", "2"))

CALLS = {
    "load": 'cfck.numpy.load_file("a.cfck")',
    "get a tensor": 'cfck.safe_open("a.cfck", "np").get_tensor("w0")',
    "get a slice": 'cfck.safe_open("a.cfck", "np").get_slice("w0")[10:20]',
    "read another format": 'cfck.numpy.load_file("a.safetensors")',
    "save": 'cfck.numpy.save_file(arrays, "b.cfck")',
    "save to bytes": "cfck.numpy.save(arrays)",
    # The other thread may be at it.
    "update": 'failing(lambda: cfck.update("u.cfck", {"w0": arrays["w0"]}))',
    "errors": 'failing(lambda: cfck.numpy.load_file("bad.cfck"))',
    "progress": 'cfck.numpy.load_file("a.cfck", progress=lambda *_: time.sleep(0.001))',
    "progress of a save": 'cfck.numpy.save_file(arrays, "b.cfck", progress=lambda *_: sum([1]))',
    "a pool": 'cfck.numpy.load_file("a.cfck", threads=3)',
}

PROGRAM = """
import contextlib, os, sys, threading, time
import numpy as np
import cfck, cfck.numpy, safetensors.numpy

random = np.random.default_rng(1)
arrays = {f"w{i}": random.standard_normal((300, 300)).astype("f4") for i in range(6)}
for name in ("a.cfck", "u.cfck"):
    cfck.numpy.save_file(arrays, name)
safetensors.numpy.save_file(arrays, "a.safetensors")
with open("bad.cfck", "wb") as file:
    file.write(b"none")

def failing(call):
    with contextlib.suppress(cfck.CfckError):
        call()

def loop():
    while True:
        CALL

def start():
    for _ in range(2):
        threading.Thread(target=loop, daemon=True).start()
    time.sleep(0.1)

START
"""

ENDS = {
    "return": "start()",
    "exit": "start(); sys.exit(0)",
    "at exit": "import atexit; atexit.register(cfck.numpy.load_file, 'a.cfck'); start()",
}


def end_programs(folder, programs):
    """Runs all side by side; returns what each of those that failed has said."""
    running = []
    for number, program in enumerate(programs):
        place = folder / str(number)
        place.mkdir()
        running.append(
            subprocess.Popen([sys.executable, "-c", program], cwd=place, stderr=subprocess.PIPE)
        )
    said = [process.communicate(timeout=120)[1].decode() for process in running]
    return [
        (process.returncode, text)
        for process, text in zip(running, said)
        if process.returncode != 0 or text
    ]


@pytest.mark.parametrize("what", CALLS)
def test_daemon_threads_end_with_the_program(tmp_path, what):
    end = list(ENDS)[list(CALLS).index(what) % len(ENDS)]
    program = PROGRAM.replace("CALL", CALLS[what]).replace("START", ENDS[end])
    assert end_programs(tmp_path, [program] * N_PROGRAMS) == []
