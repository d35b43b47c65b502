"""Parse the text of PTX as NVRTC writes it.

    @%p1 bra $L__BB0_2;    ->    Instruction("bra", ("$L__BB0_2",), guard="%p1")
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from engine.execution.ptx.nodes import Instruction, PtxKernel, Variable
from engine.support.errors import BadInput

TYPES = {
    "pred": np.bool_, "b8": np.uint8, "u8": np.uint8, "s8": np.int8, "b16": np.uint16, "u16": np.uint16,
    "s16": np.int16, "f16": np.float16, "b32": np.uint32, "u32": np.uint32, "s32": np.int32, "f32": np.float32,
    "b64": np.uint64, "u64": np.uint64, "s64": np.int64, "f64": np.float64,
}  # fmt: skip
"""PTX type -> NumPy type."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)([^{;]*)\{")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_PIECE = re.compile(
    r"\s*(?:(?P<loc>\.loc\s[^\n]*)|(?P<brace>[{}])|(?P<label>[$\w]+):(?!:)|(?P<statement>[^;{}]*(?:\{[^;{}]*\}[^;{}]*)*);)"
)
_INSTRUCTION = re.compile(
    r"(?:@(?P<negated>!?)(?P<guard>[%\w$]+)\s+)?(?P<opcode>[a-z][\w.:]*)\s*(?P<operands>.*)", re.DOTALL
)
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.DOTALL)
_REGISTER = re.compile(r"%[\w$]+")
_VARIABLE = re.compile(
    r"(?:\.(?:extern|visible|weak)\s+)?\.(global|const|shared|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)"
    r"(?:\[(\d*)\])?(?:\s*=\s*(.*))?",
    re.DOTALL,
)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*inlined_at\s+(\d+)\s+(\d+))?")


def parse(text: str) -> dict[str, PtxKernel]:
    """The kernels of a module, by name.  Raises BadInput for text that is not PTX as NVRTC writes it."""
    text = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
    starts = list(_ENTRY.finditer(text))
    if not starts:
        raise BadInput("run", "the PTX", "has no kernel (.entry)")
    mains = {number for number, name in _FILE.findall(text) if name.endswith("kernel.cu")}
    # Variables of the module stand before the kernels, and before nothing else that ends with a semicolon.
    shared = dict(_variables(text[: starts[0].start()]))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    return {start[1]: _entry(text, start, end, shared, mains) for start, end in zip(starts, ends, strict=True)}


def _entry(text: str, start: re.Match[str], end: int, variables: dict[str, Variable], mains: set[str]) -> PtxKernel:
    registers: dict[str, np.dtype[np.generic]] = {}
    labels: dict[str, int] = {}
    code: list[Instruction] = []
    own = dict(variables)
    at, cuda_line = start.end(), 0
    scopes: list[dict[str, str]] = [{}]
    """For each open brace: registers declared after it -> their name here, where they hide outer ones."""
    line, counted = text.count("\n", 0, at) + 1, at
    while scopes:
        piece = _PIECE.match(text, at, end)
        if piece is None:
            raise BadInput("run", f"line {text.count(chr(10), 0, at) + 1} of the PTX", "cannot be read")
        begins = piece.start(piece.lastgroup or 0)
        line, counted = line + text.count("\n", counted, begins), begins
        at = piece.end()
        statement = (piece["statement"] or "").strip()
        if piece["brace"]:
            scopes = [*scopes, scopes[-1]] if piece["brace"] == "{" else scopes[:-1]
        elif piece["label"]:
            labels[piece["label"]] = len(code)
        elif piece["loc"]:
            cuda_line = _cuda_line(piece["loc"], mains, cuda_line)
        elif statement.startswith(".reg"):
            found = dict(_registers(statement, line))
            if len(scopes) > 1:
                scopes[-1] = scopes[-1] | {name: f"{name}${len(registers)}" for name in found}
            registers.update({scopes[-1].get(name, name): kept for name, kept in found.items()})
        elif statement.startswith("."):
            own.update(_variables(statement + ";"))
        elif statement:
            code.append(_instruction(_with_names(statement, scopes[-1]), line, cuda_line))
    parameters = re.findall(r"\.param\s+\.u64\s+(?:\.ptr[\w.\s]*?)?([\w$]+)\s*(?:,|$)", start[2].strip())
    if len(parameters) != start[2].count(".param"):
        raise BadInput("run", f"kernel {start[1]} of the PTX", "takes parameters that are no pointers")
    return PtxKernel(start[1], tuple(parameters), registers, own, tuple(code), labels)


def _cuda_line(directive: str, mains: set[str], before: int) -> int:
    """The line of the CUDA text that a .loc speaks of; of an inlined function, the line that calls it."""
    found = _LOC.match(directive)
    if found is None:
        return before
    if found[1] in mains:
        return int(found[2])
    return int(found[4]) if found[3] in mains else before


def _with_names(statement: str, names: Mapping[str, str]) -> str:
    return _REGISTER.sub(lambda one: names.get(one[0], one[0]), statement) if names else statement


def _instruction(statement: str, line: int, cuda_line: int) -> Instruction:
    found = _INSTRUCTION.fullmatch(statement)
    if found is None:
        raise BadInput("run", f"line {line} of the PTX", f"is no instruction: {statement[:80]}")
    operands = tuple(split_operands(found["operands"]))
    return Instruction(found["opcode"], operands, found["guard"] or "", bool(found["negated"]), line, cuda_line)


def split_operands(text: str) -> Iterator[str]:
    """Parts between commas that stand in no braces or brackets."""
    for part in re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+", text):
        if part.strip():
            yield part.strip()


def _registers(statement: str, line: int) -> Iterator[tuple[str, np.dtype[np.generic]]]:
    """The registers of a declaration: `.reg .b32 %r<3>` has %r0 to %r2."""
    found = _REGISTERS.fullmatch(statement)
    if found is None or found[1] not in TYPES:
        raise BadInput("run", f"line {line} of the PTX", f"declares registers of a type that is not known: {statement}")
    kept = np.dtype(TYPES[found[1]])
    for name in found[2].split(","):
        stem, many, count = name.strip().partition("<")
        numbers = range(int(count.rstrip("> "))) if many else ("",)
        yield from ((f"{stem}{number}", kept) for number in numbers)


def _variables(text: str) -> Iterator[tuple[str, Variable]]:
    for statement in text.split(";"):
        found = _VARIABLE.search(statement)
        if found:
            size = np.dtype(TYPES[found[3]]).itemsize
            values = np.array(re.findall(r"-?\w+", found[6] or ""), dtype=object)
            held = b"".join(int(value, 0).to_bytes(size, "little", signed=value.startswith("-")) for value in values)
            count = int(found[5] or 0) if found[5] is not None else 1
            yield found[4], Variable(found[1], count * size, int(found[2] or size), held)
