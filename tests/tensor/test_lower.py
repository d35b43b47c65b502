"""How operators become statements: names, iterators, temporaries, parts, updates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.graph.load import load
from engine.graph.nodes import Constant, Operator, OperatorGraph, Tensor, Update
from engine.support.errors import BadInput
from engine.tensor.check import check_program
from engine.tensor.index import Index
from engine.tensor.lower import lower, unsupported_operators
from engine.tensor.nodes import Access, Iterator, TensorProgram

EXAMPLES = Path(__file__).parents[2] / "resources" / "models"


def graph(
    operators: list[Operator], shapes: dict[str, tuple[int, ...]], inputs: str, outputs: str, **constants: object
) -> OperatorGraph:
    """A graph in memory; tensors whose name starts with "n" hold int64, all others float32."""
    tensors = {n: Tensor(n, s, "int64" if n.startswith("n") else "float32") for n, s in shapes.items()}
    values = {n: Constant(n, value=np.asarray(v, tensors[n].dtype)) for n, v in constants.items()}
    return OperatorGraph("g", tuple(operators), tensors, tuple(inputs.split()), tuple(outputs.split()), values)


def op(kind: str, inputs: str, outputs: str, dialect: str = "onnx", **attributes: object) -> Operator:
    return Operator(f"{kind}_{outputs.split()[0]}", kind, tuple(inputs.split()), tuple(outputs.split()),
                    attributes, dialect, 18)  # type: ignore[arg-type]  # fmt: skip


def text(program: TensorProgram) -> list[str]:
    return [str(s) for s in program.statements]


def test_softmax_is_four_statements() -> None:
    program = lower(graph([op("Softmax", "x", "y", axis=-1)], {"x": (2, 1, 8), "y": (2, 1, 8)}, "x", "y"))
    assert text(program) == [
        "S0[i < 2, r < 8]: y.max[i, 0, 0] = max(r) x[i, 0, r]",
        "S1[i < 2, j < 8]: y.exp[i, 0, j] = exp((x[i, 0, j] - y.max[i, 0, 0]))",
        "S2[i < 2, r < 8]: y.sum[i, 0, 0] = sum(r) y.exp[i, 0, r]",
        "S3[i < 2, j < 8]: y[i, 0, j] = (y.exp[i, 0, j] / y.sum[i, 0, 0])",
    ]
    assert program.inputs == ("x",) and program.outputs == ("y",) and check_program(program) == ()


def test_half_precision_products_are_summed_in_float32() -> None:
    g = graph([op("MatMul", "a b", "y")], {"a": (4, 8), "b": (8, 6), "y": (4, 6)}, "a b", "y")
    g = replace(g, tensors={n: replace(t, dtype="float16") for n, t in g.tensors.items()})
    (statement,) = lower(g).statements
    assert str(statement) == "S0[i < 4, j < 6, r < 8]: y[i, j] = sum(r) (float32(a[i, r]) * float32(b[r, j]))"
    assert statement.reduction is not None and statement.reduction.accumulate == "float32"


def test_layout_operators_are_one_access() -> None:
    operators = [op("Reshape", "x n", "v"), op("Transpose", "v", "y", perm=(0, 2, 1, 3))]
    shapes = {"x": (1, 8, 12), "n": (4,), "v": (1, 8, 3, 4), "y": (1, 3, 8, 4)}
    program = lower(graph(operators, shapes, "x", "y", n=[1, 8, 3, 4]))
    assert text(program) == [
        "S0[i < 8, j < 3, k < 4]: v[0, i, j, k] = x[0, i, 4*j + k]",
        "S1[i < 3, j < 8, k < 4]: y[0, i, j, k] = v[0, j, i, k]",
    ]
    assert all(isinstance(s.expression, Access) for s in program.statements)
    assert "n" not in program.arrays


def test_scalar_constants_are_literals() -> None:
    program = lower(graph([op("Mul", "x c", "y")], {"x": (4,), "c": (1,), "y": (4,)}, "x", "y", c=[0.5]))
    assert text(program) == ["S0[i < 4]: y[i] = (x[i] * 0.5)"]


def test_constant_indices_become_arithmetic() -> None:
    shapes = {"w": (16, 4), "n": (1, 8), "y": (1, 8, 4)}
    affine = lower(graph([op("Gather", "w n", "y")], shapes, "w", "y", n=[np.arange(3, 11)]))
    assert text(affine) == ["S0[i < 8, j < 4]: y[0, i, j] = w[i + 3, j]"]
    table = lower(graph([op("Gather", "w n", "y")], shapes, "w", "y", n=[[0, 5, 5, 1, 0, 2, 9, 3]]))
    (element,) = table.statements[0].expression.indices[0].elements()  # type: ignore[union-attr]
    assert (element.array, element.low, element.high) == ("n", 0, 9)


def test_indices_that_may_be_negative_are_wrapped_where_they_are_read() -> None:
    shapes = {"w": (16, 4), "u": (9, 4), "n": (8,), "y": (8, 4), "z": (8, 4), "nat": (8, 2), "p": (8,)}
    operators = [op("Gather", "w n", "y"), op("Gather", "u n", "z"), op("GatherND", "u nat", "p")]
    program = lower(graph(operators, shapes, "w u n nat", "y z p"))
    assert text(program) == [
        "S0[i < 8, j < 4]: y[i, j] = w[wrap(n[i], 16), j]",
        "S1[i < 8, j < 4]: z[i, j] = u[wrap(n[i], 9), j]",
        "S2[i < 8]: p[i] = u[wrap(nat[i, 0], 9), wrap(nat[i, 1], 4)]",
    ]
    assert check_program(program) == ()


@pytest.mark.parametrize(("values", "read"), [((2, 0, 0, 5), "n[i]"), ((2, -9, 0, 5), "wrap(n[i], 9)")])
def test_known_indices_are_wrapped_where_one_is_negative(values: tuple[int, ...], read: str) -> None:
    shapes = {"w": (9, 4), "n": (4,), "y": (4, 4)}
    (statement,) = text(lower(graph([op("Gather", "w n", "y")], shapes, "w", "y", n=values)))
    assert statement == f"S0[i < 4, j < 4]: y[i, j] = w[{read}, j]"


def test_equal_layers_have_equal_statements() -> None:
    example = load(EXAMPLES / "bert_tiny.onnx")
    scopes = {op.name: op.scope for op in example.operators}
    layers: dict[str, list[object]] = {"0": [], "1": []}
    for s in lower(example).statements:
        if scopes[s.operator].startswith("encoder.layer."):
            shape = (s.iterators, s.write.indices, s.reduction, [a.indices for a in s.reads()])
            layers[scopes[s.operator].split(".")[2]].append(shape)
    assert len(layers["0"]) > 40 and layers["0"] == layers["1"]


def test_concat_writes_parts() -> None:
    shapes = {"a": (2, 3), "b": (2, 1), "y": (2, 4)}
    program = lower(graph([op("Concat", "a b", "y", axis=1)], shapes, "a b", "y"))
    assert text(program) == ["S0[i < 2, j < 3]: y[i, j] = a[i, j]", "S1[i < 2]: y[i, 3] = b[i, 0]"]
    assert [s.covers for s in program.statements] == [False, False] and check_program(program) == ()


def test_updates_come_last() -> None:
    operators = [
        op("Add", "m g", "t", "akg"),
        op("InplaceAssign", "m t t", "p", "akg", fake_output=True),
        op("Sub", "g m", "y", "akg"),
    ]
    g = graph(operators, dict.fromkeys("mgtpy", (4,)), "m g", "y")
    program = lower(replace(g, dialect="akg", updates=(Update("m", "t"),)))
    assert [s.write.array for s in program.statements] == ["t", "y", "m"]
    assert program.statements[-1].because == "in-place update"
    assert "m" in program.inputs and set(program.outputs) == {"y", "m"} and check_program(program) == ()


def test_unsupported_operators_are_skipped_and_reported() -> None:
    operators = [op("Relu", "x", "a"), op("Bernoulli", "a", "d"), op("Exp", "d", "y")]
    g = graph(operators, dict.fromkeys(["x", "a", "d", "y"], (4,)), "x", "y")
    assert unsupported_operators(g) == {"Bernoulli_d": "Bernoulli draws at random"}
    program = lower(g)
    assert [s.operator for s in program.statements] == ["Relu_a", "Exp_y"]
    assert program.outputs == ("y", "a") and program.inputs == ("x", "d")
    wide = replace(g, tensors={**g.tensors, "y": Tensor("y", (4,), "float64")})
    assert "float64" in unsupported_operators(wide)["Exp_y"]


@pytest.mark.parametrize(
    ("operator", "shapes"),
    [
        (op("Add", "a b", "y", "akg"), {"a": (4,), "b": (3,), "y": (4,)}),
        (op("Reshape", "a", "y", "akg"), {"a": (4,), "y": (5,)}),
        (op("ReduceSum", "a", "y", "akg", axis=(1,), keep_dims=True), {"a": (4, 6), "y": (6, 1)}),
        (op("ReduceSum", "a", "y", "akg", axis=(2,)), {"a": (4, 6), "y": (4,)}),
        (op("Transpose", "a", "y", "akg", perm=(0, 0)), {"a": (4, 6), "y": (6, 4)}),
        (op("Transpose", "a", "y", "akg", perm=(1, 0)), {"a": (4, 6), "y": (4, 6)}),
        (op("Concat", "a b", "y", "akg", axis=0), {"a": (4,), "b": (3,), "y": (8,)}),
        (op("ReduceSum", "a", "y", "akg", axis=("x",)), {"a": (4, 6), "y": (4,)}),
    ],
    ids=str,
)
def test_contradicting_shapes_are_refused(operator: Operator, shapes: dict[str, tuple[int, ...]]) -> None:
    g = replace(graph([operator], shapes, " ".join(n for n in shapes if n != "y"), "y"), dialect="akg")
    with pytest.raises(BadInput, match=operator.name):
        lower(g)


# -- check_program finds what lowering never does


def softmax() -> TensorProgram:
    return lower(graph([op("Softmax", "x", "y", axis=-1)], {"x": (2, 8), "y": (2, 8)}, "x", "y"))


def test_check_finds_each_violation() -> None:
    sound = softmax()
    first, second, *rest = sound.statements
    outside = Access("x", (Index.of("i"), Index.of("r") + 1))
    for broken, words in [
        ((replace(first, name="S1"), second, *rest), "2 statements are called S1"),
        ((second, first, *rest), "reads y.max before it is written"),
        ((replace(first, expression=outside), second, *rest), "axis 1 of float32 x[2, 8] is read or written at 1 .. 8"),
        ((replace(first, expression=Access("x", ())), second, *rest), "has 0 indices"),
        ((replace(first, expression=Access("q", ())), second, *rest), "q is no array"),
        ((first, second, replace(second, name="S9"), *rest), "y.exp is written by S1, S9"),
        ((first, replace(second, iterators=(Iterator("i", 2), Iterator("j", 4))), *rest), "8 of the 16 elements"),
        ((replace(first, iterators=(Iterator("i", 1), Iterator("r", 8))), second, *rest), "iterator i has extent 1"),
        ((replace(first, iterators=(Iterator("r", 8),)), second, *rest), "i is no iterator"),
        ((first, second, rest[0]), "output y is never written"),
    ]:
        found = check_program(replace(sound, statements=broken))
        assert any(words in violation for violation in found), (words, found)
    assert check_program(sound) == ()
