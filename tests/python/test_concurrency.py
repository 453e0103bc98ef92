"""Threads, forks, and the GIL."""

import multiprocessing
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import cfck
import pytest
import torch
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


@pytest.mark.parametrize("call", ["save", "load", "compress", "slice"])
def test_the_gil_is_released(path, call):
    """A Python thread goes on counting while native code works."""
    state = {"w": weights(4000, 2000)}
    save_file(state, path, threads=1)
    calls = {
        "save": lambda: save(state, threads=1),
        "load": lambda: load_file(path, threads=1),
        "compress": lambda: cfck.compress(state["w"], threads=1),
        "slice": lambda: cfck.safe_open(path, "pt", threads=1).get_slice("w")[1:],
    }
    calls[call]()
    ticks: list[float] = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.0005)

    ticker = threading.Thread(target=tick)
    ticker.start()
    start = time.monotonic()
    for _ in range(3):
        calls[call]()
    end = time.monotonic()
    stop.set()
    ticker.join()
    during = [start, *(t for t in ticks if start < t < end), end]
    longest = max(b - a for a, b in zip(during, during[1:], strict=False))
    assert len(during) > 5
    # Holding the GIL would make the longest gap at least one whole call.
    assert longest < 0.6 * (end - start) / 3


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
    from cfck import _native

    monkeypatch.setenv("CFCK_NUM_THREADS", "3")
    assert _native.default_thread_count() == 3
    monkeypatch.delenv("CFCK_NUM_THREADS")
    assert 1 <= _native.default_thread_count() <= len(os.sched_getaffinity(0))
