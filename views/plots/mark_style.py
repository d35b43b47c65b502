"""How the marks of a plot look.  No part of pyqtgraph is needed to say it."""

from __future__ import annotations

from dataclasses import dataclass

RADIUS = 2.8
"""Pixels."""
AROUND = "around"
"""Shape of a ring around a mark, which says nothing of an origin."""


@dataclass(frozen=True, slots=True)
class MarkStyle:
    """How marks look."""

    token: str
    """Of the theme's colour."""
    shape: str
    """The origin that they show; AROUND for a ring around something else, which shows none."""
    radius: float = RADIUS
    back: str = ""
    """Token of what fills a ring; "" for nothing."""
    arrows: str = ""
    """Token of arrows at the upper edge that stand for marks above it; "" for none."""
    above: bool = False
    """Whether they lie over all other items."""
