"""Rebuilding statements with other accesses, indices or names: the one traversal every rewriting pass uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from engine.tensor.index import Element, Extents, Index
from engine.tensor.nodes import (
    Access,
    Apply,
    Guard,
    Literal,
    Position,
    Scalar,
    Statement,
    TensorProgram,
    indices_in,
    leaves,
    map_leaves,
)
from engine.tensor.nodes import Iterator as Loop

Reader = Callable[[Access], Scalar]
"""Maps an access, whose indices are already rewritten, to its replacement."""


def rewrite_index(index: Index, iterators: Mapping[str, Index], read: Reader, extents: Extents) -> Index:
    """Substitute an index for every iterator in `iterators`, and rewrite the reads inside.

    extents: of the iterators that appear in the result.  A read inside an index must stay a plain access.
    """
    if not index.terms:
        return index
    name, factor = index.terms[0]
    if len(index.terms) == 1 and isinstance(name, str):  # what nearly all indices are
        value = iterators.get(name)
        return index if value is None else value * factor + index.constant

    def leaf(atom: str | Element) -> Index:
        if isinstance(atom, str):
            return iterators.get(atom, Index.of(atom))
        inside = tuple(rewrite_index(i, iterators, read, extents) for i in atom.indices)
        return _as_index(read(Access(atom.array, inside)), atom)

    return index.rebuild(leaf, extents)


def _as_index(value: Scalar, of: Element) -> Index:
    """The index that a value makes in the place of what was looked up."""
    match value:
        case Access(array, indices, (), _) | Apply("cast", (Access(array, indices, (), _),), _):
            return Index.of(replace(of, array=array, indices=indices))
        case Literal(number, _):
            return Index.of(int(number) + (of.wraps if number < 0 else 0))
        case _:
            raise ValueError(f"an index cannot be computed from {value}")


def rewrite_scalar(value: Scalar, iterators: Mapping[str, Index], read: Reader, extents: Extents) -> Scalar:
    """Rebuild an expression: iterators replaced, every access handed to `read`."""

    def change(leaf: Literal | Access | Position) -> Scalar:
        match leaf:
            case Literal():
                return leaf
            case Position(index, dtype):
                return Position(rewrite_index(index, iterators, read, extents), dtype)
            case Access():
                return read(rewrite_access(leaf, iterators, read, extents))

    return map_leaves(value, change)


def with_element(value: Scalar, element: Access) -> Scalar:
    """The expression with one element in place of everything that it reads."""
    return map_leaves(value, lambda leaf: element if isinstance(leaf, Access) else leaf)


def rewrite_access(access: Access, iterators: Mapping[str, Index], read: Reader, extents: Extents) -> Access:
    """Rebuild the indices and guards of an access, not the access itself."""
    if not iterators and not access.guards and all(index.is_affine for index in access.indices):
        return access
    indices = tuple(rewrite_index(i, iterators, read, extents) for i in access.indices)
    guards = tuple(Guard(rewrite_index(g.index, iterators, read, extents)) for g in access.guards)
    return Access(access.array, indices, guards, access.otherwise)


def only_moves(program: TensorProgram) -> bool:
    """Whether all statements copy elements of their own type, or zeros where a guard fails, and compute nothing."""

    def is_move(statement: Statement) -> bool:
        value, arrays = statement.expression, program.arrays
        if statement.reduction is not None or not isinstance(value, Access):
            return False
        is_same = arrays[value.array].dtype == arrays[statement.write.array].dtype
        return is_same and (value.otherwise is None or value.otherwise.value == 0)

    return all(map(is_move, program.statements))


def rewrite_reads(statement: Statement, read: Reader) -> Statement:
    """The statement with every access of its expression replaced by `read(access)`."""
    return replace(statement, expression=rewrite_scalar(statement.expression, {}, read, statement.extents))


def rewrite_loops(
    statement: Statement, iterators: Sequence[Loop], values: Mapping[str, Index], reduced: Sequence[str]
) -> Statement:
    """The statement over other iterators.  values: what its own are in these.  reduced: those that are reduced."""
    extents = {i.name: i.extent for i in iterators}

    def same(access: Access) -> Access:
        return access

    return replace(
        statement,
        iterators=tuple(iterators),
        write=rewrite_access(statement.write, values, same, extents),
        expression=rewrite_scalar(statement.expression, values, same, extents),
        reduction=statement.reduction and replace(statement.reduction, iterators=tuple(reduced)),
        guards=tuple(Guard(rewrite_index(g.index, values, same, extents)) for g in statement.guards),
    )


def index_values(written: Access, read: Access) -> dict[str, Index]:
    """The maker's iterators at the element that is read, where it writes each axis by one of them or at a constant."""
    pairs = zip(written.indices, read.indices, strict=True)
    return {name: index for place, index in pairs if (name := plain_iterator(place)) is not None}


def inline(producers: Sequence[Statement], statements: Sequence[Statement]) -> list[Statement]:
    """Put each producer's expression where its result is read.

    b[j] = half(a[j]);  y[i,j] = x[i,j] + b[j]   ->   y[i,j] = x[i,j] + half(a[j])

    What is read under a condition is computed under it; nothing is read where it does not hold.
    """
    bodies = {p.write.array: p for p in producers}
    names = {p.name for p in producers}

    def reader(extents: Mapping[str, int]) -> Reader:
        def read(access: Access) -> Scalar:
            producer = bodies.get(access.array)
            if producer is None:
                return access
            values = index_values(producer.write, access)
            if not access.guards:
                return rewrite_scalar(producer.expression, values, read, extents)
            assert access.otherwise is not None

            def read_guarded(inner: Access) -> Scalar:
                otherwise = inner.otherwise or access.otherwise
                return read(replace(inner, guards=(*inner.guards, *access.guards), otherwise=otherwise))

            value = rewrite_scalar(producer.expression, values, read_guarded, extents)
            return Apply("select", (_holds(access.guards), value, access.otherwise), access.otherwise.dtype)

        return read

    return [rewrite_reads(s, reader(s.extents)) for s in statements if s.name not in names]


def _holds(guards: Sequence[Guard]) -> Scalar:
    """Whether all conditions hold, as a value."""
    zero = Literal(0, "int64")
    tests: list[Scalar] = [Apply("greater_equal", (Position(g.index, "int64"), zero), "bool") for g in guards]
    return reduce(lambda a, b: Apply("and", (a, b), "bool"), tests)


def rename_statement(statement: Statement, name: str, operator: str, arrays: Mapping[str, str]) -> Statement:
    """A copy of the statement with another name, operator and arrays; distinct arrays stay distinct.

    It keeps its form, unless it looks indices up: those are sorted by the names of what they read.
    """
    if not _is_direct(statement):
        return replace(_with_arrays(statement, arrays), name=name, operator=operator)
    reads: list[Access] = []

    def rename(leaf: Literal | Access | Position) -> Scalar:
        # No index names an array here: only the accesses themselves change.
        if isinstance(leaf, Access):
            leaf = Access(arrays[leaf.array], leaf.indices, leaf.guards, leaf.otherwise)
            reads.append(leaf)
        return leaf

    write = statement.write
    made = Statement(
        name, operator, statement.iterators, Access(arrays[write.array], write.indices, write.guards),
        map_leaves(statement.expression, rename), statement.reduction, statement.guards, statement.covers,
        statement.because,
    )  # fmt: skip
    made.share(statement.form, tuple(reads), tuple([arrays[source] for source in statement.sources]))
    return made


def _with_arrays(statement: Statement, arrays: Mapping[str, str]) -> Statement:
    def read(access: Access) -> Access:
        return Access(arrays[access.array], access.indices, access.guards, access.otherwise)

    write = read(rewrite_access(statement.write, {}, read, statement.extents))
    guards = tuple(Guard(rewrite_index(g.index, {}, read, statement.extents)) for g in statement.guards)
    return replace(rewrite_reads(statement, read), write=write, guards=guards)


def indices_of(statement: Statement) -> Iterator[Index]:
    """Every index of a statement, those of conditions included."""
    yield from (guard.index for guard in statement.guards)
    for leaf in (statement.write, *leaves(statement.expression)):
        yield from indices_in(leaf)


def looked_up(statement: Statement) -> frozenset[str]:
    """The arrays whose elements are part of an index of a statement."""
    if _is_direct(statement):
        return frozenset()
    return frozenset([element.array for index in indices_of(statement) for element in index.elements()])


def _is_direct(statement: Statement) -> bool:
    if statement.form.is_direct is None:
        statement.form.is_direct = not any(index.is_indirect for index in indices_of(statement))
    return statement.form.is_direct


def is_plain(access: Access) -> bool:
    """Whether every index is one iterator or a constant: the access of an element at the statement's own position."""
    return not access.guards and all(plain_iterator(i) is not None or not i.terms for i in access.indices)


def plain_iterator(index: Index) -> str | None:
    """The iterator that an index consists of, or None."""
    if len(index.terms) == 1 and index.constant == 0:
        atom, coefficient = index.terms[0]
        if coefficient == 1 and isinstance(atom, str):
            return atom
    return None
