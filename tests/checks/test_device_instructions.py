"""Instructions are counted on the way that a common group takes, and on no other."""

import device_instructions
import machine_code
import pytest
from machine_code import Block, Instruction, Loop

# A loop around a loop. A group is a turn of the inner one with a table (LDS), four stores and
# nothing else; a refill (STS) and an escape, which jumps away and comes back, are rare.
LISTING = """
\t.section\t.text.cfck_first,"ax",@progbits
        .global         cfck_first
cfck_first:
.text.cfck_first:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   IMAD.MOV.U32 R2, RZ, RZ, RZ ;
.L_x_1:
        /*0020*/                   LDS R4, [R3] ;
        /*0030*/                   ISETP.GE.U32.AND P0, PT, R5, 0x41, PT ;
        /*0040*/               @P0 BRA `(.L_x_3) ;
        /*0050*/                   UMOV UR4, 0xffffffff ;
        /*0060*/                   BRA.DIV UR4, `(.L_x_4) ;
.L_x_2:
        /*0070*/               @P1 ST.E.U16 desc[UR6][R2.64], R4 ;
        /*0080*/              @!P1 BRA P2, `(.L_x_5) ;
        /*0090*/                   ST.E.U16 desc[UR6][R2.64], R4 ;
        /*00a0*/                   BRA `(.L_x_1) ;
.L_x_3:
        /*00b0*/                   STS.U16 [R3], R4 ;
        /*00c0*/                   STS.U16 [R3+0x2], R4 ;
        /*00d0*/                   BRA `(.L_x_2) ;
.L_x_4:
        /*00e0*/                   WARPSYNC.COLLECTIVE R4, `(.L_x_2) ;
        /*00f0*/                   BRA `(.L_x_2) ;
.L_x_5:
        /*0100*/              @!P3 EXIT ;
        /*0110*/                   BRA `(.L_x_0) ;
\t.section\t.text.cfck_second,"ax",@progbits
.text.cfck_second:
        /*0000*/                   EXIT ;
.L_x_6:
        /*0010*/                   BRA `(.L_x_6);
\t.section\t.text.cfck_third,"ax",@progbits
.text.cfck_third:
        /*0000*/                   CALL.REL.NOINC `($cfck_third$_Zfunction) ;
        /*0010*/                   EXIT ;
        .type           $cfck_third$_Zfunction,@function
$cfck_third$_Zfunction:
.L_x_7:
        /*0020*/               @P0 BRA `(.L_x_7) ;
        /*0030*/                   RET.REL.NODEC R2 `(cfck_third) ;
"""


@pytest.fixture
def blocks() -> list[Block]:
    return machine_code.read_listing(LISTING)["cfck_first"]


def test_kernels() -> None:
    assert list(machine_code.read_listing(LISTING)) == ["cfck_first", "cfck_second", "cfck_third"]


def test_instruction(blocks: list[Block]) -> None:
    store, jump = blocks[4].instructions
    assert store == Instruction("ST.E.U16", is_conditional=True)
    assert jump == Instruction("BRA", is_conditional=True, target=".L_x_5")
    assert (store.name, store.is_jump, jump.is_jump, jump.ends) == ("ST", False, True, False)


def test_lanes_that_are_together_do_not_diverge(blocks: list[Block]) -> None:
    div = next(b for b in blocks if b.instructions[-1].opcode == "BRA.DIV")
    assert div.next == [blocks.index(div) + 1]


def test_loops(blocks: list[Block]) -> None:
    inner, outer = machine_code.loops_of(blocks)
    assert inner.head == 2 and outer.head == 1
    assert inner.blocks < outer.blocks
    # Code that is reached only by lanes that are not together is in no loop.
    assert not any("WARPSYNC" in i.name for n in outer.blocks for i in blocks[n].instructions)


def test_unreachable_code_has_no_loops() -> None:
    assert machine_code.loops_of(machine_code.read_listing(LISTING)["cfck_second"]) == []


def test_loop_of_a_function() -> None:
    blocks = machine_code.read_listing(LISTING)["cfck_third"]
    assert blocks[0].next == [2, 1]
    assert machine_code.loops_of(blocks) == [Loop(2, {2})]


def test_common_way_is_the_cheapest(blocks: list[Block]) -> None:
    way = device_instructions.way_of(blocks, {"word of a table": 1, "store": 2})
    assert way.n_instructions == 9
    assert way.n_jumps == 3
    assert way.mix() == {"LDS": 1, "ISETP": 1, "BRA": 4, "UMOV": 1, "ST": 2}


def test_rare_work_is_found_where_it_is_asked_for(blocks: list[Block]) -> None:
    work = {"word of a table": 1, "store": 2, "to ring": 2}
    assert device_instructions.way_of(blocks, work).mix()["STS"] == 2


def test_work_may_take_turns_of_a_loop_inside(blocks: list[Block]) -> None:
    _, outer = machine_code.loops_of(blocks)
    work = {"word of a table": 3}
    way = machine_code.cheapest_way(blocks, outer, work, device_instructions.kind_of)
    assert way is not None and way.mix()["LDS"] == 3


def test_work_that_no_loop_does(blocks: list[Block]) -> None:
    inner = machine_code.loops_of(blocks)[0]
    kind_of = device_instructions.kind_of
    assert machine_code.cheapest_way(blocks, inner, {"shuffle": 1}, kind_of) is None
    with pytest.raises(ValueError, match="shuffle"):
        device_instructions.way_of(blocks, {"shuffle": 1})


def test_head_is_passed_once() -> None:
    # Twice around would do the work, but is not one way around.
    blocks = [Block([Instruction("SHFL.IDX")], [0])]
    loop = Loop(0, {0})
    kind_of = device_instructions.kind_of
    assert machine_code.cheapest_way(blocks, loop, {"shuffle": 1}, kind_of) is not None
    assert machine_code.cheapest_way(blocks, loop, {"shuffle": 2}, kind_of) is None


@pytest.mark.parametrize(
    ("opcode", "kind"),
    [
        ("LDS", "word of a table"),
        ("LDS.U16", "word of a ring"),
        ("SHF.R.W.U32", "funnel"),
        ("SHF.R.U32.HI", ""),
        ("LDG.E.64", ""),
        ("ST.E.U16", "store"),
        ("STG.E", "store"),
        ("STS.U16", "to ring"),
        ("SHFL.BFLY", "shuffle"),
        ("LOP3.LUT", ""),
    ],
)
def test_kinds(opcode: str, kind: str) -> None:
    assert device_instructions.kind_of(Instruction(opcode)) == kind


def test_speed() -> None:
    kernel = device_instructions.Kernel("cfck_lossless_bf16", 2, 7)
    way = machine_code.Way([0], [Instruction("LOP3.LUT")] * 60 + [Instruction("IMAD")] * 40)
    count = device_instructions.Count(kernel, way, refill=0)
    assert kernel.stored_bytes == pytest.approx(256 / 1.5, rel=1e-3)
    assert count.integer_cycles == 120
    # A group of 256 bytes takes 100 cycles of 132 times 4 schedulers.
    assert count.rate(count.instructions) == pytest.approx(132 * 4 * 1.755 * 2.56)


def test_missing_disassembler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(device_instructions, "find_disassembler", lambda given: None)
    monkeypatch.setattr("sys.argv", ["device_instructions.py", "folder"])
    assert device_instructions.main() == 1
    assert "pip install nvidia-cuda-nvdisasm" in capsys.readouterr().err
