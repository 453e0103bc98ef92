"""The model of the kernels' time (bench/gpu/kernel_model.py) reads its table, takes its constants
from base rows, and stays right where it has been."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from gpu import kernel_model, kernel_variants, launches

VARIANTS = kernel_variants.read_variants()
CONSTANTS = kernel_model.constants_of(VARIANTS)
MACHINE = launches.Machine(multiprocessors=3, schedulers=4, hertz=1e9, bytes_a_second=1e12)


def test_the_table_is_read():
    roles = [variant.role for variant in VARIANTS]
    assert set(roles) == {"constant", "check", "variant"}
    assert roles.count("variant") > 70
    for variant in VARIANTS:
        assert variant.gbps > 0 and variant.values in kernel_variants.VALUES, variant
        assert variant.within in ("yes", "no"), variant
        assert (variant.within == "no") == bool(variant.why), variant
        assert sum(variant.sizes) > 0


def test_constants_come_from_base_rows_alone():
    assert {v.loads for v in VARIANTS if v.role == "constant"} == {"at use"}
    base = [v for v in VARIANTS if v.role != "variant"]
    assert kernel_model.constants_of(base) == CONSTANTS


@pytest.mark.parametrize(
    "variant", [v for v in VARIANTS if v.within == "yes"], ids=lambda v: f"{v.variant}-{v.gbps:.0f}"
)
def test_what_was_right_within_a_quarter_stays_so(variant):
    assert abs(kernel_model.error_of(variant, CONSTANTS)) <= kernel_model.LIMIT


def test_what_is_said_to_be_wrong_is():
    for variant in VARIANTS:
        if variant.within == "no":
            error = kernel_model.error_of(variant, CONSTANTS)
            assert error is None or abs(error) > kernel_model.LIMIT, variant


def test_kernels_of_this_version_are_computed():
    for variant in kernel_model.kernels_of_today():
        launch = kernel_model.launch_of(variant, CONSTANTS)
        assert launch.floor <= launch.seconds < 0.01
        assert launch.alone <= launch.together


def test_the_form_that_is_chosen_is_the_faster_one():
    for values, forms in kernel_model.TODAY.items():
        for each in kernel_model.FEW_SEGMENTS:
            n_segments = round(each * kernel_model.H100.multiprocessors)
            launches = [form.launch_of_segments(values, n_segments) for form in forms]
            assert all(len(launch.sizes) == n_segments for launch in launches)
            speeds = [kernel_model.predicted(launch, CONSTANTS) for launch in launches]
            chosen = forms.index(kernel_model.chosen_form(values, n_segments))
            assert speeds[chosen] == max(speeds), (values, each)


def test_the_model_has_the_blocks_of_the_kernels():
    shapes = (Path(__file__).parents[2] / "cuda" / "kernels" / "launch_shapes.hpp").read_text()
    blocks = {name: int(n) for name, n in re.findall(r"\b(k\w+) = (\d+);", shapes)}
    for values, (warp, team) in kernel_model.TODAY.items():
        codec = "kDirect" if values.startswith("direct") else "kLossless"
        assert warp.warps == blocks[f"{codec}WarpsPerBlock"] * blocks[f"{codec}Blocks"]
        assert team.warps == blocks["kWarpsOfTeam"] * blocks[f"{codec}TeamBlocks"]


def test_the_model_has_the_instructions_of_the_kernels():
    page = Path(__file__).parents[2] / "bench" / "results" / "device-instructions-sm90.md"
    rows = re.findall(r"\| (cfck_\w+) \|[^|]*\|[^|]*\|[^|]*\| (\d+) \|", page.read_text())
    counted = {name: int(n) for name, n in rows}
    for values, (warp, team) in kernel_model.TODAY.items():
        codec, dtype = ("direct", "f32") if values.startswith("direct") else ("lossless", values)
        assert warp.instructions == counted[f"cfck_{codec}_{dtype}"]
        assert team.instructions == counted[f"cfck_{codec}_team_{dtype}"]


def test_warps_wait_for_each_other():
    turns = launches.turn_cycles(100, [40, 20], 50)
    assert turns[:2] == [0, pytest.approx(100)]
    assert all(40 * n < turns[n] for n in range(1, 51))  # no faster than the unit
    assert all(turns[n] <= turns[n + 1] for n in range(50))
    assert turns[50] == pytest.approx(50 * 40, rel=0.05)  # and in the end as fast
    assert launches.limit_cycles(100, [40, 20], 4) == [0, 100, 100, 120, 160]
    assert launches.turn_cycles(100, [0], 3) == [0, 100, 100, 100]  # nothing that two could want


def test_blocks_are_dealt_out():
    assert launches.first_warps(MACHINE, 2, 16, 4) == [1, 0, 0, 0] * 2 + [0] * 4
    assert launches.first_warps(MACHINE, 100, 8, 4) == [2] * 12
    assert launches.first_warps(MACHINE, 16, 16, 4) == [2] * 4 + [1] * 8
    assert launches.first_teams(MACHINE, 4, 16) == [2, 1, 1]


def test_chunks_are_taken_in_turn():
    assert launches.launch_cycles([10, 30, 5], [1, 1], [0, 1]) == 30
    assert launches.launch_cycles([10] * 5, [1, 1], [0, 1]) == 30
    # Two at a place take half as long again; the second has the place for itself at the end.
    assert launches.launch_cycles([10, 20], [2], [0, 1, 1.5]) == 10 * 1.5 + 10
