"""Which inputs are drawn positive, so that roots and logarithms of a graph are defined; and which stay as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.reference import always_positive, input_values, reference_values
from engine.graph.nodes import OperatorGraph
from tests.semantics.single import Node, write_model

HALF, TWO, SMALL = (np.array(value, np.float32) for value in (0.5, 2.0, 0.001))
ADAM: list[Node] = [
    ("Mul", ["v", "b"], ["old"], {}), ("Mul", ["g", "c"], ["part"], {}), ("Mul", ["part", "g"], ["new"], {}),
    ("Add", ["old", "new"], ["sum"], {}), ("Sqrt", ["sum"], ["y"], {}),
]  # fmt: skip
CASES: dict[str, tuple[list[Node], set[str]]] = {
    "an optimiser's state": (ADAM, {"v"}),
    "a square": ([("Mul", ["g", "g"], ["s"], {}), ("Sqrt", ["s"], ["y"], {})], set()),
    "an even power": ([("Pow", ["g", "two"], ["s"], {}), ("Sqrt", ["s"], ["y"], {})], set()),
    "a whole power": ([("Pow", ["g", "two"], ["y"], {})], set()),
    "a broken power": ([("Pow", ["v", "b"], ["y"], {})], {"v"}),
    "a difference": ([("Sub", ["g", "v"], ["s"], {}), ("Log", ["s"], ["y"], {})], set()),
    "a quotient of both": ([("Div", ["g", "v"], ["s"], {}), ("Log", ["s"], ["y"], {})], {"g", "v"}),
    "the larger one": ([("Max", ["g", "b"], ["s"], {}), ("Sqrt", ["s"], ["y"], {})], set()),
    "from 0.5 on": ([("Clip", ["g", "b"], ["s"], {}), ("Sqrt", ["s"], ["y"], {})], set()),
    "up to 0.5": ([("Clip", ["v", "", "b"], ["s"], {}), ("Sqrt", ["s"], ["y"], {})], {"v"}),
    "turned": ([("Transpose", ["v"], ["s"], {"perm": [1, 0]}), ("Sqrt", ["s"], ["y"], {})], {"v"}),
}  # fmt: skip


def graph(folder: Path, nodes: list[Node]) -> OperatorGraph:
    inputs = {name: ("float32", (8, 8)) for name in "gv" if any(name in node[1] for node in nodes)}
    constants = {"b": HALF, "c": SMALL, "two": TWO}
    used = {name: value for name, value in constants.items() if any(name in node[1] for node in nodes)}
    return engine.load(write_model(folder / "model.onnx", nodes, inputs, ["y"], used))


@pytest.mark.parametrize("case", CASES)
def test_inputs_whose_sign_decides(case: str, tmp_path: Path) -> None:
    nodes, wanted = CASES[case]
    assert always_positive(graph(tmp_path, nodes)) == wanted


def test_the_reference_of_a_training_step_is_defined_and_its_gradient_has_both_signs(tmp_path: Path) -> None:
    found = graph(tmp_path, ADAM)
    given = input_values(found)
    assert given["v"].min() >= 0.5 and given["g"].min() < 0 < given["g"].max()
    assert np.isfinite(reference_values(found, wanted=["y"])["y"]).all()


def test_a_root_of_a_difference_is_still_told(tmp_path: Path) -> None:
    found = graph(tmp_path, [("Sub", ["g", "v"], ["s"], {}), ("Sqrt", ["s"], ["y"], {})])
    with pytest.raises(engine.BadInput, match="of y is not finite"):
        reference_values(found, wanted=["y"])
