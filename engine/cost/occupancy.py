"""Resident blocks of a kernel on an SM."""

from __future__ import annotations

from engine.cost.nodes import Work
from engine.target import Target
from engine.target.hardware import WARP
from engine.target.occupancy import Occupancy, resident

__all__ = ["WARP", "occupancy"]


def occupancy(facts: Work, target: Target) -> Occupancy:
    """Resident blocks and warps of one SM; Unsupported when not even one block fits."""
    return resident(facts.threads, facts.shared_bytes, facts.registers, target)
