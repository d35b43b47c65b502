"""Backtracking search for one dimension: an iterator for every statement such that all of them may share a loop.

Domains are bit masks of iterators; choosing one propagates along the edges until nothing changes (arc consistency), so
that most choices follow from the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.scheduling.problem import ScheduleProblem
from engine.support.errors import OverBudget

Choice = Mapping[int, int]
"""Statement -> iterator."""


@dataclass(slots=True)
class Budget:
    """Remaining attempts of a search; bounds exponential backtracking."""

    attempts: int

    def spend(self, subject: str) -> None:
        """One attempt; OverBudget when there are none left."""
        self.attempts -= 1
        if self.attempts < 0:
            raise OverBudget("schedule", subject, "the search for a schedule takes too long", "relax some entries")


def choices(
    problem: ScheduleProblem, preferences: Mapping[int, Sequence[int]], leader: int, budget: Budget
) -> Iterator[Choice]:
    """Every way to give the statements of `preferences` one iterator each, best first.

    preferences: statement -> its allowed iterators, preferred first.  leader: the statement whose preference counts
    most.  All chosen iterators have equal extents and distance zero along every edge.
    """
    masks = {s: sum(1 << k for k in allowed) for s, allowed in preferences.items()}
    if all(masks.values()):
        order = [leader, *(s for s in preferences if s != leader)]
        yield from _branch(problem, preferences, order, 0, masks, budget)


def _branch(
    problem: ScheduleProblem,
    preferences: Mapping[int, Sequence[int]],
    order: Sequence[int],
    position: int,
    masks: dict[int, int],
    budget: Budget,
) -> Iterator[Choice]:
    while 0 < position < len(order) and masks[order[position]].bit_count() == 1:
        position += 1  # decided by what was chosen before
    if position == len(order):
        yield {s: mask.bit_length() - 1 for s, mask in masks.items()}
        return
    statement = order[position]
    for iterator in preferences[statement]:
        if not masks[statement] >> iterator & 1:
            continue
        budget.spend(problem.program.name)
        # Copy before propagation: a failed branch must leave the masks as they were.
        narrowed = dict(masks)
        narrowed[statement] = 1 << iterator
        if _equal_extents(problem, narrowed, problem.extents[statement][iterator]) and _propagate(problem, narrowed):
            yield from _branch(problem, preferences, order, position + 1, narrowed, budget)


def _equal_extents(problem: ScheduleProblem, masks: dict[int, int], extent: int) -> bool:
    """Remove iterators of other extents: a shared loop has one extent."""
    for statement, mask in masks.items():
        masks[statement] = mask & problem.sizes[statement].get(extent, 0)
        if not masks[statement]:
            return False
    return True


def _propagate(problem: ScheduleProblem, masks: dict[int, int]) -> bool:
    """Drop iterators without partner along an edge, until nothing changes; False when a statement has none left."""
    waiting = dict.fromkeys(masks)
    while waiting:
        statement, _ = waiting.popitem()  # any order ends in the same masks, as they only ever shrink
        mask = masks[statement]
        for other, partners_of in problem.links[statement]:
            if other not in masks:
                continue
            supported = 0
            for iterator, partners in enumerate(partners_of):
                if mask >> iterator & 1:
                    supported |= partners
            narrowed = masks[other] & supported
            if not narrowed:
                return False
            if narrowed != masks[other]:
                masks[other] = narrowed
                waiting[other] = None
    return True
