"""Recurrent layers whose steps take one launch, in which all blocks meet."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

import engine
from tests.semantics.single import Node, write_model

FOLDER = tempfile.TemporaryDirectory()
"""Of the models, which are read again when their values are made."""
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclass(frozen=True)
class Layer:
    """A recurrent layer; its weights are small, so that states do not saturate."""

    kind: str
    hidden: int = 96
    steps: int = 6
    batch: int = 2
    size: int = 16
    directions: int = 1
    attributes: tuple[tuple[str, object], ...] = field(default=())

    @property
    def title(self) -> str:
        """What it is, for the names of tests."""
        attributes = (f"{name} {value}" for name, value in self.attributes)
        return " ".join((self.kind, *attributes))

    def model(self) -> Path:
        """Its file."""
        gates, draw = GATES[self.kind] * self.hidden, np.random.default_rng(0)
        weights = {
            "w": draw.normal(0, 0.2, (self.directions, gates, self.size)),
            "r": draw.normal(0, 0.2, (self.directions, gates, self.hidden)),
        }
        constants = {name: value.astype(np.float32) for name, value in weights.items()}
        attributes: Mapping[str, object] = {"hidden_size": self.hidden, **dict(self.attributes)}
        nodes: list[Node] = [(self.kind, ["x", "w", "r"], ["y"], attributes)]
        inputs = {"x": ("float32", (self.steps, self.batch, self.size))}
        folder = Path(FOLDER.name)
        return write_model(folder / f"{len([*folder.iterdir()])}.onnx", nodes, inputs, ["y"], constants)


LSTM = Layer("LSTM")
GRU = Layer("GRU", attributes=(("linear_before_reset", 1),))
LAYERS = (
    LSTM,
    GRU,
    Layer("GRU", 128, 4, attributes=(("linear_before_reset", 0),)),
    Layer("RNN", 160),
    Layer("LSTM", directions=2, attributes=(("direction", "bidirectional"),)),
)
UNEVEN = Layer("GRU", 200, 3, 3, directions=2, attributes=(("direction", "bidirectional"),))
"""Gates and candidates have other numbers of points, and of blocks."""


@lru_cache
def graph_of(layer: Layer) -> engine.OperatorGraph:
    return engine.load(layer.model())


@lru_cache
def plan_of(layer: Layer, target: str) -> engine.FusionPlan:
    return engine.fuse(graph_of(layer), target=target)


def group_of(layer: Layer, target: str = "a100") -> engine.FusionGroup:
    """The one group of several steps."""
    (group,) = (one for one in plan_of(layer, target).groups if one.kind == "recurrence")
    return group


@lru_cache
def kernel_of(layer: Layer, target: str = "a100") -> engine.Kernel:
    """Under its advice."""
    kernel = engine.compile(group_of(layer, target))
    assert isinstance(kernel, engine.Kernel)
    return kernel
