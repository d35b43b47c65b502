"""What candidate groups would take: each becomes a group as a plan would have it, and its kernel is estimated.

Fusion stands below the kernels and cannot make one.  Whoever asks for a plan says how long the kernel of a group takes
(`engine.compilation.default_microseconds`), so a decision rests on the figures that are shown of the kernel afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.fusion.group_programs import GroupBuilder
from engine.fusion.group_signature import ShapeCache
from engine.fusion.nodes import FusionGroup
from engine.fusion.shape import Shape
from engine.support.units import bytes_text
from engine.target import Target
from engine.tensor.nodes import Statement, TensorProgram
from engine.tensor.traffic import compulsory_bytes

GroupTime = Callable[[FusionGroup], float]
"""Microseconds of one launch of a group's kernel as its family advises it; infinite where it has none."""
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
        self, program: TensorProgram, target: Target, time_of: GroupTime, numerics: Mapping[str, str]
    ) -> None:
        self.target = target
        self._program, self._time_of, self._numerics = program, time_of, numerics
        self._builder = GroupBuilder(program, frozenset(), {})
        self._known: dict[Hashable, float] = {}
        self._shapes = ShapeCache()
        self._savings: dict[Hashable, Saving] = {}
        """What one kernel saves, by the keys of `faster_shape`."""

    def of(self, program: TensorProgram) -> GroupTimes:
        """Those of another program; groups that both have are not looked at again."""
        found = GroupTimes(program, self.target, self._time_of, self._numerics)
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
            shape = find()
            if isinstance(shape, str):
                return shape
            saving = self._savings[key] = self.saving((whole, shape), parts)
            return shape if saving.pays else f"{refusal}: {saving}"

        shape = self._shapes.find(key, whole, judge)
        return shape if isinstance(shape, str) else (shape, self._savings[key])

    def saving(self, whole: Group, parts: Iterable[Group]) -> Saving:
        """What one group saves in the place of others."""
        fused, fused_bytes = self.figures(*whole)
        separate = [self.figures(*part) for part in parts]
        return Saving(fused, sum(time for time, _ in separate), fused_bytes, sum(size for _, size in separate))

    def figures(self, statements: Sequence[Statement], shape: Shape) -> tuple[float, int]:
        """(microseconds, bytes of global memory) of a group."""
        built = self._builder.build_alone(statements, shape, self._program.needed_outside(statements))
        if built.structure not in self._known:
            group = FusionGroup(
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
            self._known[built.structure] = self._time_of(group)
        return self._known[built.structure], sum(compulsory_bytes(built.program))
