"""How long decoded weights live, and the thread that decodes ahead."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from cfck._streaming.weight import Weight
from cfck.torch import compressed, save_model
from conftest import assert_same
from streamed_models import assert_equal_outputs, pair, scrambled
from torch import nn


def deep(n_layers: int = 6, width: int = 64) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(*[nn.Linear(width, width) for _ in range(n_layers)])


def prefetchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "cfck-prefetch"]


def settle(layer: nn.Module) -> None:
    """Waits until the other thread has decoded what is to come."""
    ahead = layer._cfck_supply._lane.ahead
    end = time.monotonic() + 10
    while ahead is not None and ahead._weight is not None and time.monotonic() < end:
        time.sleep(0.001)


def ended(thread: threading.Thread) -> bool:
    thread.join(5)
    return not thread.is_alive()


@pytest.fixture
def decoded(monkeypatch):
    """The names of weights that were decoded and the thread that did it; and those alive."""

    class Decoded:
        def __init__(self) -> None:
            self.calls = []
            self.tensors = []
            self.most_alive = 0

        def alive(self) -> int:
            return sum(one() is not None for one in self.tensors)

        def names(self) -> list[str]:
            return [name for name, _ in self.calls]

    found = Decoded()
    decode = Weight.decode

    def watched(weight):
        tensor = decode(weight)
        found.calls.append((weight.name, threading.current_thread().name))
        found.tensors.append(weakref.ref(tensor))
        found.most_alive = max(found.most_alive, found.alive())
        return tensor

    monkeypatch.setattr(Weight, "decode", watched)
    return found


X = torch.ones(2, 64)


@pytest.mark.parametrize("prefetch", [False, True])
def test_two_weights_are_alive_at_most(path, decoded, prefetch):
    streamed, expected = pair(deep(), path, {"prefetch": prefetch})
    for _ in range(4):
        assert_same(streamed(X), expected(X))
    settle(streamed[0])
    assert decoded.most_alive <= (2 if prefetch else 1)
    assert decoded.alive() == (1 if prefetch else 0)  # the first layer, for the next run
    assert 24 <= len(decoded.calls) <= 25
    if not prefetch:
        assert {thread for _, thread in decoded.calls} == {"MainThread"}


def test_the_order_is_learned_and_learned_again(path, decoded):
    model = deep()
    streamed, _ = pair(model, path)
    first = [f"{i}.weight" for i in range(6)]
    for order in (first, list(reversed(first)), first[::2]):
        layers = [streamed[int(name[0])] for name in order]
        for run in range(4):
            decoded.calls.clear()
            for layer in layers:
                layer(X)
                settle(layer)
            assert set(order) <= set(decoded.names())
            if run > 1:
                ahead = [name for name, thread in decoded.calls if thread == "cfck-prefetch"]
                assert ahead[-len(order) :] == [*order[1:], order[0]]


def test_weights_that_one_operation_needs_live_together(path, decoded):
    streamed, expected = pair(nn.LSTM(64, 64, 3), path)
    for run in range(3):
        assert_equal_outputs(streamed, expected, torch.ones(4, 2, 64), runs=1)
        assert 6 * (run + 1) <= len(decoded.calls) <= 6 * (run + 1) + 2  # some ahead
    assert decoded.alive() <= 1


def test_attention_decodes_each_weight_once(path, decoded):
    streamed, _ = pair(nn.MultiheadAttention(64, 4).eval(), path, {"prefetch": False})
    rows = torch.ones(3, 2, 64)
    for grad in (torch.no_grad, torch.enable_grad):
        with grad():
            decoded.calls.clear()
            streamed(rows, rows, rows)
            assert sorted(decoded.names()) == ["in_proj_weight", "out_proj.weight"]
    assert decoded.alive() == 0


def test_an_error_in_a_layer_lets_go_of_its_weight(path, decoded):
    streamed, _ = pair(deep(), path)
    with pytest.raises(RuntimeError):
        streamed[0](torch.ones(3, 5))
    assert decoded.alive() == 0


def test_a_layer_used_alone_starts_no_thread(path):
    before = prefetchers()
    streamed, _ = pair(deep(), path, {"prefetch": False})
    streamed(X), streamed(X)
    assert prefetchers() == before


def test_the_thread_ends_with_the_model(path):
    before = set(prefetchers())
    gc.collect()
    gc.disable()
    try:
        streamed, _ = pair(deep(), path)
        streamed(X), streamed(X)
        (thread,) = set(prefetchers()) - before
        kept = streamed[2]
        del streamed
        assert thread.is_alive()
        kept(X)
        del kept
        assert ended(thread)
    finally:
        gc.enable()


def test_memory_of_the_old_weights_is_freed(path):
    model = deep()
    save_model(model, path)
    old = [weakref.ref(layer.weight) for layer in model]
    compressed(model, path)
    assert all(one() is None for one in old)


def test_memory_stays_below_that_of_the_model(tmp_path):
    """A model of 256 MB runs in a small part of that."""
    script = f"""
    import resource, sys, torch
    from torch import nn
    import cfck.torch
    path = {str(tmp_path / "a.cfck")!r}
    def model():
        return nn.Sequential(*[nn.Linear(1024, 1024, bias=False) for _ in range(64)])
    if sys.argv[1] == "save":
        torch.manual_seed(1)
        cfck.torch.save_model(model().bfloat16(), path)
    else:
        with torch.device("meta"):
            empty = model()
        x = torch.ones(1, 1024)
        nn.Linear(1024, 1024)(x)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        streamed = cfck.torch.compressed(empty, path)
        with torch.no_grad():
            for _ in range(3):
                streamed(x)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
    """
    grown = ""
    for step in ("save", "run"):
        command = [sys.executable, "-c", textwrap.dedent(script), step]
        grown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert int(grown) < 32 << 20


@pytest.mark.parametrize("prefetch", [False, True])
def test_many_threads_run_one_model(path, prefetch):
    model = nn.Sequential(nn.Embedding(500, 64), *deep())
    streamed, expected = pair(model, path, {"prefetch": prefetch}, chunk_elems=4096)

    def run(seed):
        ids = torch.randint(0, 500, (4, 9), generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            for _ in range(3):
                assert_same(streamed(ids), expected(ids))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(64)))


def test_many_threads_convert_copies(path):
    model = deep()
    save_model(model, path)

    def run(_):
        assert_equal_outputs(compressed(scrambled(model), path), model, X)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(16)))


def in_child(action) -> int:
    """The exit code of a forked child; it is killed if it hangs."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(20)
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_children_run_the_model(path, one_thread):
    model = nn.Sequential(nn.Embedding(500, 64), *deep())
    streamed, expected = pair(model, path)
    ids = torch.randint(0, 500, (4, 9))
    streamed(ids), streamed(ids)

    def run():
        assert not prefetchers()
        assert_equal_outputs(streamed, expected, ids)
        assert len(prefetchers()) == 1

    def nested():
        streamed(ids)
        assert in_child(run) == 0

    stop = threading.Event()

    def busy():
        while not stop.is_set():
            streamed(ids)

    assert in_child(run) == 0
    assert in_child(nested) == 0
    other = threading.Thread(target=busy)
    other.start()
    try:
        for _ in range(10):
            assert in_child(lambda: assert_equal_outputs(streamed, expected, ids)) == 0
    finally:
        stop.set()
        other.join()
    assert_equal_outputs(streamed, expected, ids)


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "raise SystemExit", "del streamed"])
def test_the_thread_does_not_keep_the_process(path, ending):
    save_model(deep(8, 512), path)
    script = f"""
    import sys, torch, cfck.torch
    from torch import nn
    with torch.device("meta"):
        model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(8)])
    streamed = cfck.torch.compressed(model, {str(path)!r})
    for _ in range(2):
        streamed(torch.ones(1, 512))
    del model
    print("done")
    {ending}
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_children_that_exit_in_the_usual_way(path):
    save_model(deep(), path)
    script = f"""
    import os, sys, torch, cfck.torch
    from torch import nn
    torch.set_num_threads(1)
    streamed = cfck.torch.compressed(
        nn.Sequential(*[nn.Linear(64, 64) for _ in range(6)]), {str(path)!r}
    )
    streamed(torch.ones(1, 64)), streamed(torch.ones(1, 64))
    child = os.fork()
    if child == 0:
        if len(sys.argv) > 1:
            streamed(torch.ones(1, 64))
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    for arguments in ([], ["run"]):
        command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr


def test_a_reference_to_a_weight_is_the_callers(path):
    streamed, expected = pair(deep(), path)
    weight = streamed[0].weight
    assert streamed[0].weight is weight
    for _ in range(3):
        streamed(X)
    assert_same(weight, expected[0].weight.detach())


def test_memory_is_used_again_when_nobody_has_it(path):
    streamed, expected = pair(deep(6, 256), path, {"prefetch": False})
    buffers = streamed[0]._cfck_supply.buffers
    x = torch.ones(2, 256)
    addresses = {streamed[i].weight.data_ptr() for i in range(6) for _ in range(3)}
    streamed(x)
    assert len(addresses) <= 2
    assert len(buffers._idle) + len(buffers._lent) <= 2
    held = [streamed[i].weight[3:, 5:] for i in range(6)]
    raw = [torch.from_dlpack(streamed[i].weight) for i in range(6)]
    assert_equal_outputs(streamed, expected, x)
    for i in range(6):
        assert_same(held[i], expected[i].weight[3:, 5:].detach())
        assert_same(raw[i], expected[i].weight.detach())
    del held, raw
    assert len(buffers._idle) + len(buffers._lent) <= 2
    assert_equal_outputs(streamed, expected, x)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_does_not_write_into_its_parent(path, one_thread):
    streamed, expected = pair(deep(6, 256), path)
    x = torch.ones(2, 256)
    streamed(x)
    weight = streamed[0].weight
    assert in_child(lambda: [streamed(x) for _ in range(4)] and None) == 0
    assert_same(weight, expected[0].weight.detach())
    assert in_child(lambda: weight.zero_() and None) in (0, 1)
    assert_same(weight, expected[0].weight.detach())


def test_tensors_of_many_sizes(path):
    torch.manual_seed(2)
    sizes = [64, 2048, 80, 1000, 64, 513, 64]
    layers = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False)]
    streamed, expected = pair(nn.Sequential(*layers), path)
    assert_equal_outputs(streamed, expected, torch.ones(2, 64), runs=5)
    assert len(streamed[0]._cfck_supply.buffers._idle) <= 2
