"""GPU descriptions: what the planner, the predictor and the compiler know about the machine a recipe is for."""

from __future__ import annotations

from engine.support.errors import BadInput
from engine.target.devices import DEVICES
from engine.target.nodes import Figure, Target

DEFAULT_TARGET = "h200"
"""The GPU of a plan that asks for none."""

__all__ = ["DEFAULT_TARGET", "DEVICES", "Figure", "Target", "target"]


def target(name: str) -> Target:
    """The GPU called `name` ("h200"); BadInput that lists the known names where there is none."""
    found = DEVICES.get(name.lower())
    if found is None:
        raise BadInput("target", f"target {name}", "no such GPU is described", f"known: {', '.join(DEVICES)}")
    return found
