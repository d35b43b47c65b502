"""What all items of one scene share: theme, times, selection, marks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.documents.model import GroupDoc, Time, UncompiledDoc
from views.graph.drawing import PlacedBox
from views.graph.handles import Handle, handle_of
from views.theme import Theme

MEASURED = "measured"


@dataclass(slots=True)
class SceneState:
    """What all items of one scene share; changing it and updating the scene repaints them."""

    theme: Theme
    colour_by: str = "time"
    groups: dict[str, GroupDoc] | None = None
    predicted: Mapping[str, Time] = field(default_factory=dict)
    """Group -> time of one launch."""
    measured: Mapping[str, Time] = field(default_factory=dict)
    """Of a GPU, or synthetic: each time says which."""
    predicted_where: str = ""
    measured_where: str = ""
    """Where these times come from: "NVIDIA H200, 2026-11-18"."""
    dearest: float = 1.0
    heaviest: float = 1.0
    sums: dict[str, float] = field(default_factory=dict)
    """Key of a box -> its time, as far as it was asked for."""
    selected: str = ""
    """Name of the selected group."""
    beside: Mapping[str, UncompiledDoc] = field(default_factory=dict)
    """Operators that no kernel computes, by their ids."""
    uncompiled: str = ""
    """Id of the operator without a kernel that is told about."""
    found: frozenset[str] = frozenset()
    """Groups that the search matches."""
    cursor: Handle | None = None
    """The launch or operator that commands are about."""
    edge: tuple[str, str] = ("", "")
    """Keys of the boxes at the ends of the edge that the card describes."""
    pinned: frozenset[str] = frozenset()
    """Keys of the boxes that the user keeps apart from a neighbour."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """Launch or operator -> "added", "removed" or "changed", while the model stands beside another one."""
    target: tuple[str, str] = ("", "")
    """While something is dragged: the key of the box under the pointer, and the verdict on dropping it there."""

    def group_of(self, placed: PlacedBox) -> GroupDoc | None:
        """The group of a launch's box."""
        return (self.groups or {}).get(placed.box.nodes[0].group) if not placed.box.children else None

    @property
    def shows_measured(self) -> bool:
        """Whether the nodes tell measured times."""
        return self.colour_by == MEASURED

    @property
    def times(self) -> Mapping[str, Time]:
        """The times that the nodes tell: never of two origins side by side."""
        return self.measured if self.shows_measured else self.predicted

    @property
    def origin(self) -> str:
        """Of the times that the nodes tell."""
        return next((time.origin for time in self.times.values()), MEASURED if self.shows_measured else "predicted")

    def show(self, colour_by: str) -> None:
        """What the bars show from now on."""
        self.colour_by = colour_by
        self.sums.clear()
        self.dearest = max((time.microseconds for time in self.times.values()), default=1.0) or 1.0

    def time_of(self, placed: PlacedBox) -> float:
        """Microseconds of one copy of a box; 0 where there is no time, or where a measured one would lack a part."""
        known = self.sums.get(placed.box.key)
        if known is None:
            found = [self.times.get(node.group) for node in placed.box.copy]
            whole = not self.shows_measured or all(found)
            known = sum(time.microseconds for time in found if time) if whole else 0.0
            self.sums[placed.box.key] = known
        return known

    def origin_of(self, placed: PlacedBox) -> str:
        """Of a launch's time."""
        time = self.times.get(placed.box.nodes[0].group)
        return time.origin if time else self.origin

    def is_selected(self, placed: PlacedBox) -> bool:
        """Whether the box is the selected group's, or hides it; of an operator, whether commands are about it."""
        if placed.box.operator:
            return handle_of(placed.box) == self.cursor
        if placed.box.is_uncompiled:
            return placed.box.nodes[0].id == self.uncompiled
        return self.selected in placed.box.groups and not (placed.opened and placed.box.children)

    def is_pinned(self, placed: PlacedBox) -> bool:
        """Whether the user fixed what a launch is made of, or keeps it apart from a neighbour."""
        box = placed.box
        return not box.children and not box.operator and (box.nodes[0].fixed or box.key in self.pinned)

    def is_dimmed(self, placed: PlacedBox) -> bool:
        """Whether a search is on that does not match the box."""
        return bool(self.found) and placed.box.groups.isdisjoint(self.found)
