"""Phases of kernels that encode are known by their work, and counted on the way of a common
group."""

import encode_instructions
import machine_code
import pytest
from machine_code import Instruction

ENCODER = encode_instructions.Encoder("cfck_encode_lossless_bf16", 2, 256, is_direct=False)
LOAD = "        /*0000*/                   LD.E.64 R2, desc[UR6][R4.64] ;"
STEP = """        /*0000*/                   LDS.64 R4, [R3] ;
        /*0010*/                   POPC R5, R4 ;
        /*0020*/                   POPC R6, R4 ;
        /*0030*/              @P0  STG.E.U16 desc[UR6][R2.64], R4 ;
"""


def blocks_of(*loops: str) -> list[machine_code.Block]:
    """A kernel of loops, one after the other."""
    lines = [".text.cfck_kernel:"]
    for number, loop in enumerate(loops):
        lines += [f".L_x_{number}:", loop.rstrip("\n")]
        lines.append(f"        /*0000*/               @P1 BRA `(.L_x_{number}) ;")
    lines.append("        /*0000*/                   EXIT ;")
    return machine_code.read_listing("\n".join(lines))["cfck_kernel"]


def test_loops_of_other_numbers_of_lane_sets_are_not_taken():
    blocks = blocks_of(STEP * 16, STEP * 4, STEP * 8)
    mix = encode_instructions.coded_mix(blocks, machine_code.loops_of(blocks), is_direct=False)
    # Four groups and two of four lane sets in a turn: half of its instructions for a group.
    assert mix == {"LDS": 4, "POPC": 8, "STG": 4, "BRA": 0.5}


def test_symbols_of_every_eighth_group_are_counted():
    skip = "        /*0000*/               @P2 BRA `(.L_x_1) ;\n"
    counting = "        /*0000*/                   ATOMS.ADD RZ, [R3], R4 ;\n" * 4
    blocks = blocks_of(f"{LOAD}\n{skip}{counting}.L_x_1:")
    mix = encode_instructions.split_mix(blocks, machine_code.loops_of(blocks), {"wide load": 1})
    assert mix == {"LD": 1, "BRA": 2, "ATOMS": 0.5}


def test_copies_are_counted_by_the_bytes_of_a_group():
    loop = "        /*0000*/                   LDG.E R2, desc[UR6][R4.64] ;\n" * 16
    loop += "        /*0000*/                   STG.E desc[UR6][R2.64], R4 ;\n" * 8
    blocks = blocks_of(loop)
    mix = encode_instructions.copied_mix(blocks, machine_code.loops_of(blocks), ENCODER)
    assert mix == {"LDG": 4, "STG": 2, "BRA": 0.25}


def test_units_are_busy_for_their_instructions():
    mix = {"IADD3": 3, "POPC": 2, "DADD": 5, "BRA": 7}
    cycles = [encode_instructions.cycles_of(mix, unit) for unit in encode_instructions.UNITS]
    assert cycles == [6, 16, 10]


def test_work_that_no_loop_does_is_an_error():
    blocks = blocks_of(LOAD)
    with pytest.raises(ValueError, match="no loop does this work"):
        encode_instructions.mix_of(blocks, machine_code.loops_of(blocks), {"shuffle": 1})


def test_kinds_are_told_apart():
    kinds = {
        "LD.E.128": "wide load",
        "LDG.E.U8": "load",
        "LDS.64": "entry",
        "ST.E": "word",
        "ST.E.64": "",
        "STG.E.U16": "halfword",
        "ATOMS.ADD": "symbol counted",
        "ATOMS.OR": "",
        "DSETP.GEU.AND": "comparison",
    }
    for opcode, kind in kinds.items():
        assert encode_instructions.kind_of(Instruction(opcode)) == kind
