"""Iterators that stay loops around the intrinsic, although one of its axes could take them: the marks that say so.

A parallel one is walked by blocks, as a batch is; a summed one is a loop around the depth, whose sums go to one tile.

    y[n,k,p,q] = sum(c,r,s) x[n,c,p+r,q+s] * w[k,c,r,s]      rows n q, columns k, depth c r    around: p, s
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.fusion.shape import is_of_codes
from engine.kernels.gemm.problem import gemm_axes
from engine.kernels.loop_nest import Nest
from engine.kernels.marks import Marks
from engine.recipe import Entry
from engine.scheduling.nodes import Member
from engine.tensor.nodes import TensorProgram
from engine.tensor.rewrite import plain_iterator

AXIS, OUTER = "axis", "outer"
"""The mark and the word that make an iterator a loop around the intrinsic."""
WORDS = ("inner", OUTER)
"""On its axis of the intrinsic, as every iterator is that no mark speaks of, or a loop around it."""


def outer_entries(statement: str, outer: Iterable[str]) -> tuple[Entry, ...]:
    """The marks of a statement's iterators that stay loops around the intrinsic."""
    because = "stays a loop around the intrinsic"
    return tuple(Entry((statement,), name, "mark", (AXIS, OUTER), because=because) for name in outer)


def outer_loops(marks: Marks, nest: Nest, program: TensorProgram) -> tuple[str, ...]:
    """The iterators of a program's contraction that marks make loops around the intrinsic, as `GemmAxes.outer`.

        S0 @ p: mark axis outer
    """
    axes = gemm_axes(program)
    assert axes is not None, program.name
    members = {plain_iterator(m.rows[axes.statement.name]): m for m in nest.members if axes.statement.name in m.rows}
    sides = (axes.rows, axes.columns, axes.depth)
    found = {i.name for side in sides for i in side if _is_outer(marks, members[i.name])}
    refused: dict[str, str] = {}
    if any(map(is_of_codes, axes.expressions)):
        refused = dict.fromkeys(found, "codes are taken apart along one row or column and one depth")
    elif axes.has_whole_rows:
        because = "its rows are reduced: blocks have whole ones"
        refused = {i.name: because for i in axes.columns if i.name in found}
    for side in sides:
        if all(i.name in found for i in side):
            refused[side[-1].name] = "every axis of an intrinsic has one iterator or more"
    for name, because in refused.items():
        marks.refuse({AXIS: because}, (members[name],))
    return tuple(i.name for side in sides for i in side if i.name in found - refused.keys())


def _is_outer(marks: Marks, member: Member) -> bool:
    mark = marks.first_mark(AXIS, members=(member,))
    marks.accept(AXIS, WORDS, f"an iterator is {' or '.join(WORDS)}", (member,))
    return mark is not None and mark.value == OUTER
