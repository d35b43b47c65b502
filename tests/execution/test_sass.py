"""Machine code: which loop is the main one, which pipe an instruction takes, and that it does what Work counts.

The first listing is written by hand in the layout of nvdisasm; the others are of kernels that NVRTC compiled.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import engine
from engine.execution.sass import instruction_mix
from engine.execution.sass.mix import loops, pipe_of, read_instructions
from engine.present.machine_code import machine_code, mix_sentences
from tests.support.needs import needs_nvdisasm, needs_nvrtc

LISTING = """\
\t.target\tsm_80
kernel:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/                   BRA.DIV UR4, `(.L_slow) ;
.L_loop:
        /*0020*/                   LDG.E R2, [R4.64] ;
        /*0030*/                   FFMA R0, R2, R2, R0 ;
        /*0040*/              @!PT LDS RZ, [RZ] ;
        /*0050*/              @!P1 BRA `(.L_skip) ;
        /*0060*/                   MUFU.EX2 R0, R0 ;
.L_skip:
        /*0070*/               @P0 BRA `(.L_loop) ;
.L_after:
        /*0080*/                   STG.E [R4.64], R0 ;
        /*0090*/                   NEWOP R0, R1 ;
        /*00a0*/                   EXIT ;
.L_slow:
        /*00b0*/                   HMMA.16816.F32 R4, R12.reuse, R16, R4 ;
        /*00c0*/                   BRA `(.L_after) ;
.L_end:
        /*00d0*/                   BRA `(.L_end);
"""
BERT = Path("../shared/models/bert_base_fp16_b8_s128.onnx")


def test_the_loop_is_found_and_a_slow_path_that_jumps_back_is_none() -> None:
    mix = instruction_mix(LISTING)
    assert mix.loop == {"global": 1, "FMA": 1, "special": 1, "control": 2} and mix.lines == (6, 12)
    assert mix.program == {
        "ALU": 1, "control": 6, "global": 2, "FMA": 1, "special": 1, "tensor": 1, "other": 1,
    }, "what nothing executes is not counted, an unknown opcode is"  # fmt: skip


def test_a_listing_without_a_loop_or_without_code() -> None:
    straight = LISTING.replace("@P0 BRA `(.L_loop)", "NOP")
    assert instruction_mix(straight).loop == {} and instruction_mix(straight).lines == (0, 0)
    assert instruction_mix("").program == {}


def test_of_loops_inside_each_other_the_inner_one_counts() -> None:
    outer = LISTING.replace("BRA.DIV UR4, `(.L_slow)", "NOP").replace("STG.E [R4.64], R0", "@P4 BRA `(.L_outer)")
    code, labels = read_instructions(outer.replace(".L_loop:", ".L_outer:\n        /*0018*/  NOP ;\n.L_loop:"))
    found = [[one.opcode for one in body] for body in loops(code, labels)]
    assert found == [["LDG", "FFMA", "BRA", "MUFU", "BRA"]]


@pytest.mark.parametrize(
    ("opcode", "pipe"),
    [("HMMA", "tensor"), ("LDGSTS", "global"), ("LDSM", "shared"), ("UMOV", "uniform"), ("A", "other")],
)
def test_pipes(opcode: str, pipe: str) -> None:
    assert pipe_of(opcode) == pipe


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize("target", ["a100", "h100"])
def test_the_machine_code_does_what_work_counts_and_a_missing_load_is_told(target: str) -> None:
    kernel = engine.compile(engine.fuse(engine.load("suite:alcop/MM_Square_2k"), target=target).groups[0])
    text = machine_code(kernel)
    told = list(mix_sentences(kernel, text))
    assert told[1].startswith("Main loop, lines ") and ": 64 tensor, " in told[1]
    assert told[2] == (
        "One iteration has what Work counts: 64 products on tensor cores, 8 requests of global memory, "
        "16 requests of shared memory"
    )
    assert "other" not in told[0], "every opcode is known"
    first = int(re.findall(r"\d[\d,]*", told[1])[0].replace(",", ""))
    lines = text.splitlines()
    place = next(n for n, line in enumerate(lines) if n >= first and "LDSM" in line)
    lines[place] = lines[place].replace("LDSM", "MOV")
    assert list(mix_sentences(kernel, "\n".join(lines)))[2] == (
        "One iteration has not what Work counts: 15 requests of shared memory in place of 16"
    )


@needs_nvrtc
@needs_nvdisasm
def test_a_straight_kernel_is_told_by_element() -> None:
    kernel = engine.compile(engine.fuse(engine.load("suite:memory/add-2p28")).groups[0])
    told = list(mix_sentences(kernel, machine_code(kernel)))
    assert told[1].startswith("A warp has what Work counts: ") and "instructions of a thread for each of" in told[2]
    text = engine.explain(kernel, with_machine_code=True)
    assert told[0] in text and "Machine code" not in engine.explain(kernel)


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.slow
@pytest.mark.skipif(not BERT.is_file(), reason=f"{BERT} is not here")
def test_all_kernels_of_a_model_do_what_work_counts() -> None:
    said = []
    for group in engine.fuse(engine.load(BERT), target="a100").groups:
        kernel = engine.compile(group)
        said += [line for line in mix_sentences(kernel, machine_code(kernel)) if "Work counts" in line]
    assert said and all("has what Work counts" in line for line in said)


def test_without_the_tool_the_explanation_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("engine.execution.sass.nvdisasm"), "disassembler", lambda: None)
    kernel = engine.compile(engine.fuse(engine.load("suite:alcop/MM_RN50_FC")).groups[0])
    assert "  none: SASS needs NVIDIA's disassembler nvdisasm" in engine.explain(kernel, with_machine_code=True)
