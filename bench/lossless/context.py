"""What the rows of the benchmark share: options, results so far, the measuring of a data set."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from common import data, measure, peers
from common.measure import Seconds
from common.product import Product, Unavailable

REQUIRED = ["zstd -1", "zstd -3", "ZipNN", "pcodec", "OpenZL Huffman", "OpenZL FSE"]
SPEED_REFERENCE = "ZipNN"


@dataclass(frozen=True)
class Measurement:
    """One codec on one data set: size and speed together."""

    dataset: str
    codec: str
    version: str
    raw_bytes: int
    one_buffer_bytes: int
    tensor_bytes: int
    encode: Seconds
    decode: Seconds
    repetitions: int

    @property
    def best_bytes(self) -> int:
        """The smaller of both ways to hand over the data."""
        return min(self.one_buffer_bytes, self.tensor_bytes)


@dataclass(frozen=True)
class Finding:
    """One line of the table of targets. `verdict` is pass, FAIL, skipped or info."""

    row: str
    data: str
    what: str
    value: str
    against: str
    target: str
    verdict: str


@dataclass(frozen=True)
class ProgramMeasurement:
    """One program on one safetensors file, with one thread, from file to file."""

    dataset: str
    program: str
    version: str
    raw_bytes: int
    file_bytes: int
    compress_seconds: float
    decompress_seconds: float

    def ratio_text(self) -> str:
        """Ratio and size, for people."""
        return f"{self.raw_bytes / self.file_bytes:.4f} ({self.file_bytes:,} bytes)"


@dataclass
class Context:
    """Options of a run and everything found so far."""

    scratch: Path
    quick: bool
    product: Product | None
    measurements: dict[str, list[Measurement]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    programs: list[ProgramMeasurement] = field(default_factory=list)
    missing_peers: dict[str, str] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """Progress goes to stderr."""
        print(text, file=sys.stderr, flush=True)

    def judge(
        self, row: str, data: str, what: str, value: str, against: str, target: str, passed: bool
    ) -> None:
        """Adds a finding with its verdict."""
        verdict = "pass" if passed else "FAIL"
        self.findings.append(Finding(row, data, what, value, against, target, verdict))

    def skip(self, row: str, data: str, target: str, reason: str) -> None:
        """Adds a row that could not be measured, and says so."""
        self.say(f"SKIPPED {row}, {data}: {reason}")
        self.findings.append(Finding(row, data, "-", "-", reason, target, "skipped"))

    def require_product(self) -> Product:
        """cfck, or the reason why its rows are skipped."""
        if self.product is None:
            raise Unavailable("cfck is not installed")
        return self.product

    def measured(self, name: str) -> list[Measurement]:
        """Measures every codec on a data set, once per run of the benchmark."""
        if name not in self.measurements:
            self.say(f"measuring {name}")
            self.measurements[name] = self._measure(data.build(name))
        return self.measurements[name]

    def by_codec(self, name: str) -> dict[str, Measurement]:
        """The measurements of a data set under the names of the codecs."""
        return {m.codec: m for m in self.measured(name)}

    def _peers(self, dtype: np.dtype) -> list[peers.Peer]:
        found = []
        for name in peers.FACTORIES:
            peer = peers.make(name, dtype)
            if isinstance(peer, peers.Peer):
                found.append(peer)
            elif name not in self.missing_peers:
                self.missing_peers[name] = peer.reason
                self.say(f"SKIPPED peer {name}: {peer.reason}")
        return found

    def _measure(self, dataset: data.Dataset) -> list[Measurement]:
        joined = dataset.joined()
        codecs = self._peers(dataset.dtype)
        tensor_sizes = {peer.name: tensor_by_tensor(peer, dataset) for peer in codecs}
        if self.product is not None:
            codecs.append(self.product.array_codec())
            tensor_sizes[self.product.name] = self.product_size(self.product, dataset)
        sizes = {codec.name: measure.encoded_size(codec, joined) for codec in codecs}
        repetitions = self._repetitions(dataset.name)
        times = measure.alternate_codecs(codecs, joined, repetitions)
        return [
            Measurement(
                dataset=dataset.name,
                codec=codec.name,
                version=codec.version,
                raw_bytes=joined.nbytes,
                one_buffer_bytes=sizes[codec.name],
                tensor_bytes=tensor_sizes[codec.name],
                encode=times[codec.name][0],
                decode=times[codec.name][1],
                repetitions=repetitions,
            )
            for codec in codecs
        ]

    def _repetitions(self, name: str) -> int:
        if self.quick:
            return 1
        return 9 if name in SPEED_DATASETS else 3

    def product_size(self, product: Product, dataset: data.Dataset) -> int:
        """Stored bytes of the records, or of the whole file, after comparing."""
        if not dataset.whole_file:
            return product.stored_bytes(dataset.tensors, self.scratch)
        source = dataset.file
        if source is None:
            source = self.scratch / "made.safetensors"
            save_file(dataset.tensors, source)
        size = product.convert_there_and_back(source, self.scratch)
        if dataset.file is None:
            source.unlink()
        return size


SPEED_DATASETS = ("minilm-f32", "minilm-2d-bf16")

Row = Callable[[Context], None]


def tensor_by_tensor(peer: peers.Peer, dataset: data.Dataset) -> int:
    """Bytes of one call per tensor; the header too where the whole file counts."""
    total = 0
    for tensor in dataset.tensors.values():
        flat = np.ascontiguousarray(tensor).reshape(-1).view(dataset.dtype)
        total += measure.encoded_size(peer, flat)
    if dataset.whole_file:
        total += dataset.header_bytes()
    return total
