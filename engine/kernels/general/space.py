"""What may be chosen of a general kernel: nothing yet but the family, beside the programs of the group's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from engine.cost.nodes import Work
from engine.fusion.nodes import FusionGroup
from engine.kernels.advice import family_mark
from engine.kernels.family import GENERAL
from engine.kernels.nodes import Kernel
from engine.kernels.prune import make_task
from engine.kernels.sketch_rules import TILING, Situation
from engine.kernels.space import KernelTemplate, Program, Task
from engine.recipe import FAMILY, Entry


@dataclass(frozen=True, slots=True)
class GeneralPrograms(KernelTemplate):
    """The kernel that a recipe gives."""

    name: ClassVar[str] = f"{GENERAL} family"
    decided: ClassVar[frozenset[str]] = frozenset((FAMILY,))

    def entries(self, program: Program) -> Sequence[Entry]:
        """The family."""
        return (family_mark(GENERAL),)

    def work(self, program: Program) -> Work:
        """Of the kernel, which is compiled."""
        return self.kernel.facts

    def program_of(self, kernel: Kernel) -> Program | None:
        """The program that a kernel stands at."""
        return Program(self.name, ((FAMILY, GENERAL),)) if kernel.family == GENERAL else None


def general_task(group: FusionGroup, kernel: Kernel) -> Task:
    """The one task of a kernel of the general family."""
    situation = Situation(GeneralPrograms.name, {FAMILY: GENERAL}, {TILING: {}})
    return make_task(GeneralPrograms(group, kernel), situation, (), kernel, kernel.target)
