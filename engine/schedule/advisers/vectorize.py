"""The author `vectorize`: how many neighbouring elements one thread loads and stores at once."""

from __future__ import annotations

from engine.fuse.nodes import FusionGroup
from engine.recipe import Advice, Entry, Scenario
from engine.schedule.advisers.mapping import mark, reads_across
from engine.tensor.access import vector_limit


def vectorize_group(group: FusionGroup) -> Advice:
    """A vector width along the innermost dimension of element-wise kernels and row reductions.

    Contractions choose their copies alone.  Down columns neighbouring threads already fill whole transactions; wider
    threads would only leave fewer blocks.
    """
    return Advice("vectorize", Scenario(tuple(_entries(group))))


def _entries(group: FusionGroup) -> list[Entry]:
    program = group.program
    if group.kind in ("contraction", "column reduction") or any(reads_across(s, program) for s in program.statements):
        return []
    outside = {a: program.arrays[a] for a in (*program.inputs, *program.outputs)}
    reductions = [s for s in program.statements if s.reduction is not None]
    target = reductions[0] if reductions else program.statements[-1]
    along = {s.name: (s.iterators[-1].name,) for s in program.statements if s.iterators}
    if reductions:
        columns = target.reduced[-1].name
        along = {s.name: (columns,) for s in program.statements if columns in s.extents}
    width = vector_limit(program.statements, outside, along)
    if width == 1:
        return []
    reason = f"neighbours along {along[target.name][0]} are contiguous: one access moves {width} elements"
    return [mark((target.name,), "innermost", "vector", width, reason)]
