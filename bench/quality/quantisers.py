"""Weight-only quantisers as peers: each quantises a matrix and gives it back, by its own functions.

Bits count everything that a file must hold: codes, scales and zeros. Scales that a package keeps
as float32 while it computes count as the float16 that its files have.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from rate_distortion.points import Tensors

# From a matrix to the bits it takes and what it is decoded to.
Quantise = Callable[[np.ndarray], tuple[float, np.ndarray]]
BITS_OF_SCALE = 16


@dataclass(frozen=True)
class Quantiser:
    """A format of a package."""

    name: str
    quantise: Quantise

    def apply(self, tensors: Tensors) -> tuple[float, Tensors]:
        """Bits per weight of all tensors, and what they are decoded to."""
        decoded: Tensors = {}
        bits = 0.0
        for name, values in tensors.items():
            taken, decoded[name] = self.quantise(np.ascontiguousarray(values))
            bits += taken
        return bits / sum(values.size for values in tensors.values()), decoded


def _gguf() -> list[Quantiser]:
    from gguf import GGMLQuantizationType, quants

    def quantiser(name: str) -> Quantiser:
        kind = GGMLQuantizationType[name]

        def quantise(values: np.ndarray) -> tuple[float, np.ndarray]:
            blocks = quants.quantize(values, kind)
            return 8.0 * blocks.nbytes, quants.dequantize(blocks, kind)

        return Quantiser(f"GGUF {name}", quantise)

    return [quantiser(name) for name in ("Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0")]


def _bitsandbytes() -> list[Quantiser]:
    from bitsandbytes import functional

    def quantiser(kind: str, doubled: bool) -> Quantiser:
        def quantise(values: np.ndarray) -> tuple[float, np.ndarray]:
            codes, state = functional.quantize_4bit(
                torch.from_numpy(values), blocksize=64, compress_statistics=doubled, quant_type=kind
            )
            scales = state.absmax.nbytes if doubled else state.absmax.numel() * BITS_OF_SCALE / 8
            n_bytes = codes.nbytes + scales + (state.state2.absmax.nbytes if doubled else 0)
            return 8.0 * n_bytes, functional.dequantize_4bit(codes, state).numpy()

        doubly = ", double quantisation" if doubled else ""
        return Quantiser(f"bitsandbytes {kind.upper()}{doubly}", quantise)

    return [quantiser("nf4", True), quantiser("nf4", False), quantiser("fp4", True)]


def _hqq() -> list[Quantiser]:
    from hqq.core.quantize import Quantizer

    def quantiser(n_bits: int, group: int) -> Quantiser:
        def quantise(values: np.ndarray) -> tuple[float, np.ndarray]:
            codes, meta = Quantizer.quantize(
                torch.from_numpy(values.copy()),
                nbits=n_bits,
                group_size=group,
                optimize=True,
                axis=1,
                device="cpu",
                compute_dtype=torch.float32,
            )
            bits = values.size * (n_bits + 2 * BITS_OF_SCALE / group)
            return bits, Quantizer.dequantize(codes, meta).numpy()

        return Quantiser(f"HQQ {n_bits} bit, groups of {group}", quantise)

    settings = ((8, 64), (4, 32), (4, 64), (3, 32), (3, 64), (2, 16))
    return [quantiser(n_bits, group) for n_bits, group in settings]


def _torchao() -> list[Quantiser]:
    from torchao.quantization import IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup

    def quantiser(n_bits: int, group: int | None) -> Quantiser:
        granularity = PerGroup(group) if group else PerAxis(0)
        dtype = getattr(torch, f"int{n_bits}")
        config = IntxWeightOnlyConfig(weight_dtype=dtype, granularity=granularity)

        def quantise(values: np.ndarray) -> tuple[float, np.ndarray]:
            layer = torch.nn.Linear(values.shape[1], values.shape[0], bias=False)
            layer.weight.data = torch.from_numpy(values.copy())
            quantize_(layer, config)
            bits = values.size * n_bits + layer.weight.scale.numel() * BITS_OF_SCALE
            return bits, layer.weight.dequantize().detach().numpy()

        of = f"groups of {group}" if group else "a scale for each row"
        return Quantiser(f"torchao int{n_bits}, {of}", quantise)

    return [quantiser(n_bits, group) for n_bits, group in ((8, None), (4, 32), (4, 128), (3, 32))]


PACKAGES: dict[str, Callable[[], list[Quantiser]]] = {
    "gguf": _gguf,
    "bitsandbytes": _bitsandbytes,
    "hqq": _hqq,
    "torchao": _torchao,
}


def available() -> tuple[list[Quantiser], dict[str, str], dict[str, str]]:
    """The quantisers, the versions of their packages, and the packages that are missing, with why.

    The order is that of PACKAGES.
    """
    found: list[Quantiser] = []
    versions: dict[str, str] = {}
    missing: dict[str, str] = {}
    for package, make in PACKAGES.items():
        try:
            found += make()
            versions[package] = importlib.metadata.version(package)
        except ImportError as error:
            missing[package] = str(error)
    return found, versions, missing
