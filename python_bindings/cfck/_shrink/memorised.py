"""Whether a model was trained on the examples: it is surer of these than of any others."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch

from .._evaluation.outputs import Output, log_probabilities, rows_of
from .._evaluation.run import examples_of_rows

# An example of which the model is certain.
_CERTAIN = 0.99
# Of new examples a model is less than certain of more than this part, unless the task is easy.
_MAX_DOUBTED = 0.02
_FEWEST = 64
# What a model loses of examples that it was trained on, over what it loses of others, is at most
# this; and the difference is this many standard errors or more.
_FAR_BELOW, _SURE = 0.75, 3.0


@dataclasses.dataclass(frozen=True)
class Certainty:
    """How sure a model is of examples.

    Attributes:
        losses: cross entropy of each example with its labels, or the entropy of its output; nats.
        has_labels: which of these.
        doubted: part of the rows of output that do not have nearly all of their probability in one
            class.
    """

    losses: torch.Tensor
    has_labels: bool
    doubted: float


def certainty(
    outputs: Sequence[Output], labels: Sequence[torch.Tensor] | None, pool: str
) -> Certainty:
    """Of outputs that are logits, batch by batch."""
    losses, n_doubted, n_rows = [], 0, 0
    for position, output in enumerate(outputs):
        logs = log_probabilities(rows_of(output, "kl", pool))
        n_doubted += int((logs.max(1).values < math.log(_CERTAIN)).sum())
        n_rows += len(logs)
        owners = examples_of_rows(output, len(logs))
        if labels is None:
            terms = torch.where(logs == -torch.inf, 0.0, logs.exp() * logs)
            found = -terms.sum(1)
        else:
            truth = labels[position].reshape(-1).cpu().long()
            if len(truth) != len(logs):
                return certainty(outputs, None, pool)
            counts = (truth >= 0) & (truth < logs.shape[1])
            logs, truth, owners = logs[counts], truth[counts], owners[counts]
            found = -logs.gather(1, truth.unsqueeze(1))[:, 0]
        n = len(output.values)
        rows = torch.bincount(owners, minlength=n)
        summed = torch.zeros(n, dtype=torch.float64).index_add_(0, owners, found.double())
        losses.append((summed / rows)[rows > 0])
    joined = torch.cat(losses) if losses else torch.zeros(0, dtype=torch.float64)
    return Certainty(joined, labels is not None, n_doubted / max(1, n_rows))


def memorised_note(used: Certainty, held: Certainty | None) -> str | None:
    """What there is to say of examples that look as if the model had been trained on them.

    Args:
        used: of the examples that files are made with.
        held: of other ones that the caller gave, if these are known to be new.
    """
    if held is not None and used.has_labels == held.has_labels:
        return _compared(used, held)
    if len(used.losses) < _FEWEST or used.doubted > _MAX_DOUBTED:
        return None
    return (
        f"the model is certain (above {_CERTAIN:g}) of {100 * (1 - used.doubted):.1f} % of its "
        "answers to these examples, as models are of what they were trained on; if it was trained "
        "on them, less is kept on new examples than is promised: give examples that it has not seen"
    )


def _compared(used: Certainty, held: Certainty) -> str | None:
    n_used, n_held = len(used.losses), len(held.losses)
    if min(n_used, n_held) < 2:
        return None
    ours, others = float(used.losses.mean()), float(held.losses.mean())
    error = math.sqrt(float(used.losses.var()) / n_used + float(held.losses.var()) / n_held)
    if not (ours < _FAR_BELOW * others and others - ours > _SURE * error):
        return None
    what = "loss" if used.has_labels else "uncertainty (the entropy of its outputs)"
    return (
        f"the model's mean {what} is {ours:.3g} on batches and {others:.3g} on held_back: it looks "
        "as if it was trained on batches; files get smaller with examples that it has not seen"
    )
