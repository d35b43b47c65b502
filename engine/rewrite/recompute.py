"""Recompute a value inside one reader instead of loading it.

    S0: e[i,j] = exp(x[i,j])             S0: e[i,j] = exp(x[i,j])      (gone if nobody else reads e)
    S1: y[i,j] = e[j,i] / s[j]       ->  S1: y[i,j] = exp(x[j,i]) / s[j]

It trades arithmetic for the place where the value was kept, and takes away the dependence of S1 on S0.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.rewrite.statements import statement_of, with_statement, without_unread
from engine.support.errors import BadInput, Unsupported
from engine.tensor.nodes import Access, Apply, Literal, Position, Scalar, Statement, TensorProgram
from engine.tensor.rewrite import index_values, looked_up, plain_iterator, rewrite_reads, rewrite_scalar

LARGEST_EXPRESSION = 256
"""Largest expression after inlining, counted in functions, accesses and index divisions."""


def recompute(program: TensorProgram, producer: str, consumer: str) -> TensorProgram:
    """The program with `producer`'s expression inlined into `consumer`.

    The array and its statement stay where somebody else reads it, or where it is an output.  BadInput for statements
    that do not hand on a value, Unsupported for a value that cannot be had again where it is read; both say why.
    """
    made, reader = statement_of(program, producer), statement_of(program, consumer)
    subject = f"recompute {producer} in {consumer}"
    reads = [access for access in reader.reads() if access.array == made.write.array]
    if made is reader or not reads:
        raise BadInput("rewrite", subject, f"{consumer} does not read {made.write.array}, which {producer} writes")
    for reason in (*_not_again(program, made), *_not_there(program, made, reader)):
        raise Unsupported("rewrite", subject, reason)

    def read(access: Access) -> Scalar:
        return _again(program, made, access, reader) if access.array == made.write.array else access

    changed = rewrite_reads(reader, read)
    size = _size(changed.expression)
    if size > LARGEST_EXPRESSION:
        told = f"{consumer} would compute {size} values for an element, at most {LARGEST_EXPRESSION}"
        raise Unsupported("rewrite", subject, told)
    return without_unread(with_statement(program, changed), [made.name])


def _not_again(program: TensorProgram, made: Statement) -> Iterator[str]:
    """Why a value is not a function of its indices alone; "" if it is."""
    array = made.write.array
    if made.reduction is not None:
        over = ", ".join(made.reduction.iterators)
        yield f"{array} is a {made.reduction.operation} over {over}: every element would be reduced again"
    if made.guards or not made.covers or any(s is not made and s.write.array == array for s in program.statements):
        yield f"{array} is written in parts"
    written = [name for index in made.write.indices if (name := plain_iterator(index)) is not None]
    if made.write.guards or any(i.terms and plain_iterator(i) is None for i in made.write.indices):
        yield f"{made.write} does not say which iteration an element comes from"
    elif sorted(written) != sorted(i.name for i in made.iterators):
        yield f"{made.write} does not name each iterator once"


def _not_there(program: TensorProgram, made: Statement, reader: Statement) -> Iterator[str]:
    """Why a value cannot be recomputed where it is read; "" if it can."""
    array = made.write.array
    for access in reader.reads():
        if access.array == array and access.guards:
            yield f"{reader.name} reads {array} in part of its iterations only"
    if array in looked_up(reader):
        yield f"{reader.name} looks up positions in {array}"
    order = [s.name for s in program.statements]
    if order.index(reader.name) < order.index(made.name):
        yield f"{reader.name} reads {array} before {made.name} writes it"
    until = program.statements[order.index(made.name) : order.index(reader.name) + 1]
    for read in made.reads():
        for between in until:
            if between.write.array == read.array:
                yield f"{between.name} overwrites {read.array}, which {made.name} reads"


def _again(program: TensorProgram, made: Statement, access: Access, reader: Statement) -> Scalar:
    """The inlined expression of a read element, rounded to its array's type as the stored element was."""
    values = index_values(made.write, access)
    value = rewrite_scalar(made.expression, values, lambda inner: inner, reader.extents)
    kept = program.arrays[made.write.array].dtype
    return value if _dtype(program, value) == kept else Apply("cast", (value,), kept)


def _dtype(program: TensorProgram, value: Scalar) -> str:
    return program.arrays[value.array].dtype if isinstance(value, Access) else value.dtype


def _size(value: Scalar) -> int:
    match value:
        case Apply(_, operands, _):
            return 1 + sum(map(_size, operands))
        case Access(_, indices, guards, _):
            return 1 + sum(index.divisions for index in (*indices, *(g.index for g in guards)))
        case Position(index, _):
            return 1 + index.divisions
        case Literal():
            return 1
