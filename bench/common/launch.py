"""Runs one program and prints its wall time and peak memory as JSON.

A process of its own, because the kernel counts the memory of the process that forks into the
peak of its child: started from the benchmark, every program would seem to need gigabytes.

    python -S launch.py PROGRAM [ARGUMENT...]
"""

import json
import os
import sys
import time


def main() -> int:
    """Spawns the program with its output thrown away, waits, reports."""
    arguments = sys.argv[1:]
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    start = time.perf_counter()
    process = os.posix_spawnp(arguments[0], arguments, os.environ, file_actions=quiet)
    _, status, usage = os.wait4(process, 0)
    wall = time.perf_counter() - start
    report = {
        "code": os.waitstatus_to_exitcode(status),
        "wall": wall,
        "cpu": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
    }
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
