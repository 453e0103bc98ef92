"""What state dicts and names say of models in training; needs nothing of training itself."""

from __future__ import annotations

from torch import nn
from torch.optim.swa_utils import AveragedModel

from .._common.text import with_article
from ..errors import InvalidArgumentError

_OF_TRAINING = ".is_snapped"  # a buffer of each SpectralWeight


def without_compiler(model: nn.Module) -> nn.Module:
    """The module that torch.compile has wrapped, or the model itself."""
    inner = model._modules.get("_orig_mod")
    return model if inner is None else inner


def refuse_wrappers(model: nn.Module) -> None:
    """Raises InvalidArgumentError for modules that only hold a model, under names of their own."""
    if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel | AveragedModel):
        raise InvalidArgumentError(
            f"the model is in {with_article(type(model).__name__)}, which gives its weights "
            "other names: take the model in it (.module); what wraps models comes after spectral()"
        )


def plain_name(name: str) -> str | None:
    """The name of a tensor in the plain model; None for what only training has."""
    before, is_parametrized, after = ("." + name).rpartition(".parametrizations.")
    if not is_parametrized:
        return name
    attribute, _, rest = after.partition(".")
    return f"{before}.{attribute}".lstrip(".") if rest == "original" else None


def refuse_models_in_training(model: nn.Module, advice: str) -> None:
    """Raises InvalidArgumentError for models that cfck.train.spectral has changed.

    Their state dicts have originals of weights, steps and frequency tables under names that no file
    of the model has.
    """
    for name, _ in model.named_buffers():
        if name.endswith(_OF_TRAINING) and plain_name(name) is None:
            raise InvalidArgumentError(
                f"the {type(model).__name__} is in training (cfck.train.spectral): {advice}, or "
                "make it a plain model first: q.remove()"
            )
