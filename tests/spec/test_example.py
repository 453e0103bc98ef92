"""The file of spec/example.md: its bytes, their order, and what they decode to."""

import pathlib
import re
import struct

import make_vectors
import pytest
import reference_decoder
from test_vectors import writer_program
from vector import Vector

PAGE = pathlib.Path(__file__).resolve().parents[2] / "spec" / "example.md"
LINE = re.compile(r" {4}(\d+) +((?:[0-9a-f]{2} ?)+?)  +(\S.*)")

PRIMES = struct.pack("<6H", 2, 3, 5, 7, 11, 13)
ONES = struct.pack("<6f", *[1.0] * 6)


def bytes_of_page() -> bytes:
    """The bytes that the page lists; every offset must follow from the bytes before it."""
    content = b""
    for line in PAGE.read_text().splitlines():
        if found := LINE.fullmatch(line):
            offset, digits, _ = found.groups()
            assert int(offset) == len(content), line
            content += bytes.fromhex(digits)
    return content


def test_the_reference_decoder_reads_the_bytes_of_the_page():
    file = reference_decoder.read_bytes(bytes_of_page())
    tensors = {
        name: (t.record.dtype, tuple(t.record.shape), bytes(t.data))
        for name, t in file.tensors.items()
    }
    assert tensors == {"primes": (13, (6,), PRIMES), "ones": (18, (2, 3), ONES)}
    assert file.metadata == {"format": "pt"}
    assert not file.attachments


@pytest.mark.skipif(
    writer_program() is None, reason="write_vector is not built (CFCK_WRITE_VECTOR)"
)
def test_the_library_writes_the_bytes_of_the_page():
    vector = Vector("example.cfck", "the file of spec/example.md", entropy="rans")
    vector.add("primes", "U16", [6], PRIMES)
    vector.add("ones", "F32", [2, 3], ONES)
    vector.describe("format", "pt")
    assert make_vectors.write(vector, writer_program()) == bytes_of_page()
