"""Vectors of the spectral codec: codec/spectral/spec.md. One is made by the writer; the chunks
of the others have parameters of every kind, and are put into a file here."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import struct
import subprocess
import tempfile

from broken_vectors import digest, pack_of
from direct_vectors import kernels
from layout import Entry, Layout, frame
from vector import BITS, Expected, Random, Vector, packed_floats

IDS = {"F16": 14, "BF16": 15, "F32": 18, "F64": 20}
STAGES = {"zstd": 1, "rans": 2}
STORAGE, BANDS, BINS, ROW_BLOCKS = range(4)  # orders


@dataclasses.dataclass
class Coded:
    """A tensor, and how the chunks of its record are encoded."""

    name: str
    shape: list[int]
    values: list[float]
    options: dict
    dtype: str = "F32"
    entropy: str = "zstd"
    chunk_elems: int = 0  # of more than one chunk

    @property
    def content(self) -> bytes:
        return packed_floats(self.dtype, self.values)

    def cases(self):
        """Of write_spectral, with the values of each."""
        size = BITS[self.dtype] // 8
        step = self.chunk_elems or len(self.values)
        common = {"dtype": self.dtype, "shape": self.shape, "entropy": self.entropy}
        common |= self.options | {"in_preamble": bool(self.chunk_elems)}
        for first in range(0, len(self.values), step):
            values = self.content[first * size : (first + step) * size]
            yield common | {"first": first, "n": len(values) // size}, values


@dataclasses.dataclass
class Outcome:
    preamble: bytes
    payload: bytes
    decoded: bytes


def encoded(tensors: list[Coded], writer: str) -> list[list[Outcome]]:
    """The chunks of each tensor. `writer`: write_vector, which write_spectral is beside."""
    cases, data = [], bytearray()
    for tensor in tensors:
        for case, values in tensor.cases():
            cases.append(case | {"values": (len(data), len(values))})
            data += values
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder, name) for name in ("cases.json", "data.bin", "out.bin")]
        files[0].write_text(json.dumps(cases))
        files[1].write_bytes(data)
        program = pathlib.Path(writer).with_name("write_spectral")
        result = subprocess.run([program, *files], capture_output=True, text=True)
        if result.returncode != 0:
            raise SystemExit(result.stderr.strip())
        rest = files[2].read_bytes()
    chunks = []
    for tensor in tensors:
        chunks.append([])
        for _ in tensor.cases():
            strings = []
            for _ in range(4):
                (length,) = struct.unpack_from("<I", rest)
                strings.append(rest[4 : 4 + length])
                rest = rest[4 + length :]
            chunks[-1].append(Outcome(*strings[:3]))
    return chunks


def unpacked(dtype: str, content: bytes) -> list[float]:
    if dtype == "BF16":
        wide = b"".join(b"\0\0" + content[i : i + 2] for i in range(0, len(content), 2))
        return list(struct.unpack(f"<{len(content) // 2}f", wide))
    letter = {"F16": "e", "F32": "f", "F64": "d"}[dtype]
    return list(struct.unpack(f"<{8 * len(content) // BITS[dtype]}{letter}", content))


def error_and_quality(tensor: Coded, decoded: bytes) -> tuple[bytes, bytes]:
    """spec/format.md, section 5.4."""
    pairs = zip(unpacked(tensor.dtype, tensor.content), unpacked(tensor.dtype, decoded))
    pairs = [(x, y) for x, y in pairs if math.isfinite(x)]
    finite = [x for x, _ in pairs]
    errors = [abs(x - y) for x, y in pairs]

    def root_mean(numbers: list[float]) -> float:
        most = max(map(abs, numbers))
        return min(most, math.sqrt(math.fsum(x * x for x in numbers) / len(numbers)))

    bound = tensor.options.get("max_abs_error", 0.0)
    error = struct.pack("<dddB7x", bound, max(errors), root_mean(errors), bound > 0)
    quality = struct.pack("<dddd8x", 0, root_mean(finite), min(finite), max(finite))
    return error, quality


def file_of(vector: Vector, tensors: list[Coded], writer: str) -> bytes:
    """Records of one chunk are packed."""
    layout, packed = Layout.empty(), []
    for tensor, chunks in zip(tensors, encoded(tensors, writer)):
        assert all(chunk.payload[0] >= 4 for chunk in chunks), f"{tensor.name} is lossless"
        decoded = b"".join(chunk.decoded for chunk in chunks)
        entry = Entry(tensor.name.encode(), tensor.shape, [], dtype=IDS[tensor.dtype], codec=3)
        entry.entropy, entry.flags, entry.digest = STAGES[tensor.entropy], 12, digest(decoded)
        entry.error, entry.quality = error_and_quality(tensor, decoded)
        kind = "chunked" if tensor.chunk_elems else "packed"
        expected = Expected(tensor.name, tensor.dtype, tensor.shape, decoded, kind)
        vector.tensors[tensor.name] = expected
        if not tensor.chunk_elems:
            packed.append((entry, chunks[0].payload))
            continue
        layout.entries.append(entry)
        assert tensor.entropy == "rans", "a body shorter than its payload"
        extents = [frame(b"PREA", chunks[0].preamble)]
        extents += [frame(b"CHNK", chunk.payload) for chunk in chunks]
        entry.flags, entry.b, entry.c = 14, len(layout.body), tensor.chunk_elems
        entry.chunks = [[len(extent), 0] for extent in extents]
        layout.body += b"".join(extents)
    pack_of([payload for _, payload in packed], [entry for entry, _ in packed], layout)
    layout.rehash()
    return layout.seal()


def options(states: int, step: float, order: int = STORAGE, **more) -> dict:
    return {"states": states, "step": step, "order": order} | more


def chunks(writer: str) -> tuple[Vector, bytes]:
    purpose = "chunks of codec spectral: states, orders, steps, escapes, exact values, both stages"
    vector, random = Vector("spectral_chunks.cfck", purpose), Random(101)
    tensors = []

    def add(name: str, shape, values, choice: dict, **fields) -> None:
        tensors.append(Coded(name, list(shape), values, choice, **fields))

    for entropy in ("zstd", "rans"):
        for states in (1, 4, 8):
            noise = random.weights(300, 0.1)
            how = f"{states} states, {entropy}"
            add(f"coarse, {how}", [300], noise, options(states, 0.2), entropy=entropy)
            fine = options(states, 1e-4, sides=[5], order=BANDS)
            add(f"low bits, {how}", [20, 15], noise, fine, entropy=entropy)
        far = [value * (50 if i % 61 == 5 else 1) for i, value in enumerate(noise)]
        outliers = options(8, 0.05)
        add(f"escapes, {entropy}", [300], far, outliers, entropy=entropy)
        odd = noise[:]
        odd[7], odd[100], odd[101], odd[299] = math.nan, math.inf, -math.inf, -0.0
        kept = options(4, 0.1, max_abs_error=0.08)
        add(f"exact values, {entropy}", [10, 30], odd, kept, entropy=entropy)
        jumps = [value * (1.0, 1000.0, 0.001)[i // 128] for i, value in enumerate(noise)]
        wide = options(8, 0.02, **{"lambda": 0.1})
        add(f"zero groups and class escapes, {entropy}", [300], jumps, wide, entropy=entropy)
    for entropy in ("zstd", "rans"):
        noise = random.weights(200, 0.1)
        how = f"64 states, {entropy}"
        add(f"coarse, {how}", [200], noise, options(64, 0.2), entropy=entropy)
        fine = options(64, 1e-3, sides=[5], order=BANDS)
        add(f"low bits, {how}", [10, 20], noise, fine, entropy=entropy)
    return vector, file_of(vector, tensors, writer)


def fields_of(random: Random, counts, least: int, below: int, first: int) -> dict:
    """Bands around `first`, rows and columns around 0."""
    field = {}
    for name, count in zip(("bands", "rows", "columns"), counts):
        if count:
            field[name] = [first + least + random.below(below - least) for _ in range(count)]
            first = 0
    return field


def range_of(band: int) -> int:
    """The Morton range of a band."""
    if band < 16:
        return band
    octave = band.bit_length() - 1
    return 16 + 8 * (octave - 4) + (band >> octave - 3) - 8


def blocks(writer: str) -> tuple[Vector, bytes]:
    purpose = "blocks of codec spectral: transforms, edges, fields of scales and steps, dtypes"
    vector, random = Vector("spectral_blocks.cfck", purpose), Random(102)
    tensors = []

    def add(name: str, shape, choice: dict, values=None, **fields) -> None:
        values = random.weights(math.prod(shape), 0.1) if values is None else values
        tensors.append(Coded(name, list(shape), values, choice | {"transforms": True}, **fields))

    for dtype in ("F64", "F32", "BF16", "F16"):
        shape = [8, 5, 3, 3]
        scales = fields_of(random, (9, 8, 5), -2, 3, 26)
        steps = fields_of(random, (9, 0, 5), -3, 4, 0)
        by_bin = options(8, 0.1, BINS, sides=[3, 3], scales=scales)
        values = kernels(random, shape)
        add(f"{dtype} kernels", shape, by_bin, values, dtype=dtype, entropy="rans", chunk_elems=90)
        add(f"{dtype} step field", shape, by_bin | {"steps": steps}, values, dtype=dtype)
        edges = options(4, 0.03, BANDS, sides=[4, 8])
        add(f"{dtype} edges", [13, 19], edges, dtype=dtype, entropy="rans")
        add(
            f"{dtype} blocks beyond the tensor",
            [3, 70],
            options(8, 0.05, sides=[2, 64]),
            dtype=dtype,
        )
    edges = options(8, 0.05, sides=[3, 4, 5])
    add("chunks of whole blocks", [10, 6, 7], edges, entropy="rans", chunk_elems=6 * 42)
    rows = fields_of(random, (0, 22, 9), -4, 5, 0)
    identity = options(4, 0.02, BINS, scales=fields_of(random, (1, 0, 0), 0, 1, 33), steps=rows)
    add("identity", [22, 9], identity, entropy="rans", chunk_elems=50)
    tensors[-1].options["transforms"] = False
    for entropy, shape, chunk in (("zstd", [21, 2, 3, 2], 0), ("rans", [43, 7], 37 * 7)):
        scales = fields_of(random, (6 if not chunk else 1, shape[0], shape[1]), -3, 4, 31)
        steps = fields_of(random, (0, 0, shape[1]), -2, 3, 0)
        sides = shape[2:]
        rows = options(8, 0.1, ROW_BLOCKS, sides=sides, scales=scales, steps=steps)
        add(f"blocks of rows, {entropy}", shape, rows, entropy=entropy, chunk_elems=chunk)
        tensors[-1].options["transforms"] = bool(sides)
    for entropy, shape, sides in (("zstd", [70, 9], [32, 3]), ("rans", [40, 2, 5, 5], [5, 5])):
        ranges = fields_of(random, (range_of(math.prod(sides) - 1) + 1, 0, 0), -4, 5, 0)["bands"]
        bands = [ranges[range_of(band)] for band in range(math.prod(sides))]
        fields = {"scales": {"bands": [30 + entry for entry in bands]}, "steps": {"bands": bands}}
        grouped = options(8, 0.05, BINS, sides=sides, ranges=True, **fields)
        add(f"Morton ranges, {entropy}", shape, grouped, entropy=entropy)
    add("one axis", [77], options(8, 0.05, BANDS, sides=[16]))
    add("eight axes", [2, 1, 3, 2, 1, 2, 3, 4], options(8, 0.1, BANDS, sides=[2, 2, 2, 4]))
    far = fields_of(random, (0, 3, 0), -32768, -32767, 0)
    add("steps far apart", [3, 64], options(8, 1e300, sides=[64], steps=far | {"columns": [32767]}))
    return vector, file_of(vector, tensors, writer)


def written() -> Vector:
    purpose = "records of codec spectral as they are written: what is asked, one chunk and several"
    vector = Vector("spectral.cfck", purpose, entropy="rans", chunk_elems=400)
    random = Random(103)
    for dtype in ("F64", "F32", "BF16", "F16"):
        for shape, asked in (
            ([6, 8, 3, 3], {"max_abs_error": 0.02}),
            ([20, 12, 3, 3], {"nmse": 0.01}),
            ([30, 24], {"psnr": 30.0}),
            ([300], {"bits_per_weight": 3.0, "step_preset": "flat"}),
            ([], {"max_abs_error": 0.1}),
        ):
            count = math.prod(shape)
            values = kernels(random, shape) if len(shape) > 2 else random.weights(count, 0.1)
            content = packed_floats(dtype, values)
            vector.add(f"{dtype} {shape}", dtype, shape, content, codec="spectral", asked=asked)
    return vector


SPECTRAL_VECTORS = (written,)
CODED_VECTORS = (chunks, blocks)
