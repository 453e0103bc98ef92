"""examples/distributed/dlrm.py: real and simulated ranks have the same losses, bit for bit."""

import subprocess
import sys
from pathlib import Path

import pytest
from ranks import Raised

EXAMPLES = Path(__file__).parents[3] / "examples" / "distributed"
SETTINGS = {"batch": 512, "steps": 6, "dim": 16, "decay_steps": 4}


def example():
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    import dlrm

    return dlrm


def train(settings):
    dlrm = example()
    trainer, auc = dlrm.train(dlrm.generated(6000, 1), dlrm.Settings(**SETTINGS, **settings))
    return trainer.losses, auc, trainer.bags.traffic.share


def same_losses(ranks, bound):
    n = ranks.n
    real = ranks(train, {"bound": bound})
    assert not any(isinstance(one, Raised) for one in real), real
    losses, auc, _ = real[0]
    assert all(one[:2] == (losses, auc) for one in real)
    assert len(losses) == SETTINGS["steps"] and losses[-1] < losses[0]
    assert all(
        one[:2] == (losses, auc) for one in ranks(train, {"bound": bound, "simulated": True})
    )
    return losses, auc, n, max(share for *_, share in real)


@pytest.mark.parametrize("bound", [0.0, 0.03])
def test_two_ranks_are_what_is_simulated(two, one_thread, bound):
    losses, auc, n, share = same_losses(two, bound)
    assert train({"bound": bound, "ranks": n})[:2] == (losses, auc)
    assert bound == 0 or share < 0.5


def test_four_ranks_are_what_is_simulated(four, one_thread):
    losses, auc, n, _ = same_losses(four, 0.03)
    assert train({"bound": 0.03, "ranks": n})[:2] == (losses, auc)


def test_preferences_are_learned(one_thread):
    dlrm = example()
    settings = dlrm.Settings(batch=512, dim=16, epochs=3, bound=0.03)
    assert dlrm.train(dlrm.generated(20000, 1), settings)[1] > 0.65


def test_movielens_is_read(tmp_path):
    (tmp_path / "u.data").write_text(
        "0\t1\t5\t881250949\n"
        + "".join(f"{1 + i % 3}\t{1 + i % 2}\t{1 + i % 5}\t88125{i:04}\n" for i in range(90))
    )
    (tmp_path / "u.user").write_text(
        "1|24|M|writer|85711\n2|53|F|other|94043\n3|23|M|writer|T8H1N\n"
    )
    flags = "|".join("1" if i in (0, 4) else "0" for i in range(19))
    film = "1|Caf\xe9 (1995)|01-Jan-1995||http://host/a|" + flags + "\n2|unknown||||" + flags + "\n"
    (tmp_path / "u.item").write_bytes(film.encode("latin-1"))
    log = example().movielens(tmp_path)
    assert len(log.labels) == 90 and log.labels.sum() == 36
    assert log.n_rows()["user"] == 4 and log.n_rows()["genres"] == 19
    assert log.inputs(log.split(0)[0][:2])["genres"].indices.tolist() == [0, 4, 0, 4]


def test_torchrun_writes_the_losses_of_one_process(tmp_path):
    common = ["--bound", "0.03", "--steps", "3", "--batch", "256", "--interactions", "3000"]
    script = str(EXAMPLES / "dlrm.py")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    told = []
    for name, arguments in (("real", [*launch, script]), ("one", [script, "--ranks", "2"])):
        losses = ["--losses", str(tmp_path / name)]
        done = subprocess.run(
            [sys.executable, *arguments, *common, *losses],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        told.append(done.stdout)
    assert (tmp_path / "real").read_text() == (tmp_path / "one").read_text()
    assert all("test AUC 0." in one for one in told) and "rows and gradients" in told[0]


def test_help_explains_the_options():
    command = [sys.executable, EXAMPLES / "dlrm.py", "--help"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for words in ("by which the bounds of gradients are smaller (default: 0.1)", "at most"):
        assert words in " ".join(told.split())
