"""Which operators of two models are the same.

Operators are aligned like the lines of two texts, in their topological order, by what they are: kind, attributes and
shape, with those of their neighbours; in the gaps that this leaves without the neighbours, then by kind and the kinds
of neighbours alone. So an operator that is inserted changes nothing about those around it, and the layers of a
network, which all look alike, keep their order. Whether equal names come before all that is tried both ways, for an
exporter may number all operators anew behind one that is inserted: the way that leaves fewer differences holds, in
doubt that of names.

What is still alone is matched from its neighbours: the same input or the same reader of paired operators, with equal
kinds; then by name and kind; last by standing between the same operators, in place of another kind.

Values of constants are not in the documents and are not compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from engine.documents.model import ModelDoc, OperatorDoc, launch_of_operators

OUTSIDE = -1
"""Producer of what is no operator's output: a graph input or a constant."""
RADIUS = 2
"""Edges to the neighbours that are looked at."""


class OperatorIndex:
    """The operators of a model by number, with their neighbours."""

    def __init__(self, model: ModelDoc) -> None:
        self.operators = model.operators
        self._launches = launch_of_operators(model)
        producer = {tensor: number for number, op in enumerate(self.operators) for tensor in op.outputs}
        self.inputs = [tuple(producer.get(tensor, OUTSIDE) for tensor in op.inputs) for op in self.operators]
        """Of each operator: the operators that its inputs come from."""
        self.readers: list[list[tuple[int, int]]] = [[] for _ in self.operators]
        """Of each operator: (reader, number of the reader's input)."""
        for number, sources in enumerate(self.inputs):
            for slot, source in enumerate(sources):
                if source != OUTSIDE:
                    self.readers[source].append((number, slot))

    def launch_of(self, operator: OperatorDoc) -> str:
        """Id of the launch that computes an operator, or ""."""
        launch = self._launches.get(operator.name)
        return launch.id if launch else ""

    def own(self) -> list[Hashable]:
        """What each operator is, without its name and its neighbours."""
        return [(op.kind, op.attributes, op.shape) for op in self.operators]

    def names_and_own(self) -> list[Hashable]:
        """What each operator is, with its name."""
        return [(op.name, own) for op, own in zip(self.operators, self.own(), strict=True)]

    def own_around(self) -> list[Hashable]:
        """What each operator and its neighbours are."""
        return self._around(self.own())

    def kinds_around(self) -> list[Hashable]:
        """The kinds of each operator and its neighbours."""
        return self._around([op.kind for op in self.operators])

    def _around(self, tokens: Sequence[Hashable]) -> list[Hashable]:
        """The token of each operator with those of everything within `RADIUS` edges of it."""
        known = [hash(each) for each in tokens]
        for _ in range(RADIUS):
            known = [
                hash((
                    known[number],
                    tuple(known[source] if source != OUTSIDE else OUTSIDE for source in self.inputs[number]),
                    tuple(sorted((known[reader], slot) for reader, slot in self.readers[number])),
                ))
                for number in range(len(known))
            ]  # fmt: skip
        return list(known)


class Matching:
    """Pairs of equal operators of two models, each in one pair at most.

    by_name: whether equal names are paired before equal surroundings.
    """

    def __init__(self, a: OperatorIndex, b: OperatorIndex, by_name: bool) -> None:
        self.a, self.b = a, b
        self.to_b: dict[int, int] = {}
        self.to_a: dict[int, int] = {}
        stages = [OperatorIndex.names_and_own, OperatorIndex.own_around] if by_name else [OperatorIndex.own_around]
        for tokens in (*stages, OperatorIndex.own, OperatorIndex.kinds_around):
            self._align(tokens(self.a), tokens(self.b))
        self._follow_edges(list(self.to_b))
        self._pair_alike(lambda side, number: (side.operators[number].name, side.operators[number].kind))
        self._pair_alike(self._surroundings)
        self._follow_edges(list(self.to_b))

    def _pair(self, x: int, y: int) -> None:
        self.to_b[x], self.to_a[y] = y, x

    def _align(self, a: Sequence[Hashable], b: Sequence[Hashable]) -> None:
        """Pair equal tokens in the gaps between pairs, in order."""
        for xs, ys in self._gaps():
            matcher = SequenceMatcher(None, [a[x] for x in xs], [b[y] for y in ys], autojunk=False)
            for start, begin, size in matcher.get_matching_blocks():
                for x, y in zip(xs[start : start + size], ys[begin : begin + size], strict=True):
                    self._pair(x, y)

    def _gaps(self) -> Iterator[tuple[list[int], list[int]]]:
        """Runs of operators without partners between pairs that stand in order, as far as both sides have some."""
        bounds = [*_increasing(self.to_b), (len(self.a.operators), len(self.b.operators))]
        x_from = y_from = 0
        for x, y in bounds:
            xs = [each for each in range(x_from, x) if each not in self.to_b]
            ys = [each for each in range(y_from, y) if each not in self.to_a]
            x_from, y_from = x + 1, y + 1
            if xs and ys:
                yield xs, ys

    def _follow_edges(self, waiting: list[int]) -> None:
        """Pair inputs and readers of equal operators that are of one kind and have no partner yet."""
        while waiting:
            x = waiting.pop()
            y = self.to_b[x]
            inputs = zip(self.a.inputs[x], self.b.inputs[y], strict=False)
            for p, q in (*inputs, *_same_slots(self.a.readers[x], self.b.readers[y])):
                alone = OUTSIDE not in (p, q) and p not in self.to_b and q not in self.to_a
                if alone and self.a.operators[p].kind == self.b.operators[q].kind:
                    self._pair(p, q)
                    waiting.append(p)

    def _pair_alike(self, key: Callable[[OperatorIndex, int], Hashable]) -> None:
        """Pair operators without partners whose key is not None and occurs once on each side."""
        sides: list[dict[Hashable, int]] = []
        for side, partners in ((self.a, self.to_b), (self.b, self.to_a)):
            keys = {number: key(side, number) for number in range(len(side.operators)) if number not in partners}
            counts = Counter(keys.values())
            sides.append({each: number for number, each in keys.items() if each is not None and counts[each] == 1})
        for each, x in sides[0].items():
            if each in sides[1]:
                self._pair(x, sides[1][each])

    def _surroundings(self, side: OperatorIndex, number: int) -> Hashable:
        """Paired inputs and readers of an operator, as numbers of the first model; None without any of either."""
        partners: Mapping[int, int] = self.to_a if side is self.b else {x: x for x in self.to_b}
        sources = tuple(partners.get(source, OUTSIDE) for source in side.inputs[number])
        readers = frozenset(partners[reader] for reader, _ in side.readers[number] if reader in partners)
        return (sources, readers) if readers or set(sources) != {OUTSIDE} else None


def _increasing(pairs: Mapping[int, int]) -> list[tuple[int, int]]:
    """Pairs in the order of both sides; one that runs against those before it is left out."""
    kept: list[tuple[int, int]] = []
    for x in sorted(pairs):
        if not kept or pairs[x] > kept[-1][1]:
            kept.append((x, pairs[x]))
    return kept


def _same_slots(a: Sequence[tuple[int, int]], b: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Readers of two operators by the number of the input at which they read, where that tells them apart."""
    by_slot: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for place, readers in enumerate((a, b)):
        for reader, slot in readers:
            by_slot[slot][place].append(reader)
    for left, right in by_slot.values():
        if len(left) == len(right) == 1:
            yield left[0], right[0]


def input_changes(matching: Matching, x: int, y: int) -> Iterator[str]:
    """Where inputs of a pair come from other operators, in words."""
    before, after = matching.a.inputs[x], matching.b.inputs[y]
    if len(before) != len(after):
        yield f"{len(before)} inputs → {len(after)}"
        return
    for slot, (p, q) in enumerate(zip(before, after, strict=True)):
        if matching.to_b.get(p, OUTSIDE) != q or (p == OUTSIDE) != (q == OUTSIDE):
            old, new = _source(matching.a.operators, p), _source(matching.b.operators, q)
            yield f"input {slot} from {old} → {new}"


def _source(operators: Sequence[OperatorDoc], number: int) -> str:
    return "outside" if number == OUTSIDE else operators[number].name
