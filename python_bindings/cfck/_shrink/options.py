"""The options of shrink() that most calls leave alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from .._common.progress import Progress
from .._evaluation.types import Pool
from .._options.signatures import declare

if TYPE_CHECKING:
    import torch


class ShrinkOptions(TypedDict, total=False):
    """The options of shrink(). All may be left out.

    at_least: for a function as keep: the least number that is to be kept.
    at_most: for a function as keep: the largest.
    confidence: of each goal of keep: in this part of all calls, with examples drawn anew, the
        goal is kept over all examples of their kind. From 0.5, where what was measured counts
        as it is, to 0.999. More confidence takes more bits, and more examples fewer.
    held_back: other batches, of the same kind, to judge by; all of ``batches`` is used then. A
        note says so if the model is much surer of ``batches``, as it is of what it was trained
        on.
    inputs: takes the model's input out of a batch; needed only where it does not show.
    labels: takes the labels out of a batch; likewise.
    output: takes the tensor that counts out of what the model returns. Otherwise .logits,
        .last_hidden_state, or the first floating tensor.
    pool: how outputs of shape (examples, positions, features) become the rows compared, as for
        calibrate().
    n_examples: about how many are used at most: of a list of batches spread over all of them,
        of other iterables the first ones.
    metadata: str to str, kept beside the tensors.
    seed: of all that is drawn.
    threads: worker threads of the codec; 0: the CPUs this process may use.
    progress: called as progress(done, total, name): steps that are done, steps in all (about),
        and what is at hand. What it raises ends the call. None: after three seconds a line on
        stderr tells the same if that is a terminal, and a line a minute where it is a file or a
        pipe; True: a line on stderr in any case; False: nothing does.
    report: called with a sentence after each step; None: prints it; False: nothing does.
    """

    at_least: float | None
    at_most: float | None
    confidence: float
    held_back: Iterable[Any] | None
    inputs: Callable[[Any], object] | None
    labels: Callable[[Any], torch.Tensor] | None
    output: Callable[..., torch.Tensor] | None
    pool: Pool
    n_examples: int
    metadata: Mapping[str, str] | None
    seed: int
    threads: int
    progress: Progress | bool | None
    report: Callable[[str], object] | Literal[False] | None


declare(
    ShrinkOptions,
    at_least=None,
    at_most=None,
    confidence=0.95,
    held_back=None,
    inputs=None,
    labels=None,
    output=None,
    pool="auto",
    n_examples=2000,
    metadata=None,
    seed=0,
    threads=0,
    progress=None,
    report=None,
)
