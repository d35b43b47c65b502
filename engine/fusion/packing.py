"""Kernel packing: parts that no value connects share one launch, each with a range of its blocks.

    y = relu(x) over 4096 elements,  m = row sums of z    ->    blocks 0 to 3 make y, blocks 4 to 35 make m

Element-wise parts over boxes of one size are merged: one thread makes an element of each.  Matrix products share a
launch with each other alone, where they have a factor in common: blocks that run together read it from L2 once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.fusion.disjoint_writes import disjointly_written
from engine.fusion.kinds import CONTRACTION, ELEMENTWISE, PACKED, STITCHED
from engine.fusion.nodes import FusionGroup
from engine.fusion.shape import Shape, common_shape, is_contraction
from engine.fusion.stitched import MOST_AXES, stitched_shape
from engine.support.grouping import UnionFind, group_by
from engine.tensor.nodes import Statement

ONE_PART = "one value leads to another in all of them: they are one part"
"""Why connected statements are no pack."""
ONE_LOOP = "its parts walk one box once what they read is computed in place: they are one part"
"""Why parts are no pack that become one where they are built."""


def packed_shape(statements: Sequence[Statement], kept: frozenset[str] = frozenset()) -> Shape | str:
    """The loop space of a packed kernel, or why the statements are none.

    Parts share no loop: their axes are numbered alike, `columns` are those of the part with most.  kept: arrays needed
    outside.
    """
    parts = parts_of(statements)
    if len(parts) < 2:
        return ONE_PART
    if refusal := _refuse_products(parts):
        return refusal
    axes: dict[tuple[str, str], int] = {}
    extents: dict[int, int] = {}
    inlined: list[str] = []
    splits: dict[tuple[str, str], int] = {}
    for part in parts:
        shape = part_shape(part, kept)
        if isinstance(shape, str):
            return shape
        inlined += shape.inlined
        splits |= shape.splits
        number = {axis: n for n, axis in enumerate((*shape.rows, *shape.columns))}
        axes |= {key: number.setdefault(axis, len(number)) for key, axis in shape.axes.items()}
        for axis, n in number.items():
            extents[n] = max(extents.get(n, 1), shape.extents[axis])
    if inlined and len(parts_of([s for s in statements if s.name not in inlined])) < 2:
        return ONE_LOOP
    if len(extents) > MOST_AXES:
        return f"a part has {len(extents)} different loops, a kernel names at most {MOST_AXES}"
    return Shape(PACKED, axes, (), tuple(sorted(extents)), extents, tuple(inlined), splits)


def part_shape(part: Sequence[Statement], kept: frozenset[str]) -> Shape | str:
    """The loop space of one part: a simple one where there is one."""
    shape = common_shape(part, kept)
    if any(map(is_contraction, part)) or (isinstance(shape, Shape) and shape.kind.is_elementwise):
        return shape
    return stitched_shape(part, kept)


def _refuse_products(parts: Sequence[Sequence[Statement]]) -> str:
    """Why parts, some of which are matrix products, share no launch; "" where they may."""
    products = [next((s for s in part if is_contraction(s)), None) for part in parts]
    first = next((s for s in products if s is not None), None)
    if first is None:
        return ""
    shared = frozenset[str].intersection(*(factors_of(s) if s is not None else frozenset() for s in products))
    if not shared:
        what = f"{first.operator} is a matrix product: its tiles fill a kernel of their own"
        return f"{what}, or one of products with a factor in common"
    reducing = next((s for part in parts for s in part if s.reduction is not None and s not in products), None)
    return f"{reducing.operator} reduces rows of a product, which takes a kernel of its own" if reducing else ""


def factors_of(product: Statement) -> frozenset[str]:
    """The arrays that a product multiplies."""
    return frozenset(access.array for access in product.reads())


def parts_of(statements: Sequence[Statement]) -> list[list[Statement]]:
    """Statements that values connect together, and element-wise parts over boxes of one size; in their order.

    Those that write different boxes of one array are apart, unless somebody here reads it.
    """
    made = {s.write.array for s in statements}
    separate = disjointly_written(statements)
    joined = UnionFind(s.name for s in statements)
    first: dict[object, str] = {}
    for statement in statements:
        for array in {statement.write.array, *(a.array for a in statement.reads() if a.array in made)} - separate:
            joined.union(first.setdefault(array, statement.name), statement.name)
    for part in group_by(statements, lambda s: joined[s.name]).values():
        # Element-wise parts over equal boxes share loops, which saves blocks and index arithmetic.
        if all(s.reduction is None for s in part):
            widest = max(part, key=lambda s: len(s.iterators))
            box = tuple(i.extent for i in widest.iterators)
            joined.union(first.setdefault(("box", box), part[0].name), part[0].name)
    return list(group_by(statements, lambda s: joined[s.name]).values())


def part_groups(group: FusionGroup) -> tuple[FusionGroup, ...]:
    """The parts of a packed group as groups of their own: products, element-wise or stitched."""
    return tuple(part_group(group, part) for part in parts_of(group.program.statements))


def part_group(group: FusionGroup, part: Sequence[Statement]) -> FusionGroup:
    """Some statements of a packed group, connected to no others, as a group of their own."""
    made = {s.write.array for s in part}
    program = group.program.restrict(part, tuple(n for n in group.program.outputs if n in made))
    shape = common_shape(part, frozenset(program.outputs))
    is_elementwise = isinstance(shape, Shape) and shape.kind.is_elementwise
    kind = CONTRACTION if any(map(is_contraction, part)) else ELEMENTWISE if is_elementwise else STITCHED
    return replace(group, program=program, kind=kind.name)
