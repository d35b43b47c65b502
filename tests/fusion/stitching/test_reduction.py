"""PatternReduction on the published example, figure 4 of FusionStitching."""

from __future__ import annotations

from engine.fusion.stitching.pattern_reduction import (
    Pattern,
    ScoredPattern,
    combinations,
    of_consumers,
    pattern_reduction,
)

CONSUMERS = {8: (5, 6, 7), 5: (2,), 6: (3,), 7: (4,), 2: (1,), 3: (1,), 4: (1,), 1: ()}
"""Vertex 0, the output of the whole graph, is in no published pattern."""

CHAINS = {5: [{5, 2, 1}, {5, 2}, {5}], 6: [{6, 3, 1}, {6, 3}, {6}], 7: [{7, 4, 1}, {7, 4}, {7}]}
"""The published candidates of the consumers, here best first."""

LISTED = [
    {8}, {8, 5}, {8, 5, 2}, {8, 5, 2, 1}, {8, 6}, {8, 6, 3}, {8, 6, 3, 1}, {8, 5, 6}, {8, 5, 6, 3}, {8, 5, 6, 3, 1},
    {8, 5, 2, 6}, {8, 5, 2, 6, 3}, {8, 5, 2, 6, 3, 1}, {8, 5, 2, 1, 6}, {8, 5, 2, 1, 6, 3},
]  # fmt: skip
"""The 15 combinations of the group {5, 6} as the figure lists them (13th and 15th are one set, which leaves 14)."""

ORDER = [
    {8, 5, 2, 1, 6, 3, 7, 4}, {8, 5, 2, 1, 7, 4}, {8, 6, 3, 1, 7, 4}, {8, 5, 2, 1, 6, 3}, {8, 5, 2, 1}, {8, 6, 3, 1},
    {8, 7, 4, 1}, {8, 7, 4}, {8, 7},
]  # fmt: skip
"""The order of f that the published choices imply; f itself is not published."""


def published(pattern: Pattern) -> float:
    place = ORDER.index(set(pattern)) if pattern in ORDER else None
    return 100.0 - place if place is not None else len(pattern) / 10


def chains() -> dict[int, list[ScoredPattern]]:
    return {v: [ScoredPattern(frozenset(p), published(frozenset(p))) for p in lists] for v, lists in CHAINS.items()}


def sets(candidates: tuple[ScoredPattern, ...]) -> list[set[int]]:
    return [set(one.pattern) for one in candidates]


def test_the_candidates_of_the_consumers() -> None:
    found = pattern_reduction([1, 2, 3, 4, 5, 6, 7], CONSUMERS.__getitem__, published)
    assert {v: sets(found[v]) for v in (5, 6, 7)} == CHAINS


def test_a_group_tries_every_combination_once() -> None:
    tried = list(combinations(8, (5, 6), chains()))
    assert len(tried) == 14
    assert set(tried) == {frozenset(one) for one in LISTED}


def test_groups_and_merged_result_are_the_published_ones() -> None:
    assert sets(of_consumers(8, (5, 6), chains(), published)) == [{8, 5, 2, 1, 6, 3}, {8, 5, 2, 1}, {8, 6, 3, 1}]
    assert sets(of_consumers(8, (7,), chains(), published)) == [{8, 7, 4, 1}, {8, 7, 4}, {8, 7}]
    assert sets(of_consumers(8, (5, 6, 7), chains(), published)) == [
        {8, 5, 2, 1, 6, 3, 7, 4}, {8, 5, 2, 1, 7, 4}, {8, 6, 3, 1, 7, 4}
    ]  # fmt: skip


def test_an_illegal_pattern_is_in_no_result() -> None:
    def legal(pattern: Pattern) -> float | None:
        return None if {6, 3} <= pattern else published(pattern)

    found = of_consumers(8, (5, 6, 7), chains(), legal)
    assert found and all(not {6, 3} <= one.pattern for one in found)
