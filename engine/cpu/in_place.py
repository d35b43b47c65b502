"""Which result of a product may lie where an operand lies that is read after the sums.

    y[i, j] = sum(k) (a[i, k] * b[k, j]) + x[i, j]        y may take the place of x: what is read is what is written
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.cpu.product import CpuProduct
from engine.tensor.index import Index, linear
from engine.tensor.nodes import Access, Statement


def find_in_place(product: CpuProduct) -> Mapping[str, str]:
    """Result -> an input of which each element is read just where the same one of the result is written, not later."""
    program, found = product.program, dict[str, str]()
    order = {statement.name: number for number, statement in enumerate(product.after)}
    reads = {
        array: [(s, access) for s in program.statements for access in s.reads() if access.array == array]
        for array in program.inputs if array not in program.constants
    }  # fmt: skip
    for statement in product.after:
        result = statement.write.array
        if result not in program.outputs:
            continue
        place = _place(product, statement, statement.write)
        for array, uses in reads.items():
            own, other = program.arrays[result], program.arrays[array]
            is_free = array not in found.values() and (own.dtype, own.elements) == (other.dtype, other.elements)
            before = all(order.get(s.name, -1) in range(order[statement.name] + 1) for s, _ in uses)
            same = before and all(_place(product, s, access) == place and not access.guards for s, access in uses)
            if is_free and uses and same:
                found[result] = array
                break
    return found


def _place(product: CpuProduct, statement: Statement, access: Access) -> Index:
    """Where an element lies in its array, by the loops of the product."""
    loops = product.iterators[statement.name]
    extents = {other: i.extent for i in statement.iterators if (other := loops.get(i.name))}
    values = {own: Index.of(other) for own, other in loops.items()}
    indices = [index.substitute(values, extents) for index in access.indices]
    return linear(indices, product.program.arrays[access.array].shape)
