"""The sections of the entropy stage rans in the vectors are those that codec/entropy/rans.md
describes."""

import collections
import math

import rans_encoder
import rans_sections
import reference_codec
import reference_container as container
import reference_direct
import reference_rans
from lossless_payloads import VECTORS, lossless_payloads
from test_direct_chunks import direct_chunk
from test_direct_vectors import payloads

SIZES = {name: bits // 8 for name, bits, *_ in container.DTYPES.values()}


class RecordingLanes(reference_rans.Lanes):
    """Keeps what it decodes."""

    made: list = []

    def __init__(self, body, codec: str, tables=None):
        super().__init__(body, codec, tables)
        self.section, self.codec, self.runs = body.data, codec, []
        self.made.append(self)

    def decode(self, n_symbols: int, places):
        symbols = super().decode(n_symbols, places)
        self.runs.append((symbols.tobytes(), list(places)))
        return symbols


def sections(monkeypatch):
    """(lanes of each segment, number of values of the first that are not masked) of every such
    chunk."""
    monkeypatch.setattr(reference_codec, "Lanes", RecordingLanes)
    monkeypatch.setattr(reference_direct, "Lanes", RecordingLanes)
    RecordingLanes.made = []
    yield from lossless_sections()
    yield from direct_sections()


def taken(n_values: list[int]):
    """The lanes of a chunk, by segments, and how many values the first of them has."""
    made, RecordingLanes.made = RecordingLanes.made, []
    assert len(made) == len(n_values)
    return made, n_values[0]


def lossless_sections():
    for dtype, n_elems, payload in lossless_payloads("handmade", reference_codec.RANS):
        if payload[0] == 2:
            n_values, size = (2 * n_elems, 4) if dtype == "C64" else (n_elems, SIZES[dtype])
            body = reference_codec.Body(payload[1:])
            format = reference_codec.FORMATS_OF_RANS[dtype]
            chunk = reference_codec.SymbolChunk(body, format, n_values, size, reference_codec.RANS)
            chunk.decode_lanes()
            yield taken([part.n_shown for part in chunk.segments or [chunk]])


def direct_sections():
    for path in sorted(VECTORS.glob("rans_direct*.cfck")):
        file = container.File(path.read_bytes(), container.Limits())
        for record in file.records:
            if record.codec != container.DIRECT or record.entropy != reference_codec.RANS:
                continue
            for case, outcome in payloads(file, record):
                if outcome.payload[0] < reference_direct.INLINE:
                    continue
                chunk, _ = direct_chunk(case, outcome)
                chunk.decode_lanes()
                yield taken([len(part.order) for part in chunk.segments or [chunk]])


def test_sections_of_the_vectors(monkeypatch):
    seen = collections.Counter()
    for segments, n_values in sections(monkeypatch):
        parts = [([run for run in lanes.runs if run[1]], lanes.payload()) for lanes in segments]
        first = segments[0]
        seen[first.codec] += 1
        seen[f"{first.n_sets} sets"] += 1
        seen["segments"] += len(segments) > 1
        seen["whole tail"] += any(parts[0][1][-4:])
        tables, lanes = rans_encoder.encode_segments(parts, n_values, first.codec)
        seen["explicit"] += tables[0] >> 2 & 1
        again = [tables + lanes[0]] if len(segments) == 1 else lanes
        assert again == [part.section for part in segments], (first.codec, n_values)
    assert seen["lossless"] > 60 and seen["direct"] > 30, seen
    assert min(seen.values()) >= 2 and len(seen) == 8, seen


def test_costs():
    """Against logarithms of the standard library: less than one unit above the true value."""
    for frequency in range(1, 4097):
        exact = 65536 * (12 - math.log2(frequency))
        assert 0 <= rans_encoder.symbol_cost(frequency) - exact < 1.001, frequency


def test_static_tables():
    tables = rans_sections.static_tables()
    assert len(tables) == 8 * (4 + 39 + 78) + 8 + 4
    assert all(sum(table) == 4096 and len(table) == 32 for table in tables.values())
    for choice in range(256):
        assert len(rans_sections.tables_of_choice(choice, "lossless")) == 2 + 4
        assert len(rans_sections.tables_of_choice(choice, "direct")) == 2 + 39
        assert len(rans_sections.tables_of_choice(choice, "spectral")) == 2 + 78
