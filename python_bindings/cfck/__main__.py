"""python -m cfck COMMAND ...: the program `cfck`, whose part `shrink` needs PyTorch and is here."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig

from ._program.command_line import main


def run(arguments: list[str]) -> int:
    """Runs a command line, and returns its exit code unless the program `cfck` takes over."""
    if arguments[:1] == ["shrink"]:
        return main(arguments)
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
    sys.exit(run(sys.argv[1:]))
