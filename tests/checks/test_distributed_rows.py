"""What `bench distributed` keeps between its sittings, and what it makes of it."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
torch = pytest.importorskip("torch")
targets_of = pytest.importorskip("common.targets")
resnet = pytest.importorskip("distributed.resnet")
resnet_ranks = pytest.importorskip("distributed.resnet_ranks")
Runs = pytest.importorskip("distributed.runs").Runs

SCORES = {"dense": 80.0, "1 %": 79.8, "0.1 %, warm-up of 4 epochs": 79.0}


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
    assert first == {"seed": 1, "epochs": 12, "top1": [1.0]}
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
    assert [seed for seed, _ in trained] == [1, 1, 1, 2, 2]
    lines = resnet.measure(train, images(), runs, 2, False, print)
    assert trained[4:6] == [(2, {"ratio": 0.01})] * 2 and len(trained) == 7
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
