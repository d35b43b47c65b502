"""Small graphs that our policy `xla` and XLA itself are both given.

`/path/to/python -m tests.fusion.stitching.xla_graphs xla_counts.json`, with a Python that has jax and numpy, compiles
each by XLA for the CPU and writes how many kernels it makes.  Only jax is imported then, nothing of the engine.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Node = tuple[str, list[str], list[str], dict[str, Any]]
"""(operator, inputs, outputs, attributes), as `tests.semantics.single` writes models."""
Graph = tuple[list[Node], dict[str, tuple[int, ...]], list[str]]
"""Nodes, float32 inputs, outputs."""
ROW, VECTOR = (256, 512), (512,)


def nodes(*lines: str) -> list[Node]:
    """`y = Add a b` for each node; `y = ReduceSum a @1` reduces axis 1 and keeps it."""
    found: list[Node] = []
    for line in lines:
        output, rest = line.split(" = ")
        kind, *operands = rest.split()
        attributes: dict[str, Any] = {}
        if operands[-1].startswith("@"):
            axis = int(operands.pop()[1:])
            attributes = {"axis": axis} if kind in ("Softmax", "Concat") else {"axis": axis, "keepdims": 1}
        if kind == "Transpose":
            attributes = {"perm": [1, 0]}
        found.append((kind, operands, [output], attributes))
    return found


SOFTMAX = ("m = ReduceMax x @1", "d = Sub x m", "e = Exp d", "s = ReduceSum e @1", "y = Div e s")
NORM = (
    "s = ReduceSum x @1", "u = Mul s inv", "d = Sub x u", "q = Mul d d", "v = ReduceSum q @1", "w = Mul v inv",
    "z = Add w eps", "r = Sqrt z", "n = Div d r", "g2 = Mul n g", "y = Add g2 b",
)  # fmt: skip
PARAMETERS: dict[str, tuple[int, ...]] = {"inv": (1,), "eps": (1,), "g": VECTOR, "b": VECTOR}

GRAPHS: dict[str, Graph] = {
    "chain": (nodes("a = Exp x", "b = Add a x", "y = Mul b b"), {"x": ROW}, ["y"]),
    "softmax": (nodes(*SOFTMAX), {"x": ROW}, ["y"]),
    "masked softmax": (nodes("h = Mul x0 c", "x = Add h k", *SOFTMAX), {"x0": ROW, "c": (1,), "k": VECTOR}, ["y"]),
    "layer norm": (nodes(*NORM), {"x": ROW, **PARAMETERS}, ["y"]),
    "residual layer norm": (nodes("x = Add p q0", *NORM), {"p": ROW, "q0": ROW, **PARAMETERS}, ["x", "y"]),
    "rms norm": (
        nodes("q = Mul x x", "s = ReduceSum q @1", "w = Mul s inv", "z = Add w eps", "r = Sqrt z", "n = Div x r",
              "y = Mul n g"),
        {"x": ROW, "inv": (1,), "eps": (1,), "g": VECTOR}, ["y"],
    ),
    "log softmax": (
        nodes("m = ReduceMax x @1", "d = Sub x m", "e = Exp d", "s = ReduceSum e @1", "l = Log s", "y = Sub d l"),
        {"x": ROW}, ["y"],
    ),
    "a reduction and its prologue": (nodes("a = Add x k", "b = Mul a a", "y = ReduceSum b @1"),
                                     {"x": ROW, "k": ROW}, ["y"]),
    "columns": (nodes("a = Mul x x", "y = ReduceSum a @0"), {"x": ROW}, ["y"]),
    "cheap for two": (nodes("a = Add x k", "y = ReduceSum a @1", "z = ReduceMax a @0"), {"x": ROW, "k": ROW},
                      ["y", "z"]),
    "scalar of everything": (nodes("a = Mul x x", "r = ReduceSum a @1", "s = ReduceSum r @0", "y = Div x s"),
                             {"x": ROW}, ["y"]),
    "transposed": (nodes("a = Add x k", "t = Transpose a", "y = Mul t t"), {"x": ROW, "k": ROW}, ["y"]),
    "two results": (nodes("a = Add x k", "y = Mul a a", "z = Sub a k"), {"x": ROW, "k": ROW}, ["y", "z"]),
    "a product between": (
        nodes("a = Add x k", "p = MatMul a w", "m = ReduceMax p @1", "d = Sub p m", "e = Exp d", "s = ReduceSum e @1",
              "y = Div e s"),
        {"x": ROW, "k": VECTOR, "w": (512, 512)}, ["y"],
    ),
}  # fmt: skip


def counted() -> dict[str, Any]:
    """XLA's kernels for each graph: everything that its program runs but products."""
    import jax
    import numpy as np
    from jax import numpy as jnp

    functions: dict[str, Callable[..., Any]] = {
        "Add": jnp.add, "Sub": jnp.subtract, "Mul": jnp.multiply, "Div": jnp.divide, "Exp": jnp.exp, "Sqrt": jnp.sqrt,
        "Log": jnp.log, "MatMul": jnp.matmul, "Transpose": jnp.transpose,
        "ReduceSum": lambda v, axis: jnp.sum(v, axis=axis, keepdims=True),
        "ReduceMax": lambda v, axis: jnp.max(v, axis=axis, keepdims=True),
    }  # fmt: skip
    found: dict[str, Any] = {}
    for name, (body, inputs, outputs) in GRAPHS.items():

        def run(values: dict[str, Any], body: list[Node] = body, outputs: list[str] = outputs) -> list[Any]:
            for kind, operands, (output,), attributes in body:
                more = {"axis": attributes["axis"]} if "axis" in attributes else {}
                values = {**values, output: functions[kind](*(values[o] for o in operands), **more)}
            return [values[output] for output in outputs]

        given = {key: np.ones(shape, np.float32) for key, shape in inputs.items()}
        text = jax.jit(run).lower(given).compile().as_text()
        found[name] = {"kernels": len(kernels(text)), "instructions": kernels(text)}
    return {"jax": jax.__version__, "backend": jax.default_backend(), "graphs": found}


def kernels(text: str) -> list[str]:
    """The instructions of the entry computation that compute or move something, products left out."""
    entry = text[text.index("\nENTRY ") :]
    body = entry[: entry.index("\n}")].splitlines()[1:]
    free = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "dot"}
    found = []
    for line in body:
        match = re.search(r"(%[\w.\-]+) = .*?([\w\-]+)\(", line.strip().removeprefix("ROOT "))
        if match and match[2] not in free and "__onednn$matmul" not in line and "dot" not in match[1]:
            found.append(f"{match[2]} {match[1]}")
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(counted(), indent=1) + "\n", encoding="utf-8")
