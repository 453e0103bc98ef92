"""The model of the kernels' time (bench/gpu/kernel_model.py) reads its table, takes its constants
from base rows, and stays right where it has been."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from gpu import encode_model, kernel_model, kernel_variants, launches

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


ENCODED = encode_model.read_measured()
STEP = encode_model.step_of(ENCODED)
ENCODERS = {
    f"{codec}_{values}": encoder
    for codec, encoders in (("lossless", encode_model.LOSSLESS), ("direct", encode_model.DIRECT))
    for values, encoder in encoders.items()
}


def test_one_row_gives_the_constant_of_encoding():
    [row] = [row for row in ENCODED if row.role == "constant"]
    assert encode_model.step_of([row]) == STEP
    assert row.launch.n_blocks == len(row.launch.sizes) < encode_model.H200.multiprocessors
    assert row.error(STEP) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("row", ENCODED, ids=lambda row: f"{row.variant}-{row.ms}")
def test_encoding_is_right_where_it_is_said_to_be(row):
    assert row.within in ("yes", "no") and (row.within == "no") == bool(row.why)
    assert (abs(row.error(STEP)) <= kernel_model.LIMIT) == (row.within == "yes")


def test_the_model_has_the_blocks_of_kernels_that_encode():
    shapes = (Path(__file__).parents[2] / "cuda" / "kernels" / "launch_shapes.hpp").read_text()
    blocks = dict(re.findall(r"\b(k\w+) = (\w+);", shapes))
    assert int(blocks["kEncodeWarpsPerBlock"]) == encode_model.WARPS
    for name, encoder in ENCODERS.items():
        codec, values = name.split("_")
        of_kernel = f"kDirectEncodeBlocks{values.capitalize()}" if codec == "direct" else ""
        n_blocks = blocks.get(of_kernel, "kEncodeBlocks")
        assert int(blocks.get(n_blocks, n_blocks)) == encoder.blocks


def test_the_model_has_the_instructions_of_kernels_that_encode():
    page = Path(__file__).parents[2] / "bench" / "results" / "device-instructions-sm90.md"
    lines = [line.split("|")[1:-1] for line in page.read_text().splitlines()]
    rows = [[cell.strip() for cell in line] for line in lines if len(line) == 11]
    counted = {row[0]: row for row in rows if row[0].startswith("cfck_encode_")}
    for name, encoder in ENCODERS.items():
        _, ratio, *_, total, integers, slow, doubles, errors = counted[f"cfck_encode_{name}"]
        assert encoder.ratio == float(ratio)
        assert encoder.demands() == [float(n) for n in (total, integers, slow, doubles)]
        assert encoder.errors == float(errors or 0)


def test_messages_have_the_blocks_that_memory_is_enough_for():
    assert [launch.n_blocks for launch in encode_model.launches_of_today()[1:3]] == [170, 264]
    small = encode_model.Launch(encode_model.LOSSLESS["bf16"], 44.8512, messages=100)
    assert small.sizes == [224_256] * 100
    for launch in encode_model.launches_of_today():
        assert launch.floor < encode_model.seconds_of(launch, STEP) < 0.05


def test_errors_are_added_up_by_one_warp():
    encoder = encode_model.DIRECT["f32"]
    without = encode_model.chunk_cycles(encoder, STEP, 2**18)
    with_errors = encode_model.chunk_cycles(encoder, STEP, 2**18, with_errors=True)
    assert with_errors - without == pytest.approx(2048 * STEP * encoder.errors)
