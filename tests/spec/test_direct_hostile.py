"""Chunks of the direct codec made by hand: what the page says a decoder refuses, and
what it takes although no encoder writes it."""

import struct

import direct_cases
import numpy as np
import pytest
import reference_container
import reference_direct
from direct_cases import Case, f64, pack_numbers
from direct_parts import Parts

KERNEL = (2, 1, 3)  # two kernels of three values: one coefficient row of 1, one of 2
STEP = bytes([0]) + f64(0.5)
CLASS_40 = 40  # one value a symbol, one low bit
CODE_0 = 63  # the symbol of code 0 where a symbol has one value


def zigzag(value: int) -> int:
    return 2 * value if value >= 0 else -2 * value - 1


def packed(entries, width: int = 16, least: int | None = None) -> bytes:
    least = min(entries) if least is None else least
    bits = sum(entry - least << i * width for i, entry in enumerate(entries))
    return (
        pack_numbers(zigzag(least))
        + bytes([width])
        + bits.to_bytes(-(-len(entries) * width // 8), "little")
    )


def single(values: int, **changes) -> Parts:
    """Class 35: one value a symbol, no low bits. Codes 0, 1, 2, …"""
    codes = bytes(CODE_0 + i for i in range(values))
    return Parts(parameters=STEP, first_bin=35, symbols=b"\0" + codes).but(**changes)


def with_escapes(**changes) -> Parts:
    """Four values: an escaped code of 100, an exact 7, codes 2 and 3."""
    parts = single(
        4,
        symbols=bytes([0, 0, 0, CODE_0 + 2, CODE_0 + 3]),
        flags=2,
        n_escapes=2,
        n_exact=1,
        escape_bytes=2,
        escape_flags=b"\2",
        escaped_indices=pack_numbers(200),
        exact=struct.pack("<f", 7),
    )
    return parts.but(**changes)


def low_bits(scale_bin: int, symbol: int, low: int, **changes) -> Parts:
    """One value of a bin with low bits."""
    k = 1 + (scale_bin - CLASS_40) // 4
    raw = low.to_bytes(-(-k // 8), "big")
    parts = single(1, flags=8, first_bin=scale_bin, raw_bytes=len(raw), raw=raw)
    return parts.but(symbols=bytes([0, symbol])).but(**changes)


def masked(**changes) -> Parts:
    """Ten values, the first three masked."""
    parts = single(7, flags=1, mask_bytes=2, n_masked=3, mask=b"\7\0")
    return parts.but(**changes)


def fielded(field: bytes, **changes) -> Parts:
    parts = Parts(parameters=bytes([4]) + f64(0.5) + field, symbols=bytes([CODE_0] * 6))
    return parts.but(**changes)


def predicted(coefficients: bytes, **changes) -> Parts:
    return single(6, parameters=bytes([2]) + f64(0.5) + coefficients).but(**changes)


FIELD = packed([35, 35, 35]) + packed([0, 0]) + packed([0])
STEP_OF_FIELD = bytes([4]) + f64(0.5)
COEFFICIENTS = packed([256, 128, -256])
WIDE = (2 << 25, 1, 1)  # more rows than a packed vector may have

# (what, parts, shape, preamble, part of the reference decoder's message)
REFUSED = [
    ("mode 6", single(4, mode=6), (4,), None, "mode 6"),
    ("mode 255", single(4, mode=255), (4,), STEP, "mode 255"),
    ("mode 5 alone", single(4, mode=5, parameters=b""), (4,), None, "without a preamble"),
    ("a long preamble", single(4, mode=5, parameters=b""), (4,), STEP + b"\0", "left over"),
    ("a short preamble", single(4, mode=5, parameters=b""), (4,), STEP[:-1], "wanted"),
    ("an empty preamble", single(4, mode=5, parameters=b""), (4,), b"", "wanted"),
    *(
        (f"a step of {step}", single(4, parameters=b"\0" + f64(step)), (4,), None, "a step of")
        for step in (0.0, -0.0, -1.0, -5e-324, np.inf, -np.inf, np.nan)
    ),
    *(
        (
            f"a row step of {half:#x}",
            single(4, parameters=struct.pack("<BHH", 1, 0x3F00, half)),
            (2, 2),
            None,
            "a row step",
        )
        for half in (0x7F80, 0x7FC0, 0x8000, 0xBF00, 0xFFFF)
    ),
    ("too few row steps", Parts(parameters=b"\1\0\0"), (400, 1), None, "wanted"),
    ("rows without end", Parts(parameters=b"\1\0\0"), (1 << 61, 1), None, "wanted"),
    ("flags of parameters", single(4, parameters=b"\x08" + f64(1)), (4,), None, "flags 8"),
    ("prediction without kernels", single(4, parameters=b"\2" + f64(1)), (2, 2), None, "kernels"),
    ("65 kernel_size", single(4, parameters=b"\2" + f64(1)), (1, 1, 65), None, "kernels"),
    ("17 bits an entry", predicted(packed([0, 0, 0], 17)), KERNEL, None, "17 bits"),
    ("an entry of 2^15", predicted(packed([2**15, 0, 0])), KERNEL, None, "more than 16 bits"),
    ("a least of 2^15", predicted(pack_numbers(2**16) + b"\0"), KERNEL, None, "16 bits"),
    ("a least of -2^15 - 1", predicted(pack_numbers(2**16 + 1) + b"\0"), KERNEL, None, "16 bits"),
    ("unused bits", predicted(b"\0\1\x08"), KERNEL, None, "unused bits"),
    (
        "too few coefficients",
        Parts(parameters=b"\2" + f64(1) + b"\0\x10"),
        (1, 1, 64),
        None,
        "wanted",
    ),
    (
        "a long vector",
        single(4, mode=5, parameters=b""),
        WIDE,
        STEP_OF_FIELD + b"\0\0" * 3,
        f"{2 << 25} entries",
    ),
    ("an inline field of a part", fielded(b"\0\0" * 3), (100, 1, 3), None, "an inline field"),
    ("flags", single(4, flags=32), (4,), None, "flags 32"),
    ("segments with zstd", single(4, flags=16), (4,), None, "segments without"),
    ("a first bin of 154", single(4, first_bin=154), (4,), None, "first bin"),
    ("bin 0", single(4, first_bin=0), (4,), None, "bin out of range"),
    (
        "class 154",
        single(4, first_bin=153, symbols=bytes([2] + [CODE_0] * 4)),
        (4,),
        None,
        "range",
    ),
    ("bin symbol 32", single(4, symbols=bytes([32] + [CODE_0] * 4)), (4,), None, "symbol 32"),
    ("no bin escape", single(4, symbols=bytes([31] + [CODE_0] * 4)), (4,), None, "bin escape"),
    (
        "bin escape 0",
        single(
            4, flags=4, n_bin_escapes=1, bin_escapes=b"\0\0", symbols=bytes([31] + [CODE_0] * 4)
        ),
        (4,),
        None,
        "out of range",
    ),
    (
        "a bin escape left over",
        single(4, flags=4, n_bin_escapes=1, bin_escapes=b"\1\0"),
        (4,),
        None,
        "left over",
    ),
    (
        "bin escapes and a field",
        fielded(FIELD, flags=4, n_bin_escapes=1, bin_escapes=b"\1\0"),
        KERNEL,
        None,
        "field",
    ),
    (
        "flag 1 of nothing",
        single(4, flags=2, n_escapes=0, n_exact=0, escape_bytes=0),
        (4,),
        None,
        "flag",
    ),
    ("flag 2 of nothing", single(4, flags=4, n_bin_escapes=0), (4,), None, "flag"),
    ("flag 3 of nothing", single(4, flags=8, raw_bytes=0), (4,), None, "flag"),
    ("all masked", masked(n_masked=10, mask=b"\xff\3"), (10,), None, "everything"),
    ("more masked", masked(n_masked=2**32 - 1), (10,), None, "everything"),
    ("another number masked", masked(mask=b"\x0f\0"), (10,), None, "another number"),
    ("unused bits of a mask", masked(mask=b"\3\x04"), (10,), None, "unused bits"),
    ("a mask of no bytes", masked(mask_bytes=0, mask=b""), (10,), None, "Zstd"),
    ("a long mask", masked(mask_bytes=3, mask=b"\7\0\0"), (10,), None, "longer"),
    ("a mask that is no frame", masked(mask_bytes=1, mask=b"\7"), (10,), None, "Zstd"),
    ("more escapes than symbols", with_escapes(n_escapes=3), (4,), None, "wrong number"),
    (
        "fewer escapes",
        with_escapes(n_escapes=1, n_exact=0, escape_flags=b"\0", exact=b""),
        (4,),
        None,
        "wrong",
    ),
    ("escapes without end", with_escapes(n_escapes=2**32 - 1), (4,), None, "wanted"),
    ("code bytes without end", with_escapes(escape_bytes=2**32 - 1), (4,), None, "wanted"),
    ("raw bytes without end", single(4, flags=8, raw_bytes=2**32 - 1), (4,), None, "wanted"),
    ("another number of exact", with_escapes(escape_flags=b"\0"), (4,), None, "exact"),
    (
        "a byte of codes too many",
        with_escapes(escape_bytes=3, escaped_indices=b"\xc8\1\0"),
        (4,),
        None,
        "left",
    ),
    (
        "a long number",
        with_escapes(escape_bytes=3, escaped_indices=b"\xc8\x81\0"),
        (4,),
        None,
        "number",
    ),
    (
        "a number of 33 bits",
        with_escapes(escape_bytes=5, escaped_indices=b"\xff\xff\xff\xff\x1f"),
        (4,),
        None,
        "32 bits",
    ),
    *(
        (
            f"an escaped code of {code}",
            with_escapes(escape_bytes=5, escaped_indices=pack_numbers(zigzag(code))),
            (4,),
            None,
            "above 2^30 - 1",
        )
        for code in (2**30, -(2**30), 2**31 - 1, 2 - 2**31, 1 - 2**31, -(2**31))
    ),
    ("an exact value too many", with_escapes(n_exact=2, exact=bytes(8)), (4,), None, "exact"),
    (
        "too few symbols",
        single(5, symbols=bytes([0] + [CODE_0] * 4)),
        (5,),
        None,
        "as many symbols",
    ),
    ("too many symbols", single(4, symbols=bytes([0] + [CODE_0] * 5)), (4,), None, "more symbols"),
    ("no symbols", single(4, symbols=b""), (4,), None, "fewer symbols"),
    ("symbol 126", single(1, symbols=b"\0\x7e"), (1,), None, "above 125"),
    ("symbol 226", single(2, first_bin=21, symbols=b"\0\xe2"), (2,), None, "above 225"),
    ("symbol 126 of three", single(3, first_bin=13, symbols=b"\0\x7e"), (3,), None, "above 125"),
    ("symbol 82", single(4, first_bin=12, symbols=b"\0\x52"), (4,), None, "above 81"),
    ("a symbol of a group of zeros", single(4, symbols=b"\x1e\1"), (4,), None, "as many symbols"),
    ("raw bits missing", low_bits(72, 64, 3, raw_bytes=1, raw=b"\1"), (1,), None, "raw bits"),
    ("raw bits left over", low_bits(72, 64, 3, raw_bytes=3, raw=b"\1\1\0"), (1,), None, "raw bits"),
    ("raw bits of no group", single(4, flags=8, raw_bytes=1, raw=b"\0"), (4,), None, "raw bits"),
    ("code 63 * 2^25 - 1", low_bits(139, 125, 2**25 - 1), (1,), None, "above 2^30 - 1"),
    ("code -62 * 2^25", low_bits(139, 1, 0), (1,), None, "above 2^30 - 1"),
    ("code 2^30", low_bits(153, 65, 0), (1,), None, "above 2^30 - 1"),
    ("code -2^30", low_bits(153, 61, 0), (1,), None, "above 2^30 - 1"),
    ("code -2^31", low_bits(153, 59, 0), (1,), None, "above 2^30 - 1"),
    ("code 1 - 2^31", low_bits(153, 59, 1), (1,), None, "above 2^30 - 1"),
    ("code 2^32 + 5", low_bits(153, 71, 5), (1,), None, "above 2^30 - 1"),
    ("code 62 * 2^29", low_bits(153, 125, 0), (1,), None, "above 2^30 - 1"),
    (
        "a predicted code of 2^30",
        predicted(packed([256, 0, 512]), first_bin=145, symbols=bytes([0] + [64] * 6)).but(
            flags=8, raw_bytes=21, raw=b"\xff" * 21
        ),
        KERNEL,
        None,
        "above 2^30 - 1",
    ),
]


def case_of(what, parts, shape, preamble) -> Case:
    n = min(int(np.prod(shape)), 10)
    return Case(what, "F32", shape, 0, n, payload=parts.payload(), preamble=preamble)


def reference(case: Case, **more) -> np.ndarray:
    decoded = reference_direct.decode_direct(
        direct_cases.DTYPE_IDS[case.dtype],
        case.shape,
        case.first,
        case.n,
        case.preamble,
        case.payload,
        **more,
    )
    return decoded.view(direct_cases.FLOATS[case.dtype])


@pytest.mark.parametrize("entry", REFUSED, ids=[entry[0] for entry in REFUSED])
def test_refused(entry):
    with pytest.raises(reference_container.Refused) as refusal:
        reference(case_of(*entry[:4]))
    assert entry[4] in refusal.value.message
    assert refusal.value.code == "corrupt"


# (what, parts, shape, preamble, values)
TAKEN = [
    ("codes times the step", single(4), (4,), None, [0, 0.5, 1, 1.5]),
    ("a preamble", single(4, mode=5, parameters=b""), (4,), STEP, [0, 0.5, 1, 1.5]),
    ("both", single(4), (4,), b"\0" + f64(9), [0, 0.5, 1, 1.5]),
    ("the least step", single(3, parameters=b"\0" + f64(5e-324)), (3,), None, [0, 0, 0]),
    (
        "the greatest step",
        single(3, parameters=b"\0" + f64(1.7976931348623157e308)),
        (3,),
        None,
        [0, np.inf, np.inf],
    ),
    (
        "row steps",
        single(6, parameters=struct.pack("<BHHH", 1, 0, 0x3F80, 0x7F7F)),
        (3, 2),
        None,
        [0, 0, 2, 3, np.inf, np.inf],
    ),
    ("escapes", with_escapes(), (4,), None, [50, 7, 1, 1.5]),
    ("unused escape flags", with_escapes(escape_flags=b"\xfe"), (4,), None, [50, 7, 1, 1.5]),
    ("a mask", masked(), (10,), None, [0] * 4 + [0.5, 1, 1.5, 2, 2.5, 3]),
    (
        "a mask of nothing",
        masked(n_masked=0, mask=b"\0\0", symbols=bytes(1) + b"\x40" * 10),
        (10,),
        None,
        [0.5] * 10,
    ),
    ("groups of zeros", single(4, first_bin=0, symbols=b"\x1e"), (4,), None, [0] * 4),
    ("what fills a tuple", single(2, first_bin=1, symbols=b"\0\x51"), (2,), None, [0.5, 0.5]),
    ("unused raw bits", low_bits(44, 64, 0, raw=b"\xfd"), (1,), None, [2.5]),
    (
        "nine bits and unused ones",
        single(3, flags=8, first_bin=48, raw_bytes=2, raw=b"\xd1\xff"),
        (3,),
        None,
        [0.5, 5.0, 11.5],
    ),
    (
        "bits and bytes",
        single(3, flags=8, first_bin=76, raw_bytes=4, raw=b"\xe4\1\2\xff"),
        (3,),
        None,
        [0.5, 641.0, 1407.5],
    ),
    (
        "bytes alone",
        single(3, flags=8, first_bin=68, raw_bytes=3, raw=b"\1\2\xff"),
        (3,),
        None,
        [0.5, 129.0, 383.5],
    ),
    ("code 2^30 - 1", low_bits(153, 64, 2**29 - 1), (1,), None, [2**29]),
    ("code 1 - 2^30", low_bits(153, 61, 1), (1,), None, [-(2**29)]),
    ("a field", fielded(FIELD), KERNEL, None, [0] * 6),
    ("prediction", predicted(COEFFICIENTS), KERNEL, None, [0, 0.5, 0.5, 1.5, 3.5, 0]),
    (
        "a class of -28",
        fielded(packed([-9] * 3) + packed([-9, -9]) + packed([-10]), symbols=b"\x51\x51"),
        KERNEL,
        None,
        [0.5] * 6,
    ),
    (
        "a class of 900",
        fielded(
            packed([900] * 3) + packed([0, 0]) + packed([0]),
            flags=8,
            raw_bytes=22,
            raw=bytes(16) + b"\1" * 6,
        ),
        KERNEL,
        None,
        [0.5] * 6,
    ),
]


@pytest.mark.parametrize("entry", TAKEN, ids=[entry[0] for entry in TAKEN])
def test_taken(entry):
    assert reference(case_of(*entry[:4])).tolist() == entry[4]


@direct_cases.needs_writer
def test_the_library_agrees(tmp_path):
    cases = [case_of(*entry[:4]) for entry in REFUSED + TAKEN]
    for case, entry, outcome in zip(
        cases, REFUSED + TAKEN, direct_cases.run(cases, tmp_path), strict=True
    ):
        if entry in REFUSED:
            assert outcome.error in ("truncated", "corrupt"), case.name
        else:
            assert outcome.error == "", case.name
            assert outcome.decoded == reference(case).tobytes(), case.name


def test_other_refusals():
    case = case_of("", single(4), (4,), None)
    body_bytes = len(case.payload) - len(Parts(symbols=single(4).symbols).payload()) + 2
    assert reference(case, body_bytes=body_bytes).size == 4
    with pytest.raises(reference_container.Refused, match="another length"):
        reference(case, body_bytes=body_bytes + 1)
    with pytest.raises(reference_container.Refused, match="entropy"):
        reference(case, entropy=0)
    with pytest.raises(reference_container.Refused, match="dtype I32"):
        reference_direct.decode_direct(16, (4,), 0, 4, None, case.payload)
    case.payload += b"\0"
    with pytest.raises(reference_container.Refused):
        reference(case)
    case.payload = b""
    with pytest.raises(reference_container.Refused, match="wanted"):
        reference(case)
