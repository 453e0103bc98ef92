"""Measures how looked-up rows of embedding tables compress, against peers.

    CFCK_EMBEDDING_DATA=/path/to/data python bench embeddings -o bench/results

Peers get the same rows, as codes of 8 or of 16 bits, whichever takes fewer bytes, of steps just as
large; compressors of bytes get all tables in one buffer where that takes fewer still. All bytes
count: headers, steps, tables.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import cfck
import cfck.numpy
import torch
import torch.multiprocessing
from cfck._embedding_bench.codes import quantise
from cfck._embedding_bench.encoders import OURS, ByteEncoder, Encoder, encoders
from cfck.embeddings import RowCodec, Rows, absolute_error

from common import report
from common.driver import Benchmark
from common.measure import alternate_samples
from common.targets import COLUMNS as TARGET_COLUMNS
from common.targets import Goal, Targets
from distributed import network
from embeddings import data, exchange_ranks, models, speed_up

BOUNDS = (0.01, 0.03, 0.05)
PEERS = ("zstd-1", "lz4", "huffman")
METHOD = "vector-lz"
TIMES = "{:.3f}".format
# For each bound: against the best of PEERS, against METHOD, and against Zstd-1 without repeats.
RATIO_GOALS = {0.01: (1.2, 1.1, 1.0), 0.03: (1.4, 1.15, 1.05), 0.05: (1.8, 1.2, 1.15)}
LARGE_GOAL = Goal(1.8, 1.8, text=TIMES)
LARGE_BOUND = 0.03
SPEED_GOAL = Goal(1.0, 1.0, text=TIMES)
EPOCHS, FACTOR_EPOCHS = 6, 3
TURNS, REPETITIONS = 4, 10
# Rows that have pages of their own, if they are measured alone.
KINDS = {("speed",): "-speed", ("speed_up",): "-speed-up"}
# The rate at which row_dictionary saves bytes wherever it can, and that of 10 Gbit/s.
SLOW_NETWORK, FAST_NETWORK = 1.25e7, 1.25e9


class Embeddings(Benchmark):
    """The ratios and speeds, and what they must be."""

    name = "embeddings"

    def __init__(self, options: Any, scratch: Path) -> None:
        """Nothing is measured yet."""
        super().__init__(options, scratch)
        torch.set_num_threads(1)
        self.targets = Targets()
        self.lines: list[list[str]] = []
        self.remaining: dict[float, float] = {}
        self.auc = ""
        self.speed_ups: list[speed_up.Result] = []

    @functools.cached_property
    def ratings(self) -> data.Ratings:
        """What the DLRM is trained on."""
        return data.ratings()

    @functools.cached_property
    def lookups(self) -> list[models.Lookups]:
        """What the DLRM looked up in some steps of its training."""
        found, auc = models.dlrm_lookups(self.ratings, 2 if self.options.quick else EPOCHS)
        self.auc = f"{auc:.4f}"
        return found

    @functools.cached_property
    def large(self) -> tuple[str, torch.Tensor, torch.Tensor]:
        """The name of a log, and ids and rows of a large batch of its items."""
        log = data.log()
        return log.name, *models.factor_lookup(log, 1 if self.options.quick else FACTOR_EPOCHS)

    def sizes(self, steps: list[list[torch.Tensor]], bound: float) -> dict[str, float]:
        """The ratio of each encoder over all tables of all steps; ours has a packet for a step."""
        n_bytes = 4 * sum(rows.numel() for step in steps for rows in step)
        codec = RowCodec(SLOW_NETWORK)
        found, missing = encoders(codec)
        if lacking := [name for name in PEERS if name in missing]:
            raise RuntimeError(f"peers are not installed: {', '.join(lacking)}")
        sums = dict.fromkeys((OURS, "direct", METHOD, *PEERS, "ans"), 0)
        for step in steps:
            errors = [absolute_error(rows, bound) for rows in step]
            batches = [Rows(*both) for both in zip(step, errors, strict=True)]
            sums[OURS] += codec.encode(batches).numel()
            for name in [each for each in sums if each != OURS]:
                parts = [found[name](*both).n_bytes for both in zip(step, errors, strict=True)]
                sums[name] += min(sum(parts), _joined_bytes(found[name], step, errors))
        return {name: n_bytes / size for name, size in sums.items()}

    def tell(self, what: str, bound: float, ratios: dict[str, float]) -> None:
        """Adds a line of ratios."""
        self.lines.append([what, f"{bound:g}", *(f"{ratio:.2f}" for ratio in ratios.values())])
        self.say(" | ".join(self.lines[-1]))

    def ratios(self) -> None:
        """All tables of a DLRM, with all their repeated rows."""
        steps = [[rows for _, rows in step] for step in self.lookups]
        for bound in BOUNDS:
            found = self.sizes(steps, bound)
            self.tell("DLRM, batch 2,048", bound, found)
            peer = max(PEERS, key=found.__getitem__)
            must, method, _ = RATIO_GOALS[bound]
            self._judge("ratios", bound, found, peer, must)
            self._judge("ratios", bound, found, METHOD, method)
            self.remaining[bound] = found[OURS] / found[peer]

    def unique_inputs(self) -> None:
        """The same, where each input of a table is looked up and sent once."""
        steps = [[_without_repeats(*table) for table in step] for step in self.lookups]
        for bound in BOUNDS:
            found = self.sizes(steps, bound)
            self.tell("DLRM, inputs once", bound, found)
            self._judge("unique_inputs", bound, found, "zstd-1", RATIO_GOALS[bound][2])
            if bound in self.remaining:
                gain, rest = self.remaining[bound] - 1, found[OURS] / found["zstd-1"] - 1
                what = f"bound {bound:g}: of the gain with repeated inputs remains"
                self.targets.tell("unique_inputs", self.ratings.name, what, f"{rest / gain:.0%}")

    def large_table(self) -> None:
        """The items of a large log."""
        name, ids, rows = self.large
        found = self.sizes([[rows]], LARGE_BOUND)
        self.tell(f"{name}, batch 131,072", LARGE_BOUND, found)
        peer = max(("huffman", "zstd-1"), key=found.__getitem__)
        value = found[OURS] / found[peer]
        what = f"bound {LARGE_BOUND:g}: ratio / that of {peer}"
        self.targets.judge("large", name, what, value, LARGE_GOAL, f"{found[peer]:.2f}")
        share = torch.unique(ids).numel() / len(ids)
        self.targets.tell("large", name, "inputs that differ, of all", f"{share:.1%}")

    def in_files(self) -> None:
        """Files as they are written by default, against those without codec rows."""
        name, _, rows = self.large
        cases = {
            "DLRM, batch 2,048": [rows for step in self.lookups for _, rows in step],
            f"{name}, batch 131,072": [rows],
        }
        for case, tables in cases.items():
            tensors = {str(i): table.numpy() for i, table in enumerate(tables)}
            n_bytes = sum(array.nbytes for array in tensors.values())
            for bound, other in ((None, "lossless"), (LARGE_BOUND, "direct")):
                options: dict[str, Any] = {} if bound is None else {"max_rel_error": bound}
                ratio = n_bytes / len(cfck.numpy.save(tensors, **options))
                plain = n_bytes / len(cfck.numpy.save(tensors, codec=other, **options))
                what = "lossless" if bound is None else f"bound {bound:g}"
                text = f"{what}: ratio {ratio:.2f} / that of codec {other}"
                self.targets.tell("files", case, text, f"{ratio / plain:.2f}")
                self.say(f"{case} {text} {plain:.2f}")

    def speed(self) -> None:
        """Encoding and decoding on one core, against Zstd-1."""
        step = [rows for _, rows in self.lookups[-1]]
        for bound in BOUNDS:
            self._speed(self.ratings.name, step, bound)
        name, _, rows = self.large
        self._speed(f"{name}, batch 131,072", [rows], LARGE_BOUND)

    def speed_up(self) -> None:
        """The formula against steps in namespaces; skipped where these cannot be made."""
        quick = self.options.quick
        n_rounds = speed_up.QUICK_ROUNDS if quick else speed_up.ROUNDS
        try:
            with network.links(speed_up.RANKS) as spaces:
                self.speed_ups = speed_up.measure(
                    functools.partial(self._time_ranks, spaces), n_rounds, self.say
                )
        except network.NotAllowed as reason:
            self.say(f"skipped speed_up: {reason}")
            self.targets.skip("speed_up", "-", str(reason))
            return
        speed_up.judge(self.speed_ups, self.targets)

    def _time_ranks(
        self, spaces: list[str], limits: list[int], batch: int, n_rounds: int
    ) -> dict[str, Any]:
        store, out = self.scratch / f"store-{batch}", self.scratch / f"out-{batch}"
        folder = data.movielens_folder()
        arguments = (str(store), folder and str(folder), str(out), spaces, limits, batch, n_rounds)
        torch.multiprocessing.spawn(exchange_ranks.measure, arguments, nprocs=len(spaces))
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found

    def _speed(self, case: str, step: list[torch.Tensor], bound: float) -> None:
        codec = RowCodec(FAST_NETWORK)
        zstd = encoders(codec)[0]["zstd-1"]
        errors = [absolute_error(rows, bound) for rows in step]
        batches = [Rows(*both) for both in zip(step, errors, strict=True)]
        widths = [getattr(torch, zstd(*both).width) for both in zip(step, errors, strict=True)]

        def encode() -> list[Any]:
            return [zstd.encode(*each) for each in zip(step, errors, widths, strict=True)]

        packet, packed = codec.encode(batches), encode()
        actions: dict[str, Callable[[], object]] = {
            "encode": lambda: codec.encode(batches),
            "encode, peer": encode,
            "decode": lambda: codec.decode(packet),
            "decode, peer": lambda: [zstd.decode(each) for each in packed],
        }
        found = dict.fromkeys(actions, math.inf)
        for _ in range(1 if self.options.quick else TURNS):
            for name, action in actions.items():
                runs = alternate_samples({name: action}, REPETITIONS)[name]
                # Others use the machine: the fastest run says most.
                found[name] = min(found[name], *(run.wall for run in runs))
        gigabytes = sum(rows.nbytes for rows in step) / 1e9
        for what in ("encode", "decode"):
            ours, peer = (gigabytes / found[name] for name in (what, f"{what}, peer"))
            text = f"bound {bound:g}: {what}, {ours:.2f} GB/s / that of zstd-1"
            self.targets.judge("speed", case, text, ours / peer, SPEED_GOAL, f"{peer:.2f} GB/s")
            self.say(f"{case} {text} {peer:.2f}")

    def _judge(
        self, row: str, bound: float, found: dict[str, float], peer: str, must: float
    ) -> None:
        what = f"bound {bound:g}: ratio {found[OURS]:.2f} / that of {peer}"
        goal = Goal(must, must, text=TIMES)
        value = found[OURS] / found[peer]
        self.targets.judge(row, self.ratings.name, what, value, goal, f"{found[peer]:.2f}")

    rows: ClassVar[Mapping[str, Callable[[Embeddings], None]]] = {
        "ratios": ratios,
        "unique_inputs": unique_inputs,
        "large": large_table,
        "files": in_files,
        "speed": speed,
        "speed_up": speed_up,
    }

    def fail(self, row: str, reason: str) -> None:
        """Errors stand in the table of targets."""
        self.targets.fail(row, "-", reason)

    def failed(self) -> bool:
        """Whether a target was missed."""
        return self.targets.failed()

    def facts(self) -> dict[str, str]:
        """Versions and data."""
        found = {"cfck": cfck.__version__, "torch": torch.__version__}
        if self.auc:
            found["DLRM"] = f"{self.ratings.name}, AUC {self.auc}, {len(self.lookups)} steps kept"
        return found

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """One page; those of speeds or speed-ups alone have names of their own."""
        head = report.page_head("Lookups of embedding tables", command, facts)
        body = ["", "## Targets", "", report.markdown_table(TARGET_COLUMNS, self.targets.lines)]
        if self.lines:
            columns = ["lookups", "bound", OURS, "direct", METHOD, *PEERS, "ans"]
            body += ["## Ratios", "", report.markdown_table(columns, self.lines)]
        if self.speed_ups:
            lines = [speed_up.table_line(one) for one in self.speed_ups]
            body += ["## Speed-ups", "", report.markdown_table(speed_up.COLUMNS, lines)]
        kind = KINDS.get(tuple(self.options.rows), "")
        return {f"embeddings{kind}-{report.file_stem(facts)}.md": "\n".join([*head, *body])}


def _joined_bytes(peer: Encoder, step: list[torch.Tensor], errors: list[float]) -> float:
    """The size where a compressor gets the codes of all tables in one buffer."""
    if not isinstance(peer, ByteEncoder):
        return math.inf
    sizes = []
    for width in (torch.int8, torch.int16):
        codes = [quantise(*both, width) for both in zip(step, errors, strict=True)]
        joined = b"".join(each.values.numpy().tobytes() for each in codes)
        side_bytes = sum(each.side_bytes() for each in codes)
        sizes.append(side_bytes + len(peer.compress(memoryview(joined))))
    return min(sizes)


def _without_repeats(ids: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The row of each input that occurs, in the order of the inputs."""
    values, numbers = torch.unique(ids, return_inverse=True)
    first = torch.empty_like(values)
    first[numbers] = torch.arange(len(ids))
    return rows[first].contiguous()


COMMAND = Embeddings
