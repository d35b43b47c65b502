"""Build the program of a group: short array names, one iterator name for each axis that statements share."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from engine.fusion.axis_splitting import split
from engine.fusion.crop_arrays import crop_arrays
from engine.fusion.group_signature import Patterns
from engine.fusion.grouped_queries import with_axis_of_each_loop
from engine.fusion.kinds import Kind
from engine.fusion.nodes import GroupInstance
from engine.fusion.packing import parts_of
from engine.fusion.shape import Shape, is_contraction, reduction_kind
from engine.fusion.split_array_axes import split_array_axes
from engine.support.values import value
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Array, Iterator, Statement, TensorProgram
from engine.tensor.rewrite import inline, rename_statement, rewrite_loops, rewrite_reads

AXIS_NAMES = "ijklmnopabcdefgh"
LOOP_NAMES = "qrsv"
"""Loops of generated kernels that no array may be called after."""


@value(frozen=True, slots=True)
class Built:
    """One group's program in canonical names and the occurrence it was made from."""

    program: TensorProgram
    instance: GroupInstance
    kind: Kind
    structure: str
    """Equal for groups that compile to the same kernel: the program with arrays numbered instead of named."""


class GroupBuilder:
    """Makes the programs of the groups of one program; groups of one pattern share theirs."""

    def __init__(
        self, program: TensorProgram, outputs: frozenset[str], absorbed: Mapping[str, tuple[str, ...]]
    ) -> None:
        """outputs: arrays that are read outside their group.  absorbed: operators folded into statements."""
        self._program = program
        self._inputs, self._constants = frozenset(program.inputs), frozenset(program.constants)
        self._outputs, self._absorbed = outputs, absorbed
        self._patterns = Patterns(program.arrays, (self._inputs, self._constants, self._outputs))
        self._made: dict[Hashable, tuple[Built, tuple[int, ...]]] = {}
        """Pattern -> the first group that has it, and the places of its arrays among those of the pattern."""
        self._alone: dict[Hashable, Built] = {}
        """Pattern and the places of outputs in it -> the first group that has them."""

    def build(self, statements: Sequence[Statement], shape: Shape) -> Built:
        """The program of one group."""
        statements = _in_order(statements, shape)
        # Layers repeat: most groups of a model take the program of an earlier one, under other arrays.
        pattern, arrays = self._patterns.group(statements, shape)
        if pattern not in self._made:
            first = self._fresh(statements, shape, self._outputs)
            # Places, not names: an equal group has other arrays at the same places of its pattern.
            place = {name: at for at, name in enumerate(arrays)}
            self._made[pattern] = first, tuple(place[name] for name in first.instance.arrays.values())
            return first
        first, places = self._made[pattern]
        own = [s for s in statements if s.name not in shape.inlined]
        instance = GroupInstance(
            operators=self._operators(statements),
            arrays=dict(zip(first.instance.arrays, (arrays[at] for at in places), strict=True)),
            statements={name: s.operator for name, s in zip(first.instance.statements, own, strict=True)},
            parts=first.instance.parts,
        )
        return Built(first.program, instance, first.kind, first.structure)

    def build_alone(self, statements: Sequence[Statement], shape: Shape, outputs: frozenset[str]) -> Built:
        """The program of a group that may be none of the plan, with outputs of its own: what the first one of its
        pattern has."""
        statements = _in_order(statements, shape)
        pattern, arrays = self._patterns.group(statements, shape)
        key = pattern, tuple([at for at, name in enumerate(arrays) if name in outputs])
        if key not in self._alone:
            self._alone[key] = self._fresh(statements, shape, outputs)
        return self._alone[key]

    def _operators(self, statements: Sequence[Statement]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(op for s in statements for op in (*self._absorbed.get(s.name, ()), s.operator)))

    def _fresh(self, statements: Sequence[Statement], shape: Shape, outputs: frozenset[str]) -> Built:
        inlined = inline([s for s in statements if s.name in shape.inlined], statements)
        own, arrays, shape = for_each_block(inlined, self._program.arrays, shape)
        named = [_canonical(s, shape, f"S{n}") for n, s in enumerate(own)]
        used = dict.fromkeys(a.array for s in named for a in (*s.reads(), s.write))
        made = {s.write.array for s in named}
        reads = {a.array for s in named for a in s.reads()}
        inputs = [a for a in used if a in self._inputs or (a in reads and a not in made)]
        body = TensorProgram(
            name="",
            arrays={a: arrays[a] for a in used},
            statements=tuple(named),
            inputs=tuple(inputs),
            outputs=tuple(a for a in used if a in outputs and a in made),
            constants=tuple(a for a in inputs if a in self._constants),
        )
        if shape.kind.is_pattern and shape.splits:
            body = with_axis_of_each_loop(body)
        # Tiles of a product, alone or in a pack, are copied along axes as they are.
        is_tiled = shape.kind.is_product or shape.kind.has_parts
        body, parts = crop_arrays(body if is_tiled else split_array_axes(body))
        short = _short_names(used)
        instance = GroupInstance(
            operators=self._operators(statements),
            arrays={short[a]: a for a in used},
            statements={s.name: s.operator for s in named},
            parts={short[a]: part for a, part in parts.items()},
        )
        # What a factor is computed from may not move with the product's own iterators: then it is a sum like any other.
        is_sum = shape.kind.takes_reductions and not any(map(is_contraction, named))
        kind = reduction_kind(named) if shape.kind.goes_by_axis or is_sum else shape.kind
        program = rename_arrays(without_unit_axes(body), short)
        return Built(program, instance, kind, structure_of(program, kind.name))


def _in_order(statements: Sequence[Statement], shape: Shape) -> Sequence[Statement]:
    """The statements of a group as its program has them: split, and those of a part together."""
    if shape.splits:
        statements = [split(s, shape.splits) for s in statements]
    if shape.kind.has_parts:  # statements side by side can share a loop
        statements = [s for part in parts_of(statements) for s in part]
    return statements


def for_each_block(
    statements: Sequence[Statement], arrays: Mapping[str, Array], shape: Shape
) -> tuple[list[Statement], Mapping[str, Array], Shape]:
    """Statements without some of a stitched group's common axes get them: every block computes its own copy.

    s = sum(c) p[c];  y[i,j] = x[i,j] - s      ->      s[i] = sum(c) p[c];  y[i,j] = x[i,j] - s[i]
    """
    at = {s.name: {shape.axes[s.name, i.name]: i.name for i in s.iterators} for s in statements}
    missing = {s.write.array: [a for a in shape.rows if a not in at[s.name]] for s in statements}
    if not shape.kind.hands_over or not any(missing.values()):
        return list(statements), arrays, shape
    axes = dict(shape.axes)
    found: list[Statement] = []
    for statement in statements:
        mine = at[statement.name] | {axis: f"block.{axis}" for axis in missing[statement.write.array]}
        axes |= {(statement.name, name): axis for axis, name in mine.items()}

        def own(access: Access, mine: Mapping[int, str] = mine) -> Access:
            more = tuple(Index.of(mine[axis]) for axis in missing.get(access.array, ()))
            return replace(access, indices=(*access.indices, *more)) if more else access

        added = tuple(Iterator(mine[axis], shape.extents[axis]) for axis in missing[statement.write.array])
        one = replace(rewrite_reads(statement, own), write=own(statement.write))
        found.append(replace(one, iterators=(*added, *statement.iterators)))
    shapes = {
        array: replace(arrays[array], shape=(*arrays[array].shape, *(shape.extents[axis] for axis in more)))
        for array, more in missing.items() if more
    }  # fmt: skip
    return found, {**arrays, **shapes}, replace(shape, axes=axes)


def structure_of(program: TensorProgram, kind: str) -> str:
    """Text that is equal for programs of a kind of group that differ in names of arrays and operators alone."""
    names = {name: f"a{n}" for n, name in enumerate(program.arrays)}
    program = rename_arrays(program, names)
    statements = tuple(replace(s, operator="", because="") for s in program.statements)
    return repr((kind, program.arrays, statements, program.inputs, program.outputs, program.constants))


def without_unit_axes(program: TensorProgram) -> TensorProgram:
    """The same program over arrays without axes of one element: m[0, i, 0] becomes m[i]."""
    kept = {name: [axis for axis, n in enumerate(array.shape) if n > 1] for name, array in program.arrays.items()}

    def read(access: Access) -> Access:
        axes = kept[access.array]
        if len(axes) == len(access.indices):
            return access
        return Access(access.array, tuple(access.indices[axis] for axis in axes), access.guards, access.otherwise)

    return replace(
        program,
        arrays={n: replace(a, shape=tuple(a.shape[axis] for axis in kept[n])) for n, a in program.arrays.items()},
        statements=tuple(replace(rewrite_reads(s, read), write=read(s.write)) for s in program.statements),
    )


def rename_arrays(program: TensorProgram, names: Mapping[str, str]) -> TensorProgram:
    """The same program over arrays of other names."""
    statements = tuple(rename_statement(s, s.name, s.operator, names) for s in program.statements)
    arrays = {names[n]: Array(names[n], a.shape, a.dtype) for n, a in program.arrays.items()}
    inputs, outputs, constants = (
        tuple(names[n] for n in group) for group in (program.inputs, program.outputs, program.constants)
    )
    return TensorProgram(program.name, arrays, statements, inputs, outputs, constants, program.approximates)


def _canonical(statement: Statement, shape: Shape, name: str) -> Statement:
    """The statement called `name`, its iterators named after the group's axes."""
    letters = dict(zip(shape.rows, AXIS_NAMES, strict=False))
    own_columns = [shape.axes[statement.name, i.name] for i in statement.iterators]
    columns = [a for a in (*shape.columns, *own_columns) if a not in letters]
    letters |= dict(zip(dict.fromkeys(columns), AXIS_NAMES[len(letters) :], strict=False))
    renaming = {i.name: letters[shape.axes[statement.name, i.name]] for i in statement.iterators}
    values = {old: Index.of(new) for old, new in renaming.items()}
    ordered = statement.iterators
    if shape.kind.keeps_rows or shape.kind.hands_over or shape.kind.meets_as_grid:
        # All loops over the same axes walk them in one order, so that a thread meets its elements again.
        order = (*shape.rows, *shape.columns)
        ordered = tuple(sorted(ordered, key=lambda i: order.index(shape.axes[statement.name, i.name])))
    iterators = tuple(Iterator(renaming[i.name], i.extent) for i in ordered)
    taken = {renaming[i.name] for i in statement.reduced}
    reduced = [i.name for i in iterators if i.name in taken]
    return replace(rewrite_loops(statement, iterators, values, reduced), name=name)


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
    "acc and or not xor stage parts arrivals largest_parts total_parts result_parts".split()
)
"""Words that an array may not be called in the CUDA text."""
