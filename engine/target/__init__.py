"""GPU descriptions: what the planner, the predictor and the compiler know about the machine a recipe is for."""

from __future__ import annotations

import re

from engine.support.errors import BadInput
from engine.target.devices import DEVICES
from engine.target.nodes import Figure, Target

DEFAULT_TARGET = "h200"
"""The GPU of a plan that asks for none."""
ARCHITECTURES = {"sm_80": ("8.0", "8.6", "8.7", "8.9"), "sm_90a": ("9.0",)}
"""Instruction sets that kernels are compiled for -> compute capabilities that run them: the text of a kernel compiles
for all of them.  Whether it can be launched on another GPU than its target is a question of shared memory, which only
the driver answers."""

__all__ = ["ARCHITECTURES", "DEFAULT_TARGET", "DEVICES", "Figure", "Target", "target", "target_of_device"]


def target(name: str) -> Target:
    """The GPU called `name` ("h200"); BadInput that lists the known names where there is none."""
    found = DEVICES.get(name.lower())
    if found is None:
        raise BadInput("target", f"target {name}", "no such GPU is described", f"known: {', '.join(DEVICES)}")
    return found


def target_of_device(title: str) -> Target | None:
    """The GPU that a driver calls `title` ("NVIDIA A100-PCIE-40GB"), None where none of it is described.

    All parts of a target's name are words of the title; of several such targets it is that of the most parts.
    """
    words = {word.removesuffix("gb") for word in re.split(r"[^a-z0-9]+", title.lower())}
    found = [device for device in DEVICES.values() if words.issuperset(device.name.split("-"))]
    return max(found, key=lambda device: device.name.count("-"), default=None)
