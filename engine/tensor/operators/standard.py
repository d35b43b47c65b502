"""Meanings by the ONNX project's own reference implementation, which is NumPy throughout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import helper

from engine.graph.nodes import Operator
from engine.support.errors import Unsupported


def standard(op: Operator, operands: list[np.ndarray]) -> Sequence[np.ndarray]:
    """The results of an operator of the standard, as the standard's authors compute them.

    Raises Unsupported for a form that their implementation lacks.
    """
    from onnx.reference import ReferenceEvaluator  # a slow import that most files never need

    names = [f"x{at}" if name else "" for at, name in enumerate(op.inputs)]
    results = [f"y{at}" if name else "" for at, name in enumerate(op.outputs)]
    node = helper.make_node(op.kind, names, results, **op.attributes)
    try:
        evaluator = ReferenceEvaluator(node, opsets={"": op.opset})
        feeds = {name: value for name, value in zip(names, operands, strict=True) if name}
        return [np.asarray(result) for result in evaluator.run(None, feeds)]
    except (NotImplementedError, RuntimeError) as error:
        raise Unsupported("reference", f"operator {op.name}", f"the reference does not run it: {error}") from None
