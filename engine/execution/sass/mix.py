"""Instructions of machine code by pipe: of the whole program, and of one iteration of its main loop.

    /*0970*/    HMMA.16816.F32 R4, R12.reuse, R16, R4 ;    ->    one of "tensor"

Counts are of the text: an instruction that a predicate skips counts, one of a slow path too.  Opcodes are those of the
CUDA binary utilities' reference, pipes those of Nsight Compute's (sm_80 and sm_90).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

TENSOR, FMA, ALU, SPECIAL = "tensor", "FMA", "ALU", "special"
GLOBAL, SHARED, SHUFFLE, LOCAL = "global", "shared", "shuffle", "local"
UNIFORM, CONTROL, OTHER = "uniform", "control", "other"
PIPES = (TENSOR, FMA, ALU, SPECIAL, GLOBAL, SHARED, SHUFFLE, LOCAL, UNIFORM, CONTROL, OTHER)
"""In the order in which they are told."""

_OPCODES = {
    TENSOR: "HMMA IMMA DMMA BMMA HGMMA IGMMA QGMMA",
    # Integer multiplications run beside those of floats.
    FMA: "FFMA FADD FMUL FFMA32I FADD32I FMUL32I FSWZADD HFMA2 HADD2 HMUL2 HFMA2_32I HADD2_32I HMUL2_32I IMAD DFMA "
         "DADD DMUL",
    ALU: "IADD3 IADD LEA LOP3 LOP SHF SHL SHR ISETP FSETP SEL FSEL PRMT FMNMX IMNMX VIMNMX VIADD VIADDMNMX MOV MOV32I "
         "PLOP3 P2R R2P IABS SGXT BMSK HMNMX2 HSET2 HSETP2 F2FP I2FP FCHK VOTE CS2R DSETP FSET ISCADD LEPC VABSDIFF",
    SPECIAL: "MUFU F2F F2I I2F FRND POPC FLO BREV F2IP I2IP",
    GLOBAL: "LDG STG LDGSTS RED ATOM ATOMG LD ST CCTL UBLKCP UTMALDG UTMASTG REDG",
    SHARED: "LDS STS LDSM STSM ATOMS MATCH MOVM",
    SHUFFLE: "SHFL",
    LOCAL: "LDL STL",
    CONTROL: "BRA BRX BRXU JMP JMX EXIT BAR BSSY BSYNC BREAK WARPSYNC CALL RET NOP DEPBAR LDGDEPBAR MEMBAR ERRBAR "
             "FENCE YIELD NANOSLEEP KILL SYNCS WARPGROUP WARPGROUPDEPBAR ELECT S2R B2R BPT RPCMOV BMOV ENDCOLLECTIVE "
             "ACQBULK CGAERRBAR UCGABAR_ARV UCGABAR_WAIT PREEXIT GETLMEMBASE SETLMEMBASE LDC",
}  # fmt: skip
_PIPE = {opcode: pipe for pipe, opcodes in _OPCODES.items() for opcode in opcodes.split()}

_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][A-Z0-9_]*)([^;]*);")
_LABEL = re.compile(r"(\.L\w+):")
_TARGET = re.compile(r"([^`]*)`\((\.L\w+)\)")
_ENDS = ("EXIT", "RET", "KILL")
NEVER = "!PT"
"""Guard of instructions that are there for the sake of timing and do nothing."""


@dataclass(frozen=True, slots=True)
class SassInstruction:
    """One instruction of a listing."""

    line: int
    """Of the listing, from 1."""
    opcode: str
    """Without its modifiers: "HMMA"."""
    target: str
    """Label that it may jump to, or ""."""
    goes_on: bool
    """Whether the next instruction may follow."""


@dataclass(frozen=True, slots=True)
class InstructionMix:
    """Instructions of a program, and of its main loop."""

    program: Mapping[str, int]
    """Pipe -> instructions in the text."""
    loop: Mapping[str, int]
    """The same of one iteration of the main loop as the compiler wrote it; empty without a loop."""
    lines: tuple[int, int]
    """First and last line of that loop in the listing; (0, 0) without one."""


def pipe_of(opcode: str) -> str:
    """The pipe that an instruction is issued to; "other" for an opcode that is not in the table."""
    uniform = opcode.startswith("U") or opcode in ("R2UR", "S2UR", "VOTEU")
    return _PIPE.get(opcode) or (UNIFORM if uniform else OTHER)


def instruction_mix(text: str) -> InstructionMix:
    """The mix of a listing of nvdisasm."""
    code, labels = read_instructions(text)
    program = Counter(pipe_of(one.opcode) for one in code)
    main = max(loops(code, labels), key=_weight, default=())
    lines = (main[0].line, main[-1].line) if main else (0, 0)
    return InstructionMix(program, Counter(pipe_of(one.opcode) for one in main), lines)


def read_instructions(text: str) -> tuple[tuple[SassInstruction, ...], Mapping[str, int]]:
    """The instructions of a listing, and label -> number of the instruction behind it."""
    code: list[SassInstruction] = []
    labels: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        label = _LABEL.match(line)
        if label:
            labels[label[1]] = len(code)
            continue
        found = _INSTRUCTION.match(line)
        if found is None:
            continue
        guard, opcode, rest = found.groups()
        if guard == NEVER:
            continue
        place = _TARGET.match(rest) if opcode == "BRA" else None
        # "BRA.DIV UR4, `(.L)" and "BRA P0, `(.L)" ask as a guard does.
        is_conditional = bool(guard) or bool(place and re.search(r"[UP]\w*,", place[1]))
        goes_on = is_conditional or opcode not in (*_ENDS, "BRA")
        code.append(SassInstruction(number, opcode, place[2] if place else "", goes_on))
    return tuple(code), labels


def loops(code: Sequence[SassInstruction], labels: Mapping[str, int]) -> Iterator[tuple[SassInstruction, ...]]:
    """The innermost natural loops, each in the order of the text.

    A jump backwards is none by itself: slow paths stand behind the program and jump back into it.
    """
    flow = nx.DiGraph()
    flow.add_nodes_from(range(len(code)))
    for number, one in enumerate(code):
        if one.goes_on and number + 1 < len(code):
            flow.add_edge(number, number + 1)
        if one.target in labels and labels[one.target] < len(code):
            flow.add_edge(number, labels[one.target])
    reached = flow.subgraph(nx.descendants(flow, 0) | {0}) if code else flow
    above = nx.immediate_dominators(reached, 0) if code else {}
    bodies: dict[int, set[int]] = {}
    for number, header in reached.edges:
        if header <= number and _dominates(above, header, number):
            bodies.setdefault(header, {header}).update(_into(reached, number, header))
    for header, body in bodies.items():
        if len(body) > 1 and not any(other in body for other in bodies if other != header):
            yield tuple(code[number] for number in sorted(body))


def _dominates(above: Mapping[int, int], header: int, number: int) -> bool:
    while number != header and above.get(number, number) != number:
        number = above[number]
    return number == header


def _into(flow: nx.DiGraph, end: int, header: int) -> set[int]:
    """What reaches the end of a loop without passing its header."""
    found, waiting = {header}, [end]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting.extend(flow.predecessors(one))
    return found


def _weight(body: Sequence[SassInstruction]) -> tuple[int, int]:
    """A loop with more products is more of a main loop; among equals the longer one."""
    return sum(pipe_of(one.opcode) == TENSOR for one in body), len(body)
