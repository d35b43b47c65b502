"""Programs whose accesses have no closed form: reshapes kept as index divisions, padding, parts, in-place writes."""

from __future__ import annotations

from engine.tensor.index import Element, Index
from engine.tensor.nodes import Access, Guard, Literal, TensorProgram
from tests.support.programs import apply, at, number, program, statement

ROW = Index.of("i")


def reshape(rows: int = 6, columns: int = 8, split: int = 4) -> TensorProgram:
    """t[i, j] = exp x, then y[n] = t[n / columns, n % columns] and z over (n / split, n % split)."""
    flat = rows * columns
    n = Index.of("n")
    extents = {"n": flat}
    return program(
        "reshape",
        {"x": (rows, columns), "t": (rows, columns), "y": (flat,), "z": (flat // split, split)},
        [
            statement("S0", [("i", rows), ("j", columns)], at("t", "i", "j"), apply("exp", at("x", "i", "j"))),
            statement(
                "S1", [("n", flat)], at("y", "n"), at("t", n.floordiv(columns, extents), n.mod(columns, extents))
            ),
            statement(
                "S2",
                [("a", flat // split), ("b", split)],
                at("z", "a", "b"),
                at("y", Index.sum([("a", split), ("b", 1)])),
            ),
        ],
        "z",
    )


def padded(length: int = 10) -> TensorProgram:
    """y[i] = t[i - 1] + t[i + 1], zero outside."""
    zero = Literal(0.0, "float32")
    left = Access("t", (ROW - 1,), (Guard(ROW - 1),), zero)
    right = Access("t", (ROW + 1,), (Guard(ROW * -1 + (length - 2)),), zero)
    return program(
        "padded",
        {"x": (length,), "t": (length,), "y": (length,)},
        [
            statement("S0", [("i", length)], at("t", "i"), apply("exp", at("x", "i"))),
            statement("S1", [("i", length)], at("y", "i"), apply("add", left, right)),
        ],
        "y",
    )


def concat(first: int = 5, second: int = 7) -> TensorProgram:
    """t = a joined with b, y = exp t."""
    whole = first + second
    return program(
        "concat",
        {"a": (first,), "b": (second,), "t": (whole,), "y": (whole,)},
        [
            statement("S0", [("i", first)], at("t", "i"), at("a", "i"), covers=False),
            statement("S1", [("i", second)], at("t", ROW + first), at("b", "i"), covers=False),
            statement("S2", [("i", whole)], at("y", "i"), apply("exp", at("t", "i"))),
        ],
        "y",
    )


def overlapping(length: int = 9) -> TensorProgram:
    """t is filled, then its second half is written again: the second write must stay."""
    half = length // 2
    return program(
        "overlapping",
        {"a": (length,), "b": (length - half,), "t": (length,), "y": (length,)},
        [
            statement("S0", [("i", length)], at("t", "i"), at("a", "i")),
            statement("S1", [("i", length - half)], at("t", ROW + half), at("b", "i"), covers=False),
            statement("S2", [("i", length)], at("y", "i"), apply("exp", at("t", "i"))),
        ],
        "y",
    )


def shift_in_place(length: int = 12) -> TensorProgram:
    """p[i] = p[i + 1] for all but the last: legal forwards only."""
    return program(
        "shift_in_place",
        {"p": (length,)},
        [statement("S0", [("i", length - 1)], at("p", "i"), apply("mul", at("p", ROW + 1), number(0.5)), covers=False)],
        "p",
        inputs="p",
    )


def running_sum(rows: int = 3, length: int = 5) -> TensorProgram:
    """y[i, j] = sum of t[i, 0..j], as CumSum is lowered, between two element-wise statements."""
    back = Index.of("j") - Index.of("k")
    term = Access("t", (ROW, back), (Guard(back),))
    box = [("i", rows), ("j", length)]
    return program(
        "running_sum",
        dict.fromkeys("xtyz", (rows, length)),
        [
            statement("S0", box, at("t", "i", "j"), apply("exp", at("x", "i", "j"))),
            statement("S1", [*box, ("k", length)], at("y", "i", "j"), term, ("sum", "k"), associative=False),
            statement("S2", box, at("z", "i", "j"), apply("mul", at("y", "i", "j"), at("t", "i", "j"))),
        ],
        "z",
    )


def recurrence(rows: int = 4, length: int = 6) -> TensorProgram:
    """p[i, j + 1] += p[i, j] along each row in place, a scan in one pass, then its square."""
    following = at("p", "i", Index.of("j") + 1)
    total = apply("add", at("p", "i", "j"), following)
    return program(
        "recurrence",
        dict.fromkeys("py", (rows, length)),
        [
            statement("S0", [("i", rows), ("j", length - 1)], following, total, covers=False),
            statement("S1", [("i", rows), ("j", length)], at("y", "i", "j"), apply("exp", at("p", "i", "j"))),
        ],
        "y",
        inputs="p",
    )


def gather(rows: int = 10, columns: int = 6) -> TensorProgram:
    """t = exp x, then y[i, j] = t[index[i], j]: any row of t may be read."""
    row = Index.of(Element("index", (ROW,), 0, rows - 1))
    return program(
        "gather",
        {"x": (rows, columns), "index": (8,), "t": (rows, columns), "y": (8, columns)},
        [
            statement("S0", [("i", rows), ("j", columns)], at("t", "i", "j"), apply("exp", at("x", "i", "j"))),
            statement("S1", [("i", 8), ("j", columns)], at("y", "i", "j"), at("t", row, "j")),
        ],
        "y",
    )
