"""A thread that decodes ahead of the model."""

from __future__ import annotations

import os
import threading
import weakref
from queue import SimpleQueue
from typing import Protocol


class Job(Protocol):
    """A piece of work that keeps its own result and errors."""

    def run(self) -> None: ...


_Queue = SimpleQueue["Job | None"]


class Worker:
    """Runs jobs in a thread, which starts with the first one and ends with this object.

    A forked child has a thread of its own. No job runs during a fork, so that a child finds no
    lock of the library taken.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy = threading.Lock()
        self._queue: _Queue | None = None
        _WORKERS.add(self)

    def submit(self, job: Job) -> None:
        """Has a job run soon."""
        with self._lock:
            if self._queue is None:
                self._queue = self._start()
            self._queue.put(job)

    def _start(self) -> _Queue:
        queue: _Queue = SimpleQueue()
        thread = threading.Thread(
            target=_work, args=(queue, self._busy), name="cfck-prefetch", daemon=True
        )
        thread.start()
        # Also at exit: a thread that wakes up in native code after that would end the process.
        weakref.finalize(self, _stop, queue, thread)
        return queue

    def before_fork(self) -> None:
        """Waits for the job that runs, and lets no other one start."""
        self._lock.acquire()
        self._busy.acquire()

    def after_fork(self) -> None:
        """Goes on, in the parent."""
        self._busy.release()
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Begins anew: the child has no thread but the one that forked."""
        self._lock = threading.Lock()
        self._busy = threading.Lock()
        self._queue = None


def _work(queue: _Queue, busy: threading.Lock) -> None:
    while True:
        job = queue.get()
        if job is None:
            return
        with busy:
            job.run()
        del job  # else it would live until the next one comes


def _stop(queue: _Queue, thread: threading.Thread) -> None:
    queue.put(None)
    # The last reference may be dropped by the thread itself.
    if thread is not threading.current_thread():
        thread.join()


_WORKERS: weakref.WeakSet[Worker] = weakref.WeakSet()
_paused: list[Worker] = []


def _before_fork() -> None:
    for worker in list(_WORKERS):
        worker.before_fork()
        _paused.append(worker)


def _after_fork() -> None:
    while _paused:
        _paused.pop().after_fork()


def _after_fork_in_child() -> None:
    while _paused:
        _paused.pop().after_fork_in_child()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
)
