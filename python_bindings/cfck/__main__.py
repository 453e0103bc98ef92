"""python -m cfck shrink FOLDER NEW ...: the parts of the program `cfck` that need PyTorch."""

from __future__ import annotations

import sys

from ._program.command_line import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
