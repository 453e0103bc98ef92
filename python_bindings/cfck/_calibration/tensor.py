"""A tensor as a calibration knows it (docs/calibration.md)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from .. import _native

# Tensors that plain lossy options reach; only they say what the flat step is.
MIN_VALUES = 1024


@dataclasses.dataclass(frozen=True, eq=False)
class CalibratedTensor:
    """The measurements of one tensor.

    Attributes:
        shape: dimensions.
        dtype: its name in safetensors: "F32", ...
        digest: hash of its values, as RecordInfo.digest; "" where nothing was measured.
        tied_to: name of the tensor that is the same memory and has the numbers below; or None.
        sigma: root mean square of its finite values.
        sensitivity: how much the distance of the model's outputs grows for each unit of the
            tensor's normalised mean square error, sum(e^2) / sum(w^2), while that is small. NaN
            where it was not measured.
        linearity: the sensitivity measured with the larger error over that with the smaller: near
            1, unless the error is no longer small for this tensor. NaN where nothing can be said.
        log2_step: by how many octaves its step should be above the flat one, which is the same
            multiple of sigma for all tensors; at most ``cap_octaves`` of the calibration.
        log2_step_uncapped: likewise, without a limit; inf where the output does not depend on it.
        second_moment: E[x x^T] of the inputs of its layer, (groups, n, n), or only the diagonals,
            (groups, n); None where it was not measured. Order of n: input channel of the group,
            then the taps of the kernel.
        input_axis: axis of the tensor that has the input channels: 1, or 0 where the layer is
            transposed.
        row_frequency: how often each row of an embedding was looked up; adds up to 1.
        gradient_energy: E[g^2] for each output of its layer, g the gradient of an example's loss.
        n_positions: how many inputs the moments were measured on: each example has some.
        corrected: the values of a refined calibration that codec "spectral" rounds instead of
            the tensor's own, float32 of its shape: they make up for errors in the layers before.
    """

    shape: tuple[int, ...]
    dtype: str
    digest: str = ""
    tied_to: str | None = None
    sigma: float = math.nan
    sensitivity: float = math.nan
    linearity: float = math.nan
    log2_step: float = 0.0
    log2_step_uncapped: float = 0.0
    second_moment: np.ndarray | None = None
    input_axis: int = 1
    row_frequency: np.ndarray | None = None
    gradient_energy: np.ndarray | None = None
    n_positions: int = 0
    corrected: np.ndarray | None = None

    @property
    def n_elems(self) -> int:
        """Product of the shape."""
        return math.prod(self.shape)

    @property
    def is_measured(self) -> bool:
        """Whether there is a sensitivity."""
        return not math.isnan(self.sensitivity)


def native_tensor(name: str, tensor: CalibratedTensor) -> _native.CalibratedTensor:
    """The tensor for the library. A tied one takes the arrays of the tensor that it is tied to."""
    is_tied = tensor.tied_to is not None
    return _native.CalibratedTensor(
        name=name,
        shape=tensor.shape,
        tied_to=tensor.tied_to or "",
        sigma=tensor.sigma,
        log2_step=tensor.log2_step,
        second_moment=None if is_tied else _contiguous(tensor.second_moment),
        input_axis=0 if tensor.second_moment is not None and tensor.input_axis == 0 else 1,
        n_positions=max(0, tensor.n_positions),
        corrected=None if is_tied else _contiguous(tensor.corrected),
    )


def _contiguous(array: np.ndarray | None) -> np.ndarray | None:
    """The array itself where its memory is in row-major order; otherwise a copy."""
    if array is None:
        return None
    return np.require(array, array.dtype.newbyteorder("="), ["C", "A"])


def with_steps(
    tensors: Mapping[str, CalibratedTensor], cap_octaves: float
) -> dict[str, CalibratedTensor]:
    """The tensors with log2_step set from their sensitivities.

    A step of m_t times the flat one, which is a multiple of sigma_t, costs the distance s_t m_t^2
    and saves n_t log2(m_t) bits. At equal slopes m_t^2 is in proportion to n_t / s_t; the factor is
    such that the mean of 1 / m_t^2 over all values is 1.
    """
    counted = [
        tensor
        for tensor in tensors.values()
        if tensor.is_measured
        and tensor.tied_to is None
        and len(tensor.shape) >= 2
        and tensor.n_elems >= MIN_VALUES
    ]
    n_elems = math.fsum(tensor.n_elems for tensor in counted)
    sensitivity = math.fsum(tensor.sensitivity for tensor in counted)
    result = {}
    for name, tensor in tensors.items():
        octaves = 0.0
        if tensor.is_measured and sensitivity > 0:
            octaves = math.inf
            if tensor.sensitivity > 0:
                share = tensor.sensitivity / sensitivity
                octaves = 0.5 * (math.log2(tensor.n_elems / n_elems) - math.log2(share))
        capped = min(max(octaves, -cap_octaves), cap_octaves)
        result[name] = dataclasses.replace(tensor, log2_step=capped, log2_step_uncapped=octaves)
    return result
