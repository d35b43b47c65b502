"""Axis fusion: merge neighbouring iterators that every access traverses as one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from engine.fusion.nodes import FusionGroup
from engine.scheduling.published.match import written_statements
from engine.tensor.access import position, stride
from engine.tensor.nodes import Iterator


def fused_axes(group: FusionGroup, order: Sequence[str]) -> tuple[tuple[Iterator, ...], ...]:
    """The iterators of the written statements in runs, each one axis; `order` must leave the neighbours of a run so.

        y[i,j,k] = x[i,j,k] + b[k]   ->   (i, j), (k,):  b does not move along i and j, and moves along k
    """
    iterators = written_statements(group)[0].iterators
    runs = [iterators[:1]]
    for outer, inner in pairwise(iterators):
        together = order.index(inner.name) == order.index(outer.name) + 1
        if together and _moves_as_one(group, outer, inner):
            runs[-1] = (*runs[-1], inner)
        else:
            runs.append((inner,))
    return tuple(runs)


def _moves_as_one(group: FusionGroup, outer: Iterator, inner: Iterator) -> bool:
    """Whether, in every access to global memory, a step of `outer` is as long as all steps of `inner`."""
    program = group.program
    for statement in program.statements:
        for access in (*statement.reads(), statement.write):
            if access.array in program.inputs or access.array in program.outputs:
                where = position(access, program.arrays)
                steps = stride(where, outer.name), stride(where, inner.name)
                if None in steps or steps[0] != (steps[1] or 0) * inner.extent:
                    return False
    return True
