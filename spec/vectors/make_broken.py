#!/usr/bin/env python3
"""Makes broken/*.cfck and their manifest (needs the package xxhash).

make_broken.py            writes them
make_broken.py --check    compares them with what is there
"""

from __future__ import annotations

import json
import pathlib
import sys

import broken_bases
import broken_direct
import broken_payloads
import broken_rans
import broken_rows
import broken_segments
import broken_spectral
import broken_vectors

FOLDER = pathlib.Path(__file__).resolve().parent / "broken"


def broken_files() -> list[broken_vectors.Broken]:
    return [
        *broken_vectors.at_the_end(),
        *broken_vectors.compressed_indexes(),
        *broken_vectors.in_the_index(),
        *broken_vectors.in_shared_records(),
        *broken_vectors.in_extents(),
        *broken_vectors.in_the_metadata(),
        *broken_vectors.in_records(),
        *broken_payloads.in_symbols(),
        *broken_payloads.in_other_modes(),
        *broken_direct.in_preambles(),
        *broken_direct.in_chunks(),
        *broken_rans.in_sections(),
        *broken_rans.in_streams(),
        *broken_rans.in_direct_chunks(),
        *broken_segments.in_segments(),
        *broken_segments.in_direct_segments(),
        *broken_spectral.in_preambles(),
        *broken_spectral.in_chunks(),
        *broken_rows.in_chunks(),
        *broken_bases.in_the_tail(),
        *broken_bases.in_flags(),
        *broken_bases.in_names(),
        *broken_bases.in_records(),
    ]


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: make_broken.py [--check]", file=sys.stderr)
        return 2
    manifest, files = [], {}
    for broken in broken_files():
        name = broken.name + ".cfck"
        assert name not in files, name
        files[name] = broken.data
        entry = {"file": name, "code": broken.code, "at": broken.at}
        optional = {"record": broken.record, "base": broken.base}
        manifest.append(entry | {key: value for key, value in optional.items() if value})
    files["manifest.json"] = (json.dumps({"broken": manifest}, indent=1) + "\n").encode()
    different = [
        name
        for name, content in files.items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_bytes() != content
    ]
    different += [path.name for path in FOLDER.glob("*.cfck") if path.name not in files]
    if arguments == ["--check"]:
        print("".join(f"{name} differs\n" for name in different), end="", file=sys.stderr)
        return 1 if different else 0
    FOLDER.mkdir(exist_ok=True)
    for name in different:
        if name in files:
            (FOLDER / name).write_bytes(files[name])
        else:
            (FOLDER / name).unlink()
    print(f"{len(files) - 1} broken files, {sum(map(len, files.values()))} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
