"""Long calls tell how far they are, and those who did not ask see a line on a terminal."""

import contextlib
import io

import cfck
import pytest
import torch
from cfck._common import progress as progress_module
from cfck.torch import load_file, save_file
from conftest import weights
from torch import nn


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 32))


def batches(n):
    return [weights(8, 32, seed=i) for i in range(n)]


NAMES = ["0.weight", "2.weight"]


def test_calibration_tells_after_every_pass_of_the_model():
    calls = []
    cfck.calibrate(model(), batches(3), progress=lambda *call: calls.append(call))
    assert [call for call in calls if call[0] == 0][:3] == [(0, 2, f"batch {i}") for i in (1, 2, 3)]
    assert {name for _, _, name in calls} == {*NAMES, "batch 1", "batch 2", "batch 3"}
    done = [call[0] for call in calls]
    assert done == sorted(done) and calls[-1] == (2, 2, "2.weight")
    # Two levels of three batches each at least, and the end.
    assert sum(name == "0.weight" for _, _, name in calls) >= 7


@pytest.mark.parametrize("name", ["batch 2", "0.weight"])
def test_calibration_can_be_ended_at_every_pass(name):
    net = model()
    before = {key: tensor.clone() for key, tensor in net.state_dict().items()}

    def stop(done, total, at_hand):
        if at_hand == name:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cfck.calibrate(net, batches(3), progress=stop)
    for key, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[key])


def test_refinement_tells_what_it_encodes_and_runs():
    net, data = model(), batches(8)
    calibration = cfck.calibrate(net, data, progress=False)
    calls = []
    cfck.refine(
        net, data, calibration, bits_per_weight=3, progress=lambda *call: calls.append(call)
    )
    # The layers that are found in the end; until then those that might be.
    assert {total for _, total, _ in calls} == {2}
    first_done = next(i for i, call in enumerate(calls) if call[0] == 1)
    assert len({name for _, _, name in calls[:first_done]} & {*NAMES}) == 2
    assert sum(name == "0.weight" for _, _, name in calls) > 6
    assert "batch 1" in {name for _, _, name in calls}


def test_the_search_for_steps_names_the_tensors_it_tries(path):
    tensors = {"a": weights(64, 64), "b": weights(64, 64, seed=2)}
    calls = []
    save_file(tensors, path, bits_per_weight=3, progress=lambda *call: calls.append(call))
    searching = [call for call in calls if call[0] == 0]
    assert {name for _, _, name in searching} == {"a", "b"}
    assert len(searching) > 6
    assert calls[-1][:2] == (32768, 32768)

    def stop(done, total, name):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_file(tensors, path, bits_per_weight=3, progress=stop)


class Terminal(io.StringIO):
    """One of 80 columns, as those that do not tell their size."""

    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Every look at it is a second later."""
    ticks = iter(range(100, 10**6))
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: float(next(ticks)))


def test_who_did_not_ask_sees_a_line_on_a_terminal(clock):
    net = model()
    with contextlib.redirect_stderr(Terminal()) as terminal:
        calibration = cfck.calibrate(net, batches(3))
    shown = terminal.getvalue()
    assert "\rcalibrate: 1 of 2, 0:" in shown
    assert "2.weight" in shown
    assert shown.endswith("\r" + " " * 79 + "\r")
    with contextlib.redirect_stderr(Terminal()) as terminal:
        cfck.refine(net, batches(8), calibration, bits_per_weight=3)
    assert "\rrefine: 1 of 2, " in terminal.getvalue()


def test_nothing_is_shown_to_who_does_not_want_it(clock):
    with contextlib.redirect_stderr(Terminal()) as terminal:
        cfck.calibrate(model(), batches(1), progress=False)
        cfck.calibrate(model(), batches(1), progress=lambda *call: None)
    assert terminal.getvalue() == ""
    with pytest.raises(TypeError, match="progress"):
        cfck.calibrate(model(), batches(1), progress="yes")


def test_short_calls_show_nothing(monkeypatch):
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: 5.0)
    with contextlib.redirect_stderr(Terminal()) as terminal:
        cfck.calibrate(model(), batches(3))
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_what_is_no_terminal_stays_empty(stream, clock):
    with contextlib.redirect_stderr(stream):
        cfck.calibrate(model(), batches(3))
    assert stream is None or stream.getvalue() == ""


def test_logs_get_a_line_a_minute(clock):
    stream = io.StringIO()
    with contextlib.redirect_stderr(stream):
        with progress_module.shown(None, "shrink", in_logs=True) as listener:
            for step in range(200):  # seconds
                listener(step // 20, 10, "calibrate\x1b[2J")
    lines = stream.getvalue().splitlines()
    assert [line.partition(", ETA")[0] for line in lines] == [
        "shrink: 2 of 10, 1:00", "shrink: 5 of 10, 2:00", "shrink: 8 of 10, 3:00"
    ]  # fmt: skip
    assert all(line.endswith(r", calibrate\x1b[2J") for line in lines)
    with contextlib.redirect_stderr(Terminal()) as terminal:
        with progress_module.shown(None, "shrink", in_logs=True) as listener:
            for _ in range(9):
                listener(1, 2, "")
    assert "\n" not in terminal.getvalue() and "\rshrink: 1 of 2" in terminal.getvalue()
    for quiet in (False, lambda *_: None):
        stream = io.StringIO()
        with contextlib.redirect_stderr(stream):
            with progress_module.shown(quiet, "shrink", in_logs=True) as listener:
                assert listener in (None, quiet)
        assert stream.getvalue() == ""


def test_lines_fit_the_terminal_and_do_not_steer_it(clock):
    stream = Terminal()
    line = progress_module.TerminalLine("calibrate", stream)
    for _ in range(5):
        line(1, 2, "a\x1b[2J" + "x" * 500)
    line.erase()
    shown = stream.getvalue()
    assert shown.replace("\r", "").isprintable()
    assert r"a\x1b[2J" in shown
    assert max(len(part) for part in shown.split("\r")) == 79


def test_a_line_on_stderr_for_who_asks(clock):
    stream = io.StringIO()  # no terminal
    with contextlib.redirect_stderr(stream):
        cfck.calibrate(model(), batches(3), progress=True)
    assert "\rcalibrate: 1 of 2, 0:" in stream.getvalue()
    assert ", ETA 0:" in stream.getvalue()


def test_bars_of_saves_and_loads(clock, tmp_path):
    tensors = {f"layer{i}": weights(64, 64, seed=i) for i in range(20)}
    path = tmp_path / "m.cfck"
    calls = {
        "save": lambda progress: save_file(tensors, path, progress=progress),
        "load": lambda progress: load_file(path, progress=progress),
    }
    for what, call in calls.items():
        stream = Terminal()
        with contextlib.redirect_stderr(stream):
            call(True)
        lines = stream.getvalue().split("\r")
        assert any(line.startswith(f"{what} [") and " MB/s" in line for line in lines), lines
        assert any("%, " in line and ", ETA " in line for line in lines)
        assert lines[-1] == "" and lines[-2].strip() == ""  # erased at the end
        for progress in (None, False):
            stream = Terminal()
            with contextlib.redirect_stderr(stream):
                call(progress)
            assert stream.getvalue() == ""
        with pytest.raises(TypeError, match="progress is called as"):
            call("yes")


def test_the_bar_of_a_call_that_fails_is_erased(clock, tmp_path):
    stream = Terminal()
    with contextlib.redirect_stderr(stream):
        listener = progress_module.byte_listener(True, "load")
        listener(10, 100, "layer")
        assert stream.getvalue().strip("\r ") != ""
        del listener
    assert stream.getvalue().endswith("\r" + " " * 79 + "\r")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (7.4, "0:07"), (754, "12:34"), (3723, "1:02:03")]
)
def test_times(seconds, text):
    assert progress_module._clock(seconds) == text
