"""What candidate groups would take: each becomes a group as a plan would have it, and its kernel is estimated.

Fusion stands below the kernels and cannot make one.  Whoever asks for a plan says how long the kernel of a group takes
(`engine.default_works`), so a decision rests on the figures that are shown of the kernel afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.fusion.group_programs import Built, GroupBuilder
from engine.fusion.group_signature import ShapeCache
from engine.fusion.nodes import FusionGroup
from engine.fusion.shape import Shape
from engine.support.units import bytes_text
from engine.target import Target
from engine.tensor.nodes import Statement, TensorProgram
from engine.tensor.traffic import compulsory_bytes

GroupTime = Callable[[FusionGroup], float]
"""Microseconds of one launch of a group's kernel as its family advises it; infinite where it has none."""
Expect = Callable[[FusionGroup], None]
"""Is told of groups whose time will probably be asked for, so that another core can work it out meanwhile."""
Group = tuple[tuple[Statement, ...], Shape]


@dataclass(frozen=True, slots=True)
class Saving:
    """What one kernel saves in the place of several, as the estimate has it."""

    fused: float
    """Microseconds of the one kernel."""
    separate: float
    """Of the others together."""
    fused_bytes: int
    """Bytes of global memory that the one kernel must read or write."""
    separate_bytes: int

    @property
    def pays(self) -> bool:
        """Whether one kernel is predicted to be faster."""
        return self.fused < self.separate

    @property
    def times(self) -> str:
        """ "2.6 µs predicted in place of 3.4"."""
        return f"{self.fused:.3g} µs predicted in place of {self.separate:.3g}"

    def __str__(self) -> str:
        return f"{bytes_text(self.fused_bytes)} moved in place of {bytes_text(self.separate_bytes)}, {self.times}"


class GroupTimes:
    """Times of groups of one program, asked once for all that differ in names alone."""

    def __init__(
        self, program: TensorProgram, target: Target, time_of: GroupTime, numerics: Mapping[str, str],
        expect: Expect | None = None,
    ) -> None:  # fmt: skip
        self.target = target
        self._program, self._time_of, self._numerics, self._expect = program, time_of, numerics, expect
        self._builder = GroupBuilder(program, frozenset(), {})
        self._known: dict[str, tuple[float, int]] = {}
        """Structure -> `figures`."""
        self._loops, self._shapes = ShapeCache(), ShapeCache()
        """By the keys of `faster_shape`: loop spaces that a kernel could have, and those of kernels that pay."""
        self._savings: dict[Hashable, Saving] = {}
        """What one kernel saves, by the keys of `faster_shape`."""

    def of(self, program: TensorProgram) -> GroupTimes:
        """Those of another program; groups that both have are not looked at again."""
        found = GroupTimes(program, self.target, self._time_of, self._numerics, self._expect)
        found._known = self._known
        return found

    def faster_shape(
        self, key: Hashable, whole: tuple[Statement, ...], parts: Sequence[Group], find: Callable[[], Shape | str],
        refusal: str,
    ) -> tuple[Shape, Saving] | str:  # fmt: skip
        """The loop space of one kernel in the place of several, and what it saves; or why it is none or does not pay.

        key: equal for kernels that differ in names alone, which are looked at once.  refusal: what is said of one that
        does not pay, before the figures.
        """

        def judge() -> Shape | str:
            shape = self._loops.find(key, whole, find)
            if isinstance(shape, str):
                return shape
            saving = self._savings[key] = self.saving((whole, shape), parts)
            return shape if saving.pays else f"{refusal}: {saving}"

        shape = self._shapes.find(key, whole, judge)
        return shape if isinstance(shape, str) else (shape, self._savings[key])

    def expect(
        self, key: Hashable, whole: tuple[Statement, ...], parts: Sequence[Group], find: Callable[[], Shape | str]
    ) -> None:
        """Say that `faster_shape` will probably be asked for this."""
        if self._expect is None or self._loops.has(key):
            return
        shape = self._loops.find(key, whole, find)
        for group in () if isinstance(shape, str) else ((whole, shape), *parts):
            built = self._build(*group)
            if built.structure not in self._known:
                self._expect(self._candidate(built))

    def saving(self, whole: Group, parts: Iterable[Group]) -> Saving:
        """What one group saves in the place of others."""
        fused, fused_bytes = self.figures(*whole)
        separate = [self.figures(*part) for part in parts]
        return Saving(fused, sum(time for time, _ in separate), fused_bytes, sum(size for _, size in separate))

    def figures(self, statements: Sequence[Statement], shape: Shape) -> tuple[float, int]:
        """(microseconds, bytes of global memory) of a group."""
        built = self._build(statements, shape)
        if built.structure not in self._known:
            time = self._time_of(self._candidate(built))
            self._known[built.structure] = time, sum(compulsory_bytes(built.program))
        return self._known[built.structure]

    def _build(self, statements: Sequence[Statement], shape: Shape) -> Built:
        return self._builder.build_alone(statements, shape, self._program.needed_outside(statements))

    def _candidate(self, built: Built) -> FusionGroup:
        return FusionGroup(
            name="candidate",
            title="",
            kind=built.kind.name,
            program=built.program,
            instances=(built.instance,),
            edges=(),
            because="",
            target=self.target.name,
            numerics=self._numerics,
        )
