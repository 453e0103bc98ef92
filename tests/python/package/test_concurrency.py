"""Threads, forks, and the GIL."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import cfck
import pytest
import torch
from cfck import _native
from cfck.torch import load, load_file, save, save_file
from conftest import assert_same, bits, weights


def tensors(n=6):
    return {f"w{i}": weights(300, 400, seed=i) for i in range(n)}


def test_one_file_read_by_many_threads(path):
    save_file(tensors(), path)
    expected = tensors()
    with cfck.safe_open(path, "pt", threads=2) as file, ThreadPoolExecutor(8) as pool:

        def check(i):
            name = f"w{i % 6}"
            assert_same(file.get_tensor(name), expected[name])
            assert_same(file.get_slice(name)[10:20], expected[name][10:20])

        list(pool.map(check, range(60)))


def test_many_threads_save_and_load(tmp_path):
    def work(i):
        path = tmp_path / f"{i % 3}.cfck"  # some threads write the same file
        save_file({"w": weights(200, 300, seed=i % 3)}, path, threads=2, fsync=False)
        assert_same(load_file(path)["w"], weights(200, 300, seed=i % 3))
        assert_same(load(save({"w": weights(10, seed=i)}))["w"], weights(10, seed=i))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(30)))


def test_an_update_shows_when_it_is_finished(path):
    old, new = weights(1000, 1000), weights(1000, 1000, seed=2)
    save_file({"w": old}, path)
    old_bytes = path.stat().st_size
    grown = []

    def look(*_):
        grown.append(path.stat().st_size > old_bytes)
        for backend in ("pread", "mmap"):
            assert_same(load_file(path, backend=backend)["w"], old)
        if grown.count(True) == 1 and grown[-1]:
            script = f"import cfck.numpy; print(cfck.numpy.load_file({str(path)!r})['w'][:9].sum())"
            found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
            assert found.stdout.strip() == str(old.numpy()[:9].sum()), found.stderr

    cfck.update(path, {"w": new}, progress=look)
    assert any(grown)
    assert_same(load_file(path)["w"], new)


@pytest.mark.parametrize(
    ("call", "native"),
    [
        ("save", "write_bytes"),
        ("save_file", "write_file"),
        ("save with a bound", "write_bytes"),
        ("compress", "write_bytes"),
        ("update", "update_file"),
        ("load", "Archive.read_many"),
        ("slice", "Archive.read_slice"),
    ],
)
def test_the_gil_is_released(path, monkeypatch, call, native):
    """Another Python thread runs while native code works.

    No thread is ever asked to hand over the GIL here: it runs on until it lets go by itself.
    """
    state = {"w": weights(1000, 1000)}
    save_file(state, path, threads=1, fsync=False)
    calls = {
        "save": lambda: save(state, threads=1),
        "save_file": lambda: save_file(state, path, threads=1, fsync=False),
        "save with a bound": lambda: save(state, threads=1, max_sigma_error=1e-3),
        "compress": lambda: cfck.compress(state["w"], threads=1),
        "update": lambda: cfck.update(path, state, threads=1),
        "load": lambda: load_file(path, threads=1),
        "slice": lambda: cfck.safe_open(path, "pt", threads=1).get_slice("w")[1:],
    }
    inside, seen, stop = False, threading.Event(), threading.Event()
    owner = _native.Archive if native.startswith("Archive.") else _native
    name = native.rpartition(".")[2]
    function = getattr(owner, name)

    def watched(*args, **kwargs):
        nonlocal inside
        inside = True
        result = function(*args, **kwargs)
        inside = False
        return result

    def look():
        while not stop.is_set():
            if inside:
                seen.set()
            time.sleep(0.0001)

    monkeypatch.setattr(owner, name, watched)
    looker = threading.Thread(target=look)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    try:
        looker.start()
        for _ in range(300):  # On a busy machine a call may end before the thread gets a CPU.
            calls[call]()
            if seen.is_set():
                break
    finally:
        stop.set()
        looker.join()
        sys.setswitchinterval(interval)
    assert seen.is_set()


def _child(file, expected, queue):
    # Compared as bytes: torch's own thread pool does not survive a fork.
    queue.put(file.get_tensor("w0").numpy().tobytes() == expected)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_children_work_after_the_parent_used_threads(path):
    save_file(tensors(), path, threads=4)
    load_file(path, threads=4)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with cfck.safe_open(path, "pt", threads=2) as file:
        expected = bits(tensors()["w0"])
        arguments = (file, expected, queue)
        children = [context.Process(target=_child, args=arguments) for _ in range(3)]
        try:
            for child in children:
                child.start()
            # The parent goes on reading at the same time.
            assert_same(file.get_tensor("w1"), tensors()["w1"])
            assert all(queue.get(timeout=30) for _ in children)
            for child in children:
                child.join(30)
                assert child.exitcode == 0
        finally:
            for child in children:
                child.kill()


class Rows(torch.utils.data.Dataset):
    def __init__(self, path):
        self.file = cfck.safe_open(path, "pt")

    def __len__(self):
        return 40

    def __getitem__(self, i):
        return self.file.get_slice("w0")[i]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_data_loader_workers_share_an_open_file(path):
    save_file(tensors(1), path)
    loader = torch.utils.data.DataLoader(
        Rows(path), batch_size=8, num_workers=2, multiprocessing_context="fork"
    )
    assert_same(torch.cat(list(loader)), tensors(1)["w0"][:40])


def test_thread_count_can_be_set_from_outside(monkeypatch):
    monkeypatch.setenv("CFCK_NUM_THREADS", "3")
    assert _native.default_thread_count() == 3
    monkeypatch.delenv("CFCK_NUM_THREADS")
    assert 1 <= _native.default_thread_count() <= len(os.sched_getaffinity(0))
