"""Small tensor programs, written by hand, that tests of several stages share."""

from __future__ import annotations

from collections.abc import Sequence

from engine.tensor.index import Index
from engine.tensor.nodes import (
    Access,
    Apply,
    Array,
    Iterator,
    Literal,
    Reduction,
    Scalar,
    Statement,
    TensorProgram,
)

IDENTITY = {"sum": 0.0, "max": float("-inf"), "prod": 1.0, "min": float("inf")}


def at(array: str, *indices: str | int | Index) -> Access:
    """`array[indices]`, an index being an iterator's name, a number or an `Index`."""
    return Access(array, tuple(i if isinstance(i, Index) else Index.of(i) for i in indices))


def apply(function: str, *operands: Scalar) -> Apply:
    return Apply(function, operands, "float32")


def number(value: float) -> Literal:
    return Literal(value, "float32")


def statement(
    name: str,
    box: Sequence[tuple[str, int]],
    write: Access,
    expression: Scalar,
    reduce: tuple[str, str] | None = None,
    associative: bool = True,
    covers: bool = True,
) -> Statement:
    """`reduce` is (operation, iterator names separated by blanks)."""
    reduction = None
    if reduce:
        operation, over = reduce
        reduction = Reduction(operation, tuple(over.split()), IDENTITY[operation], "float32", associative)
    iterators = tuple(Iterator(n, e) for n, e in box)
    return Statement(name, f"op_{name}", iterators, write, expression, reduction, covers=covers)


def program(
    name: str, shapes: dict[str, tuple[int, ...]], statements: Sequence[Statement], outputs: str, inputs: str = ""
) -> TensorProgram:
    """Arrays that no statement writes are inputs; `inputs` names further ones (updated in place)."""
    written = {s.write.array for s in statements}
    ins = tuple(a for a in shapes if a not in written or a in inputs.split())
    arrays = {a: Array(a, shape, "float32") for a, shape in shapes.items()}
    return TensorProgram(name, arrays, tuple(statements), ins, tuple(outputs.split()))


def softmax(rows: int = 64, columns: int = 128, associative: bool = True) -> TensorProgram:
    """Row maximum, exponent, row sum, division."""
    box = [("i", rows), ("j", columns)]
    ij = ("i", "j")
    return program(
        "softmax",
        {"x": (rows, columns), "m": (rows,), "e": (rows, columns), "s": (rows,), "y": (rows, columns)},
        [
            statement("S0", box, at("m", "i"), at("x", *ij), ("max", "j"), associative),
            statement("S1", box, at("e", *ij), apply("exp", apply("sub", at("x", *ij), at("m", "i")))),
            statement("S2", box, at("s", "i"), at("e", *ij), ("sum", "j"), associative),
            statement("S3", box, at("y", *ij), apply("div", at("e", *ij), at("s", "i"))),
        ],
        "y",
    )


def layernorm(rows: int = 64, columns: int = 128, associative: bool = True) -> TensorProgram:
    """Mean, centre, variance, reciprocal deviation (one scalar a row), scale and shift."""
    box = [("i", rows), ("j", columns)]
    ij = ("i", "j")
    scale = number(1 / columns)
    return program(
        "layernorm",
        {
            "x": (rows, columns),
            "g": (columns,),
            "b": (columns,),
            "t": (rows,),
            "c": (rows, columns),
            "v": (rows,),
            "r": (rows,),
            "y": (rows, columns),
        },
        [
            statement("S0", box, at("t", "i"), at("x", *ij), ("sum", "j"), associative),
            statement("S1", box, at("c", *ij), apply("sub", at("x", *ij), apply("mul", at("t", "i"), scale))),
            statement("S2", box, at("v", "i"), apply("mul", at("c", *ij), at("c", *ij)), ("sum", "j"), associative),
            statement("S3", [("i", rows)], at("r", "i"), apply("rsqrt", apply("mul", at("v", "i"), scale))),
            statement(
                "S4",
                box,
                at("y", *ij),
                apply("add", apply("mul", apply("mul", at("c", *ij), at("r", "i")), at("g", "j")), at("b", "j")),
            ),
        ],
        "y",
    )


def matmul_bias_relu(m: int = 64, n: int = 32, k: int = 128, associative: bool = True) -> TensorProgram:
    """c = a @ b, then the bias and relu on each element."""
    box = [("i", m), ("j", n)]
    ij = ("i", "j")
    return program(
        "matmul_bias_relu",
        {"a": (m, k), "b": (k, n), "v": (n,), "c": (m, n), "d": (m, n), "y": (m, n)},
        [
            statement(
                "S0",
                [*box, ("k", k)],
                at("c", *ij),
                apply("mul", at("a", "i", "k"), at("b", "k", "j")),
                ("sum", "k"),
                associative,
            ),
            statement("S1", box, at("d", *ij), apply("add", at("c", *ij), at("v", "j"))),
            statement("S2", box, at("y", *ij), apply("max", at("d", *ij), number(0.0))),
        ],
        "y",
    )


def elementwise_chain(length: int = 4, shape: tuple[int, int] = (32, 48)) -> TensorProgram:
    """x0 -> x1 -> ... each 1 / (1 + x)."""
    box = [("i", shape[0]), ("j", shape[1])]
    statements = [
        statement(f"S{k}", box, at(f"x{k + 1}", "i", "j"), apply("sigmoid", at(f"x{k}", "i", "j")))
        for k in range(length)
    ]
    return program("chain", {f"x{k}": shape for k in range(length + 1)}, statements, f"x{length}")


def transpose_add(rows: int = 32, columns: int = 48) -> TensorProgram:
    """t = x + 1, u = transposed t, y = u + z."""
    return program(
        "transpose_add",
        {"x": (rows, columns), "t": (rows, columns), "u": (columns, rows), "z": (columns, rows), "y": (columns, rows)},
        [
            statement("S0", [("i", rows), ("j", columns)], at("t", "i", "j"), apply("exp", at("x", "i", "j"))),
            statement("S1", [("a", columns), ("b", rows)], at("u", "a", "b"), at("t", "b", "a")),
            statement(
                "S2",
                [("a", columns), ("b", rows)],
                at("y", "a", "b"),
                apply("add", at("u", "a", "b"), at("z", "a", "b")),
            ),
        ],
        "y",
    )


def column_reduction(rows: int = 64, columns: int = 48, associative: bool = True) -> TensorProgram:
    """s[j] = sum over i of x[i, j] squared, then y = x - s."""
    box = [("i", rows), ("j", columns)]
    return program(
        "column_reduction",
        {"x": (rows, columns), "q": (rows, columns), "s": (columns,), "y": (rows, columns)},
        [
            statement("S0", box, at("q", "i", "j"), apply("mul", at("x", "i", "j"), at("x", "i", "j"))),
            statement("S1", [("j", columns), ("i", rows)], at("s", "j"), at("q", "i", "j"), ("sum", "i"), associative),
            statement("S2", box, at("y", "i", "j"), apply("sub", at("x", "i", "j"), at("s", "j"))),
        ],
        "y",
    )


def dropout(rows: int = 32, columns: int = 48) -> TensorProgram:
    """Two outputs: the scaled input under a mask, and the mask as numbers."""
    box = [("i", rows), ("j", columns)]
    ij = ("i", "j")
    return program(
        "dropout",
        {"x": (rows, columns), "u": (rows, columns), "k": (rows, columns), "y": (rows, columns)},
        [
            statement("S0", box, at("k", *ij), apply("less", at("u", *ij), number(0.9))),
            statement("S1", box, at("y", *ij), apply("mul", apply("mul", at("x", *ij), at("k", *ij)), number(1 / 0.9))),
        ],
        "y k",
    )


def bias_cast(m: int = 64, n: int = 32, k: int = 128) -> TensorProgram:
    """A vector over the columns alone, made in the group and added to every row of a product."""
    return program(
        "bias_cast",
        {"a": (m, k), "b": (k, n), "v": (n,), "w": (n,), "c": (m, n), "y": (m, n)},
        [
            statement("S0", [("j", n)], at("w", "j"), apply("cast", at("v", "j"))),
            statement(
                "S1",
                [("i", m), ("j", n), ("k", k)],
                at("c", "i", "j"),
                apply("mul", at("a", "i", "k"), at("b", "k", "j")),
                ("sum", "k"),
            ),
            statement("S2", [("i", m), ("j", n)], at("y", "i", "j"), apply("add", at("c", "i", "j"), at("w", "j"))),
        ],
        "y",
    )


def attention(batch: int = 6, length: int = 40, width: int = 24) -> TensorProgram:
    """Scores, scale, softmax and the weighted sum of the values."""
    bij = ("b", "i", "j")
    box = [("b", batch), ("i", length), ("j", length)]
    square, row = (batch, length, length), (batch, length)
    return program(
        "attention",
        {
            "q": (batch, length, width),
            "k": (batch, length, width),
            "v": (batch, length, width),
            "p": square,
            "z": square,
            "m": row,
            "e": square,
            "s": row,
            "w": square,
            "y": (batch, length, width),
        },
        [
            statement(
                "S0",
                [*box, ("d", width)],
                at("p", *bij),
                apply("mul", at("q", "b", "i", "d"), at("k", "b", "j", "d")),
                ("sum", "d"),
            ),
            statement("S1", box, at("z", *bij), apply("mul", at("p", *bij), number(0.125))),
            statement("S2", box, at("m", "b", "i"), at("z", *bij), ("max", "j")),
            statement("S3", box, at("e", *bij), apply("exp", apply("sub", at("z", *bij), at("m", "b", "i")))),
            statement("S4", box, at("s", "b", "i"), at("e", *bij), ("sum", "j")),
            statement("S5", box, at("w", *bij), apply("div", at("e", *bij), at("s", "b", "i"))),
            statement(
                "S6",
                [("b", batch), ("i", length), ("d", width), ("j", length)],
                at("y", "b", "i", "d"),
                apply("mul", at("w", *bij), at("v", "b", "j", "d")),
                ("sum", "j"),
            ),
        ],
        "y",
    )


def in_place_update(shape: tuple[int, int] = (32, 48)) -> TensorProgram:
    """p = p - 0.1 g, with the old p kept in another output."""
    box = [("i", shape[0]), ("j", shape[1])]
    ij = ("i", "j")
    return program(
        "in_place_update",
        {"p": shape, "g": shape, "old": shape},
        [
            statement("S0", box, at("old", *ij), apply("copy", at("p", *ij))),
            statement("S1", box, at("p", *ij), apply("sub", at("p", *ij), apply("mul", at("g", *ij), number(0.1)))),
        ],
        "p old",
        inputs="p",
    )
