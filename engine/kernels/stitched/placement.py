"""Where each intermediate of a stitched kernel lives: what composing a dependence with both mappings says.

A consumer reads an element; the walks of the producer's and of the consumer's part say in which thread it was made and
in which it is read.  The same thread: a register.  Threads that a reduction gives its result to: the shuffle leaves it
in a register of each.  Other threads of the block: shared memory.  Other blocks: the schedule does not allow it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from engine.fusion.nodes import AGAIN, REGISTER, SHARED, SHUFFLE
from engine.fusion.stitching.shared_memory import stitched_limit
from engine.graph.nodes import DTYPES
from engine.kernels.marks import WRITTEN_OUT
from engine.kernels.stitched.parts import Names, Part
from engine.support.errors import Unsupported
from engine.target import Target
from engine.target.hardware import BLOCK_REGISTERS, WARP
from engine.target.registers import HELD_ELEMENTS, STITCHED_RESERVE
from engine.tensor.nodes import Statement, TensorProgram
from engine.tensor.rewrite import looked_up
from engine.tile.emit import Span

MOST_ITERATIONS = 32
"""Iterations of loops that are written out, as registers that later parts use need."""
ROOMY = 96 * 1024
"""Bytes of shared memory from which on computing again is preferred: two such blocks fill an SM."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """How one part gets an intermediate that another makes."""

    array: str
    producer: int
    """Number of the part that makes it."""
    consumer: int
    scheme: str
    because: str


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """Parts in order and what they hand over."""

    parts: tuple[Part, ...]
    points: int
    """Points of the common dimensions that a block owns."""
    hand_overs: tuple[HandOver, ...]
    staged: Mapping[str, tuple[Span, ...]]
    """Arrays with a part in shared memory -> what that spans."""
    held: Mapping[str, int]
    """Arrays that stay in registers from one part to another, inputs that several parts read among them: elements of
    each thread."""
    again: Mapping[int, tuple[Statement, ...]]
    """Part -> statements of earlier parts that it computes again."""
    shared_bytes: int
    """The most bytes of arrays that lie in shared memory at one time."""

    def arrays_arriving(self, part: int, *schemes: str) -> frozenset[str]:
        """What a part gets by one of some schemes."""
        return frozenset(h.array for h in self.hand_overs if h.consumer == part and h.scheme in schemes)

    def kept_arrays(self, number: int, inputs: Collection[str]) -> frozenset[str]:
        """What later parts find in registers: results of a part, and inputs of several."""
        part = self.parts[number]
        made = {s.write.array for s in part.statements if s.reduction is None}
        read = {a.array for s in (*part.statements, *self.again.get(number, ())) for a in s.reads()}
        return frozenset(self.held.keys() & (made | (read & set(inputs) if part.is_whole else set())))

    def written_out(self, number: int, inputs: Collection[str]) -> tuple[bool | int, bool | int]:
        """How the loop over the kept points of a part is written out, and that over the reduced ones inside it.

        Whole where registers go from one part to another, and where both are short; of others as many
        iterations, whose loads are waited for together.
        """
        walk = self.parts[number].walk
        in_registers = self.kept_arrays(number, inputs) | self.arrays_arriving(number, REGISTER, SHUFFLE)
        in_registers |= {h.array for h in self.hand_overs if h.producer == number and h.scheme in (REGISTER, SHUFFLE)}
        if any(self.held[a] > 1 for a in in_registers) or walk.steps * walk.chunks <= WRITTEN_OUT:
            return True, True
        inner = min(walk.chunks, WRITTEN_OUT)
        outer = WRITTEN_OUT // walk.chunks
        return outer if outer > 1 else False, inner if inner > 1 else False

    def longest_loop(self, inputs: Collection[str]) -> int:
        """Iterations of the longest loop, those counted once that are written out together."""
        return max(self._turns(number, inputs) for number in range(len(self.parts)))

    def _turns(self, number: int, inputs: Collection[str]) -> int:
        """Times that a thread waits for loads of a part."""
        walk = self.parts[number].walk
        outer, inner = self.written_out(number, inputs)
        return 1 if outer is True else -(-walk.steps // max(1, outer)) * -(-walk.chunks // max(1, inner))

    def schemes(self) -> dict[str, tuple[str, str]]:
        """Statement -> how its result is handed over, and why: through memory, if one of its readers needs that."""
        makers = {s.write.array: s.name for part in self.parts for s in part.statements}
        found: dict[str, tuple[str, str]] = {}
        for hand_over in self.hand_overs:
            maker = makers[hand_over.array]
            if maker not in found or hand_over.scheme == SHARED:
                found[maker] = hand_over.scheme, hand_over.because
        return found


def plan_parts(
    program: TensorProgram, parts: Sequence[Part], names: Names, points: int, wishes: Mapping[str, str], machine: Target
) -> PlacementPlan:
    """Choose a scheme for every intermediate; Unsupported where a block has no room for them.

    wishes: array -> scheme that somebody asks for, which is followed where the mappings allow it.
    """
    return _Planner(program, tuple(parts), names, points, wishes, stitched_limit(machine)).plan()


@dataclass(slots=True)
class _Planner:
    program: TensorProgram
    parts: tuple[Part, ...]
    names: Names
    points: int
    wishes: Mapping[str, str]
    room: int
    """Bytes of shared memory for intermediates."""
    writers: dict[str, tuple[int, Statement]] = field(default_factory=dict)
    found: dict[tuple[str, int], HandOver] = field(default_factory=dict)
    again: dict[int, list[Statement]] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    """Array -> elements of a thread."""

    def plan(self) -> PlacementPlan:
        """The plan of all parts."""
        self.writers = {s.write.array: (n, s) for n, part in enumerate(self.parts) for s in part.statements}
        for number, part in enumerate(self.parts):
            for statement in part.statements:
                self._arrive(number, statement)
        wanted = [a for a in self._staged_arrays() if self.wishes.get(a) == AGAIN]
        while self._recompute_one(wanted):
            wanted = [a for a in wanted if a in self._staged_arrays()]
        while self._peak() > ROOMY and self._recompute_one(self._staged_arrays()):
            pass
        peak = self._peak()
        if peak > self.room:
            raise self._too_large()
        self._hold_inputs()
        order = {s.name: n for n, s in enumerate(self.program.statements)}
        staged = {array: self._spans(array) for array in self._staged_arrays()}
        again = {n: tuple(sorted(found, key=lambda s: order[s.name])) for n, found in self.again.items()}
        return PlacementPlan(self.parts, self.points, tuple(self.found.values()), staged, self.held, again, peak)

    def _arrive(self, number: int, statement: Statement) -> None:
        """Hand over what a statement of a part (or one computed again there) reads of earlier parts."""
        for array in dict.fromkeys(a.array for a in statement.reads()):
            made_in = self.writers.get(array, (number, None))[0]
            if made_in != number and (array, number) not in self.found:
                self.found[array, number] = self._compose(array, number)

    def _compose(self, array: str, number: int) -> HandOver:
        """Compose the dependence with the mapping of both parts."""
        made_in, writer = self.writers[array]
        source, sink = self.parts[made_in], self.parts[number]

        def by(scheme: str, because: str) -> HandOver:
            return HandOver(array, made_in, number, scheme, because)

        if not self._at_own_point(array, number):
            return by(SHARED, f"read where other threads made it, walking {source.walk}")
        at_each_point = source.is_whole and writer.reduction is None
        everywhere = source.walk.rows == 1 and (not at_each_point or source.walk.columns == 1)
        both = at_each_point and sink.is_whole and source.walk.meets(sink.walk)
        if source.walk != sink.walk and not everywhere and not both:
            return by(SHARED, f"made walking {source.walk}, read walking {sink.walk}: in other threads")
        wish = self.wishes.get(array, "")
        if wish in (SHARED, AGAIN):
            return by(SHARED, "asked for, although the same thread makes and reads it")
        size = source.walk.points(at_each_point)
        loops = source.walk.steps * (source.walk.chunks if source.is_whole else 1)
        most = MOST_ITERATIONS if wish in (REGISTER, SHUFFLE) else self._room()
        longest = MOST_ITERATIONS if writer.reduction is None else WRITTEN_OUT
        if array not in self.held and (size > most or (loops > longest and size > 1)):
            return by(SHARED, f"the same thread makes and reads it, but {size} elements are too many for its registers")
        self.held[array] = size
        if writer.reduction is not None and source.walk.sharers > 1:
            scheme = SHUFFLE if source.walk.by_row and source.walk.sharers <= WARP else REGISTER
            return by(scheme, f"all {source.walk.sharers} threads that share the reduction have its result")
        return by(REGISTER, f"the same thread makes and reads it, walking {sink.walk}")

    def _room(self) -> int:
        """Further elements that a thread can keep in registers."""
        registers = BLOCK_REGISTERS // self.parts[0].walk.threads - STITCHED_RESERVE
        return min(HELD_ELEMENTS, registers) - sum(self.held.values())

    def _at_own_point(self, array: str, number: int) -> bool:
        """Whether a part reads an array only where its own point was made."""
        _, writer = self.writers[array]
        made = self.names.place(writer, writer.write)
        readers = (*self.parts[number].statements, *self.again.get(number, ()))
        reads = ((s, a) for s in readers for a in s.reads() if a.array == array)
        return all(self.names.place(s, a) == made and not a.guards for s, a in reads)

    # Room in shared memory

    def _staged_arrays(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(h.array for h in self.found.values() if h.scheme == SHARED))

    def _spans(self, array: str) -> tuple[Span, ...]:
        _, writer = self.writers[array]
        return self.names.spans(self.names.place(writer, writer.write), self.program.arrays[array].shape)

    def _bytes(self, array: str) -> int:
        elements = self.points * math.prod(span.size for span in self._spans(array))
        return elements * DTYPES[self.program.arrays[array].dtype]

    def _peak(self) -> int:
        """The most bytes that lie in shared memory at one time: an array from its part to the last that reads it."""
        last: dict[str, int] = {}
        for hand_over in self.found.values():
            if hand_over.scheme == SHARED:
                last[hand_over.array] = max(last.get(hand_over.array, 0), hand_over.consumer)
        lives = [(self.writers[a][0], end, self._bytes(a)) for a, end in last.items()]
        # The bytes alive grow only where a part begins to store an array.
        return max((sum(b for s, e, b in lives if s <= start <= e) for start, _, _ in lives), default=0)

    def _recompute_one(self, arrays: Sequence[str]) -> bool:
        """Have the largest array that can be computed again where it is read no longer stored; whether there is one."""
        for array in sorted(arrays, key=self._bytes, reverse=True):
            readers = [h.consumer for h in self.found.values() if h.array == array and h.scheme == SHARED]
            if all(self._can_recompute(array, number) for number in readers):
                for number in readers:
                    self._recompute(array, number)
                return True
        return False

    def _can_recompute(self, array: str, number: int) -> bool:
        """Whether a part visits the points of an element-wise statement, and can have what that reads."""
        made_in, writer = self.writers[array]
        source, sink = self.parts[made_in], self.parts[number]
        same_points = {m.name for m in source.box.members} == {m.name for m in sink.box.members}
        if writer.reduction is not None or not same_points or not self._at_own_point(array, number):
            return False
        sources = [a.array for a in writer.reads() if a.array in self.writers]
        return all(
            (s, number) in self.found or self._is_there(s) or self._can_recompute_there(s, writer, number)
            for s in sources
        )

    def _is_there(self, array: str) -> bool:
        """Whether an array is small, as one value a point and what a reduction makes, or in shared memory anyway."""
        is_small = self.writers[array][1].reduction is not None or not self._spans(array)
        return is_small or array in self._staged_arrays()

    def _can_recompute_there(self, array: str, reader: Statement, number: int) -> bool:
        _, writer = self.writers[array]
        made = self.names.place(writer, writer.write)
        at_point = all(self.names.place(reader, a) == made for a in reader.reads() if a.array == array)
        return at_point and self._can_recompute(array, number)

    def _recompute(self, array: str, number: int) -> None:
        made_in, writer = self.writers[array]
        because = f"{self._bytes(array)} bytes of shared memory would leave room for fewer blocks"
        self.found[array, number] = HandOver(array, made_in, number, AGAIN, because)
        self.again.setdefault(number, []).append(writer)
        for source in dict.fromkeys(a.array for a in writer.reads() if a.array in self.writers):
            if (source, number) in self.found:
                continue
            if self._is_there(source):
                self.found[source, number] = self._compose(source, number)
            else:
                self._recompute(source, number)

    def _too_large(self) -> Unsupported:
        sizes = sorted(((self._bytes(a), a) for a in self._staged_arrays()), reverse=True)
        named = ", ".join(f"{array} {size:,} bytes" for size, array in sizes[:3])
        reason = f"a block would keep {self._peak():,} bytes in shared memory ({named}), it has {self.room:,}"
        hint = "split the group, or share fewer dimensions between its statements"
        return Unsupported("codegen", self.program.name, reason, hint)

    # Inputs that several parts read

    def _hold_inputs(self) -> None:
        """Keep in registers what several parts read at the same points, while there are any."""
        uses: dict[str, set[int]] = {}
        for number, part in enumerate(self.parts):
            for statement in (*part.statements, *self.again.get(number, ())):
                for access in statement.reads():
                    if access.array in self.program.inputs and part.is_whole:
                        uses.setdefault(access.array, set()).add(number)
        # Elements that are indices of other reads are loaded where they are looked up.
        indices = {array for statement in self.program.statements for array in looked_up(statement)}
        for array, numbers in uses.items():
            walks = {self.parts[n].walk for n in numbers}
            walk = next(iter(walks))
            size = walk.points(is_whole=True)
            fits = size <= self._room() and walk.steps * walk.chunks <= MOST_ITERATIONS
            if len(numbers) > 1 and len(walks) == 1 and fits and array not in indices:
                self.held[array] = size
