"""The fusion plan: disjoint groups of operators, equal ones kept once with their instances, each with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Protocol

import numpy as np

from engine.fusion.stitching.nodes import Fixed, PlanFigures, Why
from engine.graph.nodes import OperatorGraph
from engine.support.errors import BadInput
from engine.support.text_table import TitledTable
from engine.support.units import several
from engine.support.values import value
from engine.tensor.nodes import Array, TensorProgram

REGISTER, SHUFFLE, SHARED, GLOBAL, AGAIN = "register", "shuffle", "shared", "global", "recompute"
"""Schemes: how an intermediate is handed from its producer to its consumer."""


@dataclass(frozen=True, slots=True)
class Intermediate:
    """An intermediate inside a group and the scheme proposed for it."""

    producer: str
    consumer: str
    array: str
    scheme: str
    because: str


@dataclass(frozen=True, slots=True)
class TensorBlock:
    """A contiguous block of a tensor, as an array of a group's program."""

    first: int
    """Place of its first element in the tensor, row-major."""
    whole: int
    """Elements of the tensor."""


@value(frozen=True, slots=True)
class GroupInstance:
    """One occurrence of a group in the graph."""

    operators: tuple[str, ...]
    """Graph operators it covers, layout operators folded into it included."""
    arrays: Mapping[str, str]
    """Array of the group's program -> tensor of the graph."""
    statements: Mapping[str, str]
    """Statement of the group's program -> graph operator of this occurrence."""
    parts: Mapping[str, TensorBlock] = field(default_factory=dict)
    """Arrays of the group's program that are a part of their tensor; the others are all of it."""
    orders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Arrays that are stored with their tensor's axes in another order."""

    def in_storage(self, array: str, tensor: np.ndarray) -> np.ndarray:
        """A tensor's value, of the graph's shape, as an array is stored."""
        order = self.orders.get(array)
        return tensor if order is None else tensor.transpose(order)

    def view(self, array: Array, tensor: np.ndarray) -> np.ndarray:
        """What an array of the group's program is of its tensor's value as stored: no copy, in the array's shape."""
        flat = tensor.reshape(-1)
        part = self.parts.get(array.name)
        if part is not None:
            flat = flat[part.first : part.first + array.elements]
        return flat.reshape(array.shape)


@dataclass(frozen=True, slots=True)
class FusionGroup:
    """One kernel to be: a program in canonical names, and where it occurs."""

    name: str
    """Made from its title and unique in the plan, e.g. "softmax_0"."""
    title: str
    """For people: "add + softmax"."""
    kind: str
    """"element-wise", "row reduction", "column reduction", "stitched", "packed", "contraction", "attention",
    "chained products", "recurrence" or "layout"."""
    program: TensorProgram
    instances: tuple[GroupInstance, ...]
    edges: tuple[Intermediate, ...]
    because: str
    target: str
    """Name of the machine that its plan was made for."""
    numerics: Mapping[str, str] = field(default_factory=dict)
    """How its kernel rounds unless a recipe says otherwise (`tensor/numerics.py`)."""
    graph: OperatorGraph | None = field(default=None, repr=False, compare=False)
    """The graph it was cut from: where checks take inputs and expected values."""
    beside: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """Tensors that the kernels of its plan read and write: what one run of the reference keeps for all of them."""

    def __str__(self) -> str:
        places = several(len(self.instances), "place")
        return f"{self.name}: {self.title}, {self.kind}, at {places}, for {self.target}: {self.because}"


@dataclass(frozen=True, slots=True)
class Boundary:
    """A tensor that goes through global memory from one group to another, and why the two are not one kernel."""

    producer: str
    consumer: str
    tensor: str
    because: str


@value(frozen=True, slots=True)
class Launch:
    """One kernel launch of the whole graph."""

    group: str
    instance: int


class Choice(Protocol):
    """The choice of a plan's kernels."""

    def why(self, first: int, second: int) -> Why:
        """Why two launches, by their places in the plan, are not one, or what that costs."""

    def figures(self) -> PlanFigures:
        """What the kernels come to."""


@dataclass(frozen=True, slots=True)
class FusionPlan:
    """All groups, the launches in an order that respects data flow, and every boundary between groups."""

    graph: str
    policy: str
    groups: tuple[FusionGroup, ...]
    launches: tuple[Launch, ...]
    boundaries: tuple[Boundary, ...]
    unsupported: Mapping[str, str]
    """Operators that nothing runs, with the reason; those that the host runs are the graph's `host`."""
    target: str
    """Name of the machine that it was made for, and that all its groups are for."""
    numerics: Mapping[str, str] = field(default_factory=dict)
    """Those of all its groups."""
    source: OperatorGraph | None = field(default=None, repr=False, compare=False)
    """The graph itself."""
    fixed: Fixed = field(default_factory=Fixed)
    """What a person decided about groups."""
    choice: Choice | None = field(default=None, repr=False, compare=False)
    """Who chose the kernels, to be asked for reasons."""

    @property
    def without_kernel(self) -> Mapping[str, str]:
        """Operators outside every group, with the reason: what is unsupported, and what the host runs."""
        host = self.source.host if self.source else {}
        return {**self.unsupported, **{name: step.because for name, step in host.items()}}

    def group(self, name: str) -> FusionGroup:
        """The group called `name`; BadInput, with names that there are, where there is none."""
        for group in self.groups:
            if group.name == name:
                return group
        names = [group.name for group in self.groups]
        near = get_close_matches(str(name), names) or names[:8]
        raise BadInput("fuse", f"group {name}", "the plan has no such group", f"{self.graph} has {', '.join(near)}")

    def __str__(self) -> str:
        return str(self._table())

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> TitledTable:
        rows = ((group.name, group.title, group.kind, len(group.instances), group.because) for group in self.groups)
        kernels, groups = several(len(self.launches), "kernel"), several(len(self.groups), "group")
        title = f"{self.graph} for {self.target}: {kernels} of {groups}"
        return TitledTable(title, ("group", "operators", "kind", "launches>", "why"), rows, len(self.groups))
