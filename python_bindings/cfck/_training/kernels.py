"""Operators of torch over the native quantiser, with their gradients.

Steps come as log2: `scale` for the whole tensor, and `bands`, `rows` and `columns` on top, each of
which may be empty. The arithmetic is that of spectral/spec.md, sections 4 and 7.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence

import torch

from .. import _native

# Schemas in words: not all versions of torch infer them from annotations that are text.
_STEPS = "Tensor scale, Tensor bands, Tensor rows, Tensor columns"
_GRADIENTS = "Tensor, Tensor, Tensor, Tensor"

_PER_OCTAVE = _native.TRAINING_STEPS_PER_OCTAVE
# log2 of a step beyond this is the end of a training that has diverged, and so are factors of
# bands, rows and columns that files do not have.
_MAX_OCTAVES, _MAX_OCTAVES_OF_FIELDS = 125, 100


_QUANTISERS: dict[tuple[tuple[int, ...], tuple[int, ...]], _native.WeightQuantiser] = {}
# Native objects go before the module that made them.
atexit.register(_QUANTISERS.clear)


def quantiser_of(shape: tuple[int, ...], block: tuple[int, ...]) -> _native.WeightQuantiser:
    """The quantiser of a tensor; ``block`` as for cfck.train.spectral, () for kernels."""
    known = _QUANTISERS.get((shape, block))
    if known is None:
        known = _QUANTISERS.setdefault((shape, block), _native.WeightQuantiser(shape, list(block)))
    return known


def exponents(log2: torch.Tensor) -> list[int]:
    """Steps as the library takes them; NaN and infinities are refused."""
    try:
        return [round(x * _PER_OCTAVE) for x in log2.detach().tolist()]
    except (ValueError, OverflowError):
        raise _diverged("NaN or infinite") from None


def native_steps(
    scale: torch.Tensor, bands: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor
) -> _native.TrainingSteps:
    """Refuses steps that are no float32 numbers."""
    octaves = float(scale)
    fields = [exponents(field) for field in (bands, rows, columns)]
    least = octaves + sum(min(field, default=0) for field in fields) / _PER_OCTAVE
    most = octaves + sum(max(field, default=0) for field in fields) / _PER_OCTAVE
    if not (-_MAX_OCTAVES < least and most < _MAX_OCTAVES):
        raise _diverged(f"2**{most if -_MAX_OCTAVES < least else least:.5g}")
    for field in fields:
        if any(abs(exponent) > _MAX_OCTAVES_OF_FIELDS * _PER_OCTAVE for exponent in field):
            raise _diverged(f"more than 2**{_MAX_OCTAVES_OF_FIELDS} times another")
    return _native.TrainingSteps(2.0**octaves, *fields)


def step_of(octaves: float) -> float:
    """2**octaves; refuses steps that are no float32 numbers."""
    if not -_MAX_OCTAVES < octaves < _MAX_OCTAVES:
        raise _diverged(f"2**{octaves:.5g}")
    return float(2.0**octaves)


def _diverged(step: str) -> FloatingPointError:
    return FloatingPointError(
        f"a step of a spectral weight is {step}; was the loss finite, and is step_lr small enough?"
    )


def on_host(weights: torch.Tensor) -> torch.Tensor:
    """Contiguous float32 values in memory of the host."""
    return weights.detach().to("cpu", torch.float32).contiguous()


def _sums_of(native: _native.WeightQuantiser) -> torch.Tensor:
    """Memory for the gradients of all steps, whatever torch.set_default_dtype() says."""
    n = native.n_bands + native.n_rows + native.n_columns
    return torch.empty(n, dtype=torch.float32, device="cpu")


def _places(bins: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The bins of the weights in memory of the host. Operators may be called by anybody."""
    if bins.shape != weights.shape or bins.dtype != torch.uint8:
        raise ValueError(
            f"bins are uint8 of shape {tuple(weights.shape)}, not {bins.dtype} of "
            f"{tuple(bins.shape)}"
        )
    return bins.cpu().contiguous()


def _split(
    gradients: torch.Tensor, native: _native.WeightQuantiser, like: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of the scale, the bands, the rows and the columns, where they are learned.

    Each is divided by the root of the number of coefficients that share the step, as Esser et al.
    (2020) have it beside the number of levels, so that steps of small and of large tensors learn
    at one rate.
    """
    n_bands, n_rows = native.n_bands, native.n_rows
    bands, rows, columns = torch.split(gradients, [n_bands, n_rows, native.n_columns])
    parts = [rows.sum().reshape(()), bands, rows, columns]
    result = []
    for part, parameter in zip(parts, like, strict=True):
        if not parameter.numel():
            result.append(torch.zeros_like(parameter))
            continue
        per_step = native.n_values / max(part.numel(), 1)
        result.append((part / per_step**0.5).to(parameter.device, parameter.dtype))
    of_scale, of_bands, of_rows, of_columns = result
    return of_scale, of_bands, of_rows, of_columns


@torch.library.custom_op(
    "cfck::quantise",
    mutates_args=(),
    schema=f"(Tensor weights, {_STEPS}, int[] block, float n_examples) -> Tensor",
)
def quantise(
    weights: torch.Tensor,
    scale: torch.Tensor,
    bands: torch.Tensor,
    rows: torch.Tensor,
    columns: torch.Tensor,
    block: list[int],
    n_examples: float,
) -> torch.Tensor:
    """The values that a file decodes to where coefficients are rounded to multiples of steps.

    ``n_examples``: as of WeightQuantiser::step_gradients in cfck/training.hpp.
    """
    native = quantiser_of(tuple(weights.shape), tuple(block))
    host = on_host(weights)
    values = torch.empty_like(host)
    steps = native_steps(scale, bands, rows, columns)
    native.quantise(host.data_ptr(), steps, values.data_ptr(), torch.get_num_threads())
    return values.to(weights.device)


@torch.library.custom_op(
    "cfck::quantise_backward",
    mutates_args=(),
    schema=f"(Tensor gradient, Tensor weights, {_STEPS}, int[] block, float n_examples)"
    f" -> ({_GRADIENTS})",
)
def quantise_backward(
    gradient: torch.Tensor,
    weights: torch.Tensor,
    scale: torch.Tensor,
    bands: torch.Tensor,
    rows: torch.Tensor,
    columns: torch.Tensor,
    block: list[int],
    n_examples: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    native = quantiser_of(tuple(weights.shape), tuple(block))
    host, of_values = on_host(weights), on_host(gradient.expand_as(weights))
    sums = _sums_of(native)
    steps = native_steps(scale, bands, rows, columns)
    threads = torch.get_num_threads()
    native.step_gradients(
        host.data_ptr(), steps, of_values.data_ptr(), n_examples, sums.data_ptr(), threads
    )
    return _split(sums, native, (scale, bands, rows, columns))


@torch.library.custom_op(
    "cfck::coefficient_bits",
    mutates_args=(),
    schema=f"(Tensor weights, {_STEPS}, Tensor bins, int family, int[] block) -> Tensor",
)
def coefficient_bits(
    weights: torch.Tensor,
    scale: torch.Tensor,
    bands: torch.Tensor,
    rows: torch.Tensor,
    columns: torch.Tensor,
    bins: torch.Tensor,
    family: int,
    block: list[int],
) -> torch.Tensor:
    """The bits of all coefficients, float64, in frequency tables that were fitted before."""
    native = quantiser_of(tuple(weights.shape), tuple(block))
    host, places = on_host(weights), _places(bins, weights)
    steps = native_steps(scale, bands, rows, columns)
    threads = torch.get_num_threads()
    bits = native.bits(host.data_ptr(), steps, places.data_ptr(), family, threads)
    return torch.tensor(bits, dtype=torch.float64, device=weights.device)


@torch.library.custom_op(
    "cfck::coefficient_bits_backward",
    mutates_args=(),
    schema=f"(Tensor gradient, Tensor weights, {_STEPS}, Tensor bins, int family, int[] block)"
    f" -> (Tensor, {_GRADIENTS})",
)
def coefficient_bits_backward(
    gradient: torch.Tensor,
    weights: torch.Tensor,
    scale: torch.Tensor,
    bands: torch.Tensor,
    rows: torch.Tensor,
    columns: torch.Tensor,
    bins: torch.Tensor,
    family: int,
    block: list[int],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    native = quantiser_of(tuple(weights.shape), tuple(block))
    host, places = on_host(weights), _places(bins, weights)
    of_weights = torch.empty_like(host)
    sums = _sums_of(native)
    native.bit_gradients(
        host.data_ptr(),
        native_steps(scale, bands, rows, columns),
        places.data_ptr(),
        family,
        float(gradient),
        of_weights.data_ptr(),
        sums.data_ptr(),
        torch.get_num_threads(),
    )
    of_weights = of_weights.to(weights.device, weights.dtype)
    return of_weights, *_split(sums, native, (scale, bands, rows, columns))


def _check_devices(weights: torch.Tensor, *others: torch.Tensor) -> None:
    """For fake versions, which also run where a single argument is on the device meta."""
    for other in others:
        if other.device != weights.device:
            raise ValueError(f"tensors are on one device, not {weights.device} and {other.device}")


@quantise.register_fake
def _(weights, scale, bands, rows, columns, block, n_examples):  # type: ignore[no-untyped-def]
    _check_devices(weights, scale, bands, rows, columns)
    return torch.empty_like(weights, dtype=torch.float32, memory_format=torch.contiguous_format)


@quantise_backward.register_fake
def _(gradient, weights, scale, bands, rows, columns, block, n_examples):  # type: ignore[no-untyped-def]
    _check_devices(weights, gradient, scale, bands, rows, columns)
    return tuple(torch.empty_like(part) for part in (scale, bands, rows, columns))


@coefficient_bits.register_fake
def _(weights, scale, bands, rows, columns, bins, family, block):  # type: ignore[no-untyped-def]
    _check_devices(weights, scale, bands, rows, columns, bins)
    return torch.empty((), dtype=torch.float64, device=weights.device)


@coefficient_bits_backward.register_fake
def _(gradient, weights, scale, bands, rows, columns, bins, family, block):  # type: ignore[no-untyped-def]
    _check_devices(weights, scale, bands, rows, columns, bins)
    of_weights = torch.empty_like(weights, memory_format=torch.contiguous_format)
    return (of_weights, *(torch.empty_like(part) for part in (scale, bands, rows, columns)))


def _keep(ctx, inputs, output):  # type: ignore[no-untyped-def]
    *tensors, ctx.block, ctx.n_examples = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx, gradient):  # type: ignore[no-untyped-def]
    parts = quantise_backward(gradient, *ctx.saved_tensors, ctx.block, ctx.n_examples)
    return gradient, *parts, None, None


def _keep_bits(ctx, inputs, output):  # type: ignore[no-untyped-def]
    *tensors, ctx.family, ctx.block = inputs
    ctx.save_for_backward(*tensors)


def _backward_bits(ctx, gradient):  # type: ignore[no-untyped-def]
    parts = coefficient_bits_backward(gradient, *ctx.saved_tensors, ctx.family, ctx.block)
    return *parts, None, None, None


quantise.register_autograd(_backward, setup_context=_keep)
coefficient_bits.register_autograd(_backward_bits, setup_context=_keep_bits)
