"""How looked-up rows of embedding tables compress: ``python -m cfck.embeddings.bench --help``."""

from __future__ import annotations

import sys

from .._embedding_bench.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
