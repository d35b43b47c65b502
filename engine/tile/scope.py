"""The scope of a tile program in the making: open bodies, and the variables, masks and registers known in them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from engine.tensor.index import Index
from engine.tensor.nodes import Access, Scalar
from engine.tile.nodes import BLOCK, THREAD, Assign, Buffer, Declare, For, If, Let, Mask, Slot, TileOp, UniformIf
from engine.tile.source import NOWHERE, Line

LANE_OF_VECTOR = "v"
"""The loop over the elements of one vector."""

_NONE = Buffer("", "", (), "")

Loaded = tuple[str, str, int, str, tuple[Index, ...]]
"""(array, position, width, value elsewhere, conditions) of a load."""


class Scope:
    """Operations under construction, and what each open body knows."""

    def __init__(self, buffers: dict[str, Buffer], grid: int, threads: int) -> None:
        """buffers: those that are there from the start, whose names are not free."""
        self.buffers = buffers
        self.extents: dict[str, int] = {BLOCK: grid, THREAD: threads}
        self.definitions: dict[str, Index] = {}
        self.values_of: dict[str, tuple[Index, int | None]] = {}
        """What a bound variable is, and what that is cut to: over hardware variables, counters and cut variables."""
        self.masks: dict[str, tuple[Index, ...]] = {}
        self.branches: list[tuple[str, int]] = []
        """(mask, number of its body) of the branches around the operation being added."""
        self.bodies: list[list[TileOp]] = [[]]
        self.bound: list[set[str]] = [set()]
        """Variables bound in each open body."""
        self.depth: dict[str, int] = {BLOCK: 0, THREAD: 0}
        self.loads: list[dict[Loaded, Slot]] = [{}]
        """What each open body has loaded already, and where it is."""

    # Structure

    def add(self, op: TileOp) -> None:
        """Append an operation to the innermost open body."""
        self.bodies[-1].append(op)

    @contextmanager
    def loop(
        self, name: str, extent: int, at: Line = NOWHERE, unroll: bool | int = True, always: bool = False
    ) -> Iterator[Index]:
        """A `For` around the operations added inside; a loop of one iteration is left out, unless `always`."""
        if extent == 1 and not always:
            yield Index()
            return
        self.extents[name] = extent
        for known in (self.definitions, self.values_of):  # a variable of a body closed before may have had the name
            known.pop(name, None)
        self.depth[name] = len(self.bodies)
        self._open()
        yield Index.of(name)
        self.add(For(name, extent, tuple(self._close()), unroll, at))

    def when(self, mask: str | None, at: Line = NOWHERE) -> AbstractContextManager[None]:
        """An `If` around the operations added inside; no mask, no branch."""
        return self._branch(mask, lambda body: If(mask or "", body, at))

    @contextmanager
    def first_threads(self, count: int, name: str, at: Line = NOWHERE) -> Iterator[None]:
        """A branch that the first `count` threads of the block take alone.  name: of its condition."""
        everyone = self.extents[THREAD]
        mask = self.mask(name, [Index((), count - 1) - Index.of(THREAD)], at)
        self.extents[THREAD] = count
        with self._branch(mask, lambda body: If(mask or "", body, at, count)):
            yield
        self.extents[THREAD] = everyone

    def when_all(self, condition: Index, at: Line = NOWHERE) -> AbstractContextManager[None]:
        """A branch that all threads of the block take together, where `condition` >= 0: they may meet inside."""
        return self._branch(self.mask("present", [condition], at), lambda body: UniformIf(condition, body, at))

    @contextmanager
    def _branch(self, mask: str | None, make: Callable[[tuple[TileOp, ...]], TileOp]) -> Iterator[None]:
        """What `make` gives for the operations added inside, which run where `mask` holds; no mask, no branch."""
        if mask is None:
            yield
            return
        self.branches.append((mask, len(self.bodies)))
        self._open()
        yield
        self.branches.pop()
        self.add(make(tuple(self._close())))

    def _open(self) -> None:
        self.bodies.append([])
        self.loads.append({})
        self.bound.append(set())

    def _close(self) -> list[TileOp]:
        self.loads.pop()
        self.bound.pop()
        return self.bodies.pop()

    # Variables

    def bind(self, name: str, index: Index, at: Line = NOWHERE, limit: int | None = None) -> Index:
        """A named integer; an index that already is one variable or number stays itself, a name bound before too."""
        if limit is None and (not index.terms or index.is_variable):
            return index
        if any(name in names for names in self.bound):
            if self.values_of.get(name) == (self._exact(index), limit):
                return Index.of(name)
            return self.bind(f"{name}_next", index, at, limit)
        _, high = index.bounds(self.extents)
        self.bound[-1].add(name)
        self.values_of[name] = self._exact(index), limit
        self.extents[name] = (high if limit is None else min(high, limit)) + 1
        self.depth[name] = len(self.bodies) - 1
        self.definitions[name] = self.expand(index)
        self.add(Let(name, index, at, limit if limit is not None and high > limit else None))
        return Index.of(name)

    def mask(
        self, name: str, conditions: Sequence[Index], at: Line = NOWHERE, within: Sequence[str | None] = (),
        bits: tuple[Slot, Index] | None = None,
    ) -> str | None:  # fmt: skip
        """A named condition: all `conditions`, and the masks `within`; None when it always holds.

        bits: as of `Mask`, with the place.

        The masks `within` stay whole: extents may have been narrowed because they hold.
        """
        outer = tuple(m for m in dict.fromkeys(within) if m is not None)
        open_ones = tuple(c for c in conditions if c.bounds(self.extents)[0] < 0)
        if not open_ones and len(outer) < 2:
            return outer[0] if outer else None
        everything = tuple(dict.fromkeys([c for m in outer for c in self.masks[m]] + list(open_ones)))
        known = next((m for names in self.bound for m in names if self.masks.get(m) == everything), None)
        if known is not None:
            return known
        if any(name in names for names in self.bound):
            name = self.fresh(name)
        self.bound[-1].add(name)
        self.masks[name] = everything
        self.buffers[name] = Buffer(name, "bool", (), "register")  # so that no register takes the name
        self.depth[name] = len(self.bodies) - 1
        self.add(Mask(name, open_ones, outer, at, *(bits or ())))
        return name

    def assign(self, slot: Slot, expression: Scalar, at: Line, combine: str | None = None) -> None:
        """`slot = expression`, or combined into it."""
        self.add(Assign(slot, expression, at, combine))

    def assign_lanes(self, register: Access, value: Scalar, at: Line, combine: str | None = None) -> None:
        """`register = value`, or combined into it, for each of its lanes where it holds a vector."""
        is_vector = Index.of(LANE_OF_VECTOR) in register.indices
        with self.loop(LANE_OF_VECTOR, self.buffers[register.array].shape[-1] if is_vector else 1, at):
            self.assign(Slot(register.array, register.indices), value, at, combine)

    def expand(self, index: Index) -> Index:
        """The index in terms of block, thread and loop counters only."""
        # One round is enough: definitions are expanded themselves when they are noted.
        known = {n: self.definitions[n] for n in index.iterators() if n in self.definitions}
        return index.substitute(known, self.extents) if known else index

    def _exact(self, index: Index) -> Index:
        """The index with every variable expanded that is not cut."""
        known = {n: self.values_of[n] for n in index.iterators() if n in self.values_of}
        exact = {n: value for n, (value, limit) in known.items() if limit is None}
        return index.substitute(exact, self.extents) if exact or not index.is_affine else index

    def register(self, name: str, dtype: str, shape: tuple[int, ...] = (), is_raw: bool = False) -> str:
        """A new register buffer; the name tells it from the global array, and gets a number when it is taken."""
        name = f"{name}_value" if self.buffers.get(name, _NONE).scope == "global" else name
        unique, number = name, 2
        while unique in self.buffers or unique in self.extents:
            unique, number = f"{name}_{number}", number + 1
        self.buffers[unique] = Buffer(unique, dtype, shape, "register", is_raw=is_raw)
        self.depth[unique] = len(self.bodies) - 1
        return unique

    def declare(self, name: str, value: Scalar | None = None, outermost: bool = False) -> None:
        """Declare a register buffer here, or in the kernel's outermost body so that later loops see it."""
        self.bodies[0 if outermost else -1].append(Declare(name, value))

    def fresh(self, name: str) -> str:
        """A name that no mask has yet."""
        return next(unique for number in itertools.count(1) if (unique := f"{name}_{number}") not in self.buffers)
