"""Second moments of what goes into layers, and energies of gradients, through hooks."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from .._evaluation.outputs import hooks

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
# One piece of unfolded inputs has at most so many bytes.
_PIECE_BYTES = 64 << 20
# The moments of a convolution are measured on at most so many positions of one call for each column
# of its matrix, chosen at random: neighbours say almost the same. The outcomes of compensated
# and of refined files are those of all positions to within what another seed changes.
_POSITIONS_BY_COLUMN, _FEWEST_POSITIONS = 64, 4096


@dataclasses.dataclass
class Accumulator:
    """Sums of one weight, of a size that does not depend on how much is added."""

    n_groups: int
    n_columns: int
    input_axis: int
    is_full: bool = False
    second: torch.Tensor | None = None
    counts: torch.Tensor | None = None
    energy: torch.Tensor | None = None
    n_positions: int = 0
    n_gradients: int = 0


def input_columns(layer: nn.Module) -> tuple[int, int, int] | None:
    """Groups of a layer, the length of the input vector of each, and the axis of the weight that
    has the input channels of a group; None for layers without moments."""
    if isinstance(layer, nn.Linear):
        return 1, layer.in_features, 1
    if isinstance(layer, _CONVOLUTIONS + _TRANSPOSED):
        n_taps = torch.Size(layer.kernel_size).numel()
        n_columns = layer.in_channels // layer.groups * n_taps
        return layer.groups, n_columns, 0 if isinstance(layer, _TRANSPOSED) else 1
    if isinstance(layer, nn.MultiheadAttention) and layer.in_proj_weight is not None:
        return 1, layer.embed_dim, 1
    if type(layer).__name__ == "Conv1D":  # of transformers: a linear layer, transposed
        weight = getattr(layer, "weight", None)
        if isinstance(weight, torch.Tensor) and weight.dim() == 2:
            return 1, weight.shape[0], 0
    return None


def layer_input(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """The first argument of a layer, in a hook; None where that is no tensor."""
    given = args[0] if args else kwargs.get("input", kwargs.get("query"))
    return given if isinstance(given, torch.Tensor) else None


def where_it_counts(
    layer: nn.Module, given: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """The input of a layer without the positions that the mask leaves out."""
    return given[mask] if mask is not None and _has_mask(layer, given, mask) else given


def _has_mask(layer: nn.Module, given: torch.Tensor, mask: torch.Tensor) -> bool:
    """Whether the first two dimensions are those of the mask."""
    if isinstance(layer, _CONVOLUTIONS + _TRANSPOSED):
        return False
    n_dims = 2 if isinstance(layer, nn.Embedding) else 3
    return given.dim() == n_dims and given.shape[:2] == mask.shape


def pieces(
    layer: nn.Module,
    inputs: torch.Tensor,
    outputs: Any,
    sample: torch.Generator | None = None,
) -> Iterator[torch.Tensor]:
    """The input vectors of a layer as (groups, rows, columns), piece by piece, F32 or F64.

    Each output of the layer is a row of the weight times such a vector, plus bias. Columns of
    convolutions: input channel of the group, then taps in the order of the kernel. With a
    generator those of random positions, where a convolution has very many.
    """
    is_convolution = isinstance(layer, _CONVOLUTIONS + _TRANSPOSED)
    cut = _unfolded(layer, inputs, outputs, sample) if is_convolution else _rows(inputs)
    for piece in cut:
        yield piece if piece.dtype == torch.float64 else piece.float()


def _rows(inputs: torch.Tensor) -> Iterator[torch.Tensor]:
    rows = inputs.reshape(-1, inputs.shape[-1])
    step = max(1, _PIECE_BYTES // (4 * rows.shape[1]))
    for first in range(0, len(rows), step):
        yield rows[first : first + step].unsqueeze(0)


def _unfolded(
    layer: Any, inputs: torch.Tensor, outputs: torch.Tensor, sample: torch.Generator | None
) -> Iterator[torch.Tensor]:
    dims = len(layer.kernel_size)
    if inputs.dim() == dims + 1:
        inputs, outputs = inputs.unsqueeze(0), outputs.unsqueeze(0)
    is_transposed = isinstance(layer, _TRANSPOSED)
    if is_transposed:
        windows = _spread(layer, inputs, outputs.shape[2:])
    else:
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        windows = functional.pad(inputs, layer._reversed_padding_repeated_twice, mode)
    for axis in range(dims):
        span = layer.dilation[axis] * (layer.kernel_size[axis] - 1) + 1
        step = 1 if is_transposed else layer.stride[axis]
        windows = windows.unfold(2 + axis, span, step)[..., :: layer.dilation[axis]]
    # Now (examples, channels, *positions, *taps), without a copy so far.
    n, channels, n_lines = windows.shape[:3]
    n_columns = channels // layer.groups * torch.Size(layer.kernel_size).numel()
    most = max(_POSITIONS_BY_COLUMN * n_columns, _FEWEST_POSITIONS)
    if sample is not None and n * windows.shape[2 : 2 + dims].numel() > most:
        yield _sampled(layer, windows, most, sample)
        return
    line_bytes = 4 * max(1, windows[:1, :, :1].numel())
    lines = max(1, min(n_lines, _PIECE_BYTES // line_bytes))
    examples = max(1, _PIECE_BYTES // (line_bytes * lines)) if lines == n_lines else 1
    for first in range(0, n, examples):
        for line in range(0, n_lines, lines):
            piece = windows[first : first + examples, :, line : line + lines]
            if is_transposed:
                piece = piece.flip(tuple(range(-dims, 0)))
            split = (len(piece), layer.groups, channels // layer.groups, *piece.shape[2:])
            piece = piece.reshape(split)
            places = range(3, 3 + dims)
            taps = range(3 + dims, 3 + 2 * dims)
            piece = piece.permute(1, 0, *places, 2, *taps)
            yield piece.reshape(layer.groups, -1, n_columns)


def _sampled(
    layer: Any, windows: torch.Tensor, count: int, generator: torch.Generator
) -> torch.Tensor:
    """Windows (examples, channels, *positions, *taps) of random examples and positions."""
    dims = len(layer.kernel_size)
    if isinstance(layer, _TRANSPOSED):
        windows = windows.flip(tuple(range(-dims, 0)))
    windows = windows.movedim(1, 1 + dims)
    places = [
        torch.randint(length, (count,), generator=generator, device="cpu").to(windows.device)
        for length in windows.shape[: 1 + dims]
    ]
    chosen = windows[tuple(places)]  # (rows, channels, *taps)
    return chosen.reshape(count, layer.groups, -1).transpose(0, 1)


def _spread(layer: Any, inputs: torch.Tensor, sizes: torch.Size) -> torch.Tensor:
    """The input of a transposed convolution with its strides filled with zeros, so that windows
    of it give the outputs, taps reversed."""
    dims = len(layer.kernel_size)
    lengths = [(inputs.shape[2 + d] - 1) * layer.stride[d] + 1 for d in range(dims)]
    spread = inputs.new_zeros(*inputs.shape[:2], *lengths)
    spread[(slice(None), slice(None), *(slice(None, None, step) for step in layer.stride))] = inputs
    padding: list[int] = []
    for d in reversed(range(dims)):
        reach = layer.dilation[d] * (layer.kernel_size[d] - 1)
        before = reach - layer.padding[d]
        padding += [before, sizes[d] + reach - before - lengths[d]]
    return functional.pad(spread, padding)


class MomentHooks:
    """Listens to the layers of a model while it runs.

    Args:
        model: all of its modules are looked at.
        name_of: the name of a weight, None where it has none or does not count.
        max_dim: layers with more columns keep a diagonal.
        max_bytes: a limit for all full matrices together; the smaller ones get theirs first.
        with_gradients: listen to the gradients of outputs too.
    """

    def __init__(
        self,
        model: nn.Module,
        name_of: Callable[[torch.Tensor], str | None],
        max_dim: int,
        max_bytes: int,
        with_gradients: bool,
    ) -> None:
        self.accumulators: dict[str, Accumulator] = {}
        self.mask: torch.Tensor | None = None
        self.gradient_scale = 1.0
        self._with_gradients = with_gradients
        self._sample = torch.Generator().manual_seed(0)
        self._layers = list(_weighted(model, name_of))
        self._plan(self._layers, max_dim, max_bytes)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """While this lasts, what goes through the layers is added up."""
        with hooks() as handles:
            for layer, name in self._layers:
                hook = self._listener(self.accumulators[name])
                handles.append(layer.register_forward_hook(hook, with_kwargs=True))
            yield

    def _plan(self, layers: list[tuple[nn.Module, str]], max_dim: int, max_bytes: int) -> None:
        for layer, name in layers:
            geometry = input_columns(layer) or (0, 0, 1)
            known = self.accumulators.get(name)
            if known is None or not known.n_columns:
                self.accumulators[name] = Accumulator(*geometry)
        left = max_bytes
        for one in sorted(self.accumulators.values(), key=lambda a: a.n_groups * a.n_columns**2):
            n_bytes = 8 * one.n_groups * one.n_columns**2
            if 0 < one.n_columns <= max_dim and n_bytes <= left:
                one.is_full = True
                left -= n_bytes

    def _listener(self, sums: Accumulator) -> Callable[..., None]:
        def hook(
            layer: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any
        ) -> None:
            given = layer_input(args, kwargs)
            if given is None:
                return
            if isinstance(layer, nn.MultiheadAttention):
                if not _is_self_attention(given, args, kwargs):
                    return
            self._add(sums, layer, given.detach(), out)
            # The outputs of a weight that is a head too are those of the head.
            is_second_use = isinstance(layer, nn.Embedding) and sums.n_columns > 0
            if self._with_gradients and not is_second_use:
                self._listen_to_gradient(sums, layer, given, out)

        return hook

    def _listen_to_gradient(
        self, sums: Accumulator, layer: nn.Module, given: torch.Tensor, out: Any
    ) -> None:
        if not isinstance(out, torch.Tensor) or not out.requires_grad:
            return
        axis, scale = _output_axis(layer, out), self.gradient_scale
        is_masked = self.mask is not None and _has_mask(layer, given, self.mask)
        count = int(self.mask.sum()) if is_masked else 0  # type: ignore[union-attr]
        out.register_hook(  # type: ignore[no-untyped-call]
            lambda gradient: _add_energy(sums, gradient, axis, scale, count)
        )

    def _add(self, sums: Accumulator, layer: nn.Module, given: torch.Tensor, out: Any) -> None:
        given = where_it_counts(layer, given, self.mask)
        if isinstance(layer, nn.Embedding):
            tokens = given.reshape(-1).long().cpu()
            added = torch.bincount(tokens, minlength=layer.num_embeddings).double()
            sums.counts = added if sums.counts is None else sums.counts + added
            return
        for piece in pieces(layer, given, out, self._sample):
            if sums.second is None:
                shape = (sums.n_groups, sums.n_columns)
                sums.second = torch.zeros(
                    (*shape, sums.n_columns) if sums.is_full else shape,
                    dtype=torch.float64,
                    device="cpu",
                )
            if sums.is_full:
                sums.second += torch.bmm(piece.transpose(1, 2), piece).cpu()
            else:
                sums.second += piece.square().sum(1).cpu()
            sums.n_positions += piece.shape[1]


def _weighted(
    model: nn.Module, name_of: Callable[[torch.Tensor], str | None]
) -> Iterator[tuple[nn.Module, str]]:
    for module in model.modules():
        if input_columns(module) is None and not isinstance(module, nn.Embedding):
            continue
        is_attention = isinstance(module, nn.MultiheadAttention)
        weight = module.in_proj_weight if is_attention else module.weight
        name = name_of(weight) if isinstance(weight, torch.Tensor) else None
        if name is not None:
            yield module, name


def _is_self_attention(
    query: torch.Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> bool:
    key = args[1] if len(args) > 1 else kwargs.get("key")
    value = args[2] if len(args) > 2 else kwargs.get("value")
    return key is query and value is query


def _output_axis(layer: nn.Module, out: torch.Tensor) -> int:
    if isinstance(layer, _CONVOLUTIONS + _TRANSPOSED):
        return out.dim() - len(layer.kernel_size) - 1
    return out.dim() - 1


def _add_energy(
    sums: Accumulator, gradient: torch.Tensor, axis: int, scale: float, count: int
) -> None:
    rows = gradient.detach().movedim(axis, -1).flatten(0, -2).double()
    added = rows.square().sum(0).cpu() * scale**2
    if sums.energy is not None and sums.energy.shape == added.shape:
        added = added + sums.energy
    sums.energy = added
    sums.n_gradients += count or len(rows)  # a position that does not count has no gradient
