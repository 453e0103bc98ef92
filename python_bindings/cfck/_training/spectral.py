"""The start of training: weights get their parametrisations."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

from torch import nn
from torch.nn.utils import parametrize

from .._common.callers import level_of_caller
from .._frameworks.torch_modules import extra_states, refuse_quantised_modules
from ..errors import InvalidArgumentError, UnsupportedError
from .choose import Chosen, choose_weights, patterns
from .model import SpectralModel
from .modes import outside_inference_mode
from .names import refuse_models_in_training, refuse_wrappers, without_compiler
from .places import modules_unchanged_if_failing
from .training_warnings import warn_of_zeros
from .weight import SpectralWeight

_LEARN = ("steps", "weights")
_FIELDS = ("bands", "rows", "columns")


@outside_inference_mode
def spectral(
    model: nn.Module,
    *,
    include: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    block: Sequence[int] | None = None,
    bits: float = 10,
    learn: Sequence[str] = _LEARN,
    fields: Sequence[str] = ("bands", "columns"),
    batch_size: int = 0,
) -> SpectralModel:
    """Compresses the weights of a model while it is trained.

    Every weight is replaced, through torch.nn.utils.parametrize, by what a file would decode it
    to: coefficients of its convolution kernels, or its values, rounded to multiples of steps. The
    steps are learned together with the weights. Add the rate to the loss, and training finds which
    bits the task needs::

        q = spectral(model, bits=6)
        optimizer = torch.optim.AdamW(q.param_groups(lr=2e-3, step_lr=2e-2))
        q.target(bits_per_weight=1.0, by=n_steps // 5)
        for x, y in batches:
            loss = task_loss(model(x), y) + q.rate_loss()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        q.finish()
        q.save("model.cfck")

    Args:
        model: a trained one, also where torch.compile has wrapped it. It is changed in place; its
            state dict has the originals of weights, steps and frequency tables, from which training
            resumes.
        include, exclude: patterns of names of parameters, as fnmatch has them. Without ``include``
            all float32, bfloat16 and float16 parameters of two or more dimensions and 256 or more
            values are meant.
        block: sides of the blocks that are transformed, along the last axes, up to 64 each and 4096
            values; None: convolution kernels, and other weights as they are.
        bits: the rate to start from, in bits for each value of the weights that are compressed.
        learn: "steps", "weights" or both. Of the compressed weights, what is not learned is frozen;
            all else in the model is trained as before.
        fields: which of "bands", "rows" and "columns" get steps of their own.
        batch_size: how many examples the loss of a step is the mean over. With it, steps follow the
            estimated curvature of the loss (empirical Fisher information, from squared gradients,
            which must not be scaled); without it, its slope, which vanishes as soon as weights
            have adapted to the errors.

    Raises:
        InvalidArgumentError: no weight is left, or one is lazy, sparse, without values, without
            memory of its own (as in models that run from a file) or parametrised already, or has
            sparse gradients; the model was already prepared by spectral(), or is wrapped by
            something other than torch.compile; a pattern matches nothing, or one name of a
            tied weight alone; an argument makes no sense.
        TypeError: the model is no module, or patterns are no lists.
        UnsupportedError: a module is quantised already; rows of a weight are too long
            (docs/training.md). Without ``include`` such weights stay lossless, unless there is no
            other.

    The arithmetic runs on the CPU; weights on other devices are copied there and back.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a torch.nn.Module as the model, not {type(model).__name__}")
    if not 0 < bits <= 24:
        raise InvalidArgumentError(f"bits is a number above 0 and up to 24, not {bits}")
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 0:
        raise InvalidArgumentError(f"batch_size is a number of examples, not {batch_size!r}")
    learn, fields = _words("learn", learn, _LEARN), _words("fields", fields, _FIELDS)
    if not learn:
        raise InvalidArgumentError(f"learn has one or both of {_LEARN}")
    sides = _sides_of(block)
    model = without_compiler(model)
    refuse_wrappers(model)
    refuse_models_in_training(model, "use the handle that spectral() has returned")
    refuse_quantised_modules(model)
    chosen = choose_weights(model, patterns("include", include), patterns("exclude", exclude))
    wrapped, refused = [], None
    for known in chosen:
        try:
            weight = SpectralWeight(known.parameter, sides, bits, fields, batch_size)
        except UnsupportedError as error:
            if include is not None:
                raise UnsupportedError(f"parameter `{known.name}`: {error}") from None
            refused = UnsupportedError(f"parameter `{known.name}`: {error}")
            continue
        wrapped.append((known, weight))
    if not wrapped and refused is not None:
        raise refused
    with modules_unchanged_if_failing(
        {id(module): module for known, _ in wrapped for module, _ in known.owners}.values()
    ):
        for known, weight in wrapped:
            for module, attribute in known.owners:
                parametrize.register_parametrization(module, attribute, weight, unsafe=True)
            _hold_what_is_not_learned(known, weight, learn)
        warn_of_zeros([known for known, _ in wrapped])
        _warn_of_extra_states(model)
        return SpectralModel(model)


def _hold_what_is_not_learned(known: Chosen, weight: SpectralWeight, learn: Sequence[str]) -> None:
    if "weights" not in learn:
        weight.learns_weight = False
        weight.hold(known.parameter)
    if "steps" not in learn:
        weight.learns_steps = False
        for step in weight.steps():
            step.requires_grad_(False)


def _warn_of_extra_states(model: nn.Module) -> None:
    names = extra_states(model)
    if names:
        warnings.warn(
            f"`{names[0]}` is no tensor: q.save() will refuse the model, since no file can hold "
            "what its get_extra_state() returns; q.state_dict() has it",
            stacklevel=level_of_caller(),
        )


def _sides_of(block: Sequence[int] | None) -> tuple[int, ...]:
    if block is None:
        return ()
    sides = tuple(block) if isinstance(block, Iterable) else None
    if sides is None or not all(isinstance(side, int) and 1 <= side <= 64 for side in sides):
        raise InvalidArgumentError(f"block lists sides from 1 to 64, such as (8, 8), not {block!r}")
    return sides


def _words(name: str, words: Sequence[str], known: tuple[str, ...]) -> tuple[str, ...]:
    given = tuple(words)
    if isinstance(words, str) or not set(given) <= set(known):
        raise InvalidArgumentError(f"{name} has some of {known}, not {words!r}")
    return given
