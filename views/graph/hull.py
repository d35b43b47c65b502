"""The inside of a launch: its operators as boxes, what one hands to another as edges of a scheme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.documents.model import LinkDoc, ModelDoc, NodeDoc
from views.graph.layout import Edge, LevelLayout, Size, lay_out_layers
from views.hierarchy import GraphBox

OPERATOR = Size(196.0, 28.0)
NARROW = Size(148.0, 28.0)


class Inside:
    """The operators of a model's launches, as boxes, worked out for those that are opened."""

    def __init__(self, model: ModelDoc) -> None:
        self._links: dict[str, list[LinkDoc]] = {}
        for link in model.links:
            self._links.setdefault(link.node, []).append(link)
        self._kinds = {operator.name: operator.kind for operator in model.operators}

    def boxes(self, box: GraphBox) -> tuple[GraphBox, ...]:
        """The operators of a launch in the order in which they run; those that are folded away are left out."""
        node = box.nodes[0]
        linked = {name for link in self._links.get(node.id, ()) for name in (link.producer, link.consumer)}
        shown = [name for name in node.operators if name in linked] or list(node.operators[-1:])
        return tuple(self._box(node, name) for name in shown)

    def links(self, box: GraphBox) -> Mapping[Edge, tuple[LinkDoc, ...]]:
        """What the operators hand over, by the keys of their boxes."""
        node, found = box.nodes[0], dict[Edge, list[LinkDoc]]()
        for link in self._links.get(node.id, ()):
            found.setdefault((_key(node, link.producer), _key(node, link.consumer)), []).append(link)
        return {edge: tuple(links) for edge, links in found.items()}

    def _box(self, node: NodeDoc, operator: str) -> GraphBox:
        title = self._kinds.get(operator, operator)
        return GraphBox(_key(node, operator), title, (), (node,), frozenset((node.group,)), 1, operator)


def placed_inside(boxes: Sequence[GraphBox], links: Mapping[Edge, tuple[LinkDoc, ...]]) -> tuple[LevelLayout, Size]:
    """Where the operators stand, and the size of each."""
    size = OPERATOR
    plan = lay_out_layers({box.key: size for box in boxes}, links)
    if plan.columns > 1:
        size = NARROW
        plan = lay_out_layers({box.key: size for box in boxes}, links)
    return plan, size


def _key(node: NodeDoc, operator: str) -> str:
    return f"{node.id}/{operator}"
