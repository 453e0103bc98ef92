"""Saving is atomic, checked, and can be watched and stopped."""

import os
import signal
import stat
import subprocess
import sys
import textwrap

import cfck
import pytest
import torch
from cfck._io import save as _save
from cfck.torch import load, load_file, save, save_file
from conftest import assert_same, weights


def big():
    return {f"w{i}": weights(700, 800, seed=i) for i in range(4)}


def more():
    return {f"more{i}": weights(700, 800, seed=9 + i) for i in range(4)}


def only(path):
    return sorted(entry.name for entry in path.parent.iterdir()) == [path.name]


# Lossless, and with a maximum error.
BOUNDS = [{}, {"max_sigma_error": 1e-3}]


@pytest.mark.parametrize("options", [{}, {"verify": True}, {"fsync": False}, {"codec": "raw"}])
def test_options(path, options):
    save_file(big(), path, **options)
    for name, tensor in load_file(path).items():
        assert_same(tensor, big()[name])
    assert only(path)


def test_verify_finds_what_the_disk_changed_and_keeps_the_old_file(path):
    def damage(done_bytes, total_bytes, name):
        if done_bytes == total_bytes:
            (temporary,) = (entry for entry in path.parent.iterdir() if entry != path)
            with open(temporary, "r+b") as file:
                file.seek(1000)
                file.write(b"damaged")

    save_file({"old": weights(3)}, path)
    with pytest.raises(cfck.ChecksumError):
        save_file(big(), path, codec="raw", verify=True, progress=damage)
    assert list(load_file(path)) == ["old"]
    assert only(path)


def test_an_existing_file_is_replaced_and_keeps_its_permissions(path):
    path.write_bytes(b"old")
    path.chmod(0o640)
    save_file({"a": weights(3)}, path)
    assert_same(load_file(path)["a"], weights(3))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_saving_over_the_file_that_was_loaded(path):
    save_file(big(), path)
    loaded = load_file(path, backend="mmap")
    save_file(loaded, path)
    for name, tensor in load_file(path).items():
        assert_same(tensor, big()[name])


def test_a_symbolic_link_is_followed(tmp_path):
    target, link = tmp_path / "target.cfck", tmp_path / "link.cfck"
    save_file({"a": weights(3)}, target)
    link.symlink_to(target)
    save_file({"b": weights(4)}, link)
    assert link.is_symlink()
    assert list(load_file(target)) == ["b"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bound", BOUNDS)
def test_an_exception_of_the_callback_ends_the_call_and_keeps_the_old_file(path, bound, threads):
    class Stop(Exception):
        pass

    def stop(done_bytes, total_bytes, name):
        if done_bytes > total_bytes // 3:
            raise Stop(name)

    save_file(big(), path, **bound)
    before = path.read_bytes()
    options = {"progress": stop, "threads": threads}
    for call in (
        lambda: save_file({**big(), "more": weights(9)}, path, **options, **bound),
        lambda: save(big(), **options, **bound),
        lambda: cfck.update(path, more(), **options, **bound),
        lambda: load_file(path, **options),
        lambda: cfck.numpy.load_file(path, **options),
    ):
        with pytest.raises(Stop):
            call()
    assert path.read_bytes() == before
    assert only(path)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bound", BOUNDS)
def test_progress_of_an_update_counts_what_is_added(path, bound, threads):
    save_file(big(), path)
    calls: list[tuple[int, int, str]] = []
    report = lambda *args: calls.append(args)  # noqa: E731
    cfck.update(path, more(), progress=report, threads=threads, **bound)
    total = sum(4 * tensor.numel() for tensor in more().values())
    done = [args[0] for args in calls]
    assert done == sorted(done) and len(done) >= 4
    assert calls[-1][:2] == (total, total)
    assert {args[2] for args in calls} == set(more())
    assert set(load_file(path)) == {*big(), *more()}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bound", BOUNDS)
def test_progress_counts_to_the_total(path, bound, threads):
    total = sum(4 * tensor.numel() for tensor in big().values())
    for call in (
        lambda report: save_file(big(), path, progress=report, threads=threads, **bound),
        lambda report: load_file(path, progress=report, threads=threads),
    ):
        calls: list[tuple[int, int, str]] = []
        call(lambda *args, calls=calls: calls.append(args))
        done = [args[0] for args in calls]
        assert done == sorted(done) and len(done) > 4
        assert calls[-1][:2] == (total, total)
        assert {args[2] for args in calls} == set(big())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("call", ["save", "save with a bound", "update"])
def test_a_signal_handler_that_raises_ends_the_call(path, call, threads):
    """Interrupts as Ctrl-C does. The handler runs while the native code works, not after it."""
    program = textwrap.dedent(
        """
        import os, pathlib, signal, sys, threading, time
        import numpy as np
        import cfck
        import cfck.numpy

        # Whoever started this process may have told it to ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        path, call, threads = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
        cfck.numpy.save_file({"old": np.arange(3)}, path)
        old = path.read_bytes()
        generator = np.random.Generator(np.random.PCG64(1))
        piece = generator.standard_normal((500, 1000), dtype=np.float32)

        def work(n_tensors):
            # Not equal to each other: every one is encoded.
            tensors = {f"w{i}": piece * np.float32(1 + i / 7) for i in range(n_tensors)}
            if call == "update":
                cfck.update(path, tensors, threads=threads, codec="lossless")
            elif call == "save":
                cfck.numpy.save_file(tensors, path, threads=threads, codec="lossless")
            else:
                cfck.numpy.save_file(tensors, path, threads=threads, max_sigma_error=1e-3)

        def something_is_written():
            if call == "update":
                return path.stat().st_size > len(old)
            return any(e != path and e.stat().st_size for e in path.parent.iterdir())

        def interrupt_once_something_is_written(done):
            while not something_is_written():
                if done.wait(0.001):
                    return
            os.kill(os.getpid(), signal.SIGINT)

        # More work each time, until the signal arrives in the middle of it.
        for n_tensors in (50, 200, 800):
            path.write_bytes(old)
            done = threading.Event()
            killer = threading.Thread(target=interrupt_once_something_is_written, args=[done])
            try:
                killer.start()
                work(n_tensors)
                done.set()
                killer.join()
            except KeyboardInterrupt:
                killer.join()
                if path.read_bytes() == old:
                    print("interrupted")
                    break
        """
    )
    command = [sys.executable, "-c", program, str(path), call, str(threads)]
    words = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert words == ["interrupted"]
    assert list(load_file(path)) == ["old"]
    assert only(path)


def test_killed_while_saving(path):
    program = textwrap.dedent(
        """
        import os, signal, sys
        import numpy as np
        import cfck.numpy

        def die(done_bytes, total_bytes, name):
            if done_bytes > total_bytes // 2:
                os.kill(os.getpid(), signal.SIGKILL)

        arrays = {f"w{i}": np.arange(300000) * i for i in range(8)}
        cfck.numpy.save_file(arrays, sys.argv[1], progress=die)
        """
    )
    save_file(big(), path)
    before = path.read_bytes()
    result = subprocess.run([sys.executable, "-c", program, str(path)])
    assert result.returncode == -signal.SIGKILL
    assert path.read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_folder(path):
    path.parent.chmod(0o500)
    try:
        with pytest.raises(OSError, match="model.cfck"):
            save_file({"a": weights(3)}, path)
    finally:
        path.parent.chmod(0o700)


def test_a_write_that_fails_keeps_the_old_file(path):
    program = textwrap.dedent(
        """
        import resource, sys
        import numpy as np
        import cfck.numpy

        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            cfck.numpy.save_file({"x": np.zeros(10**6)}, sys.argv[1], codec="raw")
        except OSError as error:
            print(type(error).__name__, error)
        """
    )
    path.write_bytes(b"old")
    command = [sys.executable, "-c", program, str(path)]
    words = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert words.startswith("IoError") and str(path.parent) in words
    assert path.read_bytes() == b"old"
    assert only(path)


def test_paths_of_every_kind(tmp_path):
    for filename in (tmp_path / "p.cfck", str(tmp_path / "s.cfck"), tmp_path / "ä.cfck"):
        save_file({"a": weights(3)}, filename)
        assert_same(load_file(filename)["a"], weights(3))
    raw = os.fsencode(tmp_path) + b"/\xff.cfck"
    save_file({"a": weights(3)}, os.fsdecode(raw))
    assert os.path.exists(raw)
    assert_same(load_file(os.fsdecode(raw))["a"], weights(3))


def test_many_small_tensors():
    tensors = {f"block.{i}.bias": torch.full((16,), float(i)) for i in range(3000)}
    loaded = load(save(tensors))
    assert list(loaded) == list(tensors)
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())


def thread_count():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("Threads"))


def test_no_thread_is_left_behind(path):
    before = thread_count()
    save_file(big(), path, threads=4)
    load_file(path, threads=4)
    assert thread_count() == before


def stored(path, data, metadata=None, **options):
    return _save.write_stored(data, path, metadata, options)


@pytest.mark.parametrize("bound", BOUNDS)
def test_files_in_memory_become_what_saving_them_would_have_made(tmp_path, bound):
    tensors = {**big(), "raw": torch.rand(1000, dtype=torch.float64), "few": torch.arange(5)}
    tensors["noise"] = torch.randint(0, 256, (3_000_000,), dtype=torch.uint8)
    tensors["tied"] = tensors["w1"]
    path, other = tmp_path / "a.cfck", tmp_path / "b.cfck"
    for metadata in ({}, {"step": "1"}, {"step": "a longer entry" * 100, "more": ""}):
        save_file(tensors, path, metadata, **bound)
        n_bytes = stored(other, save(tensors, {"step": "1"}, **bound), metadata)
        assert other.read_bytes() == path.read_bytes() and n_bytes == path.stat().st_size


def test_what_cannot_be_stored_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.cfck"
    data = save(big())
    stored(path, data)
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 1
    for wrong, metadata in ((bytes(damaged), {}), (data[:-1], {}), (b"", {}), (data, {"a": 1})):
        with pytest.raises((cfck.CfckError, TypeError)):
            stored(path, wrong, metadata)
        assert path.read_bytes() == data and only(path)
    with pytest.raises(FileNotFoundError):
        stored(tmp_path / "none" / "a.cfck", data)
