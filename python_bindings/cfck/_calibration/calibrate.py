"""Learning from a model how much each of its tensors matters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from .._common.progress import Progress, shown
from .._evaluation.types import Batch, Pool
from .calibration import Calibration

if TYPE_CHECKING:
    import torch


def calibrate(
    model: torch.nn.Module,
    batches: Iterable[Batch] | None = None,
    *,
    inputs: Callable[[Batch], object] | None = None,
    output: Callable[..., torch.Tensor] | None = None,
    distance: Literal["auto", "kl", "cosine", "mse"] | Callable[..., float] = "auto",
    pool: Pool = "auto",
    moments: bool | None = None,
    loss: Callable[..., torch.Tensor] | Literal["sampled"] | None = None,
    input_shape: Sequence[int] | None = None,
    n_examples: int = 64,
    seed: int = 0,
    cap_octaves: float = 2.0,
    max_dim: int = 8192,
    max_moment_bytes: int = 2 << 30,
    progress: Progress | bool | None = None,
) -> Calibration:
    """Measures how much the output of a model changes with an error in each of its tensors.

    Every floating tensor of two or more dimensions gets small random errors, twice, and the model
    runs again: two passes over ``n_examples`` inputs for each tensor, up to eight where they
    disagree. Where tensors matter unequally, and they do, steps chosen by this
    (Calibration.multipliers) need about a bit less per weight for the same quality than equal ones.

    Args:
        model: runs in evaluation mode on the device where it is. Its weights change during the
            call, and are what they were, bit for bit, afterwards, whatever ends it; so are buffers
            that the model changes when it runs.
        batches: inputs of the model, as many as there are: a tensor, a tuple of positional
            arguments or a dict of keyword arguments each (positions that an attention_mask leaves
            out do not count). Read once. None: inputs are generated, random tokens or noise.
        inputs: takes the model's input out of a batch: lambda batch: batch[0] for pairs of images
            and labels.
        output: takes the tensor that counts out of what the model returns. Otherwise .logits,
            .last_hidden_state, or the first floating tensor.
        distance: the distance between outputs: "kl" of their distributions, "cosine" (1 -
            cosine), "mse" relative to their energy, or a function of what the model returned
            before and now that gives a number, 0 for equal ones. "auto" tells by the name of the
            output, by what made it: Linear layers at the end make logits.
        pool: how outputs of shape (examples, positions, features) become the rows compared:
            "mean", "first" or "none"; "auto": the mean for "cosine", none for "kl".
        moments: also gather E[x x^T] of the inputs of each Linear layer, convolution and attention,
            and how often the rows of embeddings are used. None: with batches only.
        loss: with batches, also gather the energy of the gradient of each of these outputs: a
            function of what the model returned and of the batch that gives the mean loss of its
            examples; or "sampled", for logits: the cross entropy against labels drawn from the
            model's own distribution.
        input_shape: the shape of one generated example, without the batch; None: found by trying.
        n_examples: on which sensitivities are measured, the first ones of ``batches``; of large
            images fewer are generated.
        seed: the seed of inputs and errors. One seed always gives the same numbers on one machine.
        cap_octaves: how far steps may be from the flat one, up and down.
        max_dim: inputs of layers that are longer keep the diagonal of E[x x^T] only.
        max_moment_bytes: limit for all matrices E[x x^T] during the call; the larger ones that do
            not fit keep the diagonal.
        progress: called as progress(done, total, name) after each pass of the model: tensors that
            are done, tensors in all, and the tensor at hand, or "batch 3" while inputs are read.
            What it raises ends the call. None: after three seconds a line on stderr tells the
            same, if that is a terminal; True: at once, in any case; False: nothing does.

    Raises:
        InvalidArgumentError: the model takes no generated input (give batches or input_shape),
            outputs that are not finite, no batches or one without examples,
            options that do not go together.
        UnsupportedError: a tensor without memory of its own (meta, quantised, sharded).

    Other threads must not use the model meanwhile.
    """
    from .request import Request
    from .run import run_calibration

    request = Request(
        inputs=inputs,
        output=output,
        distance=distance,
        pool=pool,
        moments=moments,
        loss=loss,
        input_shape=input_shape,
        n_examples=n_examples,
        seed=seed,
        cap_octaves=cap_octaves,
        max_dim=max_dim,
        max_moment_bytes=max_moment_bytes,
    )
    with shown(progress, "calibrate") as listener:
        return run_calibration(model, batches, request, listener)
