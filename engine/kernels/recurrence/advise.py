"""The author `stitch` on recurrences: steps one after the other, each as a stitched kernel whose blocks run at once."""

from __future__ import annotations

from dataclasses import dataclass

from engine.cost.estimate import model_microseconds
from engine.fusion.anchors import is_product
from engine.fusion.nodes import FusionGroup
from engine.fusion.recurrence import recurrence_steps, step_group
from engine.fusion.stitched import MOST_VECTORS, stitched_shape
from engine.kernels.advice import mark
from engine.kernels.family import Setting
from engine.kernels.nodes import Compile
from engine.kernels.recurrence.lower import most_blocks
from engine.kernels.stitched.advise import pin_rows
from engine.recipe import Advice, Entry, Recipe, Scenario, entry
from engine.support.errors import EngineError
from engine.target import Target

THREADS = (128, 256, 512)
"""Of a block."""


def recurrence_advice(group: FusionGroup, setting: Setting, compile_group: Compile) -> Advice:
    """The steps cut from each other, and of each what a block takes, with which all blocks run at once."""
    cuts = recurrence_steps(group.program.statements)
    steps = [_RecurrenceStep.of(step_group(group, [s.name for s in one])) for one in cuts]
    names = tuple(step.names for step in steps)
    because = "each step needs all of what the one before makes: all blocks meet in between"
    cut = entry(cut=names, at="outermost", because=because)
    pins = [pin for step in steps for pin in step.pins]
    threads = _fastest_threads(max(steps, key=lambda step: step.points), setting, compile_group)
    marks = [one for step in steps for one in step.marks(threads, setting.machine)] if threads else []
    return Advice("stitch", Scenario((cut, *pins, *marks)))


@dataclass(frozen=True, slots=True)
class _RecurrenceStep:
    """One step as a stitched group."""

    group: FusionGroup
    points: int
    """Of the axes that blocks share out."""
    pins: tuple[Entry, ...]
    """One loop for each of these axes."""

    @classmethod
    def of(cls, group: FusionGroup) -> _RecurrenceStep:
        """With the axes of the largest factor first: neighbours then use one row of it."""
        program = group.program
        shape = stitched_shape(program.statements, frozenset(program.outputs), MOST_VECTORS)
        if isinstance(shape, str):  # whoever compiles it is told why it has no kernel
            return cls(group, 1, ())
        product = next((s for s in program.statements if is_product(s)), program.statements[0])
        largest = max(product.reads(), key=lambda a: program.arrays[a.array].elements)
        walked = {shape.axes[product.name, name] for index in largest.indices for name in index.iterators()}
        rows = sorted(shape.rows, key=lambda axis: axis not in walked)
        return cls(group, shape.row_points, tuple(pin_rows(program, shape, rows)))

    @property
    def names(self) -> tuple[str, ...]:
        """Of its statements."""
        return tuple(s.name for s in self.group.program.statements)

    def marks(self, threads: int, machine: Target) -> tuple[Entry, ...]:
        """The marks that ask for blocks of so many threads, as many as run at once; () where none have room."""
        most = most_blocks(threads, 0, machine)
        each = next((n for n in range(1, self.points + 1) if self.points % n == 0 and self.points // n <= most), 0)
        if not each:
            return ()
        because = f"{self.points // each} blocks have room on the GPU at once, as they wait for each other"
        own = mark(self.names, "outermost", "thread", threads, because)
        return (own, mark(self.names, "outermost", "block", each, because)) if self.points > 1 else (own,)


def _fastest_threads(step: _RecurrenceStep, setting: Setting, compile_group: Compile) -> int:
    """Threads of a block with which a step takes least; 0 where none has room for all blocks."""
    found: list[tuple[float, int]] = []
    for threads in THREADS:
        marks = step.marks(threads, setting.machine)
        advice = Advice("stitch", Scenario((*step.pins, *marks)))
        recipe = Recipe(setting.machine.name, numerics=setting.numerics, groups={step.group.name: (advice,)})
        try:
            kernel = compile_group(step.group, recipe) if marks else None
        except EngineError:
            continue  # other threads may have room for what a block keeps
        if kernel is not None:
            found.append((model_microseconds(kernel.facts, setting.machine), threads))
    return min(found)[1] if found else 0
