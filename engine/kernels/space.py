"""What may be chosen of a kernel: programs with a value for each open dimension, their figures, what rules dropped."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from engine.cost.estimate import estimate_microseconds
from engine.cost.nodes import Work
from engine.fusion.nodes import FusionGroup
from engine.kernels.nodes import Kernel
from engine.recipe import Entry
from engine.records.nodes import Dropped as Dropped
from engine.target import Target

Value = int | str
"""What a dimension of a search takes: a number, or a word."""


@dataclass(frozen=True, slots=True)
class Program:
    """One point of a search: a mapping of a group, and a value for each of its open dimensions."""

    mapping: str
    """Name of its task."""
    values: tuple[tuple[str, Value], ...]
    """(dimension, value) in the order of the task's dimensions."""

    def __getitem__(self, dimension: str) -> Value:
        """The value of a dimension; KeyError where the task has none of that name."""
        return dict(self.values)[dimension]

    def with_values(self, values: Mapping[str, Value]) -> Program:
        """The program with other values of some dimensions."""
        return Program(self.mapping, tuple((name, values.get(name, value)) for name, value in self.values))

    def number(self, dimension: str) -> int:
        """The value of a dimension that takes numbers."""
        value = self[dimension]
        assert isinstance(value, int), f"{dimension} takes words"
        return value

    def __str__(self) -> str:
        return f"{self.mapping}: {', '.join(f'{name} {value}' for name, value in self.values)}"


@dataclass(frozen=True, slots=True)
class Funnel:
    """From every combination to what is worth generating code for."""

    total: int
    dropped: tuple[Dropped, ...]
    """In the order in which the rules were asked; each sees what those before it left."""
    left: tuple[Program, ...]

    def __str__(self) -> str:
        lines = [f"{self.total:,} programs"]
        lines += [f"  {d.rule}: -{d.count:,} ({d.example})" for d in self.dropped if d.count]
        return "\n".join([*lines, f"{len(self.left):,} left"])


@dataclass(frozen=True, slots=True)
class Refused:
    """Mappings that are not searched."""

    mapping: str
    because: str
    count: int = 1
    """How many; 0 where an intrinsic has none at all."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a rule of the table did."""

    rule: str
    because: str
    opened: int
    """Combinations after it."""


RESOURCE_NAMES = ("blocks", "threads", "serial_steps", "stages", "shared_bytes", "registers", "l2_bytes")
"""Fields of `Work` in the order in which features have them."""


class Template(Protocol):
    """What the programs of one task say, and what a model promises of them."""

    @property
    def name(self) -> str:
        """Of the mapping."""

    @property
    def decided(self) -> Collection[str]:
        """Marks, by name, and other fields of entries that its programs decide, in place of the advisers."""

    def entries(self, program: Program) -> Sequence[Entry]:
        """The entries that ask for a program."""

    def rank(self, program: Program) -> float:
        """Estimated microseconds, before it is compiled: those that its compiled kernel is predicted to take."""

    def program_of(self, kernel: Any) -> Program | None:
        """The program that a kernel stands at, None where it is none of this template."""


@dataclass(frozen=True, slots=True)
class Task:
    """One mapping of a group: an intrinsic, or a way to share the work out, with everything that is open in it."""

    name: str
    dimensions: Mapping[str, tuple[Value, ...]]
    """Ordered choices of each dimension; every program has one of each."""
    funnel: Funnel
    applied: tuple[Applied, ...]
    """What each rule of the table opened."""
    template: Template
    promised: Mapping[Program, float] = field(default_factory=dict)
    """Modelled microseconds of programs, where they are known already."""
    unseen: Callable[[Program], float | None] | None = None
    """What `time_of_unseen` asks; None where every program was looked at."""

    @property
    def programs(self) -> Sequence[Program]:
        """What pruning left."""
        return self.funnel.left

    def rank(self, program: Program) -> float:
        """The time that a model promises a program before it is compiled, in microseconds."""
        known = self.promised.get(program)
        return self.template.rank(program) if known is None else known

    def time_of_unseen(self, program: Program) -> float | None:
        """The modelled microseconds of a program that was not looked at, so that `programs` does not have it; None of
        one that was, or that the rules drop."""
        return self.unseen(program) if self.unseen and program not in self.promised else None

    def program_named(self, text: str) -> Program | None:
        """The program of these dimensions that is written so (`str`); None where none is."""
        left, values = text.removeprefix(f"{self.name}: "), list[tuple[str, Value]]()
        for name, choices in self.dimensions.items():
            fitting = [v for v in choices if f"{left}, ".startswith(f"{name} {v}, ")]
            if not fitting:
                return None
            values.append((name, max(fitting, key=lambda value: len(str(value)))))
            left = left[len(f"{name} {values[-1][1]}, ") :]
        found = Program(self.name, tuple(values))
        return found if str(found) == text else None

    def accesses(self, program: Program) -> tuple[int, int]:
        """Sectors and requests of global memory: the fewest come first where estimates, which know bytes, are equal."""
        work = self._work(program)
        return (work.global_sectors, work.global_requests) if work else (0, 0)

    def _work(self, program: Program) -> Work | None:
        """What a program's kernel will ask of a GPU, before it is compiled; None of a CPU's, which counts nothing."""
        counted: Callable[[Program], Work] | None = getattr(self.template, "work", None)
        return counted(program) if counted else None

    def features(self, program: Program) -> tuple[float, ...]:
        """Figures for learned models: every dimension, every resource of `RESOURCE_NAMES`, the promised time.

        Numbers and figures as the logarithm to base 2 of one more; words as their place among the choices.
        """
        chosen = (
            _log(value) if isinstance(value, int) else float(self.dimensions[name].index(value))
            for name, value in program.values
        )
        work = self._work(program)
        known = tuple(_log(getattr(work, name)) for name in RESOURCE_NAMES) if work else ()
        return (*chosen, *known, _log(self.rank(program)))


def _log(number: float) -> float:
    return math.log2(1 + number)


@dataclass(frozen=True, slots=True)
class KernelTemplate:
    """Base of the programs that start from the default kernel: the group, and the kernel that its recipe makes."""

    group: FusionGroup
    kernel: Kernel

    @property
    def machine(self) -> Target:
        """The GPU."""
        return self.kernel.target

    def work(self, program: Program) -> Work:
        """See `Template`."""
        raise NotImplementedError

    def rank(self, program: Program) -> float:
        """See `Template`."""
        # Registers are an estimate here, and as in the compiled kernel's prediction do not limit the occupancy.
        return estimate_microseconds(replace(self.work(program), registers=None), self.machine)


def with_counts(form: Work, now: Work, counted: Work) -> Work:
    """The work of a program in closed form, as far off as the same form is for the compiled kernel.

    now: the closed form of that kernel.  counted: what its tile program holds.
    """
    figures = {}
    for name in ("l2_bytes", "global_sectors", "shared_bytes", "shared_bytes_moved"):
        here, there, count = (getattr(work, name) for work in (form, now, counted))
        figures[name] = here * count // there if there else here + count
    return replace(form, **figures)


@dataclass(frozen=True, slots=True)
class Space:
    """Everything that a search may choose of one group's kernel."""

    tasks: tuple[Task, ...]
    """That of the kernel itself first."""
    refused: tuple[Refused, ...] = ()
    """Mappings to instructions that have no kernel."""
