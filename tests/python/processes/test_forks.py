"""Forked children use what their parent has open."""

import os
import subprocess
import sys
from pathlib import Path

# The long tier forks 20,000.
N_CHILDREN = int(os.environ.get("CFCK_FORKED_CHILDREN", "1000"))


def test_children_read_through_the_files_that_threads_of_their_parent_read(tmp_path):
    script = Path(__file__).with_name("forked_readers.py")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", script, tmp_path, str(N_CHILDREN)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.stdout == f"{N_CHILDREN} children, 0 hung, 0 failed\n", run.stderr
