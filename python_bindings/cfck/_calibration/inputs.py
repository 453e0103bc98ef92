"""Inputs for a model of which nothing is known: random tokens, or noise of a shape that fits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from .._evaluation.outputs import first_tensor, hooks, model_device, run_model
from ..errors import InvalidArgumentError

# Values of one batch of noise: large images come in small numbers.
_BATCH_VALUES = 1 << 20
_FEWEST = 4
_BATCH_EXAMPLES = 32
_TOKENS = 24
# The amplitude of images, and so of what layers see, falls with frequency to about this power; the
# channels of photographs have most of their energy in common.
_IMAGE_EXPONENT = 1.2
_COMMON_ENERGY = 0.9
# Tried in turn.
_LENGTHS = (_TOKENS, 16, 8, 4, 1)
_SIGNAL_LENGTHS = (256, 1024, 128, 64, 32, 16, 16000)
_IMAGE_SIZES = (32, 28, 64, 224, 96, 128, 256, 299, 16, 8)
_VOLUME_SIZES = (16, 32, 8, 64)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


@dataclasses.dataclass(frozen=True)
class Generated:
    """Batches made up for a model, and in words what they are."""

    batches: list[Any]
    source: str


def generate(
    model: nn.Module, n_examples: int, seed: int, input_shape: Sequence[int] | None
) -> Generated:
    """Raises InvalidArgumentError where the model takes nothing of what is tried."""
    device = model_device(model)
    generator = torch.Generator().manual_seed(seed)
    embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    refusals: list[str] = []
    if embeddings:
        shapes = [(length,) for length in _LENGTHS]
        for shape in [tuple(input_shape)] if input_shape is not None else shapes:
            vocabulary = _vocabulary(model, embeddings, shape, device, refusals)
            if vocabulary:
                return _tokens(vocabulary, shape, n_examples, generator, device)
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    noise_shapes = [tuple(input_shape)] if input_shape is not None else list(_noise_shapes(model))
    for shape in noise_shapes:
        probe = _normal((2, *shape), torch.Generator().manual_seed(seed))
        if _runs(model, probe.to(device, dtype), refusals):
            return _noise(shape, n_examples, generator, device, dtype, _is_convolved(model, shape))
    raise InvalidArgumentError(_refusal(input_shape, refusals))


def _refusal(input_shape: Sequence[int] | None, refusals: list[str]) -> str:
    text = "the model refuses generated inputs"
    if refusals:
        text += f" ({refusals[-1]}, the last of {len(refusals)} tried)"
    else:
        text += " (its layers do not show which inputs it accepts)"
    advice = "pass batches=" if input_shape is not None else "pass batches=, or input_shape="
    return f"{text}; {advice}"


def _runs(model: nn.Module, batch: Any, refusals: list[str]) -> bool:
    try:
        run_model(model, batch)
    except Exception as error:  # whatever a model raises for inputs that it does not take
        tensor = first_tensor(batch)
        shape = list(tensor.shape) if tensor is not None else []
        first_line = (str(error).splitlines() or [""])[0][:200]
        refusals.append(f"shape {shape}: {type(error).__name__}: {first_line}")
        return False
    return True


def _vocabulary(
    model: nn.Module,
    embeddings: list[nn.Embedding],
    shape: tuple[int, ...],
    device: torch.device | None,
    refusals: list[str],
) -> int:
    """Size of the embedding that gets the tokens; 0 where the model does not run on tokens.

    Other embeddings get positions or types: a first run with a pattern of zeros and ones shows
    which ones get the pattern.
    """
    generator = torch.Generator().manual_seed(1)
    pattern = torch.randint(0, 2, (2, *shape), generator=generator, device="cpu")
    pattern.view(-1)[0], pattern.view(-1)[-1] = 1, 0
    reached: list[int] = []

    def look(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tokens = args[0] if args else kwargs.get("input")
        if isinstance(tokens, torch.Tensor) and tokens.numel() == pattern.numel():
            if torch.equal(tokens.detach().reshape(-1).cpu().long(), pattern.reshape(-1)):
                reached.append(module.num_embeddings)  # type: ignore[arg-type]

    with hooks() as handles:
        for module in embeddings:
            if module.num_embeddings > 1:
                handles.append(module.register_forward_pre_hook(look, with_kwargs=True))
        if not _runs(model, pattern.to(device), refusals):
            return 0
    return min(reached, default=0)


def _tokens(
    vocabulary: int,
    shape: tuple[int, ...],
    n_examples: int,
    generator: torch.Generator,
    device: torch.device | None,
) -> Generated:
    batches = [
        torch.randint(0, vocabulary, (count, *shape), generator=generator, device="cpu").to(device)
        for count in _counts(n_examples, _BATCH_EXAMPLES)
    ]
    source = f"{n_examples} x {list(shape)} random tokens below {vocabulary}"
    return Generated(batches, source)


def _noise(
    shape: tuple[int, ...],
    n_examples: int,
    generator: torch.Generator,
    device: torch.device | None,
    dtype: torch.dtype,
    is_convolved: bool,
) -> Generated:
    n_values = max(1, torch.Size(shape).numel())
    n_examples = max(min(n_examples, _FEWEST), min(n_examples, _BATCH_VALUES // n_values))
    in_batch = max(1, min(_BATCH_EXAMPLES, _BATCH_VALUES // n_values))
    draw = _field if is_convolved else _normal
    batches = [
        draw((count, *shape), generator).to(device, dtype)
        for count in _counts(n_examples, in_batch)
    ]
    kind = "smooth" if is_convolved else "white"
    return Generated(batches, f"{n_examples} x {list(shape)} {kind} noise")


def _normal(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """The same noise whatever the default device and dtype of torch are."""
    return torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu")


def _field(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Noise of unit variance whose amplitude falls with frequency as that of images does."""
    values = _normal(shape, generator)
    if shape[1] == 3:
        common = _normal((shape[0], 1, *shape[2:]), generator)
        values = (1 - _COMMON_ENERGY) ** 0.5 * values + _COMMON_ENERGY**0.5 * common
    axes = tuple(range(2, len(shape)))
    squares = torch.zeros(shape[2:], dtype=torch.float32, device="cpu")
    for axis, size in enumerate(shape[2:]):
        frequency = torch.fft.fftfreq(size, dtype=torch.float32, device="cpu") ** 2
        squares += frequency.view(-1, *[1] * (len(axes) - 1 - axis))
    squares[(0,) * len(axes)] = 1 / max(shape[2:]) ** 2
    # Energy falls equally from octave to octave, whatever the number of dimensions.
    falls = squares ** (_IMAGE_EXPONENT * len(axes) / 4)
    fallen: torch.Tensor = torch.fft.ifftn(torch.fft.fftn(values, dim=axes) / falls, dim=axes).real
    return fallen.div_(fallen.std().clamp(min=1e-6))


def _is_convolved(model: nn.Module, shape: tuple[int, ...]) -> bool:
    """Whether examples of this shape are channels and places."""
    dims = len(shape) - 1
    return 1 <= dims <= len(_CONVOLUTIONS) and any(
        isinstance(module, (_CONVOLUTIONS[dims - 1], _TRANSPOSED[dims - 1]))
        for module in model.modules()
    )


def _counts(total: int, largest: int) -> list[int]:
    return [min(largest, total - first) for first in range(0, total, largest)]


def _noise_shapes(model: nn.Module) -> Iterator[tuple[int, ...]]:
    """Shapes of one example that the first layer with parameters takes, likely ones first."""
    for module in model.modules():
        if next(module.parameters(recurse=False), None) is None:
            continue
        shapes = list(_shapes_for(module))
        if shapes:
            yield from shapes
            return


def _shapes_for(layer: nn.Module) -> Iterator[tuple[int, ...]]:
    if isinstance(layer, nn.Linear):
        yield (layer.in_features,)
        yield (_TOKENS, layer.in_features)
    elif isinstance(layer, _CONVOLUTIONS + _TRANSPOSED):
        dims = len(layer.kernel_size)
        sizes = (_SIGNAL_LENGTHS, _IMAGE_SIZES, _VOLUME_SIZES)[dims - 1]
        if dims == 2 and (layer.kernel_size[0] >= 7 and layer.stride[0] > 1):
            sizes = (224, *sizes)  # the stem of a network for photographs
        if isinstance(layer, _TRANSPOSED):
            sizes = (1, 4, 8, *sizes)
        for size in sizes:
            yield (layer.in_channels, *[size] * dims)
    elif isinstance(layer, nn.MultiheadAttention):
        yield (_TOKENS, layer.embed_dim)
    elif isinstance(layer, nn.RNNBase):
        yield (_TOKENS, layer.input_size)
        yield (layer.input_size,)
    elif isinstance(layer, nn.LayerNorm):
        yield tuple(layer.normalized_shape)
        yield (_TOKENS, *layer.normalized_shape)
    elif isinstance(layer, nn.modules.batchnorm._BatchNorm):
        yield (layer.num_features,)
        for size in _IMAGE_SIZES:
            yield (layer.num_features, size, size)
