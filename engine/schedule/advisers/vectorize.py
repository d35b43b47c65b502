"""The author `vectorize`: how many neighbouring elements one thread loads and stores at once."""

from __future__ import annotations

from engine.fuse.nodes import FusionGroup
from engine.recipe import Advice, Entry, Scenario
from engine.schedule.advisers.mapping import mark, reads_across
from engine.tensor.access import vector_limit


def vectorize_group(group: FusionGroup) -> Advice:
    """A vector width along the innermost dimension of memory-bound kernels; contractions choose their copies alone."""
    return Advice("vectorize", Scenario(tuple(_entries(group))))


def _entries(group: FusionGroup) -> list[Entry]:
    program = group.program
    if group.kind == "contraction" or any(reads_across(s, program) for s in program.statements):
        return []
    outside = {a: program.arrays[a] for a in (*program.inputs, *program.outputs)}
    reductions = [s for s in program.statements if s.reduction is not None]
    if group.kind == "column reduction":
        along = {s.name: s.parallel[-1].name for s in program.statements if s.parallel}
        target, dimension = reductions[0], reductions[0].parallel[-1].name if reductions[0].parallel else ""
    else:
        along = {s.name: s.iterators[-1].name for s in program.statements if s.iterators}
        if reductions:
            columns = reductions[0].reduced[-1].name
            along = {s.name: columns for s in program.statements if columns in s.extents}
        target, dimension = (reductions[0] if reductions else program.statements[-1]), "innermost"
    width = vector_limit(program.statements, outside, along)
    if width == 1 or not dimension:
        return []
    reason = f"neighbours along {along[target.name]} are contiguous: one access moves {width} elements"
    return [mark((target.name,), dimension, "vector", width, reason)]
