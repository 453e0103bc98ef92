"""python -m cfck COMMAND ...: the program `cfck`, whose part `shrink` needs PyTorch and is here."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Sequence


def shrink(arguments: Sequence[str]) -> int:
    """Runs `cfck shrink`, and returns its exit code. Help texts and wrong options need no more than
    the parser."""
    from ._program.arguments import parse

    options = parse(arguments)
    from ._program.command_line import run

    return run(options)


def main(arguments: Sequence[str]) -> int:
    """Runs a command line, and returns its exit code unless the program `cfck` takes over."""
    if arguments[:1] == ["shrink"]:
        return shrink(arguments)
    # That of this Python comes first: PATH may have one of another environment.
    beside = os.path.join(sysconfig.get_path("scripts"), "cfck")
    program = beside if os.access(beside, os.X_OK) else shutil.which("cfck")
    if program is None:
        print(
            f"cfck: error: there is no program 'cfck' in '{os.path.dirname(beside)}' or on PATH; "
            "reinstall cfck",
            file=sys.stderr,
        )
        return 3
    sys.stdout.flush()
    os.execv(program, ["cfck", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
