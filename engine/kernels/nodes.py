"""A compiled group, with every value on the way from its fusion group to CUDA text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.cost.nodes import Work
from engine.fusion.nodes import FusionGroup
from engine.poly.nodes import Dependence
from engine.recipe import Advice, Recipe
from engine.scheduling.nodes import ScheduleTree, Verdict, verdict_table
from engine.scheduling.tree_text import show
from engine.support.html import html_text
from engine.support.text_table import TitledTable
from engine.target import Target, target
from engine.tensor.nodes import TensorProgram
from engine.tile.nodes import TileProgram
from engine.tile.source import NO_TEXT, CudaSource, KernelLaunch


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled group, with every value on the way."""

    group: FusionGroup
    """As it was fused: what the kernel is compared with."""
    recipe: Recipe
    program: TensorProgram
    """The group's program after the recipe's rewrites: what was scheduled."""
    dependences: tuple[Dependence, ...]
    schedule: ScheduleTree
    verdicts: tuple[Verdict, ...]
    """What became of each recipe entry."""
    log: tuple[str, ...]
    """The scheduler's decisions."""
    tile: TileProgram
    facts: Work
    timings: tuple[tuple[str, float], ...]
    """(stage, milliseconds) from rewrites to CUDA text."""
    source: CudaSource = NO_TEXT

    @property
    def milliseconds(self) -> float:
        """What all stages took together."""
        return sum(spent for _, spent in self.timings)

    @property
    def target(self) -> Target:
        """The GPU that the kernel is made for."""
        return target(self.recipe.target)

    @property
    def family(self) -> str:
        """The name of the kernel family that made it."""
        return self.tile.family

    @property
    def launches(self) -> tuple[KernelLaunch, ...]:
        """What runs on the GPU, in order: one launch, or several where the schedule is cut."""
        return self.source.launches

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What the recipe says of the group."""
        return self.recipe.groups.get(self.group.name, ())

    def of(self, group: FusionGroup) -> Kernel:
        """The kernel of a group whose program is the same but for its name."""
        named = self.tile.of(self.program.name, group.program.name, group.title)
        return replace(self, group=group, program=replace(self.program, name=group.program.name), tile=named)

    def __str__(self) -> str:
        return f"{self._table()}\n{show(self.schedule, self.program)}"

    def _repr_html_(self) -> str:
        tree = html_text("Schedule", show(self.schedule, self.program))
        return self._table().html() + tree + html_text("CUDA", self.source.text, is_open=False)

    def _table(self) -> TitledTable:
        launches = f", {len(self.launches)} launches" if len(self.launches) > 1 else ""
        title = f"{self.group.name}: {self.family} kernel{launches}, for {self.target.name}"
        return verdict_table(title, self.verdicts)


Compile = Callable[[FusionGroup, Recipe], Kernel]
"""The compiler, for stages below it: raises EngineError where a recipe has no kernel.  Advisers get it without text."""
