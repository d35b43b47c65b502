"""Operators lowered by renaming the statements of equal ones, against each operator lowered alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.graph.load import load
from engine.graph.nodes import Operator, OperatorGraph
from engine.tensor.build import StatementBuilder
from engine.tensor.lower import lower_supported
from engine.tensor.nodes import Statement
from engine.tensor.operators import rule_of
from engine.tensor.rewrite import rename_statement
from tests.tensor.test_lower import graph, op

MODELS = Path(__file__).parents[2] / "resources" / "models"


def alone(g: OperatorGraph) -> list[str]:
    """The statements that each operator's rule makes; numbers left out, for unread ones are dropped later."""
    build = StatementBuilder(g)
    for each in g.operators:
        rule = rule_of(each)
        assert rule is not None
        build.operator(each, rule.lower)
    return [_text(statement) for statement in build.statements]


def lowered(g: OperatorGraph) -> list[str]:
    program, unsupported = lower_supported(g)
    assert not unsupported
    return [_text(statement) for statement in program.statements]


def _text(statement: Statement) -> str:
    return f"{statement.operator}: {str(statement).partition('[')[2]}"


def forms(g: OperatorGraph) -> int:
    """Different forms among the statements of a graph."""
    return len({id(statement.form) for statement in lower_supported(g)[0].statements})


def test_layers_are_lowered_once() -> None:
    shapes = dict.fromkeys("abcd", (4, 8))
    g = graph([op("Softmax", "a", "b", axis=-1), op("Softmax", "b", "c", axis=-1), op("Add", "c a", "d")],
              shapes, "a", "d")  # fmt: skip
    assert lowered(g) == alone(g)
    assert len(lower_supported(g)[0].statements) == 9 and forms(g) == 5
    assert "c.max" in lower_supported(g)[0].arrays


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        (op("Add", "a b", "y"), op("Add", "c d", "z"), 1),
        (op("Mul", "a a", "y"), op("Mul", "c d", "z"), 2),  # a square is another thing than a product
        (op("Mul", "a b", "y"), op("Mul", "c scalar", "z"), 2),  # a number stands in the expression
        (op("Mul", "a ones", "y"), op("Mul", "c twos", "z"), 2),
        (op("Mul", "a weights", "y"), op("Mul", "c others", "z"), 1),  # but an array of them does not
        (op("Softmax", "a", "y", axis=0), op("Softmax", "c", "z", axis=1), 8),
        (op("LeakyRelu", "a", "y", alpha=0.0), op("LeakyRelu", "c", "z", alpha=-0.0), 2),
        (op("Sub", "a row", "y"), op("Sub", "c d", "z"), 2),
        (op("Reshape", "a nshape", "y"), op("Reshape", "c nshape", "z"), 1),
    ],
)  # fmt: skip
def test_what_differs_in_names_alone_shares_its_form(first: Operator, second: Operator, shared: int) -> None:
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys("abcdyz", (4, 4))
    shapes |= {"scalar": (), "row": (4,), "ones": (1,), "twos": (1,), "nshape": (2,)}
    shapes |= {"weights": (4, 4), "others": (4, 4)}
    numbers = np.arange(16.0).reshape(4, 4)
    constants = {"scalar": 3.0, "ones": [1.0], "twos": [2.0], "nshape": [4, 4], "weights": numbers, "others": -numbers}
    g = graph([first, second], shapes, "a b c d row", "y z", **constants)
    assert lowered(g) == alone(g)
    assert forms(g) == shared


def test_a_constant_operand_is_no_input_of_the_user() -> None:
    """Of a long constant a rule may see that its indices need no wrapping; of an input it cannot."""
    shapes = {"x": (200, 3), "nmany": (100,), "nuser": (100,), "y": (100, 3), "z": (100, 3)}
    for order in ("nmany nuser", "nuser nmany"):
        first, second = order.split()
        operators = [op("Gather", f"x {first}", "y", axis=0), op("Gather", f"x {second}", "z", axis=0)]
        g = graph(operators, shapes, "x nuser", "y z", nmany=np.arange(100))
        assert lowered(g) == alone(g)


@pytest.mark.parametrize("name", sorted(path.name for path in MODELS.glob("*.onnx")))
def test_whole_models_come_out_the_same(name: str) -> None:
    g = load(MODELS / name)
    needed = set(lowered(g))
    assert needed <= set(alone(g)) and len(needed) == len(lowered(g))


def test_renamed_statements_read_under_the_new_names() -> None:
    g = graph([op("Gather", "x n", "y", axis=0)], {"x": (8, 3), "n": (5,), "y": (5, 3)}, "x n", "y")
    for statement in lower_supported(g)[0].statements:
        names = {name: f"{name}2" for name in lower_supported(g)[0].arrays}
        again = rename_statement(statement, "T", "other", names)
        assert [a.array for a in again.reads()] == [names[a.array] for a in statement.reads()]
        assert again.write.array == names[statement.write.array] and (again.name, again.operator) == ("T", "other")
        back = rename_statement(again, statement.name, statement.operator, {new: old for old, new in names.items()})
        assert back == statement


def test_a_changed_statement_has_a_form_of_its_own() -> None:
    g = graph([op("Add", "a b", "y")], dict.fromkeys("aby", (4,)), "a b", "y")
    (statement,) = lower_supported(g)[0].statements
    assert replace(statement, covers=False).form is not statement.form
