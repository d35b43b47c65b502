"""One kind of kernel, and all that anybody asks of it: the advisers, the compiler, the search, the models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from engine.cost.nodes import Work
from engine.fusion.nodes import FusionGroup
from engine.kernels.advice import family_mark
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.space import Space
from engine.recipe import Advice, Entry
from engine.scheduling.nodes import ScheduleTree
from engine.target import Target
from engine.tensor.nodes import TensorProgram
from engine.tensorize.numerics import check_numerics
from engine.tile.nodes import TileProgram

GENERAL = "general"
"""Name of the family of last resort."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a kernel is made for, beside its group."""

    machine: Target
    numerics: Mapping[str, str] = field(default_factory=dict)
    """As in `Recipe`: whether tensor cores may round float32."""

    def __post_init__(self) -> None:
        """BadInput for numerics that no stage follows."""
        if self.numerics:
            check_numerics(self.numerics, "numerics")


@dataclass(frozen=True, slots=True)
class MarkMenu:
    """The marks that a person may give to kernels of one kind of group, as a menu offers them."""

    titles: Mapping[str, str] = field(default_factory=dict)
    """Mark -> what its number means here, where that is not the usual; {} stands for the dimension."""
    offered: tuple[str, ...] = ()
    """Marks that such a kernel may take although nobody has given them yet."""
    by_dimension: bool = False
    """Whether every dimension has a number of its own for a mark."""


class Rival(NamedTuple):
    """Entries that may make a quicker kernel than the advised ones."""

    decided: Collection[str]
    """Marks and fields that they decide in place of what is advised."""
    entries: Sequence[Entry]
    promised: float = 0.0
    """Microseconds that the estimate promises before it is compiled; 0 where that is not known."""


def general_rival() -> Iterator[Rival]:
    """The general family's kernel."""
    yield Rival((), (family_mark(GENERAL),))


class KernelFamily(ABC):
    """The single place that knows one kind of kernel."""

    name: ClassVar[str]
    """In one or two words."""
    kinds: ClassVar[frozenset[str]] = frozenset()
    """Kinds of fusion groups (`FusionGroup.kind`) whose kernels are of this family."""

    def recognises(self, group: FusionGroup) -> bool:
        """Whether a group's kernel is of this family: by its kind, or by what its statements compute."""
        return group.kind in self.kinds

    @abstractmethod
    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """The default configuration as recipe entries of the analyses, in order of precedence."""

    def work(self, group: FusionGroup, setting: Setting) -> Work | None:
        """What the advised kernel does, where that is known before it is made; None where only the kernel tells.

        Raises Unsupported where nothing can be advised.
        """
        return None

    def rivals(self, group: FusionGroup, kernel: Kernel) -> Iterator[Rival]:
        """What may be quicker than the advised kernel, which is far slower than the machine asks for.

        Who calls this compiles them.  None where a family says nothing: products compare their tiles before.
        """
        yield from ()

    @abstractmethod
    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """The tile program of a group under a schedule; Unsupported where no kernel of this family follows it.

        Marks are read into a configuration (`TileProgram.config`), from which alone the program is emitted.
        """

    def registers(self, program: TensorProgram, tile: TileProgram, machine: Target) -> int | None:
        """Of a thread, as estimated until the compiler tells; None where no estimate is good enough to limit blocks."""
        return None

    def space(self, group: FusionGroup, kernel: Kernel, compile_group: Compile) -> Space:
        """What a search may choose.  kernel: the group's under its recipe, whose user entries stay fixed.

        compile_group: makes the kernels of other mappings.
        """
        return Space(())

    def menu(self, group: FusionGroup) -> MarkMenu:
        """What a menu offers for a group of this family."""
        return MarkMenu()
