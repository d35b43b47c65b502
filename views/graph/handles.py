"""What one can point at in the graph: a launch, or an operator inside one."""

from __future__ import annotations

from dataclasses import dataclass

from views.hierarchy import GraphBox


@dataclass(frozen=True, slots=True)
class Handle:
    """A launch, "GROUP#INSTANCE", and where it is narrower one of its operators."""

    node: str
    operator: str = ""


def handle_of(box: GraphBox) -> Handle | None:
    """The launch or operator that a box stands for; None for a layer and for what no kernel computes."""
    return None if box.children or box.is_uncompiled else Handle(box.nodes[0].id, box.operator)
