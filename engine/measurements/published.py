"""What others measured of their kernels, beside ours: the tables of `resources/published`.

A row is one operator at one size.  A group finds rows that time the same operator, on any GPU, at its size or on
both sides of it along one dimension; between two sizes a time is a straight line in logarithms.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.documents.model import PublishedTime
from engine.fusion.nodes import FusionGroup
from engine.fusion.shape import is_contraction
from engine.kernels.gemm.problem import gemm_axes
from engine.support.errors import BadInput
from engine.tensor.terms import HALVES

TABLE = Path(__file__).resolve().parents[2] / "resources" / "published" / "times.csv"
"""Beside the engine, in the source tree and where it is installed."""
COLUMNS = ("operator", "dtype", "inputs", "sizes", "device", "who", "microseconds", "source")
DTYPES = ("float32", *HALVES)
MOST_SHOWN = 4


@dataclass(frozen=True, slots=True)
class PublishedProblem:
    """What a row times."""

    operator: str
    """The title of its group: "matmul", "softmax"."""
    dtype: str
    inputs: int
    """Tensors as large as the largest that are read: a product with a scalar reads one, of two tensors two."""
    sizes: tuple[int, ...]
    """Batches, rows, columns and depth of a product; else rows and columns, or elements."""


Column = tuple[str, str, str]
"""(who, device, source)."""
Table = Mapping[tuple[str, str, int], Mapping[Column, Mapping[tuple[int, ...], float]]]


def problem_of(group: FusionGroup) -> PublishedProblem | None:
    """What tables may say of a group; None for one that no table lists: more than one operator beside a product, or a
    layout that only this model has."""
    program = group.program
    arrays = [program.arrays[name] for name in program.inputs]
    if not arrays:
        return None
    dtype, largest = arrays[0].dtype, max(array.elements for array in arrays)
    inputs = sum(array.elements == largest for array in arrays)
    if any(is_contraction(statement) for statement in program.statements):
        axes = gemm_axes(program)
        if axes is None or len(program.statements) > 1:
            return None
        return PublishedProblem(group.title, dtype, 2, (axes.batches, *axes.sizes))
    if any(statement.reduction for statement in program.statements):
        columns = arrays[0].shape[-1]
        return PublishedProblem(group.title, dtype, inputs, (arrays[0].elements // columns, columns))
    return PublishedProblem(group.title, dtype, inputs, (largest,))


def published_times(group: FusionGroup, path: Path = TABLE) -> tuple[PublishedTime, ...]:
    """At most `MOST_SHOWN` published times of a group's operator at its size, the nearest GPU and size first.

    Raises BadInput for a broken table.
    """
    problem = problem_of(group)
    if problem is None:
        return ()
    columns = read_table(path).get((problem.operator, problem.dtype, problem.inputs), {})
    found = []
    for (who, device, source), times in columns.items():
        here = times.get(problem.sizes)
        if here is not None:
            found.append((0, PublishedTime(who, device, here, source)))
            continue
        between = _between(times, problem.sizes)
        if between is not None:
            time, ends = between
            found.append((1, PublishedTime(who, device, time, f"{source}, between {ends}")))
    name = group.target.partition("-")[0].upper()
    found.sort(key=lambda pair: (name not in pair[1].device, pair[0], pair[1].microseconds))
    return tuple(time for _, time in found[:MOST_SHOWN])


def _between(times: Mapping[tuple[int, ...], float], sizes: tuple[int, ...]) -> tuple[float, str] | None:
    """(time on the line between the nearest sizes on both sides along one dimension, these sizes)."""
    best: tuple[float, float, str] | None = None
    for place, size in enumerate(sizes):
        line = {one[place]: time for one, time in times.items() if _elsewhere(one, place) == _elsewhere(sizes, place)}
        below = max((one for one in line if one < size), default=None)
        above = min((one for one in line if one > size), default=None)
        if below is None or above is None:
            continue
        part = math.log(size / below) / math.log(above / below)
        time = math.exp((1 - part) * math.log(line[below]) + part * math.log(line[above]))
        if best is None or above / below < best[0]:
            best = (above / below, time, f"{below:,} and {above:,}")
    return None if best is None else best[1:]


def _elsewhere(sizes: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*sizes[:place], *sizes[place + 1 :])


def read_table(path: Path) -> Table:
    """All times of a table.  Raises BadInput for a broken one."""
    try:
        return _read_version(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise BadInput("published", str(path), f"cannot be read: {error.strerror or error}") from error


@lru_cache(maxsize=4)
def _read_version(path: Path, changed: int) -> Table:
    """changed: when the file was written, so that a table that is written again is read again."""
    table: dict[tuple[str, str, int], dict[Column, dict[tuple[int, ...], float]]] = defaultdict(dict)
    with path.open(encoding="utf-8", newline="") as file:
        try:
            for row in csv.DictReader(file):
                sizes, microseconds = tuple(map(int, row["sizes"].split("x"))), float(row["microseconds"])
                if row["dtype"] not in DTYPES or min(sizes) < 1 or not 0 < microseconds < math.inf:
                    raise ValueError(f"{row['dtype']} of {row['sizes']} in {row['microseconds']} µs is no time")
                operator = (row["operator"], row["dtype"], int(row["inputs"]))
                table[operator].setdefault((row["who"], row["device"], row["source"]), {})[sizes] = microseconds
        except (KeyError, ValueError, TypeError, AttributeError, csv.Error) as error:
            raise BadInput("published", str(path), f"is broken: {error}") from error
    return table


def write_table(rows: Iterable[tuple[PublishedProblem, PublishedTime]], path: Path = TABLE) -> None:
    """The table of these rows, in an order of its own: the same rows are the same bytes."""
    lines = sorted(
        (p.operator, p.dtype, str(p.inputs), "x".join(map(str, p.sizes)), t.device, t.who, f"{t.microseconds:g}",
         t.source)
        for p, t in rows
    )  # fmt: skip
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(dict.fromkeys(lines))
