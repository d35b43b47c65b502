"""What a product's kernel asks of global memory after the sums: reads and writes of the statements that follow.

What moves with the row or the column of a result is asked for in the loop over a thread's results.  What moves with
batches alone is asked for once by every thread, unless a mask of ragged tiles stands around the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.graph.nodes import DTYPES
from engine.kernels.gemm.nodes import Epilogue, EpilogueRequest, PassRequests
from engine.kernels.gemm.problem import widest_result
from engine.kernels.gemm.row_epilogue import passes
from engine.kernels.reduction.block_reduce import parts_dtype
from engine.kernels.statement_block import result_statement
from engine.tensor.nodes import Access, Literal, Statement, TensorProgram
from engine.tensor.rewrite import indices_of
from engine.tensorize.bind import GemmAxes


def epilogue_of(program: TensorProgram, axes: GemmAxes) -> Epilogue:
    """What follows the product of a group's program."""
    anchor, products = axes.statement, [s for s in (axes.statement, axes.sibling) if s is not None]
    after = [s for s in program.statements if s not in products]
    collector, sums = _RequestCollector(program, axes), [_result_statement(s) for s in products]
    if axes.has_whole_rows:
        found = []
        for number, one in enumerate(passes(anchor, after)):
            of_rows = collector.requests([_result_statement(s) if s.reduction else s for s in one.of_rows])
            elements = one.of_elements if number else (*sums, *one.of_elements)
            parts = tuple(DTYPES[parts_dtype(s.reduction)] for s in one.reductions if s.reduction)
            found.append(PassRequests(of_rows, collector.requests(elements), parts))
    else:
        found = [PassRequests((), collector.requests([*sums, *after]))]
    still = {a for a in anchor.reads() if not any(index.iterators() for index in a.indices)}
    return Epilogue(
        passes=tuple(found),
        widest=widest_result(program, products, {s.name: axes.columns[-1].name for s in program.statements}),
        sum_bytes=DTYPES[program.arrays[anchor.write.array].dtype],
        factor_bytes=sum(DTYPES[program.arrays[a.array].dtype] for a in still),
    )


def _result_statement(statement: Statement) -> Statement:
    """A reduction as what is done with its result, which reads nothing."""
    return result_statement(statement, Literal(0.0, "float32"))


class _RequestCollector:
    """Requests of a program's statements in order: what one of them made is in registers for the others."""

    def __init__(self, program: TensorProgram, axes: GemmAxes) -> None:
        self._program = program
        self._rows = {i.name for i in axes.rows}
        self._columns = {i.name for i in axes.columns}
        self._lane = axes.columns[-1].name
        self._made: set[str] = set()

    def requests(self, statements: Sequence[Statement]) -> tuple[EpilogueRequest, ...]:
        """Those of statements that stand in one loop."""
        found: dict[EpilogueRequest, None] = {}
        for statement in statements:
            found.update(dict.fromkeys(self._of(statement)))
            if statement.reduction is None:
                self._made.add(statement.write.array)
        return tuple(found)

    def _of(self, statement: Statement) -> Iterator[EpilogueRequest]:
        for index in indices_of(statement):
            looked_up = (Access(e.array, e.indices) for e in index.elements())
            yield from (self._request(access, False) for access in looked_up if access.array not in self._made)
        yield from (self._request(access, False) for access in statement.reads() if access.array not in self._made)
        if statement.reduction is None and statement.write.array in self._program.outputs:
            yield self._request(statement.write, True)

    def _request(self, access: Access, is_write: bool) -> EpilogueRequest:
        indices = (*access.indices, *(guard.index for guard in access.guards))
        moved = {name for index in indices for name in index.iterators()}
        return EpilogueRequest(
            name=str(access),
            bytes=DTYPES[self._program.arrays[access.array].dtype],
            is_write=is_write,
            moves=bool(moved),
            with_rows=not moved.isdisjoint(self._rows),
            with_columns=not moved.isdisjoint(self._columns),
            with_lanes=any(self._lane in index.iterators() for index in access.indices),
        )
