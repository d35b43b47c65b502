"""Statements over one vector of elements: loads first, then one loop over the lanes, then stores.

Of statements that read more than a thread's registers hold, only the loads of some come first, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.graph.nodes import DTYPES
from engine.kernels.reduction.block_reduce import Accumulator, accumulate
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Scalar, Statement
from engine.tensor.rewrite import looked_up
from engine.tile.emit import Emitter, Where, at, merge_lines
from engine.tile.nodes import Barrier, Declare, Slot
from engine.tile.scope import LANE_OF_VECTOR
from engine.tile.source import Line

Place = Callable[[Statement], Where]
"""Where the iterators of a statement stand in kernel variables."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Results and loads that later loops use: held for every chunk."""

    arrays: frozenset[str]
    chunk: Index
    chunks: int

    def of(self, array: str) -> tuple[Index, int] | None:
        return (self.chunk, self.chunks) if array in self.arrays and self.chunks > 1 else None


NOTHING = Keep(frozenset(), Index(), 1)

MOST_LOADED = 256
"""Bytes that are loaded before any of them is used: a quarter of the registers that a thread may have.  The compiler
leaves loads where they are: of 300 values of 4 bytes that came first it spilled 23 kB, of 64 none."""


def result_statement(statement: Statement, value: Scalar) -> Statement:
    """A reduction as an element-wise statement over its result."""
    return Statement(
        statement.name, statement.operator, statement.parallel, statement.write, value, None, statement.guards
    )


def total_statement(
    emitter: Emitter, statement: Statement, total: Access, register: Access | None = None
) -> Statement:
    """A reduction as its total in the type of its array.  register: that holds it, where it has another name."""
    dtype = emitter.program.arrays[statement.write.array].dtype
    is_exact = emitter.buffers[(register or total).array].dtype == dtype
    return result_statement(statement, total if is_exact else Apply("cast", (total,), dtype))


@dataclass(frozen=True, slots=True)
class BlockOptions:
    """How statements are evaluated together."""

    mask: str | None = None
    """Where it fails, masked iterators are out of range: loads give a neutral value and reductions skip."""
    store_mask: str | None = None
    stored: frozenset[str] = frozenset()
    """Arrays to write to global memory, where `store_mask` holds."""
    keep: Keep = NOTHING
    lanes: bool = True
    """One vector of elements; else one element."""
    dimensions: tuple[str, ...] = ()
    accumulators: Mapping[str, Accumulator] = field(default_factory=dict)
    """Reduction statement -> its register."""
    fence: bool = False
    """All threads of the block meet before the stores, which overwrite what they read."""


def evaluate_block(
    emitter: Emitter, statements: Sequence[Statement], place: Place, values: dict[str, Access], options: BlockOptions
) -> None:
    """Evaluate `statements` in order for one vector or one element, adding their results to `values`."""
    width = emitter.vector if options.lanes else 1
    parts = [few for part in _by_lookups(statements) for few in _by_loads(emitter, part, width, values)]
    evaluation = _Evaluation(emitter, place, values, options, _handed_on(parts))
    for part in parts:
        evaluation.evaluate(part)
    if options.fence:
        emitter.add(Barrier(merge_lines([at(s) for s in statements])))
    for statement in statements:
        if statement.write.array in options.stored and statement.reduction is None:
            emitter.store(statement, place(statement), values[statement.write.array], options.store_mask, at(statement))


def _by_lookups(statements: Sequence[Statement]) -> list[list[Statement]]:
    """The statements in parts, so that an index made in one part is looked up in a later one: loads come first."""
    parts: list[list[Statement]] = []
    for statement in statements:
        wanted = looked_up(statement)
        if not parts or any(s.write.array in wanted for s in parts[-1]):
            parts.append([])
        parts[-1].append(statement)
    return parts


def _by_loads(
    emitter: Emitter, statements: Sequence[Statement], width: int, values: Mapping[str, Access]
) -> list[list[Statement]]:
    """The statements in parts of which none, unless it is a single one, loads more than `MOST_LOADED` bytes."""
    arrays, made = emitter.program.arrays, {*values, *(s.write.array for s in statements)}
    parts: list[list[Statement]] = []
    known: set[Access] = set()
    loaded = 0
    for statement in statements:
        new = {access for access in statement.reads() if access.array not in made} - known
        size = width * sum(DTYPES[arrays[access.array].dtype] for access in new)
        if not parts or loaded + size > MOST_LOADED:
            parts.append([])
            loaded = 0
        parts[-1].append(statement)
        loaded += size
        known |= new
    return parts


def _handed_on(parts: Sequence[Sequence[Statement]]) -> frozenset[str]:
    """The results of one part that a later one reads."""
    made = [{s.write.array for s in part} for part in parts]
    read = [{access.array for s in part for access in s.reads()} for part in parts]
    return frozenset(name for n, names in enumerate(made) for later in read[n + 1 :] for name in names & later)


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """Statements evaluated over registers."""

    emitter: Emitter
    place: Place
    values: dict[str, Access]
    options: BlockOptions
    handed_on: frozenset[str]
    """Results that live longer than the loop over the lanes."""

    @property
    def width(self) -> int:
        """Elements that are evaluated at once."""
        return self.emitter.vector if self.options.lanes else 1

    def evaluate(self, statements: Sequence[Statement]) -> None:
        """All loads of some statements, then one loop over the lanes."""
        emitter, options = self.emitter, self.options
        prepared = [self._prepare(statement) for statement in statements]
        links = [at(s, *options.dimensions) for s in statements]
        with emitter.loop(LANE_OF_VECTOR, self.width, merge_lines(links)):
            for statement, expression, slot, link in prepared:
                if statement.reduction is not None:
                    register = options.accumulators[statement.name]
                    accumulate(emitter, statement, register, expression, options.mask, link)
                elif slot is None:
                    emitter.add(Declare(self.values[statement.write.array].array, expression, link))
                else:
                    emitter.assign(slot, expression, link)

    def _prepare(self, statement: Statement) -> tuple[Statement, Scalar, Slot | None, Line]:
        """Its expression over registers, every load emitted, and its result's register (None: local to the lanes)."""
        keep, link = self.options.keep, at(statement, *self.options.dimensions)
        kept = {a.array: k for a in statement.reads() if (k := keep.of(a.array))}
        expression = self.emitter.expression(
            statement.expression, self.values, self.place(statement), link, self.options.mask, kept
        )
        return statement, expression, None if statement.reduction else self._result(statement), link

    def _result(self, statement: Statement) -> Slot | None:
        """A register for the statement's result: an array where a store or a later loop needs every lane."""
        emitter, keep, width, array = self.emitter, self.options.keep, self.width, statement.write.array
        dtype = emitter.program.arrays[array].dtype
        kept = keep.of(array)
        lanes = (width,) if width > 1 else ()
        lane = (Index.of(LANE_OF_VECTOR),) if width > 1 else ()
        wide = width > 1 and (array in self.options.stored or array in keep.arrays or array in self.handed_on)
        if kept is None and not wide:
            self.values[array] = Access(emitter.register(array, dtype, (), emitter.is_raw), ())
            return None
        name = emitter.register(array, dtype, ((kept[1],) if kept else ()) + lanes, emitter.is_raw)
        indices = ((kept[0],) if kept else ()) + lane
        emitter.declare(name, outermost=kept is not None)
        self.values[array] = Access(name, indices)
        return Slot(name, indices)
