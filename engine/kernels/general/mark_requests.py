"""What the marks of a schedule ask a general kernel for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.kernels.general.paths import Dimension
from engine.kernels.loop_nest import Nest
from engine.kernels.marks import Marks, up_to
from engine.scheduling.nodes import Mark
from engine.target.hardware import MAX_THREADS, WARP
from engine.tensor.nodes import TensorProgram

WORDS = ("register", "shared", "global")
"""Where a value can be asked to lie."""
_LOOPS = "a general kernel walks the loops of the schedule and copies no tiles"
NO_USE = {
    "stages": f"{_LOOPS} that could be fetched ahead",
    "register_stages": f"{_LOOPS} that could be fetched ahead",
    "tile": f"{_LOOPS}: split the dimension",
    "intrinsic": "a general kernel adds one product at a time, without tensor cores",
    "axis": "a general kernel adds one product at a time, without an intrinsic that has axes",
    "raster": "blocks of a general kernel run in the order of their numbers",
    "slices": "the threads of a general kernel share loops by lane or thread, not by slices of a tile",
    "split_k": "blocks of a general kernel do not share a sum",
    "turns": "a block's number of points is its block mark",
}
"""Marks that no general kernel takes, and why."""


@dataclass(frozen=True, slots=True)
class MarkRequests:
    """Numbers to follow; none of them means that the kernel may choose."""

    threads: int | None
    """Of a block."""
    points: int | None
    """Of the mapping, that a block runs."""
    vectors: Mapping[Dimension, int]
    """Neighbours along a dimension that a thread runs, with vector loads where it can."""
    unrolled: Mapping[Dimension, int]
    """Iterations of a dimension that are written out."""
    beside: tuple[Dimension, ...]
    """Dimensions that the threads of a block are to share."""
    scopes: Mapping[str, Mark]
    """Statement -> the mark that says where its value shall lie."""

    def neighbours(self, dimension: Dimension) -> int:
        """How many values of a dimension a thread runs one after the other."""
        return self.vectors.get(dimension, 1) * self.unrolled.get(dimension, 1)


def read_marks(program: TensorProgram, loops: Sequence[Dimension]) -> tuple[Marks, MarkRequests]:
    """The marks on the dimensions of a schedule, and what they ask for.

    Only what people and searches ask for: analyses advise another family, in whose kernels numbers mean other things.
    """
    marks = Marks(Nest(tuple(d.member for d in loops), ()))
    marks.drop_advice("advice for kernels of another family")
    threads = marks.number("thread", 0, up_to(MAX_THREADS), f"up to {MAX_THREADS} threads")
    beside: list[Dimension] = []
    for name, unit in (("lane", 1), ("warp", WARP)):
        for dimension in loops:
            most = up_to(MAX_THREADS // unit)
            asked = marks.number(name, 0, most, f"up to {MAX_THREADS} threads", (dimension.member,))
            if asked:
                beside.append(dimension)
                threads = threads or asked * unit
                if threads != asked * unit:
                    marks.note_change(name, threads // unit, f"a block has {threads} threads", (dimension.member,))
    points = marks.number("block", 0, lambda n: n, "any number of points")
    marks.refuse(NO_USE)
    scopes: dict[str, Mark] = {}
    for statement in program.statements:
        mark = marks.first_mark("scope", statement.name)
        if mark is not None and mark.value in WORDS:
            scopes[statement.name] = mark
        elif mark is not None:
            marks.refuse_mark(mark, f"a value lies in {', '.join(WORDS)}")
    return marks, MarkRequests(
        threads or None, points or None, _by_dimension(marks, "vector", loops), _by_dimension(marks, "unroll", loops),
        tuple(dict.fromkeys(beside)), scopes,
    )  # fmt: skip


def _by_dimension(marks: Marks, name: str, loops: Sequence[Dimension]) -> dict[Dimension, int]:
    found = {d: marks.number(name, 0, lambda n: n, "a number", (d.member,)) for d in loops}
    return {d: number for d, number in found.items() if number}
