"""The tables of spec/format.md against the reference decoder and the vectors."""

import pathlib
import re
import struct

import reference_container
import reference_records

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "spec" / "format.md").read_text()


def rows(header: str) -> list[list[str]]:
    """The cells of the table whose first line starts with `header`."""
    lines = PAGE[PAGE.index("\n" + header) + 1 :].splitlines()
    end = next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines[2:end]]


def pairs(header: str, columns: list[int]) -> dict[int, str]:
    found = {}
    for row in rows(header):
        for column in columns:
            if row[column]:
                found[int(row[column])] = row[column + 1]
    return found


def test_dtypes():
    found = {}
    for row in rows("| id | name | bits |"):
        for column in (0, 4):
            found[int(row[column])] = (row[column + 1], int(row[column + 2]))
    assert found == {id: entry[:2] for id, entry in reference_records.DTYPES.items()}


def test_kinds():
    assert list(pairs("| kind | name |", [0]).values()) == list(reference_records.KINDS)


def test_codecs_entropy_stages_and_scans():
    assert pairs("| codec | name |", [0]) == reference_records.CODECS
    assert pairs("| entropy stage | name |", [0]) == reference_records.ENTROPY_STAGES
    assert pairs("| scan | name |", [0]) == reference_records.SCANS


def test_version():
    major, minor = re.search(r"# The cfck file format, version (\d+)\.(\d+)", PAGE).groups()
    assert (int(major), int(minor)) == reference_container.VERSION
    header = (REPOSITORY / "include" / "cfck" / "version.hpp").read_text()
    assert f"kFormatMajor = {major};" in header
    assert f"kFormatMinor = {minor};" in header


def test_tags_are_those_in_the_vectors():
    """Walks the frames of every vector; a Zstd frame is passed by its block headers."""
    tags = set()
    for path in (REPOSITORY / "spec" / "vectors").glob("*.cfck"):
        data, at = path.read_bytes(), 0
        while at < len(data):
            magic, length = struct.unpack_from("<II", data, at)
            if magic == reference_container.MAGIC:
                tags.add(data[at + 8 : at + 12].decode())
                at += 8 + length
            else:
                at = end_of_zstd_frame(data, at)
        assert at == len(data), path
    assert tags | {"PREA"} == {row[0] for row in rows("| tag | frame |")}


def end_of_zstd_frame(data: bytes, at: int) -> int:
    """RFC 8878, 3.1.1."""
    assert data[at : at + 4] == b"\x28\xb5\x2f\xfd"
    descriptor = data[at + 4]
    single_segment = descriptor >> 5 & 1
    content_size = (single_segment, 2, 4, 8)[descriptor >> 6]
    assert descriptor & 3 == 0, "a dictionary"
    at += 5 + (1 - single_segment) + content_size
    last = False
    while not last:
        block = int.from_bytes(data[at : at + 3], "little")
        last, kind, size = block & 1, block >> 1 & 3, block >> 3
        at += 3 + (1 if kind == 1 else size)
    return at + (4 if descriptor >> 2 & 1 else 0)
