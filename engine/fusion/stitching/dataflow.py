"""The data-flow graph that the search works on; a vertex is statements that no policy separates."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.support.values import value
from engine.tensor.nodes import Statement, TensorProgram


@value(frozen=True, slots=True)
class FlowStep:
    """Statements that are always computed together."""

    statements: tuple[Statement, ...]
    """Empty for an operator without a kernel."""
    reads: frozenset[str]
    """Arrays made elsewhere."""
    made: frozenset[str]
    closed: bool = False
    """Whether nothing else may share its kernel."""


class Flow:
    """Steps in program order with who reads from whom.

    Where a step overwrites an input of the program, everyone who reads its old contents comes before it.
    """

    def __init__(self, program: TensorProgram, steps: Sequence[FlowStep]) -> None:
        self.program = program
        self.steps = tuple(steps)
        self.outputs = frozenset(program.outputs)
        self.inputs = frozenset(program.inputs)
        self.makers: dict[str, list[int]] = {}
        """Array -> the steps that write it or a part of it."""
        for n, step in enumerate(self.steps):
            for array in step.made:
                self.makers.setdefault(array, []).append(n)
        foreign = {array for step in self.steps if not step.statements for array in step.made}
        updated = self.inputs - foreign  # what an operator without a kernel makes is an input, not overwritten
        producers: list[dict[int, None]] = [{} for _ in self.steps]
        for n, step in enumerate(self.steps):
            for array in sorted([array for array in step.reads if array in self.makers]):
                for source in self.makers[array]:
                    before, after = (n, source) if array in updated else (source, n)
                    if before != after:
                        producers[after][before] = None
        self.producers = tuple(tuple(p) for p in producers)
        self.consumers = consumers_of(self.producers)
        self.order = places(self.producers, self.consumers)
        """Place of each step in an order that respects data flow, close to the program's."""

    def statements(self, members: Collection[int]) -> tuple[Statement, ...]:
        """The statements of some steps, in an order that is legal to run."""
        ordered = sorted(members, key=self.order.__getitem__)
        return tuple([s for n in ordered for s in self.steps[n].statements])


def consumers_of(producers: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """For each vertex those that it is a producer of, in order."""
    found: list[list[int]] = [[] for _ in producers]
    for n, sources in enumerate(producers):
        for source in sources:
            found[source].append(n)
    return tuple(map(tuple, found))


def places(producers: Sequence[Sequence[int]], consumers: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Place of each vertex in an order that respects data flow: depth first, so that what is made is soon used."""
    waiting = [len(p) for p in producers]
    ready = [n for n in reversed(range(len(producers))) if not waiting[n]]
    place: dict[int, int] = {}
    while ready:
        n = ready.pop()
        place[n] = len(place)
        for consumer in reversed(consumers[n]):
            waiting[consumer] -= 1
            if not waiting[consumer]:
                ready.append(consumer)
    assert len(place) == len(producers), "vertices wait for each other"
    return tuple(place[n] for n in range(len(producers)))
