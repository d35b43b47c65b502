"""Greedy fusion against a naive reading of its rule, on random dependences and random refusals."""

from __future__ import annotations

import random
from itertools import pairwise
from types import SimpleNamespace

import networkx as nx
import pytest

from engine.scheduling.fusion import Group, partition


def naive(
    statements: list[int], weights: dict[tuple[int, int], int], order: list[tuple[int, int]], refused: set[Group]
) -> list[Group] | None:
    """Merge, look at the whole graph of groups, take back what made a cycle."""
    groups = [(s,) for s in statements]

    def graph(of: list[Group]) -> nx.DiGraph:
        home = {s: group for group in of for s in group}
        found = nx.DiGraph()
        found.add_nodes_from(of)
        found.add_edges_from((home[a], home[b]) for a, b in (*weights, *order) if home[a] != home[b])
        return found

    if not nx.is_directed_acyclic_graph(graph(groups)):
        return None
    heaviest = sorted(weights, key=lambda pair: (-weights[pair], pair))
    for a, b in (*heaviest, *pairwise(statements)):
        first, second = (next(g for g in groups if s in g) for s in (a, b))
        union = tuple(sorted(first + second))
        merged = [g for g in groups if g not in (first, second)] + [union]
        if first != second and union not in refused and nx.is_directed_acyclic_graph(graph(merged)):
            groups = merged
    return list(nx.lexicographical_topological_sort(graph(groups)))


@pytest.mark.parametrize("seed", range(60))
def test_the_same_groups_as_the_naive_reading(seed: int) -> None:
    draw = random.Random(seed)
    statements = list(range(draw.randint(1, 9)))
    pairs = [(a, b) for a in statements for b in statements if a < b]
    weights = {pair: draw.randint(1, 3) for pair in draw.sample(pairs, min(len(pairs), draw.randint(0, 12)))}
    cuts = [pair if draw.random() < 0.8 else pair[::-1] for pair in draw.sample(pairs, min(len(pairs), 2))]
    subsets = (draw.sample(statements, draw.randint(1, len(statements))) for _ in range(200))
    refused = {tuple(sorted(subset)) for subset in subsets}
    edges = {(a, b): SimpleNamespace(source=a, sink=b, weight=w) for (a, b), w in weights.items()}
    found = partition(SimpleNamespace(edges=edges), statements, cuts, lambda group: group not in refused)
    assert found == naive(statements, weights, cuts, refused)


def test_neighbours_that_hand_each_other_nothing_keep_their_parallel_loops() -> None:
    """A row's exponentials stay out of the loop that sums another row; what they hand over counts more."""
    kept = {(0,), (2,), (0, 2)}  # statement 1 has no parallel loop, and takes it from those that join it

    def groups(*edges: tuple[int, int]) -> list[tuple[int, ...]] | None:
        problem = SimpleNamespace(edges={e: SimpleNamespace(source=e[0], sink=e[1], weight=1) for e in edges})
        return partition(problem, [0, 1, 2], (), lambda group: True, lambda group: group in kept)

    assert groups() == [(0,), (1,), (2,)]
    assert groups((0, 1)) == [(0, 1), (2,)]
    assert groups((0, 1), (1, 2)) == [(0, 1, 2)]


def test_orders_that_contradict_the_dependences_have_no_groups() -> None:
    edges = {(0, 1): SimpleNamespace(source=0, sink=1, weight=1)}
    problem = SimpleNamespace(edges=edges)
    assert partition(problem, [0, 1], [(1, 0)], lambda group: True) is None
    assert partition(problem, [0, 1], [(0, 1)], lambda group: True) == [(0, 1)]
