"""Few bytes of an ONNX model that ask for much."""

from __future__ import annotations

from random import Random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.onnx_parts import graph_of, tensor_names


def grow(model: onnx.ModelProto, random: Random) -> None:
    """Few bytes that ask for much: long chains, wide operators, many outputs, long sequences, huge fills."""
    names = [v.name for v in model.graph.input] or tensor_names(model)
    random.choice(GROWTHS)(model, random.choice(names), random)


def _constant(model: onnx.ModelProto, *values: int) -> str:
    name = f"grown{len(model.graph.initializer)}"
    model.graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))
    return name


def _append(model: onnx.ModelProto, kind: str, inputs: list[str], **attributes: object) -> str:
    name = f"grown_{len(model.graph.node)}"
    model.graph.node.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
    return name


def _out(model: onnx.ModelProto, name: str) -> None:
    model.graph.output.add(name=name)


def _chain(model: onnx.ModelProto, x: str, random: Random) -> None:
    for _ in range(random.choice((5, 50, 300))):
        x = _append(model, random.choice(("Relu", "Tanh", "Neg", "Exp")), [x])
    _out(model, x)


def _doubling(model: onnx.ModelProto, x: str, random: Random) -> None:
    """x + x of x + x ...: text that doubles with each where it is written out."""
    for _ in range(random.choice((8, 30, 90))):
        x = _append(model, random.choice(("Add", "Mul", "Max")), [x, x])
    _out(model, x)


def _reshaping(model: onnx.ModelProto, x: str, random: Random) -> None:
    flat = _append(model, "Reshape", [x, _constant(model, -1)])
    x = _append(model, "Expand", [_append(model, "ReduceSum", [flat]), _constant(model, 6, 35)])
    shapes = [(10, 21), (14, 15), (3, 70), (5, 42), (2, 3, 35), (7, 5, 6), (2, 7, 3, 5)]
    for _ in range(random.choice((4, 20, 80))):
        shape = random.choice(shapes)
        x = _append(model, "Reshape", [x, _constant(model, *shape)])
        x = _append(model, "Transpose", [x], perm=random.sample(range(len(shape)), len(shape)))
        if random.random() < 0.2:
            x = _append(model, "Relu", [x])
    _out(model, x)


def _wide(model: onnx.ModelProto, x: str, random: Random) -> None:
    count = random.choice((100, 1000, 3000))
    if random.random() < 0.5:
        _out(model, _append(model, "Concat", [x] * count, axis=0))
    else:
        _out(model, _append(model, random.choice(("Sum", "Max", "Mean")), [x] * count))


def _outputs(model: onnx.ModelProto, x: str, random: Random) -> None:
    for _ in range(random.choice((50, 500, 2000))):
        _out(model, _append(model, "Relu", [x]))


def _huge(model: onnx.ModelProto, x: str, random: Random) -> None:
    many = random.choice((10**5, 10**7, 10**9, 2**31, 10**12))
    match random.randrange(4):
        case 0:
            ends = [_constant(model, value) for value in (0, many, random.choice((1, 1, 0, -1)))]
            scalars = [_append(model, "Squeeze", [end]) for end in ends]
            x = _append(model, "Range", scalars)
        case 1:
            x = _append(model, "Tile", [_append(model, "Reshape", [x, _constant(model, -1)]), _constant(model, many)])
        case 2:
            x = _append(model, "ConstantOfShape", [_constant(model, many, random.choice((1, 7)))])
        case _:
            x = _append(model, "Expand", [x, _constant(model, many, *[1] * random.randrange(6))])
    _out(model, _append(model, random.choice(("Identity", "Shape", "ReduceSum", "CumSum")), [x]))


def _steps(model: onnx.ModelProto, x: str, random: Random) -> None:
    steps = random.choice((5, 100, 1000, 5000, 20_000))
    flat = _append(model, "ReduceSum", [_append(model, "Reshape", [x, _constant(model, -1)])])
    if random.random() < 0.5:
        x = _append(model, "Expand", [flat, _constant(model, steps, 1, 4)])
        weights = [_append(model, "ConstantOfShape", [_constant(model, 1, 8, width)]) for width in (4, 2)]
        _out(model, _append(model, "LSTM", [x, *weights], hidden_size=2))
        return
    x = _append(model, "Expand", [flat, _constant(model, steps, 2)])
    state = _append(model, "Expand", [flat, _constant(model, 2)])
    row = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "se"]
    body = graph_of([helper.make_node("Add", ["s", "e"], ["o"]), helper.make_node("Identity", ["o"], ["p"])], row,
                     ["o", "p"])  # fmt: skip
    for at in range(random.choice((1, 4, 40))):
        names = [f"last{at}_{len(model.graph.node)}", f"all{at}_{len(model.graph.node)}"]
        model.graph.node.append(helper.make_node("Scan", [state, x], names, body=body, num_scan_inputs=1))
        _out(model, names[1])


GROWTHS = (_chain, _doubling, _reshaping, _wide, _outputs, _huge, _steps)
