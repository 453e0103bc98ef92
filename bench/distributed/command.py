"""Measures what ranks send each other, compressed and not, and what that does to training.

    python bench distributed -o bench/results

Four ranks of one thread each, with the backend gloo, train a small network; bench/README.md says
what the rows are. Bytes are those that rank 0 sends to each other rank, headers and hashes
included.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch.multiprocessing

from common import report
from common.driver import Benchmark
from common.targets import COLUMNS as TARGET_COLUMNS
from common.targets import Goal, Targets
from distributed import (
    bandwidth,
    network,
    packets,
    replica_ranks,
    resnet,
    resnet_ranks,
    timed_ranks,
)
from distributed.gpt_ranks import RANKS, Kind, train
from distributed.runs import Runs
from training import images

STEPS = 20
WEIGHTS_GOAL = Goal(0.67, 0.65, smaller=True, text="{:.4f}".format)
GRADIENTS_GOAL = Goal(0.68, 0.68, smaller=True, text="{:.4f}".format)
DENSE = Kind("dense", weights=False, gradients=None)
WEIGHTS = Kind("weights without loss", weights=True, gradients=None)
BOTH = Kind("weights and gradients without loss", weights=True, gradients=0.0)
BOUNDED = Kind("gradients within 0.01 RMS", weights=True, gradients=0.01)
# For each ratio: goals for matrices and for all tensors, and what values of F16 with places of
# int32 reach.
PACKETS = {
    0.01: (Goal(250, 270), Goal(180, 180), 67),
    0.001: (Goal(1900, 2050), Goal(430, 430), 663),
}
RUNS = Path(__file__).parent.parent / "results" / "distributed-runs.jsonl"
SPARSE = {"ratio": 0.01}
SPARSE_OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"is_adam": False, "rate": 0.3},
    # A second moment that lasts as long as values wait to be sent.
    "AdamW 0.999": {"is_adam": True, "rate": 1e-3, "betas": (0.9, 0.999)},
}
# Optimizers that have momentum of their own get what is sent with error feedback alone; or they
# make steps on each rank, of which a part is sent.
SPARSE_WAYS: dict[str, dict[str, dict[str, Any]]] = {
    "SGD": {"dense": {}, "1 %": {"compression": SPARSE | {"momentum": 0.9}}},
    "AdamW 0.999": {
        "dense": {},
        "1 %": {"compression": SPARSE | {"momentum": 0.0}},
        "1 %, warm-up of 400 steps": {
            "compression": SPARSE | {"momentum": 0.0, "warmup_epochs": 4},
            "epoch_steps": 100,
        },
        "1 % of each step": {"local": SPARSE | {"bits": None}, "every": 1},
        "25 % of every 16 steps, 2 bits": {"local": {"ratio": 0.25, "bits": 2}, "every": 16},
    },
}
SPARSE_STEPS, SPARSE_SEEDS = 1000, 2
LOCAL_ROUNDS = 10
LOCAL_LOSS_GOAL = Goal(1.01, 1.0, smaller=True, text="{:.4f}".format)
LOCAL_BYTES_GOAL = Goal(4000, 4000, text="{:.0f}".format)
LOCAL_KINDS = [
    replica_ranks.Kind("dense DistributedDataParallel"),
    replica_ranks.Kind("local steps without compression", {"ratio": 1.0, "bits": None}),
    replica_ranks.Kind("local steps, 2 %, 2 bits", {}),
]
PACK_GOAL = Goal(350, 250, smaller=True, text="{:.0f} us".format)
ADD_GOAL = Goal(100, 100, smaller=True, text="{:.0f} us".format)
REPLICA_COLUMNS = ["communication", "validation loss"]
COLUMNS = [
    "communication",
    "weights sent",
    "gradients sent",
    "ms a step",
    "first loss",
    "last loss",
]


class Distributed(Benchmark):
    """The table, and what it must show."""

    name = "distributed"

    def __init__(self, options: Any, scratch: Path) -> None:
        """Nothing is measured yet."""
        super().__init__(options, scratch)
        self.lines: list[list[str]] = []
        self.local_lines: list[list[str]] = []
        self.resnet_lines: list[list[str]] = []
        self.timed: bandwidth.Found = {}
        self.targets = Targets()
        self.runs = Runs(scratch / "runs.jsonl" if options.quick else options.runs)
        self.n_runs = 0

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Rows whose trainings are kept have some of their own, and so has row `bandwidth`."""
        super().add_options(parser)
        parser.add_argument(
            "--runs", type=Path, default=RUNS, help="a file that keeps trainings that have ended"
        )
        parser.add_argument(
            "--seeds", type=int, default=resnet.SEEDS, help="of row resnet (default: %(default)s)"
        )

        parser.add_argument(
            "--ranks", type=int, default=bandwidth.RANKS,
            help="of row bandwidth (default: %(default)s)",
        )  # fmt: skip

    @classmethod
    def default_rows(cls, options: argparse.Namespace) -> list[str]:
        """Not those that take hours."""
        return [row for row in cls.rows if row not in ("resnet", "sparse")]

    def fsdp(self) -> None:
        """All kinds, one after the other."""
        dense = self._train(DENSE)
        weights = self._train(WEIGHTS)
        share = self._share(weights, "weights")
        self.targets.judge("fsdp", "GPT, BF16", "all-gather, of dense bytes", share, WEIGHTS_GOAL)
        self._compare("losses and weights, all-gather compressed", weights, dense, "dense")
        both = self._train(BOTH)
        share = self._share(both, "gradients")
        what = "reduce-scatter without loss, of dense bytes"
        self.targets.judge("fsdp", "GPT, BF16", what, share, GRADIENTS_GOAL)
        again = self._train(BOTH)
        self._compare("losses and weights, both compressed", again, both, "the same run before")
        bounded = self._train(BOUNDED)
        share = self._share(bounded, "gradients")
        what = "reduce-scatter within 0.01 RMS, of dense bytes"
        self.targets.tell("fsdp", "GPT, BF16", what, f"{share:.4f}")

    def packets(self) -> None:
        """Sizes of packets, and how long they take for each MB of dense F32."""
        tensors = packets.gradients()
        for ratio, (of_matrices, of_all, reference) in PACKETS.items():
            case = f"GPT gradients, {ratio:.1%}"
            kinds = {
                "dense F32 / packet, matrices": ([t for t in tensors if t.dim() > 1], of_matrices),
                "dense F32 / packet, all tensors": (tensors, of_all),
            }
            for what, (chosen, goal) in kinds.items():
                dense = 4 * sum(t.numel() for t in chosen)
                value = dense / packets.packet_bytes(chosen, ratio)
                self.targets.judge("packets", case, what, value, goal, f"{reference}: F16, int32")
            found = packets.times(ratio, 3 if self.options.quick else packets.REPETITIONS)
            peer = f"{found['torch operations']:.0f} us of torch operations"
            what = "accumulate, select and pack, each MB"
            packing = found["select and pack"]
            self.targets.judge("packets", case, what, packing, PACK_GOAL, peer)
            what = "unpack and add, each MB"
            self.targets.judge("packets", case, what, found["unpack and add"], ADD_GOAL)

    def local(self) -> None:
        """Local steps, sparse and not, beside dense communication, on the same tokens."""
        steps = (
            2 * replica_ranks.EVERY if self.options.quick else LOCAL_ROUNDS * replica_ranks.EVERY
        )
        found = {}
        for kind in LOCAL_KINDS:
            found[kind.name] = self._spawn(replica_ranks.train, kind, steps)
            self._tell_replicas(kind, found[kind.name])
        dense, whole, sparse = (found[kind.name] for kind in LOCAL_KINDS)
        case = f"GPT, {steps} steps"
        what = "validation loss / that of local steps without compression"
        ratio = sparse["loss"] / whole["loss"]
        self.targets.judge(
            "local", case, what, ratio, LOCAL_LOSS_GOAL, f"dense {dense['loss']:.4f}"
        )
        sent, all_bytes = sparse["traffic"]
        what = "bytes of dense F32 for each that is sent"
        self.targets.judge("local", case, what, all_bytes / sent, LOCAL_BYTES_GOAL)

    def sparse(self) -> None:
        """Deep gradient compression from random weights on, beside dense communication."""
        steps = 40 if self.options.quick else SPARSE_STEPS
        n_seeds = 1 if self.options.quick else SPARSE_SEEDS
        for name, optimizer in SPARSE_OPTIMIZERS.items():
            found = {
                how: [
                    self._kept_replicas(
                        replica_ranks.Kind(
                            f"{name}, {how}, seed {seed}",
                            is_new=True,
                            seed=seed,
                            **optimizer,
                            **options,
                        ),
                        steps,
                    )
                    for seed in range(n_seeds)
                ]
                for how, options in SPARSE_WAYS[name].items()
            }
            case = f"GPT, {steps} steps of {name}"
            dense = sum(line["loss"] for line in found.pop("dense"))
            for how, lines in found.items():
                ratio = sum(line["loss"] for line in lines) / dense
                what = f"validation loss, {how}, / that of dense communication, means"
                self.targets.judge("sparse", case, what, ratio, LOCAL_LOSS_GOAL)
                sent, all_bytes = lines[-1]["traffic"]
                what = f"bytes of dense F32 for each that is sent, {how}"
                self.targets.tell("sparse", case, what, f"{all_bytes / sent:.0f}")

    def resnet(self) -> None:
        """ResNet-20 from random weights; trainings that have ended are kept in a file."""
        options = self.options
        found = resnet.measure(
            lambda *given: self._spawn(resnet_ranks.train, *given),
            images.pixels(self.scratch),
            self.runs,
            1 if options.quick else options.seeds,
            options.quick,
            self.say,
        )
        self.resnet_lines = [resnet.table_line(line) for line in found]
        resnet.judge(found, self.targets)

    def bandwidth(self) -> None:
        """Steps per second between ranks whose network is slow; skipped where it cannot be made."""
        options = self.options

        def train(ways: list[str], spaces: list[str], *given: Any) -> dict[str, Any]:
            return self._spawn(timed_ranks.train, ways, spaces, *given, ranks=len(spaces))

        n_rounds = bandwidth.QUICK_ROUNDS if options.quick else bandwidth.ROUNDS
        try:
            self.timed = bandwidth.measure(train, options.ranks, n_rounds, self.say)
        except network.NotAllowed as reason:
            self.say(f"skipped bandwidth: {reason}")
            self.targets.skip("bandwidth", "-", str(reason))
            return
        bandwidth.judge(self.timed, self.targets, options.ranks)

    def _kept_replicas(self, kind: replica_ranks.Kind, steps: int) -> dict[str, Any]:
        """A training of row `sparse`, made now or in an earlier sitting."""
        key = {"row": "sparse", "communication": kind.name, "steps": steps}
        found = self.runs.once(key, lambda: self._spawn(replica_ranks.train, kind, steps))
        self._tell_replicas(kind, found)
        return found

    def _tell_replicas(self, kind: replica_ranks.Kind, found: Mapping[str, Any]) -> None:
        self.local_lines.append([kind.name, f"{found['loss']:.4f}"])
        self.say(" | ".join(self.local_lines[-1]))

    def _spawn(
        self, function: Callable[..., None], kind: Any, *given: Any, ranks: int = RANKS
    ) -> dict[str, Any]:
        self.n_runs += 1
        store, out = self.scratch / f"store{self.n_runs}", self.scratch / f"out{self.n_runs}"
        arguments = (str(store), kind, str(out), *given)
        torch.multiprocessing.spawn(function, arguments, nprocs=ranks)
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found

    def _train(self, kind: Kind) -> dict[str, Any]:
        found = self._spawn(train, kind, 4 if self.options.quick else STEPS)
        shares = [self._share(found, what) for what in ("weights", "gradients")]
        cells = [f"{share:.4f}" if share < 1 else "1" for share in shares]
        losses = [f"{found['losses'][at]:.6f}" for at in (0, -1)]
        self.lines.append([kind.name, *cells, f"{1e3 * found['seconds']:.0f}", *losses])
        self.say(" | ".join(self.lines[-1]))
        return found

    def _share(self, found: dict[str, Any], what: str) -> float:
        sent, dense = found[what]
        return sent / dense if dense else 1.0

    def _compare(self, what: str, one: dict[str, Any], other: dict[str, Any], name: str) -> None:
        if one["losses"] != other["losses"] or one["sums"] != other["sums"]:
            raise RuntimeError(f"{what} are not those of {name}")
        self.targets.tell("fsdp", "GPT, BF16", what, "equal bit for bit", name)

    rows: ClassVar[Mapping[str, Callable[[Distributed], None]]] = {
        "fsdp": fsdp,
        "packets": packets,
        "local": local,
        "sparse": sparse,
        "resnet": resnet,
        "bandwidth": bandwidth,
    }

    def fail(self, row: str, reason: str) -> None:
        """Errors stand in the table of targets."""
        self.targets.fail(row, "-", reason)

    def failed(self) -> bool:
        """Whether a target was missed."""
        return self.targets.failed()

    def facts(self) -> dict[str, str]:
        """Versions."""
        import cfck

        return {
            "cfck": cfck.__version__,
            "torch": torch.__version__,
        }

    def _sizes(self, row: str) -> dict[str, str]:
        """What a page says of the trainings of its rows."""
        ranks, is_quick = RANKS, self.options.quick
        sizes = {}
        if row == "fsdp":
            sizes["steps"] = str(4 if is_quick else STEPS)
        if row == "bandwidth":
            ranks = self.options.ranks
            sizes["rounds"] = str(bandwidth.QUICK_ROUNDS if is_quick else bandwidth.ROUNDS)
        return {"ranks": f"{ranks}, gloo, one thread each"} | sizes

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """A page of the rows that take minutes, and one for each of the others."""
        tables = {
            ("fsdp", "packets"): ("Training", COLUMNS, self.lines),
            ("local", "sparse"): ("Replicas", REPLICA_COLUMNS, self.local_lines),
            ("resnet",): ("Trainings", resnet.COLUMNS, self.resnet_lines),
            ("bandwidth",): ("Steps", bandwidth.COLUMNS, bandwidth.table(self.timed)),
        }
        files = {}
        for rows, (title, columns, lines) in tables.items():
            targets = [line for line in self.targets.lines if line[0] in rows]
            if not targets:
                continue
            about = facts | self._sizes(rows[0])
            head = report.page_head("Compressed communication of ranks", command, about)
            body = ["", "## Targets", "", report.markdown_table(TARGET_COLUMNS, targets)]
            if lines:
                body += [f"## {title}", "", report.markdown_table(columns, lines)]
            part = "" if "fsdp" in rows else f"{rows[-1]}-"
            name = f"distributed-{part}{report.file_stem(facts)}"
            if rows == ("bandwidth",) and self.timed:
                files[f"{name}.svg"] = bandwidth.picture(self.timed, self.options.ranks)
                body += [f"![Steps per second]({name}.svg)", ""]
            files[f"{name}.md"] = "\n".join([*head, *body])
        return files


COMMAND = Distributed
