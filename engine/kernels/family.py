"""One kind of kernel, and all that anybody asks of it: the advisers, the compiler, the search, the models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from engine.fusion.nodes import FusionGroup
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.space import Space
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.target import Target
from engine.tile.nodes import TileProgram


@dataclass(frozen=True, slots=True)
class Setting:
    """What a kernel is made for, beside its group."""

    machine: Target
    numerics: Mapping[str, str] = field(default_factory=dict)
    """As in `Recipe`: whether tensor cores may round float32."""


class KernelFamily(Protocol):
    """The single place that knows one kind of kernel."""

    @property
    def name(self) -> str:
        """In one or two words."""

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of fusion groups (`FusionGroup.kind`) whose kernels are of this family."""

    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """The default configuration as recipe entries of the analyses, in order of precedence."""

    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """The tile program of a group under a schedule; Unsupported where no kernel of this family follows it."""

    def space(self, group: FusionGroup, kernel: Kernel, compile_group: Compile) -> Space:
        """What a search may choose.  kernel: the group's under its recipe, whose user entries stay fixed.

        compile_group: makes the kernels of other mappings.
        """
