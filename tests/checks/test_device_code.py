"""The rules of device_code.py refuse what they must."""

from pathlib import Path

import device_code
import pytest


@pytest.mark.parametrize(
    "line",
    [
        "fma.rn.f32 %f3, %f1, %f2, %f0;",
        "mad.rn.f32 %f3, %f1, %f2, %f0;",
        "mul.f32 %f3, %f1, %f2;",
        "add.rz.f64 %fd3, %fd1, %fd2;",
        "add.rn.ftz.f32 %f3, %f1, %f2;",
        "ex2.approx.f32 %f3, %f1;",
        "div.full.f32 %f3, %f1, %f2;",
        "atom.global.add.f32 %f1, [%rd1], %f2;",
        "red.global.add.f64 [%rd1], %fd2;",
        "min.f32 %f3, %f1, %f2;",
        "call.uni (retval0), __nv_exp2f, (param0);",
    ],
)
def test_refused(line: str, tmp_path: Path) -> None:
    ptx = tmp_path / "x.ptx"
    ptx.write_text(f".entry _Zkernel(\n{line}\n")
    assert device_code.broken_rules(ptx)


@pytest.mark.parametrize(
    "line",
    [
        "mul.rn.f64 %fd3, %fd1, %fd2;",
        "add.rn.f32 %f3, %f1, 0f3F000000;",
        "mad.lo.s32 %r3, %r1, %r2, %r0;",
        "mul.wide.u32 %rd3, %r1, %r2;",
        "max.f32 %f3, %f1, 0f00000000;",
        "atom.global.add.u32 %r1, [%rd1], 1;",
        "// fma.rn.f32",
    ],
)
def test_allowed(line: str, tmp_path: Path) -> None:
    ptx = tmp_path / "x.ptx"
    ptx.write_text(f"{line}\n")
    assert device_code.broken_rules(ptx) == []


def test_resources(tmp_path: Path) -> None:
    log = tmp_path / "x.sm90.txt"
    log.write_text(
        "ptxas info    : Compiling entry function '_Zone' for 'sm_90'\n"
        "ptxas info    : Function properties for _Zone\n"
        "    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n"
        "ptxas info    : Used 42 registers, used 0 barriers\n"
    )
    assert device_code.resources(log) == {"_Zone": (42, 16, 12)}
