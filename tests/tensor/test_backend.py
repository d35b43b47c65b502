"""The ONNX project's own operator tests, up to the statements: sound, and with the published results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.graph.load import load
from engine.tensor.check import check_program
from engine.tensor.evaluate import evaluate
from engine.tensor.lower import lower, unsupported_operators
from engine.tensor.operators import RULES
from tests.semantics.node_tests import ABSOLUTE, RELATIVE, Case, cases, left_open
from tests.tensor.single import values_of


def kinds() -> list[str]:
    return sorted(name.removeprefix("onnx.") for name in RULES if name.startswith("onnx."))


def expected_of(kind: str) -> list[Case]:
    """Single-node tests of an operator that are not listed as open."""
    open_ = left_open()
    return [c for c in cases().values() if not c.expanded and c.kind == kind and c.name not in open_]


@pytest.mark.parametrize("kind", kinds())
def test_statements_give_the_published_results(kind: str, tmp_path: Path) -> None:
    chosen = expected_of(kind)
    for case in chosen:
        path = tmp_path / f"{case.name}.onnx"
        path.write_bytes(case.model.SerializeToString())
        graph = load(path)
        assert unsupported_operators(graph) == {}, case.name
        program = lower(graph)
        assert check_program(program) == (), case.name
        given = {**values_of(graph), **{n: case.feeds[n].reshape(graph.tensors[n].shape) for n in graph.inputs}}
        got = evaluate(program, given)
        for output, want in case.results.items():
            assert got[output].dtype == want.dtype, case.name
            a, b = got[output].astype(np.float64), want.astype(np.float64)
            np.testing.assert_allclose(a, b, RELATIVE, ABSOLUTE, err_msg=case.name)
    if not chosen:
        pytest.skip(f"this onnx package has no test of {kind} with compiled types")


def test_an_operator_without_a_rule_is_refused_by_name(tmp_path: Path) -> None:
    node = onnx.helper.make_node("Multinomial", ["x"], ["y"], name="dice", sample_size=2)
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (3, 3))
    graph = onnx.helper.make_graph([node], "g", [value], [onnx.ValueInfoProto(name="y")])
    path = tmp_path / "dice.onnx"
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())
    assert "Multinomial" in unsupported_operators(load(path))["dice"]
    assert lower(load(path)).statements == ()
