"""Loads and stores of general kernels, which may read back what they wrote to memory."""

from __future__ import annotations

from collections.abc import Sequence

from engine.support.errors import Unsupported
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Guard, Statement
from engine.tile.emit import Emitter, Where
from engine.tile.nodes import Load, Slot
from engine.tile.scope import LANE_OF_VECTOR
from engine.tile.source import NOWHERE, Line


class GeneralEmitter(Emitter):
    """Reads what this kernel writes to memory where it is needed: no load of it is shared or moved."""

    changing: frozenset[str] = frozenset()
    """Arrays in memory that the kernel writes."""

    def mask(
        self, name: str, conditions: Sequence[Index], at: Line = NOWHERE, within: Sequence[str | None] = (),
        bits: tuple[Slot, Index] | None = None,
    ) -> str | None:  # fmt: skip
        """As `Scope` says.  Unsupported where a condition tells the lanes of a vector apart."""
        if any(LANE_OF_VECTOR in c.iterators() and c.bounds(self.extents)[0] < 0 for c in conditions):
            raise Unsupported("codegen", name, "tells neighbours of one vector apart")
        return super().mask(name, conditions, at, within, bits)

    def _conditions(self, guards: Sequence[Guard], where: Where, at: Line, mask: str | None) -> list[Index]:
        if self.vector > 1 and any(LANE_OF_VECTOR in v.iterators() for g in guards for n in g.index.iterators()
                                   if (v := where.get(n)) is not None):
            raise Unsupported("codegen", "a guard", "tells neighbours of one vector apart")
        return super()._conditions(guards, where, at, mask)

    def read(
        self, access: Access, where: Where, at: Line, mask: str | None = None, keep: tuple[Index, int] | None = None,
        guard: str | None = None,
    ) -> Access:  # fmt: skip
        """As `Emitter` says."""
        if access.array not in self.changing:
            return super().read(access, where, at, mask, keep, guard)
        array = self.program.arrays[access.array]
        mask = self.mask("inside", self._conditions(access.guards, where, at, mask), at, (mask, guard))
        position = self.position(access, where, at, mask)
        name = self.register(array.name, array.dtype, (), self.is_raw)
        if self.buffers[array.name].scope == "global":
            self.read_from.add(array.name)
        self.add(Load(Slot(name), array.name, position, 1, mask, access.otherwise, at))
        return Access(name, ())

    def store(self, statement: Statement, where: Where, value: Access, mask: str | None, at: Line) -> None:
        """As `Emitter` says, and to a workspace."""
        super().store(statement, where, value, mask, at)
        array = statement.write.array
        if self.buffers[array].scope == "workspace":
            mask = self.mask("inside", self._conditions(statement.guards, where, at, mask), at, (mask,))
            self._put(array, self.position(statement.write, where, at), value, mask, at)
