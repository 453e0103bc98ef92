"""Packets of rows made by hand: what the page says a reader refuses, and what it takes although no
writer makes it."""

import math
import struct

import ml_dtypes
import numpy as np
import pytest
import reference_embeddings
from reference_fields import tiled_hash64
from row_packets import (
    BF16,
    F16,
    F32,
    FOLLOWING,
    IDS,
    KEYS,
    Batch,
    line_of,
    made,
    message,
    packed,
    same_for_both,
)

NAN = math.nan
THREE = message([1, 2, 3])  # codes of one row of three values, or of three rows
ONE_ROW = Batch(1, 3, 1)
IDS_OF_3 = Batch(4, 1, 3, IDS)  # four rows, three of which are sent


def values(found, batch=0, dtype=np.float32):
    return np.frombuffer(found[batch][1], dtype)


def signed(bucket) -> int:
    return bucket // 2 if bucket % 2 == 0 else -(bucket // 2) - 1


def test_rows_of_one_batch():
    found = same_for_both(made([ONE_ROW._replace(step=0.5)], codes=THREE))
    assert values(found).tolist() == [0.5, 1, 1.5]
    ids = message([0, -1, 1, 0])
    assert values(same_for_both(made([IDS_OF_3], ids, codes=THREE))).tolist() == [1, 2, 3, 1]


def test_ids_of_all_buckets():
    starts = reference_embeddings.BUCKET_STARTS
    ends = [*(starts[1:] - 1), (1 << 21) - 1]
    ids = [(bucket, number) for bucket in range(32) for number in (starts[bucket], ends[bucket])]
    n_rows = 1 << 21
    widths = reference_embeddings.BUCKET_BITS
    bits = packed([(int(number - starts[b]), int(widths[b])) for b, number in ids])
    buckets = message([signed(bucket) for bucket, _ in ids])
    batches = [Batch(n_rows, 0, 64, KEYS), Batch(n_rows, 1, n_rows, FOLLOWING)]
    codes = message(np.arange(n_rows))
    keys = {0: np.arange(n_rows) % 64 - 7}
    found = same_for_both(made(batches, buckets, bits, codes), keys)
    assert values(found, 1)[:70].tolist() == [*(n for _, n in ids), *(n for _, n in ids[:6])]
    last = packed(
        [(int(number - starts[b]), int(widths[b])) for b, number in ids[:-1]]
        + [((1 << 21) - 1, 21)]
    )
    assert same_for_both(made(batches, buckets, last, codes), keys) is None


@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@pytest.mark.parametrize(
    "step", [1.0, 0.1, 3.3e-9, 1e-45, 5e-324, 9e-8, 0.7e-3, 1e3, 1e34, 1.7e308]
)
def test_codes_are_scaled_and_rounded_alike(dtype, step):
    random = np.random.default_rng(7)
    numbers = np.rint(np.exp2(random.uniform(0, 22, 2000)) * random.choice([-1, 1], 2000))
    halves = [0.5, 1.5, 2.5, -0.5, -1.5, -0.25, 0.0, -0.0, 2**22, -(2**22), 2**21 + 0.5]
    codes = np.array([*halves, *numbers], np.float32)
    batch = Batch(1, len(codes), 1, dtype=dtype, step=step)
    found = same_for_both(made([batch], codes=message(codes)))
    kind = {F32: np.float32, F16: np.float16, BF16: ml_dtypes.bfloat16}[dtype]
    assert np.signbit(values(found, dtype=kind)[:8].astype(np.float32)).sum() == 1  # of -2


@pytest.mark.parametrize("code", [NAN, math.inf, -math.inf, 2**22 + 0.5, -(2**22) - 0.5, 1e30])
def test_codes_out_of_range(code):
    assert same_for_both(made([ONE_ROW], codes=message([1, code, 2]))) is None


@pytest.mark.parametrize(
    "bucket, number", [(0.5, 0), (-0.5, 0), (-0.0, 0), (1.4, 2), (0.6, 2), (-1.4, 1)]
)
def test_buckets_are_rounded(bucket, number):
    packet = made([IDS_OF_3], message([bucket, -1, 0, 1]), codes=THREE)
    assert values(same_for_both(packet))[0] == number + 1


@pytest.mark.parametrize("bucket", [NAN, math.inf, -math.inf, 15.5, 16, -16.6, -17, 1e30])
def test_buckets_that_do_not_exist(bucket):
    packet = made([IDS_OF_3], message([bucket, 0, 0, 0]), bytes(3), THREE)
    assert same_for_both(packet) is None


def test_a_bucket_that_is_rounded_to_the_last():
    batches = [Batch(1 << 21, 0, 1, KEYS), Batch(1 << 21, 0, 1 << 21, FOLLOWING)]
    keys = {0: np.zeros(1 << 21, np.int64)}
    assert same_for_both(made(batches, message([-16.5]), bytes(3)), keys) is not None


def test_rows_that_nothing_refers_to():
    found = same_for_both(made([IDS_OF_3], message([1, 1, 1, 1]), codes=THREE))
    assert values(found).tolist() == [3, 3, 3, 3]


def test_leaders_that_follow_and_lack_numbers():
    batches = [IDS_OF_3, IDS_OF_3._replace(order=FOLLOWING), IDS_OF_3._replace(order=FOLLOWING)]
    batches[2] = batches[2]._replace(leader=1)
    codes = message([1, 2, 3] * 3)
    # Numbers 0 1 0 1; 2 2 2 2; 1 1 1 1.
    packet = made(batches, message([0, -1, 0, -1, 1, 1, -1]), codes=codes)
    assert [values(same_for_both(packet), b).tolist() for b in range(3)] == [
        [1, 2, 1, 2], [3, 3, 3, 3], [2, 2, 2, 2],
    ]  # fmt: skip
    for buckets in ([0, -1, 0, -1, 1, 1], [0, -1, 0, -1, 1, 1, -1, 0]):
        assert same_for_both(made(batches, message(buckets), codes=codes)) is None


def test_keys():
    batch = Batch(4, 1, 3, KEYS)
    packet = made([batch], codes=THREE)
    assert values(same_for_both(packet, {0: np.array([9, -4, 9, 7])})).tolist() == [1, 2, 1, 3]
    for keys in ([9, -4, 9, 9], [9, -4, 8, 7], [9, -4, 7], []):
        assert same_for_both(packet, {0: np.array(keys, np.int64)}) is None
    assert same_for_both(packet) is None


def test_exact_rows():
    bits = [0x7C01, 0x3C00, 0xFFFF, 0x8000]
    exact = message(bits, F16)
    batch = Batch(3, 2, 3, dtype=F16, n_exact=2, exact=exact)
    packet = made([batch], bits=packed([(1, 1), (0, 1), (1, 1)]), codes=message([1, -2]))
    found = values(same_for_both(packet), dtype=np.uint16).tolist()
    assert found == [0x7C01, 0x3C00, 0x3C00, 0xC000, 0xFFFF, 0x8000]
    for marks in (b"", b"\1", b"\7", b"\x0d", b"\5\0"):
        assert same_for_both(made([batch], bits=marks, codes=message([1, -2]))) is None
    for other in (
        message(bits, BF16),
        message(bits[:3], F16),
        message(bits, F16, (2, 2)),
        exact[1:],
    ):
        changed = batch._replace(exact=other)
        assert same_for_both(made([changed], bits=b"\5", codes=message([1, -2]))) is None


def test_rows_without_values():
    nothing = message([])
    batches = [Batch(4, 0, 2, IDS), Batch(3, 0, 3, n_exact=3, exact=nothing, step=0)]
    batches.append(Batch(2, 0, 2, n_exact=1, exact=nothing))
    packet = made(batches, message([0, 0, -1, 0]), b"\2")
    assert [v for _, v in same_for_both(packet)] == [b""] * 3
    without = batches[1]._replace(exact=b"")
    assert same_for_both(made([without])) is None
    assert same_for_both(made([Batch(0, 5, 0, IDS, step=0)])) is not None
    assert same_for_both(made([Batch(0, 5, 0, IDS, step=0)], nothing)) is None


FAULTS = [
    {"dtype": 20}, {"order": 4}, {"order": IDS}, {"order": FOLLOWING}, {"order": KEYS},
    {"n_rows": 0}, {"n_rows": 2}, {"n_rows": 0, "n_sent": 0},
    {"n_rows": 2**21 + 1, "row_elems": 0}, {"n_exact": 1}, {"n_exact": 2},
    {"n_exact": 1, "exact_bytes": 1}, {"row_elems": 2}, {"row_elems": 2**30 + 3},
    *({"step": step} for step in (0.0, -1.0, -0.0, NAN, math.inf)),
]  # fmt: skip


@pytest.mark.parametrize("changes", FAULTS, ids=str)
def test_faults_of_the_table(changes):
    assert same_for_both(made([ONE_ROW], codes=THREE)) is not None
    assert same_for_both(made([ONE_ROW._replace(**changes)], codes=THREE)) is None


@pytest.mark.parametrize("n_sent", [0, 2, 5, 2**32 - 1])
def test_numbers_of_rows_that_are_sent(n_sent):
    changed = IDS_OF_3._replace(n_sent=n_sent)
    assert same_for_both(made([changed], message([0, -1, 1, 0]), codes=THREE)) is None


@pytest.mark.parametrize(
    "table",
    [b"", b"\x12", line_of(ONE_ROW)[:-1], line_of(ONE_ROW) + b"\0", line_of(ONE_ROW)[:5],
     bytes([F32, 0, 0x81, 0]) + line_of(ONE_ROW)[3:], bytes([F32, 0]) + b"\xff" * 5 + bytes(20)],
    ids=str,
)  # fmt: skip
def test_tables_that_are_none(table):
    lengths = len(table), 0, 0, len(THREE), 0
    body = struct.pack("<BBH5I", 0xCA, 1, 0, *lengths) + table + THREE
    assert same_for_both(body + struct.pack("<Q", tiled_hash64(body))) is None


def test_a_step_without_codes():
    exact = Batch(1, 3, 1, n_exact=1, exact=THREE, step=0.0)
    assert values(same_for_both(made([exact]))).tolist() == [1, 2, 3]
    table = line_of(exact) + struct.pack("<d", 1.0)
    body = struct.pack("<BBH5I", 0xCA, 1, 0, len(table), 0, 0, 0, len(THREE)) + table + THREE
    assert same_for_both(body + struct.pack("<Q", tiled_hash64(body))) is None
    assert same_for_both(made([exact], codes=THREE)) is None


@pytest.mark.parametrize(
    "leading, leader",
    [
        (Batch(4, 1, 4), 0),  # plain
        (Batch(5, 1, 3, IDS), 0),  # of more rows
        (IDS_OF_3, 1),  # the follower itself
        (IDS_OF_3, 2),  # a later one
        (IDS_OF_3, 3),  # none
    ],
)
def test_leaders_must_lead(leading, leader):
    def led(first, number):
        batches = [first, Batch(4, 1, 3, FOLLOWING, leader=number), IDS_OF_3]
        ids = [0, -1, 1, 0, 0][: first.n_rows if first.order == IDS else 0] + [0, -1, 1, 0, 0, 0, 0]
        codes = message([0] * sum(batch.n_sent for batch in batches))
        return made(batches, message(ids), codes=codes)

    assert same_for_both(led(IDS_OF_3, 0)) is not None
    assert same_for_both(led(leading, leader)) is None


@pytest.mark.parametrize(
    "buckets",
    [b"", THREE, message([0] * 5), message([0, 0, 0, 0], shape=(4, 1)), message([0] * 4, BF16)],
)
def test_messages_of_buckets(buckets):
    assert same_for_both(made([IDS_OF_3], message([0, 0, 0, 0]), codes=THREE)) is not None
    assert same_for_both(made([IDS_OF_3], buckets, codes=THREE)) is None


@pytest.mark.parametrize(
    "codes", [b"", message([1, 2]), message([1, 2, 3], shape=(1, 3)), message([1, 2, 3], F16)]
)
def test_messages_of_codes(codes):
    assert same_for_both(made([ONE_ROW], codes=codes)) is None


@pytest.mark.parametrize(
    "bits, last",
    [
        (b"\x04", [8, 9]),
        (b"\x01", [9, 8]),
        (b"", None),
        (b"\x04\0", None),  # a byte more
        (b"\x14", None),  # a bit that is none of an id
        (b"\x08", None),  # 10, which is not sent
    ],
)
def test_bits_of_ids(bits, last):
    batch = Batch(10, 1, 10, IDS)
    packet = made([batch], message([0] * 8 + [4, 4]), bits, message(range(10)))
    found = same_for_both(packet)
    assert (None if found is None else values(found)[8:].tolist()) == last


def test_the_header():
    packet = made([ONE_ROW], codes=THREE)
    for at, value in ((0, 0xC9), (1, 2), (2, 1), (3, 1), (4, 2), (8, 1), (12, 1), (20, 1)):
        body = bytearray(packet[:-8])
        body[at] = value
        assert same_for_both(bytes(body) + struct.pack("<Q", tiled_hash64(bytes(body)))) is None
    assert same_for_both(packet + bytes(8)) is None
    assert same_for_both(b"") is None
