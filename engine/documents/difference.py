"""Two models, or two plans of one, side by side.

Plain data like `engine/documents/model.py`, for the same reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.documents.exploration import FigureDoc
from engine.documents.model import ModelDoc

ADDED, REMOVED, CHANGED = STATES = ("added", "removed", "changed")


@dataclass(frozen=True, slots=True)
class OperatorChange:
    """An operator that only one of the models has, or that differs."""

    state: str
    """"added", "removed" or "changed"."""
    a: str
    """Its name in the first model; "" where it is added."""
    b: str
    kind: str
    """"Relu", or "Relu → Gelu"."""
    because: str
    """What differs: attributes, shape, where its inputs come from."""
    nodes: tuple[str, str]
    """The launches that cover it in both models; "" for none."""


@dataclass(frozen=True, slots=True)
class LaunchChange:
    """A launch that only one of the models has, or that covers other operators or runs otherwise."""

    state: str
    a: str
    """Id of the launch in the first model; "" where it is added."""
    b: str
    title: str
    because: str


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Launches of one pair of groups that changed alike, with the figures of one launch."""

    state: str
    a: str
    """Name of the group in the first model; "" where it is added."""
    b: str
    title: str
    launches: int
    because: str
    microseconds: tuple[float | None, float | None]
    """Predicted; None where there is no such group or no kernel."""
    bytes: tuple[int, int]
    """Moved at least."""
    entries: tuple[str, ...] = ()
    """"- AUTHOR: ENTRY" and "+ AUTHOR: ENTRY" of groups of equal statements, where both recipes are known."""
    nodes: tuple[str, str] = ("", "")
    """The first such launch in each model."""


@dataclass(frozen=True, slots=True)
class ModelDiffDoc:
    """What changes from one model to another; what is equal is only counted."""

    a: str
    """Names of the models."""
    b: str
    operators: tuple[OperatorChange, ...]
    launches: tuple[LaunchChange, ...]
    groups: tuple[GroupChange, ...]
    """The largest change of time first."""
    figures: tuple[FigureDoc, ...]
    """Of the whole models: operators, kernels, bytes, time."""
    same_operators: int
    renamed: int
    """Operators that are equal but for their names."""


@dataclass(frozen=True, slots=True)
class ModelComparisonDoc:
    """Another model beside the open one, which is the first of the difference."""

    other: ModelDoc
    difference: ModelDiffDoc
