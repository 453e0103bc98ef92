"""What `bench distributed` keeps between its sittings, and what it makes of it."""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))
torch = pytest.importorskip("torch")
targets_of = pytest.importorskip("common.targets")
bandwidth = pytest.importorskip("distributed.bandwidth")
network = pytest.importorskip("distributed.network")
resnet = pytest.importorskip("distributed.resnet")
resnet_ranks = pytest.importorskip("distributed.resnet_ranks")
timed_ranks = pytest.importorskip("distributed.timed_ranks")
Runs = pytest.importorskip("distributed.runs").Runs

SCORES = {
    "dense": 80.0,
    "1 %": 79.8,
    "1 %, warm-up of 4 epochs": 79.9,
    "0.1 %, warm-up of 4 epochs": 79.0,
    "1 %, warm-up of 4 epochs, no masking": 79.75,
    "0.1 %, warm-up of 4 epochs, no masking": 79.5,
}


def images():
    random = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (300, 3, 32, 32), dtype=torch.uint8, generator=random)
    return pixels, torch.arange(300) % 10


def test_a_training_is_made_once(tmp_path):
    runs, made = Runs(tmp_path / "new" / "runs.jsonl"), []

    def train():
        made.append(1)
        return {"top1": [1.0]}

    first = runs.once({"seed": 1, "epochs": 12}, train)
    assert (first["seed"], first["epochs"], first["top1"]) == (1, 12, [1.0])
    assert set(first) == {"seed", "epochs", "top1", "processor", "cores", "commit"}
    assert Runs(tmp_path / "new" / "runs.jsonl").once({"seed": 1, "epochs": 12}, train) == first
    assert len(made) == 1
    runs.once({"seed": 1, "epochs": 3}, train)
    assert len(made) == 2
    assert len((tmp_path / "new" / "runs.jsonl").read_text().splitlines()) == 2


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text('{"seed": 1}\n{"see')
    with pytest.raises(ValueError, match=r"runs\.jsonl, line 2 is not JSON .*delete that line"):
        Runs(path).once({"seed": 2}, dict)


def test_an_interrupted_row_goes_on_where_it_ended(tmp_path):
    runs, trained = Runs(tmp_path / "runs.jsonl"), []

    def train(kind, pixels, labels):
        assert pixels.is_shared() and labels.is_shared()
        trained.append((kind.seed, kind.compression))
        if len(trained) == 5:
            raise KeyboardInterrupt
        return {"top1": [1.0, 2.0, 3.0], "seconds": [9.0]}

    with pytest.raises(KeyboardInterrupt):
        resnet.measure(train, images(), runs, 2, False, print)
    n_methods = len(resnet.METHODS)
    assert [seed for seed, _ in trained] == ([1] * n_methods + [2] * n_methods)[:5]
    lines = resnet.measure(train, images(), runs, 2, False, print)
    # The one that was interrupted is made again, those before it are not.
    assert trained[4] == trained[5] and len(trained) == 2 * n_methods + 1
    assert [(line["seed"], line["communication"]) for line in lines] == [
        (seed, method) for seed in (1, 2) for method in resnet.METHODS
    ]
    assert all(json.loads(json.dumps(line)) == line for line in lines)


def test_sparse_gradients_are_judged_by_what_they_lose_beside_dense_ones():
    lines = [
        {"communication": method, "seed": seed, "epochs": 12, "top1": [score + seed] * 3}
        for method, score in SCORES.items()
        for seed in (1, 2, 3)
    ]
    targets = targets_of.Targets()
    resnet.judge(lines, targets)
    told = {line[2]: (line[3], line[-1]) for line in targets.lines}
    assert told["1 %: lost"] == ("0.20 points", targets_of.REACHED)
    assert told["0.1 %, warm-up of 4 epochs: lost"] == ("1.00 points", targets_of.FAILED)
    assert ("82.00 ± 0.58 %", "info") in told.values()


def test_ranks_train_on_different_images_in_the_same_order_for_all_methods():
    pixels, labels = images()
    numbered = torch.arange(300)
    found = [
        list(resnet_ranks._batches(rank, 1, 0, 2, pixels, numbered)) for rank in range(4)
    ]  # fmt: skip
    places = torch.cat([places for batches in found for _, places in batches])
    assert len(places) == 256 and len(set(places.tolist())) == 256
    again = list(resnet_ranks._batches(2, 1, 0, 2, pixels, numbered))
    assert all(
        torch.equal(a, b)
        for x, y in zip(found[2], again, strict=True)
        for a, b in zip(x, y, strict=True)
    )
    other = list(resnet_ranks._batches(2, 2, 0, 2, pixels, numbered))
    assert not torch.equal(found[2][0][1], other[0][1])
    assert resnet_ranks._rate(0.0, 12) == 0.01 and resnet_ranks._rate(1.0, 12) == 1.0
    assert resnet_ranks._rate(12.0, 12) == pytest.approx(0.0)


def timed(milliseconds, kilobytes):
    return timed_ranks.Timed(milliseconds / 1e3, kilobytes * 1e3)


def test_where_a_way_pays():
    dense = timed(100, 7500)
    assert bandwidth.break_even(timed(110, 2500), dense) == pytest.approx(4000)  # 40 Mbit in 10 ms
    assert bandwidth.break_even(timed(90, 2500), dense) == math.inf
    assert bandwidth.break_even(timed(110, 7500), dense) == 0.0
    assert bandwidth.computed(dense, 100) == pytest.approx(0.7)
    assert bandwidth.computed(dense, 4000) == bandwidth.computed(timed(110, 2500), 4000)


def test_the_table_and_the_picture_of_bandwidths():
    free = {way: timed(100 + 5 * i, 7500 / (i + 1)) for i, way in enumerate(timed_ranks.WAYS)}
    found = {bandwidth.FREE: free}
    for limit in (1000, 100):
        slow = {way: bandwidth.computed(one, limit) * 1e3 for way, one in free.items()}
        found[limit] = {way: timed(slow[way], 0) for way in free}
    lines = bandwidth.table(found)
    assert all(len(line) == len(bandwidth.COLUMNS) for line in lines)
    assert lines[0] == ["dense", "7,500", "100", "10.00", "6.25", "6.25", "1.43", "1.43", "-"]
    assert lines[1][-1] == "6,000"
    targets = targets_of.Targets()
    bandwidth.judge(found, targets, 2)
    assert len(targets.lines) == 6 and not targets.failed()
    svg = bandwidth.picture(found, 2)
    assert all(f"data-series='{way.replace(chr(39), '&#x27;')}'" in svg for way in free)
    assert all(f">{rate}</text>" in svg for rate in ("10", "100", "1,000", "10,000"))


def test_steps_count_by_limit_and_without_those_of_the_warm_up():
    def step(at):
        if at < 2:
            return timed(999, 0)
        is_meeting = (at + 1) % timed_ranks.TIMED_EVERY == 0
        return timed(40, 31) if is_meeting else timed(10, 1)

    limits = [1000, 100]
    steps = [(limits[at % 2], timed_ranks.LOCAL, step(at)) for at in range(18)]
    steps += [(limits[at % 2], timed_ranks.DENSE, timed(20 + at % 7, at % 2)) for at in range(18)]
    found = timed_ranks.typical(steps, limits)
    # Meetings are at an odd place, and so at the second limit.
    assert found[1000][timed_ranks.LOCAL] == {"seconds": 0.01, "sent": 1000.0}
    assert found[100][timed_ranks.LOCAL]["seconds"] == pytest.approx(0.011)
    assert found[100][timed_ranks.LOCAL]["sent"] == pytest.approx(2000)
    assert found[100][timed_ranks.DENSE] == {"seconds": 0.022, "sent": 1000.0}


@pytest.fixture
def allowed():
    try:
        with network.links(1):
            pass
    except network.NotAllowed as reason:
        pytest.skip(str(reason))


def namespaces():
    folder = Path("/var/run/netns")
    return {path.name for path in folder.glob("*")} if folder.exists() else set()


def run_in(name, *arguments):
    command = ["ip", "netns", "exec", name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_namespaces_reach_each_other_at_a_limited_rate_and_are_removed(allowed):
    before = namespaces()
    with pytest.raises(ZeroDivisionError), network.links(2) as names:
        assert len(namespaces() - before) == 3 and set(names) < namespaces() - before
        for rate in (100, 1000):
            network.limit(names, rate)
        hub = names[0].removesuffix("0") + "hub"
        assert "rate 1Gbit" in run_in(names[0], "tc", "qdisc")
        assert run_in(hub, "tc", "qdisc").count("rate 1Gbit") == 2
        script = (
            "import sys; sys.path.insert(0, sys.argv[1]); import socket; "
            "from distributed import network; network.enter(sys.argv[2]); "
            "server = socket.create_server(('10.0.0.1', 9)); network.enter(sys.argv[3]); "
            "a = socket.create_connection(('10.0.0.1', 9), 10); b, _ = server.accept(); "
            "network.enter(sys.argv[2]); first = network.sent_bytes(); "
            "network.enter(sys.argv[3]); first_of_other = network.sent_bytes(); "
            "a.sendall(bytes(10000)); n = 0\n"
            "while n < 10000: n += len(b.recv(10000))\n"
            "assert network.sent_bytes() - first >= 10000"
        )
        command = [sys.executable, "-c", script, str(BENCH), *names]
        subprocess.run(command, check=True, timeout=60)
        raise ZeroDivisionError
    assert namespaces() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_namespaces_are_removed_after_a_signal(allowed, number):
    before = namespaces()
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import time; "
        "from distributed import network\n"
        "with network.links(2): print('ready', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(BENCH)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        assert len(namespaces() - before) == 3
        # `timeout` does it like this: once to the process, and then to its group, which has the
        # program that removes a namespace in it.
        process.send_signal(number)
        for _ in range(10):
            time.sleep(0.005)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        assert process.wait(60) != 0
    assert namespaces() == before


def test_namespaces_of_a_killed_process_are_removed_by_the_next(allowed):
    before = namespaces()
    subprocess.run(["ip", "netns", "add", "cfck-bench-999999999-0"], check=True)
    with network.links(1):
        assert "cfck-bench-999999999-0" not in namespaces()
    assert namespaces() == before


def test_what_is_not_allowed_is_said(monkeypatch):
    monkeypatch.setattr(network.shutil, "which", lambda program: None)
    with pytest.raises(network.NotAllowed, match="there is no program ip: install iproute2"):
        with network.links(1):
            pass
    monkeypatch.setattr(network.shutil, "which", lambda program: program)
    said = subprocess.CompletedProcess([], 1, "", "Operation not permitted\n")
    monkeypatch.setattr(network.subprocess, "run", lambda *_, **__: said)
    message = "take root, or CAP_NET_ADMIN and CAP_SYS_ADMIN: ip netns add .*not permitted"
    with pytest.raises(network.NotAllowed, match=message), network.links(1):
        pass
