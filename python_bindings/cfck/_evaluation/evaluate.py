"""Two models compared on the same inputs, such as one before and after compression."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

from .result import Evaluation
from .types import Batch, Pool

if TYPE_CHECKING:
    import torch


def evaluate(
    model_a: torch.nn.Module,
    model_b: torch.nn.Module,
    batches: Iterable[Batch],
    *,
    inputs: Callable[[Batch], object] | None = None,
    labels: Callable[[Batch], torch.Tensor] | Iterable[torch.Tensor] | None = None,
    language_model: bool = False,
    output: Callable[..., torch.Tensor] | None = None,
    kind: Literal["auto", "logits", "embeddings"] = "auto",
    pool: Pool = "auto",
) -> Evaluation:
    """Runs two models on the same inputs and compares their outputs.

    Args:
        model_a: the original.
        model_b: the changed model. Each runs on the device where it is, in evaluation mode, and
            without gradients; neither is changed: buffers that a model changes when it runs are
            set back.
        batches: model inputs: a tensor, a tuple of positional arguments, or a dict of keyword
            arguments (of transformers, say; positions that its attention_mask leaves out do not
            count).
        inputs: takes the model's input out of a batch: lambda batch: batch[0] for pairs of images
            and labels.
        labels: takes the labels out of a batch (lambda batch: batch[1]), or an iterable of them,
            one tensor for each batch. Integers, one for each example, or, for outputs of shape
            (examples, positions, classes), one for each position, which makes it a language model:
            its perplexity is computed. Those below 0 do not count.
        language_model: take the labels from the inputs instead: each position predicts the next
            token.
        output: takes the tensor to compare out of what the models return. Otherwise .logits,
            .last_hidden_state, or the first floating tensor.
        kind: "logits" compares distributions as well, "embeddings" does not. "auto" tells by the
            name of the output, by what made it (a Linear layer makes logits), by labels.
        pool: how outputs of shape (examples, positions, features) become rows: "mean" over the
            positions, "first" position, "none" (each position is a row). "auto": "mean" for
            embeddings, "none" for logits.

    Raises:
        InvalidArgumentError: no batches, a batch without examples, outputs or labels of unequal
            shape, no floating output.
    """
    from .run import run_evaluation

    return run_evaluation(
        model_a, model_b, batches, inputs, labels, language_model, output, kind, pool
    )
