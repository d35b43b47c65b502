"""The values of a kernel for a CPU: its configuration, C++ text, work, and the kernel with every value on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.fusion.nodes import FusionGroup
from engine.kernels.nodes import Kernel
from engine.poly.nodes import Dependence
from engine.recipe import Advice, Recipe
from engine.scheduling.nodes import ScheduleTree, Verdict, verdict_table
from engine.scheduling.tree_text import show
from engine.support.html import html_text
from engine.support.text_table import TitledTable
from engine.target.cpu import CpuTarget
from engine.target.machines import cpu
from engine.tensor.nodes import TensorProgram
from engine.tile.nodes import Note
from engine.tile.source import Line, Parameter


@dataclass(frozen=True, slots=True)
class CppSource:
    """One kernel as C++ text, which includes headers of `engine/cpu/include`."""

    text: str
    entry: str
    """Name of the `extern "C"` function, which takes the buffers in order."""
    buffers: tuple[Parameter, ...]
    lines: tuple[Line, ...]
    """Entry n describes line n + 1 of `text`."""
    prepared: tuple[int, ...] = ()
    """Bytes of memory that `prepare_ENTRY` fills once for each place in the graph, from the buffers that the graph
    fixes: panels of weights.  Both functions are given it after the buffers."""
    scratch_bytes: int = 0
    """Of memory that it keeps for itself from one call to the next."""
    in_place: Mapping[str, str] = field(default_factory=dict)
    """Output -> the input in whose memory it may be written."""


@dataclass(frozen=True, slots=True)
class CpuWork:
    """One launch in numbers: what the model of times asks of a kernel."""

    regions: int
    """Parallel regions, at the end of each of which all threads meet."""
    tasks: int
    """Points that threads share, in the region that has fewest."""
    flops: int
    """float32 operations of products, a fused multiply-add is two; other products' as if they were as wide."""
    vector_ops: int
    """Operations on whole vectors besides, the several of one exponential counted."""
    bytes_compulsory: int
    """Of all arrays that it reads or writes, each once."""
    bytes_l1: int
    """That all loads and stores move."""
    bytes_l2: int
    """Of these, those that its first cache does not have."""
    bytes_l3: int
    """Of these, those that its second cache does not have."""
    rate_share: float = 1.0
    """Part of the peak rate that its innermost loop can reach."""


@dataclass(frozen=True, slots=True)
class CppProgram:
    """What a family makes of a schedule."""

    family: str
    source: CppSource
    work: CpuWork
    config: Mapping[str, int | str]
    """What it chose, by the names of the marks: {"k block": 256}."""
    notes: Mapping[tuple[int, ...], Note] = field(default_factory=dict)
    """Path of an entry -> why it is not taken as given."""
    placements: Mapping[str, str] = field(default_factory=dict)
    """Statement -> where its value lives."""
    misfit: str = ""
    """Why no faster family fits."""
    intrinsic: str = ""
    """Name of the instruction that multiplies, where one does more than a fused multiply-add."""


@dataclass(frozen=True, slots=True)
class CpuKernel:
    """A group compiled for a CPU, with every value on the way."""

    group: FusionGroup
    recipe: Recipe
    program: TensorProgram
    """After the recipe's rewrites."""
    dependences: tuple[Dependence, ...]
    schedule: ScheduleTree
    verdicts: tuple[Verdict, ...]
    log: tuple[str, ...]
    made: CppProgram
    timings: tuple[tuple[str, float], ...]
    """(stage, milliseconds)."""

    @property
    def source(self) -> CppSource:
        return self.made.source

    @property
    def facts(self) -> CpuWork:
        return self.made.work

    @property
    def family(self) -> str:
        """The name of the family that made it."""
        return self.made.family

    @property
    def target(self) -> CpuTarget:
        """The CPU that it is made for."""
        return cpu(self.recipe.target)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What the recipe says of the group."""
        return self.recipe.groups.get(self.group.name, ())

    @property
    def milliseconds(self) -> float:
        """What all stages took together."""
        return sum(spent for _, spent in self.timings)

    def __str__(self) -> str:
        return f"{self._table()}\n{show(self.schedule, self.program)}"

    def _repr_html_(self) -> str:
        tree = html_text("Schedule", show(self.schedule, self.program))
        return self._table().html() + tree + html_text("C++", self.source.text, is_open=False)

    def _table(self) -> TitledTable:
        return verdict_table(f"{self.group.name}: {self.family} kernel, for {self.target.name}", self.verdicts)


AnyKernel = Kernel | CpuKernel
"""A kernel for a GPU or for a CPU."""
