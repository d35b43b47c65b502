"""Match the pattern of an advice file against a group's statements.

A pattern shows an operator after inlining and axis fusion: one statement for each array that is written to global
memory, over axes that may each stand for several neighbouring iterators of ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.fusion.nodes import FusionGroup
from engine.scheduling.published.nodes import Published
from engine.support.errors import BadInput
from engine.tensor.nodes import Iterator, Statement

Runs = tuple[tuple[Iterator, ...], ...]
"""For every axis of the pattern the iterators it stands for, outermost first."""


def match(published: Published, group: FusionGroup) -> Runs:
    """The iterators behind each axis.  BadInput, saying what differs, for the advice of another operator."""
    name = group.graph.name if group.graph is not None else group.name
    if published.operator not in (None, name, group.name):
        raise _other(published, group, f"it is for the operator {published.operator}, this one is {name}")
    written = written_statements(group)
    reducing = next((s for s in group.program.statements if s.reduction is not None), None)
    if reducing is not None:
        raise _other(published, group, f"its statements are element-wise, {reducing.name} is a reduction")
    if len(written) != len(published.pattern):
        theirs, ours = len(published.pattern), len(written)
        statements = f"its pattern has {theirs} statement{'s' if theirs > 1 else ''} after inlining"
        raise _other(published, group, f"{statements}, this group writes {ours} array{'s' if ours > 1 else ''}")
    for statement in written:
        if statement.iterators != written[0].iterators:
            raise _other(published, group, f"{written[0].name} and {statement.name} have different loops")
    theirs_axes, iterators = published.pattern[0].axes, written[0].iterators
    runs = _runs(theirs_axes, iterators)
    if runs is None:
        shown = [" x ".join(str(a.extent) for a in axes) or "one point" for axes in (theirs_axes, iterators)]
        raise _other(published, group, f"its pattern runs over {shown[0]}, this group over {shown[1]}")
    return runs


def written_statements(group: FusionGroup) -> tuple[Statement, ...]:
    """The statements that are left after inlining: those that write global memory."""
    return tuple(s for s in group.program.statements if s.write.array in group.program.outputs)


def _runs(axes: Sequence[Iterator], iterators: Sequence[Iterator]) -> Runs | None:
    """Neighbouring iterators with each axis's extent as their product; None where the extents do not fit."""
    runs: list[tuple[Iterator, ...]] = []
    left = list(iterators)
    for axis in axes:
        run: list[Iterator] = []
        while left and math.prod(i.extent for i in run) < axis.extent:
            run.append(left.pop(0))
        if math.prod(i.extent for i in run) != axis.extent:
            return None
        runs.append(tuple(run))
    return None if left else tuple(runs)


def _other(published: Published, group: FusionGroup, reason: str) -> BadInput:
    return BadInput("schedule", f"advice {published.name}", f"does not match {group.name}: {reason}")
