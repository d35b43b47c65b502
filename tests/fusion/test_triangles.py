"""Masks that a graph fixes as functions of position: which values are triangles, and what reads them then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.fusion.causal_masks import triangle_of
from engine.tensor.nodes import Apply
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler


def triangle(rows: int, columns: int, shift: int, outside: float = -np.inf) -> np.ndarray:
    counts = np.arange(columns) <= np.arange(rows)[:, None] + shift
    return np.where(counts, 0.0, outside).astype(np.float32)


@pytest.mark.parametrize(("rows", "columns", "shift"), [(5, 5, 0), (5, 9, 4), (9, 5, -4), (4, 6, 1), (2, 2, 0)])
def test_its_shift_is_found(rows: int, columns: int, shift: int) -> None:
    found = triangle_of(triangle(rows, columns, shift), "float32")
    assert found is not None
    assert (found.inside.value, found.outside.value, found.shift) == (0.0, -np.inf, shift)
    stacked = triangle_of(np.stack([triangle(rows, columns, shift)] * 3), "float32")
    assert stacked == found


OTHERS = {
    "one element": np.where(np.arange(25).reshape(5, 5) == 3, 1.0, triangle(5, 5, 0)),
    "one value": np.zeros((5, 5), np.float32),
    "not a number": np.full((5, 5), np.nan),
    "two matrices": np.stack([triangle(5, 5, 0), triangle(5, 5, 1)]),
    "steps of two": np.where(np.arange(6) <= 2 * (np.arange(6)[:, None] // 2), 0.0, -1.0),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_arrays_stay(name: str) -> None:
    assert triangle_of(OTHERS[name], "float32") is None


@needs_compiler
@pytest.mark.parametrize("exporter", ["constant", "computed", "bool"])
def test_nothing_is_read_of_a_triangle(exporter: str, tmp_path: Path) -> None:
    """Its operators go where it is used; what is checked is the file's own meaning."""
    rows, columns = 70, 73  # more than loading computes by itself
    mask = triangle(rows, columns, 3)
    nodes: list[Node] = [("Add", ["x", "mask"], ["y"], {})]
    constants = {"mask": mask}
    if exporter != "constant":
        constants = {"counts": mask == 0, "zero": np.float32(0), "low": np.float32(-7)}
        nodes = [("Where", ["counts", "zero", "low"], ["mask"], {}), *nodes]
    if exporter == "bool":
        nodes = [("Where", ["counts", "x", "low"], ["y"], {})]
    inputs = {"x": ("float32", (4, rows, columns))}
    graph = engine.load(write_model(tmp_path / "m.onnx", nodes, inputs, ["y"], constants))
    (group,) = engine.fuse(graph).groups
    assert len(group.program.inputs) == 1 and len(group.instances[0].operators) == len(nodes)
    assert engine.check(engine.compile(group)).status == "pass"


def test_a_triangle_that_is_asked_for_is_made(tmp_path: Path) -> None:
    constants = {"counts": triangle(6, 9, 3) == 0, "zero": np.float32(0), "low": np.float32(-7)}
    nodes: list[Node] = [("Where", ["counts", "zero", "low"], ["mask"], {}), ("Add", ["x", "mask"], ["y"], {})]
    graph = engine.load(
        write_model(tmp_path / "m.onnx", nodes, {"x": ("float32", (4, 6, 9))}, ["y", "mask"], constants)
    )
    made = {s.write.array: s for g in engine.fuse(graph).groups for s in g.program.statements}
    assert "mask" in made and isinstance(made["y"].expression, Apply)
