"""Names and reasons of groups, in the words of the user's graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from engine.fusion.attention import attention_of
from engine.fusion.chained_products import chain_of
from engine.fusion.group_programs import Built
from engine.fusion.group_times import Saving
from engine.fusion.kinds import CHAINED, Kind
from engine.fusion.legality import handed_over
from engine.fusion.nodes import GLOBAL, REGISTER, SHARED, SHUFFLE, Intermediate
from engine.fusion.packing import parts_of
from engine.fusion.paired_products import pair_of
from engine.fusion.recurrence import recurrence_steps
from engine.fusion.row_epilogue import row_reductions
from engine.fusion.row_sides import reduced_columns
from engine.fusion.shape import Shape, is_contraction
from engine.fusion.stitched import MOST_VECTORS, stitched_shape
from engine.tensor.nodes import Statement, TensorProgram

WORDS = {
    "MatMul": "matmul", "Gemm": "matmul", "Softmax": "softmax", "LayerNormalization": "layernorm", "Gather": "gather",
    "GatherND": "gather", "TensorAdd": "add", "RealDiv": "div", "Transpose": "transpose",
}  # fmt: skip


def word(kind: str) -> str:
    """An operator kind as it appears in titles, without the domain of those that are not the standard's."""
    kind = kind.rpartition("::")[2]
    return WORDS.get(kind) or "".join(c for c in kind.lower() if c.isascii() and c.isalnum()) or "operator"


def main_word(built: Built, kinds: Mapping[str, str]) -> str:
    """What gives the group its name: the contraction, else the first reduction, else the first operator."""
    if built.kind.is_pattern:
        return built.kind.name
    statements = built.program.statements
    anchor = next((s for s in statements if is_contraction(s)), None)
    anchor = anchor or next((s for s in statements if s.reduction is not None), statements[0])
    return word(kinds.get(built.instance.statements[anchor.name], "kernel"))


def group_title(built: Built, kinds: Mapping[str, str]) -> str:
    """The operators in order, repeated ones once; the erf form of GELU by its name; long lists cut with a count."""
    own = dict.fromkeys(built.instance.statements.values())
    if built.kind.is_pattern:
        found = attention_of(built.program)
        of = {built.instance.statements[s.name] for s in (found.scores, *found.softmax, found.values)}
        beside = dict.fromkeys(word(kinds.get(op, op)) for op in own if op not in of)
        return " + ".join((built.kind.name, *beside))
    names = [word(kinds.get(op, op)) for op in own]
    if "erf" in names and names.count("mul") >= 2:
        erf = names.index("erf")
        start = erf - (erf > 0 and names[erf - 1] == "div")
        names = [*names[:start], "gelu", *names[erf + 4 :]]  # x / sqrt 2, erf, + 1, and the two products
    unique = list(dict.fromkeys(names)) or ["copy"]
    return " + ".join(unique[:4]) + (f" + {len(unique) - 4} more" if len(unique) > 4 else "")


def schemes(program: TensorProgram, kind: Kind) -> tuple[Intermediate, ...]:
    """The scheme proposed for every intermediate; the mapping decides where it really lives."""
    writer = {s.write.array: s for s in program.statements}
    stored = _shared_arrays(program.statements, frozenset(program.outputs)) if kind.hands_over else frozenset()
    steps = recurrence_steps(program.statements) if kind.meets_as_grid else []
    step_of = {s.name: n for n, step in enumerate(steps) for s in step}
    for step in steps:
        stored |= _shared_arrays(step, program.needed_outside(step))
    edges: list[Intermediate] = []
    for consumer in program.statements:
        for array in dict.fromkeys(a.array for a in consumer.reads()):
            producer = writer.get(array)
            if producer is None or producer is consumer or array in program.inputs:
                continue
            scheme, because = REGISTER, "the same thread makes and uses the element"
            if step_of.get(producer.name) != step_of.get(consumer.name):
                scheme, because = GLOBAL, "another step makes it: all blocks meet before they use it"
            elif array in stored:
                scheme, because = SHARED, "other threads of the block use it than make it: their loops differ"
            elif producer.reduction is not None and not is_contraction(producer):
                scheme, because = SHUFFLE, "all lanes of a row contribute to it and use it"
                if kind.combines_warps:
                    scheme, because = SHARED, "several warps contribute to it"
            edges.append(Intermediate(producer.name, consumer.name, array, scheme, because))
    return tuple(edges)


def _shared_arrays(statements: Sequence[Statement], kept: frozenset[str]) -> frozenset[str]:
    """Intermediates of stitched statements that are handed over in shared memory.  kept: arrays needed outside."""
    shape = stitched_shape(statements, kept, MOST_VECTORS)
    return handed_over(shape, statements) if isinstance(shape, Shape) else frozenset()


def _rows_reason(program: TensorProgram, anchor: Statement, kinds: Mapping[str, str]) -> str:
    """Why a product's kernel reduces rows of its results."""
    reduced = row_reductions(program.statements, anchor)
    handed = {a.array for s in reduced for a in s.reads()} & {s.write.array for s in program.statements if s.parallel}
    wide = [a for a in sorted(handed) if program.arrays[a].elements >= program.arrays[anchor.write.array].elements]
    saved = sum(program.arrays[a].bytes * (1 if a in program.outputs else 2) for a in wide)
    columns = math.prod(anchor.extents[name] for name in reduced_columns(program.statements, anchor))
    return (
        f"{kinds.get(anchor.operator, anchor.operator)} keeps whole rows of {columns} results in a block, which "
        f"reduces them {len(reduced)} time{'s' * (len(reduced) > 1)} and uses them again: {saved:,} bytes do not cross "
        "global memory, and a launch is saved"
    )


def group_reason(built: Built, kinds: Mapping[str, str], instances: int, saving: Saving | None) -> str:
    """Why the operators of a group are one kernel.  saving: what it saves, where kernels were joined for that."""
    together = f"; {instances} equal places in the graph share the kernel" if instances > 1 else ""
    if built.kind.is_pattern:
        told = f": {saving}" if saving else ""
        return f"scores and their softmax never leave the block that uses them{told}{together}"
    statements = built.program.statements
    anchor = next((s for s in statements if is_contraction(s)), None)
    reductions = [s for s in statements if s.reduction is not None]
    if built.kind is CHAINED:
        found = chain_of(built.program)
        first, second = (built.instance.statements[s.name] for s in (found.scores, found.values))
        handed = "whole rows" if found.has_whole_rows else "tiles"
        text = f"{second} weighs with what a block makes of {handed} of {first}"
        text += f": {saving}" if saving else ""
    elif built.kind.has_parts:
        text = f"{len(parts_of(statements))} parts that no value connects share one launch"
    elif built.kind.meets_as_grid:
        text = f"{len(recurrence_steps(statements))} steps share one launch, whose blocks all meet after each"
        text += f": {saving.times}" if saving else ""
    elif built.kind.hands_over:
        shapes = len({tuple(i.extent for i in s.iterators) for s in statements})
        text = f"a block owns what its statements, of {shapes} shapes, hand to each other: nothing leaves it on the way"
    elif pair := pair_of(statements):
        names = " and ".join(built.instance.statements[s.name] for s in pair)
        text = f"{names} share their first factor and their main loop, and a thread has the sums of both"
        text += f": {saving.times}" if saving else ""
    elif anchor is not None and len(reductions) > 1:
        text = _rows_reason(built.program, anchor, kinds) + (f": {saving.times}" if saving else "")
    elif anchor is not None:
        text = f"{kinds.get(anchor.operator, anchor.operator)} keeps its tile of results in registers"
        text += "; the element-wise operators after it use it there" if len(statements) > 1 else ""
    elif len(reductions) > 1:
        rows = ", ".join(i.name for i in reductions[0].parallel) or "everything"
        text = f"{len(reductions)} reductions share the rows {rows}: a row stays in one block throughout"
    elif reductions:
        text = "one reduction with the element-wise operators before and after it"
    elif len(statements) > 1:
        text = "element-wise operators over one shape: intermediates stay in registers"
    else:
        text = "a single operator"
    return text + together
