"""What the gradients of a parameter have accumulated on this rank."""

from __future__ import annotations

import math

import torch
from torch import nn

from .. import _native
from .gradients import SparseGradient, chosen, unsent
from .selection import is_on_host, select_largest


class Accumulated:
    """What one parameter has accumulated on this rank.

    Attributes:
        name: of the parameter.
        n: how many values it has.
        is_matrix: whether it has two dimensions or more.
        owner: which rank of each node accumulates it; 0 without nodes.
        is_own: whether that is this rank. If not, there is nothing here.
        velocity: what was not sent yet, flat, of dtype float32, on the device of the gradients.
        momentum: likewise; None without momentum.
    """

    def __init__(
        self,
        name: str,
        parameter: nn.Parameter,
        has_momentum: bool,
        owner: int = 0,
        is_own: bool = True,
    ) -> None:
        self.name = name
        self.n = parameter.numel()
        self.is_matrix = parameter.dim() > 1
        self.owner, self.is_own = owner, is_own
        # Models are made on meta, or moved to a device later: what there is follows the gradients.
        device = "cpu" if parameter.is_meta else parameter.device
        self.velocity = torch.zeros(self.n if is_own else 0, dtype=torch.float32, device=device)
        self.momentum = torch.zeros_like(self.velocity) if has_momentum else None
        self._saved: tuple[torch.Tensor, torch.Tensor | None] | None = None

    def save(self) -> None:
        """Keeps what is there, for undo()."""
        momentum = None if self.momentum is None else self.momentum.clone()
        self._saved = self.velocity.clone(), momentum

    def undo(self) -> None:
        """Takes back all since save(), if there is something to take back."""
        if self._saved is not None:
            self.velocity, self.momentum = self._saved
            self._saved = None

    def settle(self) -> None:
        """There is nothing to take back any more."""
        self._saved = None

    def take(
        self, gradient: torch.Tensor, ratio: float, factor: float, nesterov: bool
    ) -> SparseGradient:
        """Accumulates a gradient, and returns what is to be sent: ``ratio`` of the values."""
        k = min(self.n, math.ceil(ratio * self.n))
        self._move_to(gradient.device)
        if not is_on_host(gradient):
            self._accumulate(gradient, factor, nesterov)
            return chosen(self.velocity, select_largest(self.velocity, k))
        # Unsigned integers of 32 bits, as packets take them.
        indices = torch.empty(k, dtype=torch.int32, device="cpu")
        values = torch.empty(k, dtype=torch.float32, device="cpu")
        _native.accumulate_and_select(
            gradient.data_ptr(),
            0 if self.momentum is None else self.momentum.data_ptr(),
            self.velocity.data_ptr(),
            self.n,
            factor,
            nesterov,
            indices.data_ptr(),
            values.data_ptr(),
            k,
        )
        return SparseGradient(self.n, indices, values)

    def _move_to(self, device: torch.device) -> None:
        self.velocity = self.velocity.to(device)
        if self.momentum is not None:
            self.momentum = self.momentum.to(device)

    def _accumulate(self, gradient: torch.Tensor, factor: float, nesterov: bool) -> None:
        """On a device; operations and their order are those of accumulate_and_select()."""
        if self.momentum is None:
            self.velocity.add_(gradient)
        elif nesterov:
            self.velocity.add_(self.momentum.add_(gradient).mul_(factor)).add_(gradient)
        else:
            self.velocity.add_(self.momentum.mul_(factor).add_(gradient))

    def sent(self, offered: SparseGradient, decoded: torch.Tensor, masks_momentum: bool) -> None:
        """Keeps what was not sent: the errors of values. What is not finite leaves nothing."""
        if not is_on_host(self.velocity):
            self._leave(offered.indices, unsent(offered.values, decoded), masks_momentum)
            return
        masked = self._masked(offered.indices, masks_momentum)
        _native.keep_unsent(
            offered.indices.data_ptr(),
            offered.values.data_ptr(),
            decoded.data_ptr(),
            offered.indices.numel(),
            0 if masked is None else masked.data_ptr(),
            self.velocity.data_ptr(),
            self.n,
        )

    def sent_exactly(self, places: torch.Tensor, masks_momentum: bool) -> None:
        """Nothing is left of the values in some places: all ranks have got them as they were."""
        self._leave(places, 0.0, masks_momentum)

    def _leave(
        self, places: torch.Tensor, left: torch.Tensor | float, masks_momentum: bool
    ) -> None:
        places = places.to(self.velocity.device)
        self.velocity[places] = left.to(places.device) if isinstance(left, torch.Tensor) else left
        masked = self._masked(places, masks_momentum)
        if masked is not None:
            masked[places] = 0

    def _masked(self, places: torch.Tensor, masks_momentum: bool) -> torch.Tensor | None:
        """The momentum, where that of what was sent becomes 0: not where all is sent."""
        return self.momentum if masks_momentum and places.numel() < self.n else None
