"""The files of vectors that have a folder and a manifest of their own: written, or compared."""

from __future__ import annotations

import pathlib
import sys


def publish(folder: pathlib.Path, files: dict[str, bytes], what: str, is_check: bool) -> int:
    """Writes the files that differ from those in the folder, or names them; the exit code.

    `what` they are called, without the manifest that is among them.
    """
    different = [
        name
        for name, content in files.items()
        if not (folder / name).exists() or (folder / name).read_bytes() != content
    ]
    if is_check:
        for name in different:
            print(f"{name}: encoding its input again gives other bytes", file=sys.stderr)
        return 1 if different else 0
    folder.mkdir(exist_ok=True)
    for name in different:
        (folder / name).write_bytes(files[name])
    print(f"{len(files) - 1} {what}; {len(different)} files changed")
    return 0
