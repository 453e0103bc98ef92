"""The vectors use every part of the format, so that decoding them proves something."""

import collections

import reference_codec
import reference_container as container
import reference_delta
import reference_direct
from lossless_payloads import files, lossless_payloads
from vector_files import MANIFEST, read_vector


def test_kinds_dtypes_and_codecs():
    records = [record for file in files() for record in file.records]
    assert {record.kind for record in records} == {0, 1, 2, 3}
    assert any(record.hidden for record in records)
    for codec in (container.RAW, container.LOSSLESS):
        of_codec = [record for record in records if record.codec == codec]
        assert {record.dtype for record in of_codec} == set(container.DTYPES)
        for dtype in container.DTYPES:
            n_elems = {record.n_elems for record in of_codec if record.dtype == dtype}
            assert len(n_elems) >= 3, (codec, dtype)
            assert any(record.dtype == dtype and not record.n_elems for record in records)
        several = {record.dtype for record in of_codec if len(record.extents) > 1}
        assert len(several) >= (6 if codec == 0 else len(container.DTYPES)), codec


def test_modes_of_every_dtype():
    modes = collections.defaultdict(set)
    for dtype, _, payload in lossless_payloads():
        modes[payload[0]].add(dtype)
    every = {name for name, *_ in container.DTYPES.values()}
    assert modes[0] | modes[1] | modes[2] | modes[3] == every
    with_symbols = {"F64", "F32", "C64", "BF16", "F16"}
    with_symbols |= {"F8_E5M2", "F8_E5M2FNUZ", "F8_E4M3", "F8_E4M3FNUZ"}
    assert modes[2] == with_symbols
    assert modes[3] >= every - with_symbols - {"F6_E3M2"}
    assert len(modes[0]) >= 10 and len(modes[1]) >= 15


FLAGS_OF_RANS = (0, 1, 2, 3, 6, 7)


def test_flags_of_symbols():
    for stage, bits in (
        (reference_codec.ZSTD, range(8)),
        (reference_codec.RANS, (0, 1, 2, 3, 6, 7)),
    ):
        flags = [payload[1] for _, _, payload in lossless_payloads(stage=stage) if payload[0] == 2]
        for bit in bits:
            assert {flag >> bit & 1 for flag in flags} == {0, 1}, (stage, bit)


def test_widths_of_raw_bits(monkeypatch):
    """In whole groups and in shorter ones, of which some have unused bits."""
    seen = collections.defaultdict(set)
    unpack = reference_codec.unpack_values

    def noting(packed, n_bits, count):
        if len(packed):
            seen[count == reference_codec.GROUP].add(n_bits)
            seen["unused bits"].add(count * (n_bits % 8) % 8)
        return unpack(packed, n_bits, count)

    monkeypatch.setattr(reference_codec, "unpack_values", noting)
    monkeypatch.setattr(reference_direct, "unpack_values", noting)
    for prefix, widths in (("", range(1, 27)), ("rans_", range(2, 23)), ("direct", range(3, 8))):
        seen.clear()
        names = "direct_low_bits", "packed_bits"
        for entry in MANIFEST["vectors"]:
            if entry["file"].startswith(prefix) and any(name in entry["file"] for name in names):
                read_vector(entry)
        assert seen[True] >= set(widths) and len(seen["unused bits"]) >= 5, (prefix, seen)
        assert len(seen[False]) >= 15, (prefix, seen)


def test_planes():
    bits = {name: bits for name, bits, *_ in container.DTYPES.values()}
    transforms, codings = set(), set()
    for dtype, _, payload in lossless_payloads():
        if payload[0] != 3:
            continue
        body = reference_codec.Body(payload[1:])
        transforms.add(body.byte())
        for _ in range(4 if dtype == "C64" else max(bits[dtype] // 8, 1)):
            coding = body.byte()
            codings.add(coding)
            if coding == 1:
                body.byte()
            elif coding == 2:
                body.varint()
    assert transforms == {0, 1}
    assert codings == {0, 1, 2}


def test_records_that_are_stored_against_a_base(monkeypatch):
    chunks, modes = [], set()
    decode = reference_delta.decode_chunk

    def noting(payload, dtype, *values):
        chunks.append(dtype)
        modes.add((payload[0] & 3, payload[0] & 4))
        return decode(payload, dtype, *values)

    monkeypatch.setattr(reference_delta, "decode_chunk", noting)
    kinds, stages, names, several = set(), set(), set(), set()
    for entry in MANIFEST["vectors"]:
        if "base" not in entry:
            continue
        names.add(entry["base_name"] == "")
        for tensor in read_vector(entry).records:
            record = tensor.record
            if record.codec == container.DELTA:
                kinds.add(record.kind)
                stages.add(record.entropy)
                several |= {record.dtype} if len(record.extents) > 1 else set()
    assert kinds == {0, 1, 2, 3} and stages == {0, 1, 2} and names == {False, True}
    assert {mode for mode, _ in modes} == {0, 1, 2} and (2, 4) in modes
    assert len(set(chunks)) >= 15 and len(several) >= 6
