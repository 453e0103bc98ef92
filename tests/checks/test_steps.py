"""What scripts with little time do with their steps (scripts/steps.sh)."""

import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

SCRIPTS = pathlib.Path(__file__).parents[2] / "scripts"
HEAD = f"""
set -uo pipefail
results=$1
stamp_file=$1/passed
time_limit=${{2:-60}}
source '{SCRIPTS}/steps.sh'
"""


@pytest.fixture
def script(tmp_path):
    """Runs a script over steps; its exit status, its output, and the summary without times."""
    path, results = tmp_path / "script.sh", tmp_path / "results"
    results.mkdir()

    def run(body, *arguments):
        path.write_text(HEAD + body, encoding="utf-8")
        command = ["bash", str(path), str(results), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert not done.stderr
        lines = (results / "device.txt").read_text(encoding="utf-8").splitlines()
        return done.returncode, done.stdout, [re.sub(r", took \d+ s$", "", line) for line in lines]

    run.path, run.results = path, results
    return run


def test_a_failing_step_hides_no_other(script):
    code, output, lines = script(
        """
        plan_steps one two three four
        skip_step four
        run_step one bash -c 'echo the reason; exit 3'
        run_step two echo fine
        end_steps
        """
    )
    assert code == 1 and "the reason" in output
    assert lines == [
        "one: FAILED (code 3)", "two: ok", "three: not run", "four: not asked for",
    ]  # fmt: skip
    assert "one: FAILED" in output and "three: not run" in output.splitlines()[-1]
    assert (script.results / "two.txt").read_text(encoding="utf-8") == "fine\n"


def test_all_is_well(script):
    (script.results / "device.txt").write_text("A device\n", encoding="utf-8")
    code, output, lines = script("plan_steps one; run_step one true; end_steps")
    assert code == 0 and output.splitlines()[-1] == "Everything passed."
    assert lines == ["A device", "one: ok"]


def test_what_hangs_is_ended(script):
    code, output, lines = script(
        """
        plan_steps one two three
        run_step one within 1 sleep 50
        run_step two within 50 sleep 50
        run_step three true
        end_steps
        """,
        4,
    )
    assert code == 1 and "ended after 1 s: sleep 50" in output
    assert lines == [
        "one: FAILED (code 124)", "two: FAILED (code 124)", "three: not run, since no time is left",
    ]  # fmt: skip


def test_a_step_in_which_the_script_was_killed_is_named(script):
    script.path.write_text(HEAD + "plan_steps one two; run_step one sleep 20", encoding="utf-8")
    process = subprocess.Popen(["bash", str(script.path), str(script.results)], text=True,
                               stdout=subprocess.PIPE, start_new_session=True)  # fmt: skip
    summary = script.results / "device.txt"
    until = time.monotonic() + 20
    while not summary.exists() or "ended" not in summary.read_text(encoding="utf-8"):
        assert time.monotonic() < until
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)  # of the session that it began
    process.wait()
    process.stdout.close()
    lines = summary.read_text(encoding="utf-8").splitlines()
    assert lines == ["one: has not ended; began after 0 s", "two: not run"]


def test_what_is_installed_is_not_installed_again(script):
    body = """
        plan_steps one
        run_step_once one "$3" bash -c 'echo begun; exit $0' "$4"
        end_steps
        """
    for stamp, exit_status, code, state in [
        ("a", 5, 1, "one: FAILED (code 5)"),
        ("a", 0, 0, "one: ok"),
        ("a", 5, 0, "one: ok, in an earlier call"),
        ("b", 5, 1, "one: FAILED (code 5)"),
        ("a", 5, 1, "one: FAILED (code 5)"),
    ]:
        (script.results / "device.txt").unlink(missing_ok=True)
        found, output, lines = script(body, 60, stamp, exit_status)
        assert (found, lines) == (code, [state]), output


def test_tests_that_find_no_device_failed(script):
    code, _, lines = script(
        "plan_steps one; run_step one echo 'skipped: needs a CUDA device'; end_steps"
    )
    assert code == 1 and lines == ["one: FAILED (no device can be used)"]
