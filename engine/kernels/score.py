"""How much the accesses of a group want an iterator to be innermost, in the terms of AKG's published generator.

For each access the place of the iterator in its preferred order counts, the innermost most; a write's ideal iterator
counts once more; and the iterator whose neighbours are one vector counts 3 for each of its elements, 2 more for a
write.  Iterators that score the same keep the order of the text (there: of their names).
"""

from __future__ import annotations

from collections import Counter
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
    terms = [_term(pattern, iterator, innermost) for pattern in patterns if iterator in pattern.order]
    counts = Counter(text for _, text in terms)
    shown = tuple(f"{count} x ({text})" if count > 1 else text for text, count in counts.items())
    return Score(iterator, sum(value for value, _ in terms), shown)


def _term(pattern: Pattern, iterator: str, innermost: bool) -> tuple[int, str]:
    """One access's part, and the same in words: 17, "contiguous write 2 + 1 + vector 3 x 4 + 2"."""
    value, is_ideal = len(pattern.order) - pattern.order.index(iterator), pattern.ideal == iterator
    text = f"{'contiguous ' if is_ideal else ''}{'write' if pattern.written else 'read'} {value}"
    if pattern.written and is_ideal:
        value, text = value + WRITTEN, f"{text} + {WRITTEN}"
    if innermost and is_ideal and pattern.vector > 1:
        value, text = value + VECTOR_WEIGHT * pattern.vector, f"{text} + vector {VECTOR_WEIGHT} x {pattern.vector}"
        if pattern.written:
            value, text = value + WRITTEN_VECTOR, f"{text} + {WRITTEN_VECTOR}"
    return value, text


def greedy_order(innermost: str, iterators: Sequence[str], patterns: Sequence[Pattern]) -> tuple[str, ...]:
    """All iterators, outermost first: from `innermost` outwards the best of those left, the last one among equals."""
    left = [name for name in iterators if name != innermost]
    order = [innermost]
    while left:
        best = max(reversed(left), key=lambda name: score(name, patterns, innermost=False).value)
        left.remove(best)
        order.append(best)
    return tuple(reversed(order))
