"""Columns on a CPU: the lanes of a vector walk neighbouring columns, each of which keeps what its loops read again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler

pytestmark = needs_compiler

ROWS: dict[str, list[Node]] = {
    "softmax": [("Tanh", ["x"], ["t"], {}), ("Softmax", ["t"], ["y"], {"axis": 0})],
    "norm": [
        ("Tanh", ["x"], ["t"], {}), ("ReduceMean", ["t", "a"], ["m"], {}), ("Sub", ["t", "m"], ["d"], {}),
        ("Mul", ["d", "d"], ["q"], {}), ("ReduceSum", ["q", "a"], ["s"], {}), ("Div", ["d", "s"], ["y"], {}),
    ],
    "smallest place": [("Tanh", ["x"], ["t"], {}), ("ArgMin", ["t"], ["y"], {"axis": 0})],
    "two maps": [
        ("Tanh", ["x"], ["t"], {}), ("Exp", ["t"], ["e"], {}), ("ReduceMax", ["e", "a"], ["m"], {}),
        ("Sub", ["e", "m"], ["d"], {}), ("Mul", ["d", "t"], ["y"], {}),
    ],
}  # fmt: skip


@pytest.mark.few(6)
@pytest.mark.parametrize("shape", [(300, 17), (5, 64), (40, 131), (9, 1000)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("case", ROWS)
def test_columns_keep_what_is_computed_before_their_sums(
    case: str, dtype: str, shape: tuple[int, int], tmp_path: Path
) -> None:
    nodes = ROWS[case]
    axes = {"a": np.array([0])} if any("a" in node[1] for node in nodes) else {}
    path = write_model(tmp_path / "m.onnx", nodes, {"x": (dtype, shape)}, ["y"], axes)
    plan = engine.fuse(engine.load(path), target="cpu")
    for group in plan.groups:
        found = engine.check(engine.compile(group))
        assert found.status == "pass", found.message
