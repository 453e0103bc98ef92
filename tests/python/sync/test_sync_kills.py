"""Publishers and followers that are killed at any moment, and files that are damaged meanwhile."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("seed", [1, 2])
def test_kills(seed):
    """python tests/python/sync/kill_sync.py makes 2,000 of them."""
    program = Path(__file__).with_name("kill_sync.py")
    done = subprocess.run(
        [sys.executable, program, "--kills", "30", "--seed", str(seed)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["publisher"] + told["followers"] == 30 and told["keyframes_waited_for"] == 2
    # How many there are depends on how fast the machine is.
    assert told["published"] > 2 and told["followed"] > 2
    assert told["damaged"] + told["missing"] >= 1
