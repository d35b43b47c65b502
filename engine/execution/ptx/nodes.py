"""PTX as parsed, and the fault that ends an execution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a kernel."""

    opcode: str
    """With its modifiers: "ld.global.v4.u32"."""
    operands: tuple[str, ...]
    """As written; a vector keeps its braces: "{%r1, %r2}"."""
    guard: str = ""
    """Predicate register under which it runs; "" where it always does."""
    negated: bool = False
    """Whether it runs where the guard is false."""
    line: int = 0
    """1-based line of the PTX."""
    cuda_line: int = 0
    """1-based line of the CUDA text, by the line table; 0 where that says nothing."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The opcode and its modifiers one by one."""
        return tuple(self.opcode.split("."))

    def __str__(self) -> str:
        guard = f"@{'!' * self.negated}{self.guard} " if self.guard else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)}".rstrip()


@dataclass(frozen=True, slots=True)
class Variable:
    """Memory that the PTX declares."""

    space: str
    """"global", "const", "shared" or "local"."""
    size: int
    """Bytes; 0 for shared memory whose size the launch gives."""
    alignment: int
    values: bytes = b""
    """What it holds at first; zeros where it is short."""


@dataclass(frozen=True, slots=True)
class PtxKernel:
    """One kernel of the PTX."""

    name: str
    parameters: tuple[str, ...]
    """Names of its 64-bit pointers, in order."""
    registers: Mapping[str, np.dtype[np.generic]]
    """Name -> how its bits are kept."""
    variables: Mapping[str, Variable]
    """The module's and its own."""
    code: tuple[Instruction, ...]
    labels: Mapping[str, int]
    """Label -> position in `code`."""


class PtxFault(Exception):
    """What a GPU would trap on or leave undefined."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        """As in `Finding`."""
