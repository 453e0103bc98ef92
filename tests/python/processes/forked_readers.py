"""Forks children that read through the files their parent has open, while threads of it read too.

    python forked_readers.py FOLDER NUMBER_OF_CHILDREN

Prints how many of the children hung, and how many ended otherwise than with 0.
"""

import os
import signal
import sys
import threading

import cfck
import cfck.numpy
import numpy as np

AT_ONCE = 8
PATIENCE_SECONDS = 30


def write_files(folder):
    random = np.random.default_rng(1)
    arrays = {f"w{i}": random.standard_normal((60, 200), dtype=np.float32) for i in range(3)}
    arrays |= {f"small{i}": random.standard_normal(5, dtype=np.float32) for i in range(3)}
    cfck.numpy.save_file(arrays, f"{folder}/a.cfck", chunk_elems=4096)
    np.savez_compressed(f"{folder}/b.npz", **arrays)
    return arrays


def check(file, name, expected):
    if not np.array_equal(file.get_tensor(name), expected):
        raise AssertionError(name)


def read_always(files, arrays, ended):
    while not ended.is_set():
        for file in files:
            for name in arrays:
                check(file, name, arrays[name])


def fork_reader(files, arrays, number):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(PATIENCE_SECONDS)
            name = list(arrays)[number % len(arrays)]
            for file in files:
                check(file, name, arrays[name])
            code = 0
        finally:
            os._exit(code)
    return child


def run(folder, n_children):
    arrays = write_files(folder)
    files = [cfck.safe_open(f"{folder}/{name}", "np") for name in ("a.cfck", "b.npz")]
    ended = threading.Event()
    threads = [
        threading.Thread(target=read_always, args=(files, arrays, ended), daemon=True)
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    statuses = []
    running = 0
    for number in range(n_children):
        fork_reader(files, arrays, number)
        running += 1
        while running == AT_ONCE or (running and number == n_children - 1):
            statuses.append(os.wait()[1])
            running -= 1
    ended.set()
    for thread in threads:
        thread.join()
    n_hung = sum(os.WIFSIGNALED(s) and os.WTERMSIG(s) == signal.SIGALRM for s in statuses)
    n_failed = sum(s != 0 for s in statuses) - n_hung
    print(f"{len(statuses)} children, {n_hung} hung, {n_failed} failed")


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]))
