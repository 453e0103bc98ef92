"""A model in as small a file as keeps what it is for: one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .._common.progress import shown
from .._evaluation.types import Batch
from .._options.kinds import Unpack
from .._options.signatures import chosen, complete, takes
from .options import ShrinkOptions
from .result import ShrinkResult

if TYPE_CHECKING:
    import torch


@takes(ShrinkOptions)
def shrink(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    *,
    keep: Mapping[str, float] | Callable[..., float] | None = None,
    size: int | str | None = None,
    bits_per_weight: float | None = None,
    batches: Iterable[Batch] | None = None,
    options: ShrinkOptions | None = None,
    **fields: Unpack[ShrinkOptions],
) -> ShrinkResult:
    """Stores a model in the smallest file that it finds to keep what the model is for.

    Measures how much each tensor matters (as cfck.calibrate does), searches the coarsest steps that
    keep what is asked for, with compensation of errors, has layers make up for the errors of
    earlier ones (as cfck.refine does), and judges the file by examples that it held back, with the
    very values that the file decodes to. The examples that are held back are a sample, and so a
    goal is kept only if it is kept, with the ``confidence`` asked for, on all examples of their
    kind::

        result = cfck.shrink(model, "small.cfck", keep={"cosine": 0.99}, batches=batches)
        load_model(model, "small.cfck")

    Args:
        model: runs in evaluation mode on the device where it is. It is copied, and is what it was
            afterwards, whatever ends the call.
        filename: the .cfck file, which appears complete or not at all, and replaces an old one.
        keep: what the decoded model has to keep, all of these, on examples like those held back:
            {"cosine": 0.99}, the least mean cosine between outputs before and after (of two
            columns or more: for a single one give a function);
            {"kl": 0.05}, the largest mean divergence of distributions, in nats; {"agreement":
            0.98}, the least part with the same largest entry; {"top1": -1.0}, the change of top-1,
            in points; {"perplexity": 1.02}, times that of before. Or a function that takes a
            model and returns a number, with ``at_least`` or ``at_most``, which counts as it is:
            nothing is promised of other examples.
        size: in place of keep: the most that the file may take, in bytes or as "60MB".
        bits_per_weight: in place of keep: likewise, 8 times the bytes of the file over the values
            of all floating tensors.
        batches: inputs of the model, a few hundred examples or more: a tensor, a tuple of
            positional arguments or a dict of keyword arguments each; or (inputs, labels) where
            labels are needed, for top1 and perplexity (for which language models need none: they
            predict the next tokens). Read once. A fourth of the examples is held back, drawn from
            all along the data, to judge by. None: only for a function, a size or bits_per_weight.
        options: how to judge and to search: a dict, or cfck.ShrinkOptions.

    Returns:
        What was written, what it keeps, and what was tried.

    Raises:
        InvalidArgumentError: what is to be kept cannot be (the message says what can), outputs that
            do not react or are not finite, too few examples, also for the confidence (the message
            says how many would do), no labels, or options that do not go together.
        ShrinkInterrupted: Ctrl-C, or a KeyboardInterrupt that ``progress`` or ``report`` raised,
            when a file had been found that keeps everything. The best one has been written, and
            ``result`` of the exception tells of it. Before that, and with a second Ctrl-C, plain
            KeyboardInterrupt: nothing is written, and an old file stays.
        CfckError: what save_file raises.

    Other threads must not use the model meanwhile.
    """
    from .request import job_of
    from .run import Shrinker

    given: dict[str, Any] = {
        "keep": keep,
        "size": size,
        "bits_per_weight": bits_per_weight,
        "batches": batches,
        **complete(ShrinkOptions, chosen(ShrinkOptions, options, fields)),
    }
    report = given["report"]
    if report is not None and report is not False and not callable(report):
        raise TypeError(
            f"report is called with a sentence; False: nothing is; it is not {report!r}"
        )
    told = print if report is None else report or (lambda _: None)
    with shown(given["progress"], "shrink", in_logs=True) as listener:
        job = job_of(model, os.fspath(filename), given)
        return Shrinker(job, listener, told).run()
