"""Results tell what a call of shrink() did."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from .goals import COSTS, exact

if TYPE_CHECKING:
    from .._evaluation.result import Evaluation


# The entry of a file's metadata with goal, outcome and confidence, as JSON.
METADATA_KEY = "cfck.shrink"


@dataclasses.dataclass(frozen=True)
class ShrinkTrial:
    """A file that was tried.

    Attributes:
        step: the common step of all tensors.
        bits_per_weight: 8 times the bytes of the file over the values of all floating tensors.
        outcome: what it kept on the examples held back, by the names of the goals.
        bounds: what it keeps on all examples of their kind, with the confidence asked for, by the
            same names; without a caller's own number.
        refined: whether layers made up for the errors of earlier ones.
        met: whether all goals were met with that confidence.
    """

    step: float
    bits_per_weight: float
    outcome: dict[str, float]
    bounds: dict[str, float]
    refined: bool
    met: bool


@dataclasses.dataclass(frozen=True)
class ShrinkResult:
    """The file that shrink() wrote, and its outcome.

    Attributes:
        filename: the file.
        file_bytes: its length.
        original_bytes: bytes of all tensors in memory.
        n_weights: values of all floating tensors, tied ones once.
        bits_per_weight: 8 * file_bytes / n_weights: everything in the file counts.
        goal: what had to be kept, by name; empty where a size was given.
        kept: what was kept, by the same names, measured on the examples that were held back with
            the values that the file decodes to; with a size, what evaluate() measures.
        bounds: what is kept on all examples of the kind of those held back, with ``confidence``:
            the least cosine, the largest divergence, and so on, by the same names. Empty for a
            function and for sizes.
        confidence: of each of these; None where there are none.
        n_held_back: examples that were held back from calibration and refinement.
        n_used: examples that these used.
        evaluation: how the decoded model differs on the held-back examples; None without batches.
        refined: whether the file has refined values (cfck.refine).
        vector_bits: significant bits that tensors of one dimension (norms, biases) were rounded to;
            None: they kept all.
        trials: the files that were tried, in order.
        interrupted: whether the search was cut short, so that smaller files were not tried.
        notes: what there is to know about the data and the goals, a sentence each.
        seconds: the time that the call took.
    """

    filename: str
    file_bytes: int
    original_bytes: int
    n_weights: int
    bits_per_weight: float
    goal: dict[str, float]
    kept: dict[str, float]
    bounds: dict[str, float]
    confidence: float | None
    n_held_back: int
    n_used: int
    evaluation: Evaluation | None
    refined: bool
    vector_bits: int | None
    trials: tuple[ShrinkTrial, ...]
    interrupted: bool
    notes: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        ratio = self.original_bytes / max(1, self.file_bytes)
        size = f"{ratio:.1f} times smaller"
        if ratio < 1.05:
            size = (
                "about the size of the original"
                if ratio > 0.95
                else f"{1 / ratio:.1f} times larger"
            )
        lines = [
            f"{self.filename}: {self.file_bytes:,} bytes, {self.bits_per_weight:.3f} bits per "
            f"weight with everything in the file, {size}"
        ]
        for name, value in self.kept.items():
            wanted = f" (wanted {exact(self.goal[name])})" if name in self.goal else ""
            where = f" on {self.n_held_back} held-back examples" if self.n_held_back else ""
            lines.append(f"kept {name} {exact(value)}{wanted}{where}")
            if name in self.bounds and self.confidence is not None:
                side = "at most" if name in COSTS else "at least"
                lines.append(
                    f"on other examples of their kind {name} is {side} {exact(self.bounds[name])}, "
                    f"with a confidence of {100 * self.confidence:g} %"
                )
        refined = ", refined" if self.refined else ""
        ended = "; interrupted, so smaller files may keep as much" if self.interrupted else ""
        lines.append(f"{len(self.trials)} files tried{refined}; {self.seconds:.0f} s{ended}")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)


class ShrinkInterrupted(KeyboardInterrupt):
    """shrink() was interrupted, and has written the best file that it had found.

    Attributes:
        result: tells of the file, as if shrink() had returned it.
    """

    def __init__(self, result: ShrinkResult) -> None:
        super().__init__(f"interrupted; the best file so far was written to {result.filename}")
        self.result = result
