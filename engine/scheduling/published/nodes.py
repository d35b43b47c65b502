"""A published advice file as a value, before it is matched against a group."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.support.errors import BadInput
from engine.tensor.nodes import Iterator


@dataclass(frozen=True, slots=True)
class Free:
    """A coefficient that the file leaves open: `?`, or `?k`, which has one value wherever k stands."""

    link: int | None = None

    def __str__(self) -> str:
        return "?" if self.link is None else f"?{self.link}"


Coefficient = int | Free


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One schedule dimension of a statement: `[1, 0, ?12] (%64, /4)`."""

    coefficients: tuple[Coefficient, ...]
    """Of the iterators, then of the parameters, then the constant."""
    operations: tuple[tuple[str, int], ...] = ()
    """("/", q) and ("%", q), applied from left to right."""

    def __str__(self) -> str:
        vector = f"[{', '.join(map(str, self.coefficients))}]"
        applied = ", ".join(f"{sign}{number}" for sign, number in self.operations)
        return f"{vector} ({applied})" if applied else vector


@dataclass(frozen=True, slots=True)
class StatementRows:
    """The rows that one statement is asked to have, outermost dimension first."""

    statement: str
    rows: tuple[PublishedRow, ...]


@dataclass(frozen=True, slots=True)
class Loops:
    """A statement of a pattern with its iterators, outermost first."""

    statement: str
    axes: tuple[Iterator, ...]

    def __str__(self) -> str:
        return f"{self.statement}[{', '.join(f'{a.name} < {a.extent}' for a in self.axes)}]"

    @property
    def points(self) -> int:
        """Number of instances."""
        return math.prod(a.extent for a in self.axes)


@dataclass(frozen=True, slots=True)
class Published:
    """One advice file that does not contradict itself."""

    name: str
    pattern: tuple[Loops, ...]
    """The statements it is for, after inlining and axis fusion, in the order in which they run."""
    wishes: tuple[StatementRows, ...]
    blocks: tuple[int, ...] = ()
    """Schedule dimensions that become the grid."""
    threads: tuple[int, ...] = ()
    """Those that become the threads of a block; the last one varies fastest."""
    vectors: tuple[int, ...] = ()
    """Those that become vector accesses ("swizzle")."""
    flags: tuple[str, ...] = ()
    """Compiler flags, which our kernels are compiled without."""
    disabled: tuple[str, ...] = ()
    """Passes of AKG to leave out; none of them exists here."""
    checked: bool = True
    """Whether AKG is to check the schedule; ours are always checked."""
    operator: str | None = None
    """The operator it is for, where the file names one."""


def contradiction(name: str, reason: str, hint: str = "") -> BadInput:
    """The error for a file that contradicts itself."""
    return BadInput("schedule", f"advice {name}", f"it contradicts itself: {reason}", hint)


def unreadable(name: str, reason: str, hint: str = "") -> BadInput:
    """The error for a file in another format."""
    return BadInput("schedule", f"advice {name}", reason, hint)
