"""What the panels need of a model besides its document; worked out on a thread, for large models take their time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.documents.model import ModelDoc, UncompiledDoc
from views.graph.drawing import Drawing, GraphDrawing, first_open
from views.hierarchy import boxes
from views.outline.rows import outline, timed_rows
from views.rows import TreeRow
from views.search.index import SearchIndex


@dataclass(frozen=True, slots=True, eq=False)
class Overview:
    """A model with its outline and its graph as they are shown first."""

    model: ModelDoc
    rows: tuple[TreeRow, ...]
    plan: GraphDrawing
    opened: frozenset[str]
    """Keys of the boxes that start open."""
    drawing: Drawing
    index: SearchIndex
    beside: Mapping[str, UncompiledDoc]
    """Node -> the operator that no kernel computes."""


def overview(model: ModelDoc) -> Overview:
    """The overview of a model."""
    top = boxes(model)
    plan, opened = GraphDrawing(model, top), first_open(model, top)
    beside = {each.id: each for each in model.uncompiled}
    return Overview(model, outline(model, top), plan, opened, plan.draw(opened), SearchIndex(model), beside)


def with_times(known: Overview, model: ModelDoc) -> Overview:
    """The overview at other times of the same model's kernels; its index, which a search may be using, follows."""
    known.index.show_times(model)
    return replace(known, model=model, rows=timed_rows(known.rows, model))
