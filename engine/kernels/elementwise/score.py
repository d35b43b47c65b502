"""How much the accesses of a group want an iterator to be innermost, in the terms of AKG's published generator.

For each access the place of the iterator in its preferred order counts, the innermost most; a write's ideal iterator
counts once more; and the iterator whose neighbours are one vector counts 3 for each of its elements, 2 more for a
write.  Iterators that score the same keep the order of the text (there: of their names).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.kernels.access_patterns import Pattern

VECTOR_WEIGHT, WRITTEN_VECTOR, WRITTEN = 3, 2, 1


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one iterator and the terms that it is made of."""

    iterator: str
    value: int
    terms: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.iterator} innermost: score {self.value} = {' + '.join(self.terms) or 'nothing'}"


def score(iterator: str, patterns: Sequence[Pattern], innermost: bool) -> Score:
    """The score of an iterator; `innermost` while the innermost one is being chosen, when vectors count."""
    value = 0
    terms: dict[str, int] = {}
    for pattern in patterns:
        if iterator not in pattern.order:
            continue
        place = len(pattern.order) - pattern.order.index(iterator)
        ideal = pattern.ideal == iterator
        vector = pattern.vector if innermost and ideal and pattern.vector > 1 else 0
        value += place + WRITTEN * (pattern.written and ideal)
        value += vector * VECTOR_WEIGHT + WRITTEN_VECTOR * (pattern.written and vector > 0)
        text = _term(pattern, place, ideal, vector)
        terms[text] = terms.get(text, 0) + 1
    return Score(iterator, value, tuple(f"{count} x ({text})" if count > 1 else text for text, count in terms.items()))


def _term(pattern: Pattern, place: int, ideal: bool, vector: int) -> str:
    """One access's part in words: "contiguous write 2 + 1 + vector 3 x 4 + 2"."""
    text = f"{'contiguous ' if ideal else ''}{'write' if pattern.written else 'read'} {place}"
    if pattern.written and ideal:
        text += f" + {WRITTEN}"
    if vector:
        text += f" + vector {VECTOR_WEIGHT} x {vector}" + (f" + {WRITTEN_VECTOR}" if pattern.written else "")
    return text


def greedy_order(innermost: str, iterators: Sequence[str], patterns: Sequence[Pattern]) -> tuple[str, ...]:
    """All iterators, outermost first: from `innermost` outwards the best of those left, the last one among equals."""
    left = [name for name in iterators if name != innermost]
    order = [innermost]
    while left:
        best = max(reversed(left), key=lambda name: score(name, patterns, innermost=False).value)
        left.remove(best)
        order.append(best)
    return tuple(reversed(order))
