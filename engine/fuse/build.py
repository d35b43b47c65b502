"""Groups of statements become programs of their own, in short names and with one name for each shared axis."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.fuse.nodes import Instance
from engine.fuse.shape import Shape
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Array, Iterator, Scalar, Statement, TensorProgram
from engine.tensor.rewrite import Reader, plain_iterator, rewrite_access, rewrite_index, rewrite_reads, rewrite_scalar

AXIS_NAMES = "ijklmnopabcdefgh"
LOOP_NAMES = "qrsv"
"""Loops of generated kernels that no array may be called after."""


@dataclass(frozen=True, slots=True)
class Built:
    """One group's program in canonical names and the occurrence it was made from."""

    program: TensorProgram
    instance: Instance
    kind: str

    @property
    def structure(self) -> str:
        """Equal for groups that compile to the same kernel: the program with arrays numbered instead of named."""
        names = {name: f"a{n}" for n, name in enumerate(self.program.arrays)}
        program = rename_arrays(self.program, names)
        statements = tuple(replace(s, operator="", because="") for s in program.statements)
        return repr((self.kind, program.arrays, statements, program.inputs, program.outputs, program.constants))


def build(
    program: TensorProgram,
    statements: Sequence[Statement],
    shape: Shape,
    outputs: frozenset[str],
    absorbed: Mapping[str, tuple[str, ...]],
) -> Built:
    """The program of one group.  outputs: arrays it makes that are read outside."""
    inlined = inline([s for s in statements if s.name in shape.inlined], statements)
    named = [_canonical(s, shape, f"S{n}") for n, s in enumerate(inlined)]
    used = dict.fromkeys(a.array for s in named for a in (*s.reads(), s.write))
    made = {s.write.array for s in named}
    reads = {a.array for s in named for a in s.reads()}
    inputs = [a for a in used if a in program.inputs or (a in reads and a not in made)]
    body = TensorProgram(
        name="",
        arrays={a: program.arrays[a] for a in used},
        statements=tuple(named),
        inputs=tuple(inputs),
        outputs=tuple(a for a in used if a in outputs and a in made),
        constants=tuple(a for a in inputs if a in program.constants),
    )
    short = _short_names(used)
    operators = dict.fromkeys(op for s in statements for op in (*absorbed.get(s.name, ()), s.operator))
    instance = Instance(
        operators=tuple(operators),
        arrays={short[a]: a for a in used},
        statements={s.name: s.operator for s in named},
    )
    kind = shape.kind
    if kind == "reduction":
        kind = f"{reduction_direction(named)} reduction"
    return Built(rename_arrays(without_unit_axes(body), short), instance, kind)


def inline(producers: Sequence[Statement], statements: Sequence[Statement]) -> list[Statement]:
    """Put each producer's expression where its result is read.

    b[j] = half(a[j]);  y[i,j] = x[i,j] + b[j]   ->   y[i,j] = x[i,j] + half(a[j])
    """
    bodies = {p.write.array: p for p in producers}
    names = {p.name for p in producers}

    def reader(extents: Mapping[str, int]) -> Reader:
        def read(access: Access) -> Scalar:
            producer = bodies.get(access.array)
            if producer is None:
                return access
            values = {
                name: index
                for written, index in zip(producer.write.indices, access.indices, strict=True)
                if (name := plain_iterator(written)) is not None
            }
            return rewrite_scalar(producer.expression, values, read, extents)

        return read

    return [rewrite_reads(s, reader(s.extents)) for s in statements if s.name not in names]


def reduction_direction(statements: Sequence[Statement]) -> str:
    """"row" when the reduced iterator is the contiguous one of the largest read, else "column"."""
    for statement in statements:
        if statement.reduction is None:
            continue
        for access in sorted(statement.reads(), key=lambda a: -len(a.indices)):
            innermost = next((n for i in reversed(access.indices) for n in reversed(i.iterators())), None)
            if innermost is not None:
                return "row" if innermost in statement.reduction.iterators else "column"
    return "row"


def without_unit_axes(program: TensorProgram) -> TensorProgram:
    """The same program over arrays without axes of one element: m[0, i, 0] becomes m[i]."""
    kept = {name: [axis for axis, n in enumerate(array.shape) if n > 1] for name, array in program.arrays.items()}

    def read(access: Access) -> Access:
        return replace(access, indices=tuple(access.indices[axis] for axis in kept[access.array]))

    return replace(
        program,
        arrays={n: replace(a, shape=tuple(a.shape[axis] for axis in kept[n])) for n, a in program.arrays.items()},
        statements=tuple(replace(rewrite_reads(s, read), write=read(s.write)) for s in program.statements),
    )


def rename_arrays(program: TensorProgram, names: Mapping[str, str]) -> TensorProgram:
    """The same program over arrays of other names."""

    def read(access: Access) -> Access:
        return replace(access, array=names[access.array])

    statements = tuple(
        replace(rewrite_reads(s, read), write=replace(s.write, array=names[s.write.array])) for s in program.statements
    )
    arrays = {names[n]: Array(names[n], a.shape, a.dtype) for n, a in program.arrays.items()}
    renamed = [tuple(names[n] for n in group) for group in (program.inputs, program.outputs, program.constants)]
    return TensorProgram(program.name, arrays, statements, *renamed)


def _canonical(statement: Statement, shape: Shape, name: str) -> Statement:
    """The statement called `name`, its iterators named after the group's axes."""
    letters = dict(zip(shape.rows, AXIS_NAMES, strict=False))
    own_columns = [shape.axes[statement.name, i.name] for i in statement.iterators]
    columns = [a for a in (*shape.columns, *own_columns) if a not in letters]
    letters |= dict(zip(dict.fromkeys(columns), AXIS_NAMES[len(letters) :], strict=False))
    renaming = {i.name: letters[shape.axes[statement.name, i.name]] for i in statement.iterators}
    values = {old: Index.of(new) for old, new in renaming.items()}
    ordered = statement.iterators
    if shape.kind == "reduction":
        # All loops over a row walk it in one order, so that a thread meets its elements again.
        order = (*shape.rows, *shape.columns)
        ordered = tuple(sorted(ordered, key=lambda i: order.index(shape.axes[statement.name, i.name])))
    iterators = tuple(Iterator(renaming[i.name], i.extent) for i in ordered)
    extents = {i.name: i.extent for i in iterators}
    reduction = statement.reduction
    if reduction is not None:
        reduced = {renaming[n] for n in reduction.iterators}
        reduction = replace(reduction, iterators=tuple(i.name for i in iterators if i.name in reduced))
    return replace(
        statement,
        name=name,
        iterators=iterators,
        write=rewrite_access(statement.write, values, _same, extents),
        expression=rewrite_scalar(statement.expression, values, _same, extents),
        reduction=reduction,
        guards=tuple(replace(g, index=rewrite_index(g.index, values, _same, extents)) for g in statement.guards),
    )


def _same(access: Access) -> Access:
    return access


def _short_names(tensors: Mapping[str, None]) -> dict[str, str]:
    """Identifiers for tensors: the last words of their names, made unique."""
    taken: set[str] = set()
    short: dict[str, str] = {}
    for tensor in tensors:
        words = [w for w in re.split(r"[^0-9A-Za-z]+", tensor) if w]
        name = "_".join(words[-2:]) if words and words[-1] in {"weight", "bias"} else "_".join(words[-3:])
        name = name.lower() or "t"
        name = f"t_{name}" if name[0].isdigit() else name
        unique, number = name, 2
        while unique in taken or unique in RESERVED or unique in AXIS_NAMES + LOOP_NAMES:
            unique, number = f"{name}_{number}", number + 1
        taken.add(unique)
        short[tensor] = unique
    return short


RESERVED = frozenset(
    "auto bool break case char class const continue default delete do double else enum extern false float for goto "
    "half if inline int lane long namespace new operator private public register return row short signed sizeof static "
    "struct switch template this thread true typedef union unsigned using void volatile warp while block chunk column "
    "acc and or not xor stage".split()
)
"""Words that an array may not be called in the CUDA text."""

