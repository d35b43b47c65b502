"""What the roofline shows: kernels as points, one plot for each origin, all under the same roofs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """One kernel: what it does with each byte, and how fast it does it."""

    group: str
    title: str
    intensity: float
    """Operations for each byte that must move; 0 for a kernel that only moves bytes."""
    height: float
    """Operations a second; of a kernel without any, what its bytes a second are worth at the left end of the roof."""
    ghost: float | None
    """The height at the pinned baseline; None where the baseline has no time of this origin."""
    roof: float
    """The height that the GPU allows at this intensity."""
    microseconds: float
    share: float
    """Part of the model's predicted time, 0..1: what decides which names are written."""


@dataclass(frozen=True, slots=True)
class OriginPoints:
    """All points of one origin."""

    origin: str
    """ "predicted", "measured", "synthetic", or "published" of others' kernels."""
    note: str
    """Where they come from: "H200 model, uncalibrated"."""
    points: tuple[Point, ...]
    missing: int
    """Kernels of the model that have no time of this origin."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """Plots side by side on equal axes."""

    bandwidth: float
    """Bytes a second from memory."""
    ceilings: tuple[tuple[str, float], ...]
    """Name and operations a second, the lowest first: ("CUDA cores", 6.2e13)."""
    origin: str
    """Where the roofs come from."""
    left: float
    """The intensity at which the axis begins; kernels without operations stand to the left of it."""
    sides: tuple[OriginPoints, ...]
