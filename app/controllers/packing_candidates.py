"""Launches that no data flow connects with one: those that could share a launch with it, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.documents.model import EdgeDoc, NodeDoc

MOST = 8
"""Launches that are offered: those closest to the one in the order of the launches."""


def beside(nodes: Sequence[NodeDoc], edges: Iterable[EdgeDoc], name: str, most: int = MOST) -> list[NodeDoc]:
    """The launches closest to one that neither need anything of it nor feed it."""
    after: dict[str, list[str]] = {}
    before: dict[str, list[str]] = {}
    for edge in edges:
        after.setdefault(edge.source, []).append(edge.target)
        before.setdefault(edge.target, []).append(edge.source)
    connected = _reachable(name, after) | _reachable(name, before)
    place = next(n for n, node in enumerate(nodes) if node.id == name)
    free = [(abs(n - place), n) for n, node in enumerate(nodes) if node.id not in connected]
    return [nodes[n] for _, n in sorted(free)[:most]]


def _reachable(name: str, edges: dict[str, list[str]]) -> set[str]:
    """A launch and all that edges lead to from it; inputs and outputs of the graph ("") lead nowhere."""
    found: set[str] = set()
    pending = [name]
    while pending:
        at = pending.pop()
        if at and at not in found:
            found.add(at)
            pending += edges.get(at, ())
    return found
