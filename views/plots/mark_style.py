"""How marks, rules and words of a plot look.  No part of pyqtgraph is needed to say it."""

from __future__ import annotations

from dataclasses import dataclass

RADIUS = 2.8
"""Pixels."""
AROUND = "around"
"""Shape of a ring around a mark, which says nothing of an origin."""
ABOVE, BELOW, TOP, LOWER = "above", "below", "top", "lower"
"""Where the name of a rule stands, a line across a plot: over its right end or under it; or at the top of an upright
one, or where something else is at the top."""
UPRIGHT = {TOP: 0.95, LOWER: 0.83}
"""Part of the plot's height at which the name of an upright rule stands."""


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


@dataclass(frozen=True, slots=True)
class TextStyle:
    """How words of a plot look."""

    token: str
    """Colour of the theme."""
    anchor: tuple[float, float] = (0, 0.5)
    """The part of them that stands at their place; (0, 0) is the upper left corner."""
    strong: bool = False
    plate: bool = False
    """Whether they hide what is behind them."""
    under: bool = False
    """Whether marks lie over them."""
