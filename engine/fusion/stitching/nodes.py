"""What the search over fusions takes and gives, as plain values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.documents.model import TermDoc
from engine.support.values import value

if TYPE_CHECKING:  # the window's process imports this module for the policies alone
    from engine.fusion.shape import Shape
    from engine.tensor.nodes import Statement

MOST_STATEMENTS = 256
"""Statements of one kernel: the scheduler's time grows faster than what a longer chain saves."""

NONE, XLA, STITCH = "none", "xla", "stitch"
POLICIES = (NONE, XLA, STITCH)
"""`none`: one kernel an operator.  `xla`: the rules of XLA's fusion passes.  `stitch`: the search, on top of them."""
DEFAULT_POLICY = STITCH
"""The policy of a plan that asks for none."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How statements share one kernel, as far as costs need to know."""

    shape: Shape
    """The loop space, for who builds the kernel: the search does not look into it."""
    rows: int
    """Points of the common parallel axes: what blocks divide among them."""
    columns: int
    """Points of the other axes: what the threads of a block walk for each row."""
    shared_bytes: int = 0
    """Shared memory of one block, should no two values share bytes."""
    shared_arrays: frozenset[str] = frozenset()
    """Intermediates handed over in shared memory."""
    inlined: frozenset[str] = frozenset()
    """Names of statements that are computed again in their readers."""


class Legality(Protocol):
    """Whether the code generator can make one kernel of statements, given in an order that is legal to run."""

    def __call__(self, statements: Sequence[Statement], kept: frozenset[str]) -> Fit | str:
        """How they fit, or why they do not.  kept: arrays that must be written for others."""

    def because(self, statements: Sequence[Statement], kept: frozenset[str], reason: str) -> str:
        """Why they do not fit, which `reason` says of all of them, as precisely as can be told a person."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """What a person decided about groups; exploring again changes only the rest."""

    groups: tuple[tuple[str, ...], ...] = ()
    """Operators that are one kernel and take no other in."""
    apart: tuple[tuple[str, str], ...] = ()
    """(producer, consumer): operators that never share a kernel."""

    def __bool__(self) -> bool:
        return bool(self.groups or self.apart)

    def why_apart(self, operators: Collection[str]) -> str:
        """Why operators are not to share a kernel, or ""."""
        pairs = (pair for pair in self.apart if pair[0] in operators and pair[1] in operators)
        return next((f"you keep {producer} and {consumer} apart" for producer, consumer in pairs), "")


@dataclass(frozen=True, slots=True)
class Gain:
    """What making one kernel of several saves, in microseconds: reduced memory + reduced calls - penalty."""

    terms: tuple[TermDoc, ...]
    """"memory", "calls" and "penalty" (negative), each with its reason."""

    @property
    def microseconds(self) -> float:
        """The sum of the terms: the score f of a pattern."""
        return sum(term.value for term in self.terms)

    def __str__(self) -> str:
        return ", ".join(f"{term.name} {term.value:+.2g} {term.unit}" for term in self.terms)


@dataclass(frozen=True, slots=True)
class Cost:
    """One kernel by the fast model."""

    fit: Fit
    bytes_read: int
    bytes_written: int
    handed: tuple[tuple[str, int], ...]
    """(array, bytes) handed over inside the kernel."""
    latency: float
    """Microseconds of arithmetic and of waiting, by the simplified latency model."""


@value(frozen=True, slots=True)
class CandidateKernel:
    """Steps that are computed together; a step may be in several kernels, and is then computed in each."""

    members: frozenset[int]
    roots: frozenset[int]
    """Members whose arrays are written for others; each step is a root of at most one kernel."""
    closed: bool = False
    """Takes no part in fusion: a contraction with its epilogue, an operator without a kernel, a person's group."""


@dataclass(frozen=True, slots=True)
class Why:
    """Why two kernels are two, or what keeping them apart costs."""

    legal: bool
    """Whether they could be one kernel."""
    because: str
    gain: Gain | None
    """What one kernel would save (negative: lose); None where it is not legal."""


@value(frozen=True, slots=True)
class PlanFigures:
    """What a choice of kernels comes to, by the models of the search."""

    kernels: int
    memory_bound: int
    """Those without a matrix product or convolution."""
    bytes: int
    """Global memory that all kernels read and write."""
    microseconds: float
    """Predicted, uncalibrated; of kernels with a product the launch and the moving only, which fusion changes."""
