"""A benchmark suite as a value: what one file of `resources/suites` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.support.units import MICROSECONDS

MEMORY, COMPUTE = "memory", "compute"
"""Which resource sets the floor: the values of `SuiteRow.limit`."""

Size = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The rates that floors are computed with, and where they come from."""

    flops_per_second: float
    bytes_per_second: float
    origin: str


@dataclass(frozen=True, slots=True)
class SuiteRow:
    """One operator, or a few that belong into one kernel, at one size."""

    name: str
    """Unique in its suite; never holds a slash or a blank."""
    operator: str
    """Key of `engine.suite.operators.OPERATORS`: which graph is built."""
    dtype: str
    """Element type of the floating-point inputs; outputs have it too, unless the operator says otherwise."""
    sizes: Mapping[str, Size]
    """The arguments of the operator's builder, by name."""
    flops: int
    """Multiplications and additions of a contraction; of other rows, the operations per element that the suite's
    `source` counts, times the elements."""
    bytes: int
    """Every input element that is needed read once, every output element written once, and `again`."""
    again: int = 0
    """Bytes that are read twice because a reduction over all blocks separates the two uses."""
    called: str = ""
    """The published name of the row, where it has one."""

    def floor(self, ceilings: Ceilings) -> float:
        """The least time in microseconds at these rates."""
        return max(self.flops / ceilings.flops_per_second, self.bytes / ceilings.bytes_per_second) * MICROSECONDS

    def limit(self, ceilings: Ceilings) -> str:
        """ "compute" or "memory": which of the two makes the floor."""
        by_flops = self.flops / ceilings.flops_per_second
        return COMPUTE if by_flops > self.bytes / ceilings.bytes_per_second else MEMORY


@dataclass(frozen=True, slots=True)
class Suite:
    """Rows that are measured together."""

    name: str
    """That of its file, without the suffix."""
    title: str
    source: str
    """Where the shapes come from and how operations are counted."""
    ceilings: Ceilings
    rows: tuple[SuiteRow, ...]

    def reference(self, row: SuiteRow) -> str:
        """What opens a row wherever a file is asked for: "suite:alcop/MM_BERT_FC1"."""
        return f"suite:{self.name}/{row.name}"
