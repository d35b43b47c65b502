"""Whether zero padding of ragged tiles leaves a sum unchanged."""

from __future__ import annotations

import numpy as np

from engine.tensor.evaluate import evaluate
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Array, Iterator, Literal, Scalar, Statement, TensorProgram, map_leaves


def adds_nothing(statement: Statement) -> bool:
    """Whether a term of a sum is 0 if every element it reads is 0.

        a * b, relu(a) * b   do;   exp(a) * exp(b), (1 / a) * b   do not
    """
    result = Access("result", (Index.of("i"),))
    term = Statement("term", statement.operator, (Iterator("i", 1),), result, _at_zeros(statement.expression))
    program = TensorProgram("term", {"result": Array("result", (1,), "float32")}, (term,), (), ("result",))
    return bool(np.all(evaluate(program, {})["result"] == 0))


def _at_zeros(value: Scalar) -> Scalar:
    """The expression with every read replaced by 0."""
    return map_leaves(value, lambda leaf: leaf if isinstance(leaf, Literal) else Literal(0.0, "float32"))
