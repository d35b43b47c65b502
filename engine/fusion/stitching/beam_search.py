"""Plans: sets of disjoint patterns, found by a beam search from producers to consumers (section 5.3 of the paper)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.fusion.stitching.pattern_reduction import ScoredPattern

WIDTH = 3
"""Plans kept at each step."""


@dataclass(frozen=True, slots=True)
class _PatternPlan:
    """A plan while it grows; the last pattern chosen, and the plan before it."""

    score: float
    covered: int
    """The vertices of its patterns, as bits."""
    last: ScoredPattern | None = None
    before: _PatternPlan | None = None

    def patterns(self) -> tuple[ScoredPattern, ...]:
        """All patterns, in the order in which they were chosen."""
        found: list[ScoredPattern] = []
        plan: _PatternPlan | None = self
        while plan is not None and plan.last is not None:
            found.append(plan.last)
            plan = plan.before
        return tuple(reversed(found))


def plans(
    vertices: Iterable[int], candidates: Mapping[int, Sequence[ScoredPattern]]
) -> list[tuple[ScoredPattern, ...]]:
    """The best plans, best first.  vertices: producers before consumers.  Patterns that save nothing are left out."""
    kept = [_PatternPlan(0.0, 0)]
    for vertex in vertices:
        grown = list(kept)
        for one in candidates[vertex]:
            if len(one.pattern) < 2 or one.score <= 0:
                continue
            bits = sum(1 << n for n in one.pattern)
            grown += [
                _PatternPlan(plan.score + one.score, plan.covered | bits, one, plan)
                for plan in kept
                if not plan.covered & bits
            ]
        # Of plans that cover the same vertices only the best can win: what follows depends on the vertices alone.
        distinct = {plan.covered: plan for plan in sorted(grown, key=lambda p: p.score)}
        kept = sorted(distinct.values(), key=lambda p: -p.score)[:WIDTH]
    return [plan.patterns() for plan in kept]
