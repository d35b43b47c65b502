"""What is found once for statements that differ in names alone, against everything found for each by itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.compilation import default_microseconds
from engine.fusion.operator_folding import fold_layouts
from engine.fusion.partition import FusionRequest
from engine.fusion.plan import plan
from engine.fusion.stitching.nodes import POLICIES
from engine.graph.load import load
from engine.graph.nodes import Operator, OperatorGraph
from engine.target import target
from engine.tensor.lower import lower, lower_supported
from engine.tensor.nodes import TensorProgram
from tests.support.sentinels import shipped_models
from tests.tensor.test_lower import graph, op


def apart(program: TensorProgram) -> TensorProgram:
    """The same program, no two statements of one form."""
    return replace(program, statements=tuple(replace(s) for s in program.statements))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("path", shipped_models("jacobi"))
def test_plans_do_not_depend_on_what_is_shared(path: Path, policy: str) -> None:
    g = load(path)
    program, unsupported = lower_supported(g)
    h200 = target("h200")
    request = FusionRequest(policy, h200, default_microseconds)
    made = [plan(g, one, unsupported, request) for one in (program, apart(program))]
    assert made[0] == made[1]


TURNED = op("Transpose", "a", "t", perm=(1, 0)), op("Transpose", "b", "u", perm=(1, 0))
SAME = op("Transpose", "a", "t", perm=(1, 0)), op("Transpose", "a", "u", perm=(1, 0))
ONE = op("Transpose", "a", "t", perm=(1, 0)), op("Transpose", "b", "u", perm=(0, 1))


@pytest.mark.parametrize(
    ("views", "readers", "shared"),
    [
        (TURNED, [op("Exp", "t", "y"), op("Exp", "u", "z")], True),
        (SAME, [op("Exp", "t", "y"), op("Exp", "u", "z")], True),
        (ONE, [op("Exp", "t", "y"), op("Exp", "u", "z")], False),  # one is turned, the other is not
        (TURNED, [op("Add", "t a", "y"), op("Add", "u a", "z")], False),  # an array and itself turned; two arrays
        (TURNED, [op("Add", "t a", "y"), op("Add", "u b", "z")], True),
        (TURNED, [op("Add", "t u", "y"), op("Add", "u t", "z")], True),
        (TURNED, [op("Mul", "t half", "y"), op("Mul", "u half", "z")], True),
        (TURNED, [op("Mul", "t half", "y"), op("Mul", "u third", "z")], False),
    ],
)
def test_reads_through_views_alike_are_found_once(
    views: tuple[Operator, ...], readers: list[Operator], shared: bool
) -> None:
    g = _graph([*views, *readers])
    program = lower(g)
    folded = fold_layouts(program, g.constants)
    alone = fold_layouts(apart(program), g.constants)
    assert str(folded.program) == str(alone.program) and folded.absorbed == alone.absorbed
    first, second = folded.program.statements[-2:]
    assert (first.form is second.form) == shared


def _graph(operators: list[Operator]) -> OperatorGraph:
    shapes: dict[str, tuple[int, ...]] = {**dict.fromkeys("abtuyz", (4, 4)), "half": (), "third": ()}
    return graph(operators, shapes, "a b", "y z", half=0.5, third=1 / 3)
