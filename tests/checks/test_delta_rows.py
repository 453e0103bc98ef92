"""What `bench delta` computes of pairs of weights, and what it judges."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))
torch = pytest.importorskip("torch")
pytest.importorskip("zstandard")
targets_of = pytest.importorskip("common.targets")
Missing = pytest.importorskip("common.peers").Missing
codec_alone = pytest.importorskip("delta.codec_alone")
pairs = pytest.importorskip("delta.pairs")
peers = pytest.importorskip("delta.peers")
training = pytest.importorskip("delta.training")


def normal(shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def step(kind="bf16"):
    """Two tensors before and after a small step."""
    old = {"a": normal((64, 128)), "b": normal((16, 128), 2)}
    new = {name: value + 1e-3 * normal(value.shape, 3) for name, value in old.items()}
    return pairs.Pair("step", pairs.cast(old, kind, old), pairs.cast(new, kind, old))


def test_index_and_value_count_elements_that_differ():
    old = {"a": torch.tensor([1.0, 0.0, 3.0, 4.0], dtype=torch.bfloat16)}
    new = {"a": torch.tensor([1.0, -0.0, 3.5, 4.0], dtype=torch.bfloat16)}
    pair = pairs.Pair("two", old, new)
    assert pair.changed() == 0.5
    assert peers.SIZES[peers.INDEX](pair) == 2 * 6


def test_codes_have_the_scales_of_the_base():
    base = torch.zeros(2, 64)
    base[0, 0], base[0, 1], base[1, 0] = 7.0, -3.0, 14.0
    packed = pairs.cast({"a": base}, "int4", {"a": base})["a"].reshape(2, 32)
    assert packed.dtype == torch.uint8
    assert packed[0, 0] == (8 + 7) | (8 - 3) << 4 and packed[1, 0] == (8 + 7) | 8 << 4
    again = pairs.cast({"a": base / 7}, "int4", {"a": base})["a"].reshape(2, 32)
    assert again[0, 0] == (8 + 1) | 8 << 4
    eights = pairs.cast({"a": base}, "f8", {"a": base})["a"]
    assert eights.dtype == torch.float8_e4m3fn and float(eights[0, 0]) == 448
    assert pairs.numbers_of(eights).dtype == np.uint8


@pytest.mark.parametrize("kind", ["f32", "bf16", "f8", "int4"])
def test_peers_code_all_kinds(kind):
    pair = step(kind)
    found = {peer: peers.SIZES[peer](pair) for peer in peers.OF_BYTES}
    assert all(0 < size for size in found.values())
    unchanged = pairs.Pair("same", pair.old, pair.old)
    assert peers.SIZES[peers.INDEX](unchanged) == 0 and unchanged.changed() == 0
    assert peers.SIZES[peers.XOR_1](unchanged) < 100


@pytest.mark.parametrize("peer", [peers.PATCH_FROM, peers.ZIPNN, peers.MOONCLIP])
def test_a_peer_that_is_not_installed_says_so(peer, monkeypatch):
    monkeypatch.setenv("PATH", "")
    for package in ("zipnn", "moonclip"):
        monkeypatch.setitem(sys.modules, package, None)
    found = peers.SIZES[peer](step())
    assert isinstance(found, Missing) and "not installed" in found.reason


def test_a_table_for_each_exponent_of_the_base():
    # Of the values of one exponent half change by one unit, those of the other one do not.
    old = torch.tensor([1.0] * 8 + [2.0] * 8, dtype=torch.bfloat16)
    bits = old.view(torch.int16).clone()
    bits[:4] += 1
    pair = pairs.Pair("half", {"a": old}, {"a": bits.view(torch.bfloat16)})
    assert peers.entropy_given_exponent(pair) == pytest.approx(8 / 8)
    # The order of negative values is that of their magnitudes, backwards: again one unit.
    negative = pairs.Pair("half", {"a": -old}, {"a": -pair.new["a"]})
    assert peers.entropy_given_exponent(negative) == pytest.approx(8 / 8)


@pytest.mark.parametrize("joined", [0, 1, 2])
def test_enlarged_weights_change_as_often_and_have_no_equal_tensors(joined):
    pair = step()
    large = pairs.enlarged(pair, 100_000, joined=joined)
    assert pairs.bytes_of(large.new).size == 5 * pairs.bytes_of(pair.new).size
    assert large.changed() == pytest.approx(pair.changed())
    assert len(large.new) == {0: 10, 1: 5, 2: 3}[joined]
    assert len({pairs.bytes_of({"": t}).tobytes() for t in large.new.values()}) == len(large.new)
    others = pairs.enlarged(pair, 100_000, joined=joined, first=5)
    assert not any((large.new[k] == t).all() for k, t in others.new.items())


def test_a_training_is_made_once_and_again_where_it_was_cut_off(tmp_path, monkeypatch):
    made = []

    def steps(rate, seed):
        made.append((rate, seed))
        for n in range(1, training.FIRST + max(training.STEPS) + 1):
            if len(made) == 1 and n > training.FIRST + 1:
                raise KeyboardInterrupt
            yield n, {"wte.weight": torch.full((2, 2), float(n))}

    monkeypatch.setattr(training, "_weights_of_steps", steps)
    with pytest.raises(KeyboardInterrupt):
        training.train(1e-6, 3, tmp_path)
    paths = training.train(1e-6, 3, tmp_path)
    assert training.train(1e-6, 3, tmp_path) == paths and made == [(1e-6, 3)] * 2
    after = [float(training.load(path)["wte.weight"][0, 0]) for path in paths]
    assert after == [training.FIRST + n for n in (0, *training.STEPS)]
    assert not list(tmp_path.glob("*.unfinished"))
    training.train(1e-6, 4, tmp_path)
    assert made[-1] == (1e-6, 4)


def sizes_of(**fields):
    module = pytest.importorskip("delta.sizes")
    given = {
        "name": "step", "changed": 0.05, "n_dense": 100_000, "n_patch": 1000,
        "n_container": 100, "n_without_base": 2000, "of_entropy": 0.99,
        "peers": {peers.XOR_1: 2450, peers.PLANES_19: 1400, peers.INDEX: 6000,
                  peers.MOONCLIP: Missing(peers.MOONCLIP, "not installed")},
    }  # fmt: skip
    return module, module.Sizes(**{**given, **fields})


def test_sizes_are_judged_by_the_share_that_changed():
    module, found = sizes_of()
    targets = targets_of.Targets()
    module.judge("bf16", found, module.musts_of_bf16(1e-6, found.changed), targets)
    told = {line[4]: line[-1] for line in targets.lines}
    assert told[peers.XOR_1] == told[peers.INDEX] == targets_of.REACHED
    assert told[peers.PLANES_19] == targets_of.FAILED
    assert module.musts_of_bf16(1e-6, 0.11)[peers.XOR_1] == 2.2
    assert module.musts_of_bf16(1e-4, 0.59) == {peers.XOR_1: 1.9}
    line = found.line()
    assert len(line) == len(module.COLUMNS)
    assert line[-1] == "not available" and line[4:6] == ["100", "100.0"] and "2.45" in line


def test_the_size_of_a_pair_has_the_container_in_it():
    module = pytest.importorskip("delta.sizes")
    pair = step()
    found = module.measure(pair, [peers.XOR_1])
    assert found.n_patch == len(module.patch_of(pair)) < found.n_without_base
    assert 100 < found.n_container < 500 and found.of_entropy is not None
    assert list(found.peers) == [peers.XOR_1]


def test_a_patch_larger_than_without_a_base_fails_and_a_missed_aim_does_not():
    module, found = sizes_of(n_without_base=999, of_entropy=1.2)
    targets = targets_of.Targets()
    module.judge("bf16", found, {}, targets)
    assert [line[-1] for line in targets.lines] == [targets_of.TOLD, targets_of.FAILED]
    assert targets.lines[0][5] == "-"


def test_the_program_of_the_codec_becomes_a_row(tmp_path):
    found = {"changed": 0.01, "dense_bytes": 100, "delta_bytes": 10}
    found |= {f"{speed}_gb_s": 1.5 for speed in codec_alone._SPEEDS}
    program = tmp_path / "delta_bench"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(found)}'\n")
    program.chmod(0o755)
    row = codec_alone.measure(program, step(), 1, tmp_path)
    assert row == ["step", "1.00 %", "10.0"] + ["1.50"] * 6
    assert len(row) == len(codec_alone.COLUMNS)


def test_speeds_are_those_of_the_best_runs():
    speeds = pytest.importorskip("delta.speeds")
    runs = {speeds.OURS: [[2.0, 0.5, 1.0], [1.0, 0.5, 1.0]], speeds.PEER: [[1.0], [0.5]]}
    speed = speeds.Speed(3 * 10**9, runs)
    assert (speed.ours, speed.peer) == (3.0, 2.0)
    assert speed.cells() == ["3.00", "2.00", "1.50", "2.00"]


def test_the_peer_of_the_speeds_gives_the_new_values():
    speeds = pytest.importorskip("delta.speeds")
    pair = step()
    model = {k: pairs.numbers_of(t).view(np.uint8).copy() for k, t in pair.old.items()}
    peer = speeds.XorPeer(pair, model)
    peer.apply(peer.make())
    assert all((model[k] == pairs.numbers_of(t).view(np.uint8)).all() for k, t in pair.new.items())


def test_speeds_compare_and_check_what_is_applied():
    speeds = pytest.importorskip("delta.speeds")
    pair = step()
    before = pairs.bytes_of(pair.old).copy()
    found = speeds.compare([pair, pair], 3)
    for speed in found.values():
        assert speed.n_bytes == 2 * before.size
        assert all(len(part) == 3 for runs in speed.seconds.values() for part in runs)
    assert (pairs.bytes_of(pair.old) == before).all()


def test_all_rows_run_and_make_a_page(tmp_path, monkeypatch):
    command = pytest.importorskip("delta.command")
    driver = pytest.importorskip("common.driver")

    monkeypatch.setattr(pairs, "of_training", lambda kind, *_: step(kind))
    monkeypatch.setattr(pairs, "of_checkpoints", lambda first, second: step("f32"))
    monkeypatch.setattr(command, "LARGE_BYTES", 100_000)
    monkeypatch.setattr(command, "PART_BYTES", 100_000)
    monkeypatch.setattr(command.codec_alone, "measure", lambda *arguments: ["x"] * 9)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "delta_bench").touch()
    arguments = ["--quick", "--build", str(tmp_path), "--pairs", str(tmp_path / "pairs")]
    options = driver.parse(command.COMMAND, arguments)
    run = command.COMMAND(options, tmp_path)
    run.run(options.rows)
    assert [line for line in run.targets.lines if line[2] == "error"] == []
    assert len(run.size_lines) == 10 + 3 + 1 + 9 + 9 and len(run.codec_lines) == 5
    assert [line[:1] + line[2:3] for line in run.speed_lines] == [
        [layout, what] for layout in command.LAYOUTS for what in ("make", "apply")
    ]
    assert sum(line[0] == "memory" for line in run.targets.lines) == 2
    [(name, page)] = run.files({"processor": "P", "cores": "2"}, "python bench delta").items()
    assert name == "delta-p-2-cores.md"
    assert all(f"## {title}" in page for title in ("Targets", "Bytes", "Speeds", "The codec alone"))
