"""One dimension of many sizes: kernels that are made for the largest serve smaller ones with fewer blocks.

    x[batch, 128, 768], batch = 1..64    ->    kernels for batch = 64; batch = 5 launches the blocks of the first 5

Every array that grows with the dimension has it outermost, so that a smaller one is the first rows of the largest, and
no row is made from rows of others.  The file is read at two sizes: its operators have to compute the same but for the
number of rows.  What kernels do with rows, their index maps say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from engine.fusion.nodes import FusionGroup, FusionPlan, GroupInstance
from engine.graph.load import load
from engine.graph.nodes import OperatorGraph, SizeRange, Tensor
from engine.support.errors import BadInput, Unsupported
from engine.tensor.index import Index
from engine.tensor.lower import lower
from engine.tensor.nodes import Access, Array, Statement

HINT = "give it one size"


def growing_tensors(graph: OperatorGraph, sizes: SizeRange) -> dict[str, int]:
    """Tensor -> rows of its first axis for each of a dimension's size; tensors that stay as they are have no entry.

    graph: read at the largest size.  Raises Unsupported for a graph that is another one at another size, or has the
    dimension elsewhere than outermost.
    """
    if graph.source is None or sizes.name not in graph.dimensions:
        raise BadInput("graph", f"dimension {sizes.name}", "is no dimension of the file", "see `loomscope inspect`")
    made = graph.dimensions[sizes.name]
    if made != sizes.high:
        reason = f"ends at {sizes.high}, and the plan is made for {made}"
        raise BadInput("range", f"dimension {sizes.name}", reason, "load the file at the largest size")
    probe = max(sizes.low, sizes.high // 2)
    other = load(graph.source, {**graph.dimensions, sizes.name: probe})
    if graph.host:
        raise _refusal(next(iter(graph.host)), "is decided by the data, which decide sizes by themselves")
    _check_alike(graph, other, f"at {sizes.name} = {probe} than at {sizes.high}")
    found: dict[str, int] = {}
    for name, tensor in graph.tensors.items():
        rows = _rows(tensor, other.tensors[name], sizes.high, probe) if name in other.tensors else None
        if rows is None:
            raise _refusal(f"tensor {name}", f"does not grow along its first axis alone with {sizes.name}")
        if rows:
            found[name] = rows
    for name in lower(graph).constants:
        _check_constant(graph, other, name, found.get(name, 0) * probe)
    return found


def _check_alike(graph: OperatorGraph, other: OperatorGraph, sizes: str) -> None:
    """Operators compute the same from elements at the same places, whatever the sizes of loops are."""
    here, there = lower(graph).statements, lower(other).statements
    if len(here) != len(there):
        raise _refusal(graph.name, f"has other operators {sizes}")
    for own, theirs in zip(here, there, strict=True):
        same = replace(own, iterators=theirs.iterators)
        names = [i.name for i in own.iterators] == [i.name for i in theirs.iterators]
        if same != theirs or not names:
            raise _refusal(f"operator {own.operator}", f"computes something else {sizes}")


def _refusal(subject: str, reason: str) -> Unsupported:
    return Unsupported("range", subject, reason, HINT)


def _rows(large: Tensor, small: Tensor, high: int, probe: int) -> int | None:
    """Rows for each of the size, 0 for a tensor that stays; None where another axis grows, or another number of rows
    than the size has."""
    if large.shape == small.shape:
        return 0
    if len(large.shape) != len(small.shape) or large.shape[1:] != small.shape[1:] or large.dtype != small.dtype:
        return None
    rows, rest = divmod(large.shape[0], high)
    return rows if rest == 0 and small.shape[0] == rows * probe else None


def _check_constant(graph: OperatorGraph, other: OperatorGraph, name: str, rows: int) -> None:
    """A constant is the same at each size, or its first rows are."""
    if name not in graph.constants or (own := graph.constants[name].value) is None:
        return
    theirs = other.constants[name].value if name in other.constants else None
    first = own[:rows] if rows else own
    if theirs is None or not np.array_equal(first, theirs, equal_nan=first.dtype.kind == "f"):
        raise _refusal(f"constant {name}", "has other values at another size")


def growing_arrays(plan: FusionPlan, group: FusionGroup, tensors: Mapping[str, int], high: int) -> dict[str, int]:
    """Array of a group's program -> rows of its first axis for each of the size, as `growing_tensors` has them.

    Raises Unsupported, naming an operator, for a group that makes a row of one size from rows of others.
    """
    found = [_of_instance(group, one, tensors, high) for one in group.instances]
    if any(one != found[0] for one in found):
        raise _refusal(group.name, "stands in places of which some grow and others do not")
    return found[0]


def _of_instance(
    group: FusionGroup, instance: GroupInstance, tensors: Mapping[str, int], high: int
) -> dict[str, int]:
    arrays = group.program.arrays
    found = {name: tensors[tensor] for name, tensor in instance.arrays.items() if tensor in tensors}
    for name, rows in found.items():
        if name in instance.parts or not arrays[name].shape or arrays[name].shape[0] != rows * high:
            raise _refusal(group.name, f"takes {instance.arrays[name]} in another form than it lies")
    for statement in group.program.statements:
        _add_written(statement, arrays, found, high)
    return found


def _add_written(statement: Statement, arrays: Mapping[str, Array], found: dict[str, int], high: int) -> None:
    """Note what a statement writes, which belongs to the same of the size as all that it reads."""
    where = {_place(access, found, statement) for access in statement.reads() if access.array in found}
    if not where:
        return
    written = statement.write
    array = arrays[written.array]
    if written.array not in found and array.shape and array.shape[0] % high == 0:
        found[written.array] = array.shape[0] // high
    if len(where) > 1 or written.array not in found or _place(written, found, statement) not in where:
        raise _refusal(statement.operator, f"makes {written} from other places of the dimension")


def _place(access: Access, rows: Mapping[str, int], statement: Statement) -> Index:
    """Which of the size an element belongs to."""
    return access.indices[0].floordiv(rows[access.array], statement.extents)
