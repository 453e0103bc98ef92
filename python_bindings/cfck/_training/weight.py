"""The parametrisation of one weight."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import nn

from .. import _native
from ..errors import InvalidArgumentError
from . import kernels

# The entropy of a normal deviate in steps of one standard deviation, in bits.
_BITS_OF_SIGMA = 0.5 * math.log2(2 * math.pi * math.e)
TRELLISES = (4, 8, 64)  # numbers of states
QUARTERS = 4  # steps of a file are quarters of octaves on top of one number


@dataclasses.dataclass(frozen=True)
class FileSteps:
    """The steps of a tensor as a file has them: cfck/options.hpp, LearnedSteps."""

    step: float
    bands: list[int]
    rows: list[int]
    columns: list[int]
    block: list[int]
    trellis_states: int

    def native(self) -> _native.LearnedSteps:
        return _native.LearnedSteps(**dataclasses.asdict(self))


def _laid_out(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The values with the strides of a weight: operations may round by them."""
    if like.is_contiguous():
        return values
    return torch.empty_like(like, requires_grad=False).copy_(values)


class _WithSteps(torch.autograd.Function):
    """The values, as if computed from steps, whose gradients are zero.

    Parameters that are not used stop DistributedDataParallel, and operators of PyTorch choose other
    kernels, which round differently, for weights that need no gradient.
    """

    @staticmethod
    def forward(ctx, values, *steps):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(*steps)
        return values.view_as(values)

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        return None, *(torch.zeros_like(steps) for steps in ctx.saved_tensors)


class SpectralWeight(nn.Module):
    """Turns a weight into the values that a file decodes to.

    Parameters are log2 of the steps. Buffers hold the frequency tables of the last fit, so that a
    state dict resumes training bit for bit, and after snap() the steps of a file. Parameters have
    gradients of zero then, but optimizers may still move them, and averages of models lie between
    them.

    Args:
        weight: the values to start from.
        block: sides of the blocks that are transformed; (): convolution kernels.
        bits: the rate to start from, bits for each value.
        fields: which of "bands", "rows" and "columns" have steps of their own.
        batch_size: examples that a loss is the mean over; 0: unknown.
    """

    scale: nn.Parameter
    bands: nn.Parameter
    rows: nn.Parameter
    columns: nn.Parameter
    bins: torch.Tensor
    tables: torch.Tensor
    of_model: torch.Tensor
    held: torch.Tensor
    is_snapped: torch.Tensor
    states: torch.Tensor
    trellised: torch.Tensor | None

    def __init__(
        self,
        weight: torch.Tensor,
        block: tuple[int, ...],
        bits: float,
        fields: tuple[str, ...],
        batch_size: int = 0,
    ) -> None:
        super().__init__()
        self.n_examples = float(batch_size)
        self.block = list(block)
        self.learns_steps = True
        self.learns_weight = True
        self.holds_original = False
        native = kernels.quantiser_of(tuple(weight.shape), block)
        sigma = float(weight.detach().double().square().mean().sqrt())
        if sigma == 0:  # as adapters may begin: steps for values that are usual in such a layer
            sigma = weight[0].numel() ** -0.5
        scale = math.log2(sigma) + _BITS_OF_SIGMA - bits
        device = weight.device
        # Whatever torch's defaults are.
        of_steps: dict[str, Any] = {"dtype": torch.float32, "device": device}
        self.scale = nn.Parameter(torch.tensor(scale, **of_steps))
        counts = {"bands": native.n_bands, "rows": native.n_rows, "columns": native.n_columns}
        for name, count in counts.items():
            n = count if name in fields and count > 1 else 0
            setattr(self, name, nn.Parameter(torch.zeros(n, **of_steps)))
        self.register_buffer("bins", torch.zeros(weight.shape, dtype=torch.uint8, device=device))
        # Of the last fit: the family of frequency tables, the bits beside those of coefficients,
        # and those of the record.
        self.register_buffer("tables", torch.zeros(3, dtype=torch.float64, device=device))
        # The first weight has those of the model: calls of bits_per_weight(), bits of lossless
        # tensors, the final rate.
        self.register_buffer("of_model", torch.zeros(3, dtype=torch.float64, device=device))
        n_steps = sum(parameter.numel() for parameter in self.log2_steps())
        self.register_buffer("held", torch.zeros(n_steps, **of_steps))
        self.register_buffer("is_snapped", torch.tensor(False, device=device))
        self.register_buffer("states", torch.tensor(1, device=device))
        # A trellis makes these of the weight: not each value by itself, but all of them together.
        self.register_buffer("trellised", None)

    def _apply(self, fn, recurse=True):  # type: ignore[no-untyped-def]
        # Steps and tables move with the model, but are no values of its dtype.
        steps = [(parameter, parameter.data) for parameter in self.log2_steps()]
        tables = {name: getattr(self, name) for name in ("tables", "of_model", "held")}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for parameter, values in steps:
            parameter.data = values.to(parameter.device)
        for name, values in tables.items():
            setattr(self, name, values.to(self.scale.device))
        return self

    def log2_steps(self) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter, nn.Parameter]:
        """The parameters in the order of the operators; fields that are not learned are empty."""
        return self.scale, self.bands, self.rows, self.columns

    def steps(self) -> list[nn.Parameter]:
        """The parameters that have values."""
        return [parameter for parameter in self.log2_steps() if parameter.numel()]

    def learned_steps(self) -> list[nn.Parameter]:
        """Those that training changes, until snap()."""
        return self.steps() if self.learns_steps else []

    def log2_in_use(self) -> list[torch.Tensor]:
        """The steps that weights are quantised with, in the order of the operators."""
        parameters = self.log2_steps()
        held = torch.split(self.held, [parameter.numel() for parameter in parameters])
        return [
            torch.where(self.is_snapped, values.reshape(parameter.shape), parameter)
            if parameter.numel()
            else parameter
            for values, parameter in zip(held, parameters, strict=True)
        ]

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        if self.trellised is not None:
            used: torch.Tensor = _WithSteps.apply(self.trellised, *self.log2_steps())
            return _laid_out(used, weight)
        values: torch.Tensor = kernels.quantise(
            weight.float(), *self.log2_in_use(), self.block, self.n_examples
        )
        return _laid_out(values.to(weight.dtype), weight)

    def right_inverse(self, values: torch.Tensor) -> torch.Tensor:
        return values

    def bits(self, weight: torch.Tensor) -> torch.Tensor:
        """Estimates the bits of the tensor's record, from the tables of the last fit."""
        family, overhead, stored = self.tables.tolist()
        if stored == 0:
            # Tables that have seen nothing but zeros would keep all values from ever leaving zero.
            return 0 * self.log2_in_use()[0].double()
        bits: torch.Tensor = kernels.coefficient_bits(
            weight.float(), *self.log2_in_use(), self.bins, int(family), self.block
        )
        total: torch.Tensor = bits + overhead
        return total

    @torch.no_grad()
    def fit_rate(self, weight: torch.Tensor) -> float:
        """Fits the frequency tables to the weight; returns the bits of its record."""
        family, stored, bins = self._encoded(weight)
        # New tensors: graphs that wait for backward() keep the old ones.
        self.bins = bins.to(self.bins.device)
        self.tables = self.tables.new_tensor([float(family), 0.0, float(stored)])
        self.tables[1] = stored - float(self.bits(weight))
        return float(stored)

    @torch.no_grad()
    def stored_bits(self, weight: torch.Tensor) -> float:
        """The bits of the record; fits nothing."""
        return float(self._encoded(weight)[1])

    def _encoded(self, weight: torch.Tensor) -> tuple[int, int, torch.Tensor]:
        """The family of tables, the bits of the record, and the bins."""
        native = kernels.quantiser_of(tuple(weight.shape), tuple(self.block))
        host = kernels.on_host(weight)
        bins = torch.empty(weight.shape, dtype=torch.uint8, device="cpu")
        steps = kernels.native_steps(*self.log2_in_use())
        family, stored = native.fit_rate(host.data_ptr(), steps, bins.data_ptr())
        return family, stored, bins

    @property
    def fitted_bits(self) -> torch.Tensor:
        """The bits of the record when fit_rate() was called last."""
        return self.tables[2]

    @torch.no_grad()
    def snap(self) -> None:
        """Rounds steps to those that a file can have; they are no longer learned."""
        for field in (self.bands, self.rows, self.columns):
            if field.numel():
                mean = field.mean()
                self.scale.add_(mean)
                field.copy_(torch.round((field - mean) * QUARTERS) / QUARTERS)
        # New tensors, here and below: graphs that wait for backward() keep the old ones.
        self.held = torch.cat([parameter.reshape(-1) for parameter in self.log2_steps()])
        self.is_snapped = torch.ones_like(self.is_snapped)

    @torch.no_grad()
    def set_scale(self, scale: torch.Tensor | float) -> None:
        """Requires: the steps are snapped."""
        self.scale.fill_(scale)
        self.held = torch.cat([self.scale.reshape(1), self.held[1:]])

    def hold(self, original: torch.Tensor) -> None:
        """Ends the training of the weight, which let_go() begins again."""
        self.holds_original |= original.requires_grad
        original.requires_grad_(False)
        original.grad = None

    def let_go(self, original: torch.Tensor) -> None:
        """Trains the weight on, if it was trained before hold() and shall be."""
        if self.holds_original and self.learns_weight:
            original.requires_grad_(True)
            self.holds_original = False

    def are_of_a_file(self) -> bool:
        """Whether snapped steps are on the grid of files: averages of buffers would not be."""
        fields = self.held[1:] * QUARTERS
        return bool(torch.equal(fields, fields.round()))

    @torch.no_grad()
    def check_state(self, name: str, original: torch.Tensor) -> None:
        """Raises InvalidArgumentError for numbers that no training leaves in a state dict."""
        makes_sense = (
            bool(torch.isfinite(self.tables).all())
            and int(self.states) in (1, *TRELLISES)
            and (self.trellised is None or self.trellised.dtype == original.dtype)
        )
        try:
            if makes_sense:
                kernels.native_steps(*self.log2_steps())
                self.bits(original)
        except (FloatingPointError, InvalidArgumentError, ValueError, TypeError):
            makes_sense = False
        if not makes_sense:
            raise InvalidArgumentError(
                f"the state of weight `{name}` makes no sense: steps, tables or states are not "
                "those of a training",
                record=name,
            )

    def kept_steps(self) -> list[torch.Tensor]:
        """For undo_snap()."""
        return [parameter.detach().clone() for parameter in self.steps()]

    @torch.no_grad()
    def undo_snap(self, kept: list[torch.Tensor]) -> None:
        """Makes steps what kept_steps() has found before snap()."""
        for parameter, values in zip(self.steps(), kept, strict=True):
            parameter.copy_(values)
        self.is_snapped = torch.zeros_like(self.is_snapped)

    @torch.no_grad()
    def take_trellis(self, scale: float, states: int, values: torch.Tensor) -> None:
        """Takes the steps of a trellis and the values that it leads to."""
        self.set_scale(scale)
        self.states = torch.full_like(self.states, states)
        self.trellised = values.to(self.scale.device, copy=True)

    def _load_from_state_dict(self, state_dict, prefix, *rest):  # type: ignore[no-untyped-def]
        values = state_dict.get(prefix + "trellised")
        if values is None:
            self.trellised = None
        elif values.shape == self.bins.shape:  # others are refused as for all tensors
            self.trellised = torch.empty(values.shape, dtype=values.dtype, device=self.bins.device)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def file_steps(self, shape: torch.Size) -> FileSteps:
        """Requires: the steps are snapped."""
        native = kernels.quantiser_of(tuple(shape), tuple(self.block))
        scale, *fields = (steps.detach() for steps in self.log2_in_use())
        bands, rows, columns = ([round(x * QUARTERS) for x in field.tolist()] for field in fields)
        return FileSteps(
            step=kernels.step_of(float(scale)),
            bands=[bands[i] for i in native.range_of_band] if bands else [],
            rows=rows,
            columns=columns,
            # Without sides the file would have the blocks of convolution kernels.
            block=list(native.block) or [1],
            trellis_states=int(self.states),
        )
