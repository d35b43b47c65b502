"""Programs that were good before, which a search tries first: of a recipe, or of the runs of a file of records.

    matmul_0 of a batch of 8, the file has runs of batches of 1, 4 and 64
    ->  the best programs of matmul_0 of the batch of 4, then of 1, as far as they are programs of its space

A run of records serves whose group has the same arrays but for their sizes; the nearest sizes come first.  Nothing of
its times is taken over: every program is run anew, on this machine and these sizes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from engine.compilation import compile_for
from engine.execution.nodes import MEASURED
from engine.kernels.space import Program
from engine.recipe import Recipe
from engine.recipe_files import read_recipe
from engine.records.nodes import IMPORTED
from engine.records.reader import RunReader, is_database
from engine.support.errors import EngineError
from engine.tuning.problem import SearchProblem

STARTS = 4
"""Programs of a group that are tried first, at most; a round gives them no more than one in so many of its trials."""
SOURCES = 3
"""Groups of earlier runs that they are taken of, the nearest ones."""
OTHER_TARGET = 1.0
"""What another machine counts beside a doubled size."""
_ARRAY = re.compile(r"(\w+) \S+\[([\d, ]*)\]")


@dataclass(frozen=True, slots=True)
class KnownStart:
    """A program to try first."""

    program: Program
    source: str
    """Where it was good: "matmul_0 in run 2 of night.db"."""


Starts = Callable[[SearchProblem], Sequence[KnownStart]]
"""The known starts of a group, the most promising first."""


def no_starts(problem: SearchProblem) -> Sequence[KnownStart]:
    """None."""
    return ()


def read_starts(path: str | Path) -> Starts:
    """The starts that a recipe or a file of records gives.  Raises BadInput for a file that is neither."""
    path = Path(path)
    if path.is_file() and not is_database(path):
        return partial(_of_recipe, read_recipe(path), path.name)
    return partial(_of_records, tuple(_good_programs(path)))


# Of a recipe


def _of_recipe(recipe: Recipe, name: str, problem: SearchProblem) -> Sequence[KnownStart]:
    """The program that the group's kernel stands at under another recipe, if it has one."""
    group = problem.group
    if group.name not in recipe.groups:
        return ()
    try:
        kernel = compile_for(group, replace(problem.recipe, groups={group.name: recipe.groups[group.name]}))
    except EngineError:  # of another model, or of sizes that it does not fit
        return ()
    found = (task.template.program_of(kernel) for task in problem.tasks)
    return [KnownStart(one, name) for one in found if one is not None and _is_in_space(problem, one)]


# Of records


@dataclass(frozen=True, slots=True)
class _GoodProgram:
    """One of the best of a group of a run."""

    arrays: tuple[tuple[str, tuple[int, ...]], ...]
    """(element type, shape)."""
    target: str
    place: tuple[bool, int, int]
    """Its order among those of equally near groups: measured runs first, then later ones, then the fastest of a run.
    Times of several runs are not compared."""
    start: KnownStart


def _good_programs(path: Path) -> Iterator[_GoodProgram]:
    with RunReader(path) as reader:
        for run in reader.runs():
            if run.request.runner == IMPORTED:
                continue
            for number, attempt in enumerate(reader.fastest(run.number, STARTS, math.inf)):
                if attempt.trial is not None:
                    subject = reader.trial(attempt.trial).subject
                    place = run.request.origin != MEASURED, -run.number, number
                    source = f"{attempt.group} in run {run.number} of {path.name}"
                    start = KnownStart(Program(attempt.mapping, attempt.values), source)
                    yield _GoodProgram(_arrays(subject.inputs), subject.target, place, start)


def _arrays(text: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Element types and shapes of arrays in the words of `arrays_of`."""
    return tuple(
        (kind, tuple(int(size) for size in shape.split(",") if size.strip())) for kind, shape in _ARRAY.findall(text)
    )


def _of_records(known: Sequence[_GoodProgram], problem: SearchProblem) -> Sequence[KnownStart]:
    """The best programs of the nearest groups that are in this space, each once."""
    arrays, target = _arrays(problem.arrays), problem.recipe.target
    near = [(distance + OTHER_TARGET * (one.target != target), one) for one in known
            if (distance := _distance(arrays, one.arrays)) < math.inf]  # fmt: skip
    near.sort(key=lambda pair: (pair[0], pair[1].place))
    sources = tuple(dict.fromkeys(one.start.source for _, one in near))[:SOURCES]
    found: dict[Program, KnownStart] = {}
    for _, one in near:
        if one.start.source in sources and _is_in_space(problem, one.start.program):
            found.setdefault(one.start.program, one.start)
    return tuple(found.values())[:STARTS]


def _distance(
    some: Sequence[tuple[str, tuple[int, ...]]], others: Sequence[tuple[str, tuple[int, ...]]]
) -> float:  # fmt: skip
    """How often sizes double from one group to another, over all axes; infinite for other arrays."""
    if [(kind, len(shape)) for kind, shape in some] != [(kind, len(shape)) for kind, shape in others]:
        return math.inf
    pairs = ((a, b) for (_, one), (_, other) in zip(some, others, strict=True) for a, b in zip(one, other, strict=True))
    return sum(abs(math.log2(max(a, 1) / max(b, 1))) for a, b in pairs)


def _is_in_space(problem: SearchProblem, program: Program) -> bool:
    task = next((task for task in problem.tasks if task.name == program.mapping), None)
    if task is None or [name for name, _ in program.values] != list(task.dimensions):
        return False
    return program in task.programs or task.time_of_unseen(program) is not None
