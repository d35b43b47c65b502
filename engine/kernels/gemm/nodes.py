"""What decides the work of a product's kernel, whatever its configuration: plain values, which documents may carry."""

from __future__ import annotations

from dataclasses import dataclass

from engine.cost.alcop_nodes import GemmProblem
from engine.target.copies import SMALLEST_COPY
from engine.tensorize.space import Source

FEWEST_STAGED = 4
"""Elements of a store for which the way through shared memory pays."""
PARTS_AT_ONCE = 4
"""Parts of a row that are read from shared memory at once."""
SUMS_AT_ONCE = 4
"""Sums that are stored at once."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What global memory allows of the copies of an operand."""

    element_bytes: int
    along_side: int
    """Neighbouring elements along rows or columns that are one aligned vector; 1 where none are."""
    along_depth: int
    singly_along_depth: bool
    """Whether single elements are better copied along the depth: neighbouring threads then read nearer places."""
    fills_zeros: bool = True
    """Whether what is not there is 0, which asynchronous copies fill in."""
    sources: tuple[Source, ...] = ()
    """What an operand of codes is computed from: asynchronous copies bring it, threads write the elements."""

    @property
    def is_single(self) -> bool:
        """Whether elements go one by one through registers: no asynchronous copy is as small, and none moves neighbours
        together, because windows slide there, or fills in what is not there."""
        widest = max(self.along_side, self.along_depth) if self.fills_zeros else 1
        return not self.sources and widest * self.element_bytes < SMALLEST_COPY


@dataclass(frozen=True, slots=True)
class EpilogueRequest:
    """A read or a write of one element or, where lanes of a vector differ, of as many as a vector has."""

    name: str
    """What is asked for: two reads of the same in one loop are one."""
    bytes: int
    """Of an element."""
    is_write: bool
    moves: bool
    """Whether the place depends on any iterator."""
    with_rows: bool
    with_columns: bool
    with_lanes: bool
    """Whether neighbouring columns are other elements."""


@dataclass(frozen=True, slots=True)
class PassRequests:
    """One pass over a thread's results: what is asked for each row, and for each element."""

    of_rows: tuple[EpilogueRequest, ...]
    of_elements: tuple[EpilogueRequest, ...]
    parts: tuple[int, ...] = ()
    """Bytes of a part of each reduction that threads combine at the end of the pass."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """Everything after the sums."""

    passes: tuple[PassRequests, ...]
    """One, where no rows of the results are reduced."""
    widest: int
    """Neighbouring results that can be read and written at once."""
    sum_bytes: int
    """Of a sum as it is stored."""
    factor_bytes: int
    """That each thread reads before the main loop: what no loop moves of the factors."""


@dataclass(frozen=True, slots=True)
class FusedGemm:
    """A group's product and what surrounds it, as far as its kernel's work depends on them."""

    problem: GemmProblem
    reaches: tuple[Reach, Reach]
    """Of the first and of the second operand."""
    epilogue: Epilogue
    flops: int
    """On CUDA cores, of the whole launch, what computes factors from codes left out."""
    special: int
    dram_bytes: tuple[int, int]
    """Read and written, whatever the configuration."""
    unpacking: tuple[int, int] = (0, 0)
    """Operations on CUDA cores that compute one element of the first and of the second factor from its codes."""
