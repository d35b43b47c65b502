"""Writes graphs of very many operators: `python -m tests.support.large_models FOLDER [OPERATORS]`.

`layers_50000` is an encoder of equal layers with module paths, as exporters write one; `blocks_50000` has the same
number of operators in an order drawn by lot, with branches, long skips and no module paths, so that nothing repeats.
The tensors are tiny: what is large is the graph.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.make_models import FLOAT, Model, Sizes, bert

OPERATORS = 50_000
SIZES = Sizes(sequence=8, hidden=8, heads=2, vocabulary=20, inner=16)
LAYER = 34
"""Operators of a layer of the encoder."""
ROWS, COLUMNS = 8, 16
LONGEST_SKIP = 12
"""Blocks that a skip connection passes, at most."""
ACTIVATIONS = ("Relu", "Tanh", "Sigmoid")


def layers(operators: int = OPERATORS) -> Model:
    """A BERT encoder of about so many operators."""
    return bert(f"layers_{operators}", operators // LAYER, SIZES)


def blocks(operators: int = OPERATORS, seed: int = 0) -> Model:
    """Blocks in random order: dense, softmax, normalization, two arms that meet, a skip to an earlier block."""
    m = Model(f"blocks_{operators}", seed)
    x = m.input("x", FLOAT, ROWS, COLUMNS)
    ends = [x]
    while len(m.nodes) < operators:
        kind = m.random.choice(("dense", "softmax", "norm", "arms", "skip"), p=(0.45, 0.1, 0.15, 0.2, 0.1))
        if kind == "arms":
            x = m.node("Mul", [_dense(m, _dense(m, x)), _dense(m, x)], _next(m))
        elif kind == "skip":
            back = m.random.randint(1, LONGEST_SKIP + 1)
            x = m.node("Add", [_dense(m, x), ends[max(len(ends) - back, 0)]], _next(m))
        elif kind == "softmax":
            x = m.node("Softmax", [_dense(m, x)], _next(m), axis=-1)
        elif kind == "norm":
            operands = [x, m.weight("scale", COLUMNS, mean=1.0), m.weight("shift", COLUMNS)]
            x = m.node("LayerNormalization", operands, _next(m), axis=-1, epsilon=1e-5)
        else:
            x = _dense(m, x)
        ends.append(x)
    m.output(x, FLOAT, ROWS, COLUMNS)
    return m


def _dense(m: Model, x: str) -> str:
    """A product with a bias and one of three activations."""
    product = m.node("MatMul", [x, m.weight("weight", COLUMNS, COLUMNS)], _next(m))
    shifted = m.node("Add", [product, m.weight("bias", COLUMNS)], _next(m))
    return m.node(str(m.random.choice(ACTIVATIONS)), [shifted], _next(m))


def _next(m: Model) -> str:
    """The name of the next node."""
    return f"t{len(m.nodes)}"


def write(folder: Path, operators: int = OPERATORS) -> tuple[Path, Path]:
    """Writes both models; the files."""
    folder.mkdir(parents=True, exist_ok=True)
    made = layers(operators), blocks(operators)
    for model in made:
        model.save(folder)
    first, second = (folder / f"{model.name}.onnx" for model in made)
    return first, second


if __name__ == "__main__":
    write(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
