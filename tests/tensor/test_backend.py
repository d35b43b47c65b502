"""The ONNX project's own operator tests (made in the process by the onnx package) for every operator in the table."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from engine.graph.load import load
from engine.graph.nodes import COMPILED_DTYPES
from engine.tensor.check import check_program
from engine.tensor.evaluate import evaluate
from engine.tensor.lower import lower, unsupported_operators
from engine.tensor.operators import RULES
from tests.tensor.single import values_of

PARAMETERS = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "Slice": (1, 2, 3, 4), "Pad": (1, 2, 3), "Squeeze": (1,),
    "Unsqueeze": (1,), "Split": (1,), "OneHot": (1,), "Dropout": (2,),
}  # fmt: skip
"""Operands that a compiler of static shapes has to know: they stand in the file here."""

REFUSED = (
    "training", "edge_pad", "reflect_pad", "wrap_pad", "maxpool_with_argmax", "averagepool_2d_ceil_last",
    "count_include_pad_is_1_ceil_mode_is_True",
)  # fmt: skip
"""Parts of names of tests for forms that are unsupported, and must say so."""


@cache
def backend_tests() -> dict[str, tuple[onnx.ModelProto, list[np.ndarray], list[np.ndarray]]]:
    """Single-node tests of operators in the table, with compiled types and no empty tensor."""
    found = {}
    with np.errstate(all="ignore"):
        tests = load_model_tests(kind="node")
    for test in tests:
        nodes = test.model.graph.node
        if len(nodes) != 1 or f"onnx.{nodes[0].op_type}" not in RULES or not _has_tensors(test.model):
            continue
        operands, results = ([np.asarray(v) for v in values] for values in test.data_sets[0])
        values = (*operands, *results)
        if all(v.dtype.name in COMPILED_DTYPES and v.size for v in values):
            found[test.name] = (test.model, operands, results)
    return found


def _has_tensors(model: onnx.ModelProto) -> bool:
    """Whether the inputs are tensors, not sequences or optionals."""
    return all(value.type.HasField("tensor_type") for value in model.graph.input)


def kinds() -> list[str]:
    return sorted(name.removeprefix("onnx.") for name in RULES if name.startswith("onnx."))


@pytest.mark.parametrize("kind", kinds())
def test_statements_give_the_published_results(kind: str, tmp_path: Path) -> None:
    """Tolerance: the project's own relative 1e-3, and 1e-5 absolute (its 1e-7 is below float32 sums)."""
    checked = 0
    for name, (model, operands, results) in backend_tests().items():
        if model.graph.node[0].op_type == kind:
            _check(name, model, operands, results, tmp_path / f"{name}.onnx")
            checked += 1
    if not checked:
        pytest.skip(f"this onnx package has no test of {kind} with compiled types")


def _check(
    name: str, model: onnx.ModelProto, operands: list[np.ndarray], results: list[np.ndarray], path: Path
) -> None:
    feeds = dict(zip([i.name for i in model.graph.input], operands, strict=True))
    path.write_bytes(_with_parameters(model, feeds).SerializeToString())
    graph = load(path)
    refused = unsupported_operators(graph)
    if any(part in name for part in REFUSED):
        assert refused, f"{name} must be refused"
        return
    assert refused == {}, name
    program = lower(graph)
    assert check_program(program) == (), name
    got = evaluate(program, {**values_of(graph), **{n: feeds[n].reshape(graph.tensors[n].shape) for n in graph.inputs}})
    for output, want in zip([o.name for o in model.graph.output], results, strict=True):
        assert got[output].dtype == want.dtype, name
        np.testing.assert_allclose(got[output].astype(np.float64), want.astype(np.float64), 1e-3, 1e-5, err_msg=name)


def _with_parameters(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> onnx.ModelProto:
    """The model with its static parameters as initializers."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    node = result.graph.node[0]
    places = PARAMETERS.get(node.op_type, (1,) if node.op_type.startswith("Reduce") else ())
    names = {node.input[at] for at in places if len(node.input) > at and node.input[at]}
    result.graph.initializer.extend(numpy_helper.from_array(feeds[name], name) for name in sorted(names))
    kept = [value for value in result.graph.input if value.name not in names]
    del result.graph.input[:]
    result.graph.input.extend(kept)
    return result


def test_an_operator_without_a_rule_is_refused_by_name(tmp_path: Path) -> None:
    node = onnx.helper.make_node("Det", ["x"], ["y"], name="determinant")
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (3, 3))
    graph = onnx.helper.make_graph([node], "g", [value], [onnx.ValueInfoProto(name="y")])
    path = tmp_path / "det.onnx"
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())
    assert "Det" in unsupported_operators(load(path))["determinant"]
    assert lower(load(path)).statements == ()
