"""The whole path (expressions, fusion, schedule, CUDA text, emulation) against ONNX Runtime, on shapes that hurt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from tests.semantics.single import Node, write_model


def check_all(path: Path, *entries: engine.Entry) -> list[engine.Kernel]:
    """Every group of a file passes, under the advisers' recipe and the user's `entries`."""
    plan = engine.fuse(engine.load(path))
    assert not plan.unsupported
    kernels = []
    for group in plan.groups:
        recipe = engine.default_recipe(group)
        if entries:
            recipe = recipe.advise("user", *entries)
        kernel = engine.compile(group, recipe)
        report = engine.check(kernel)
        assert report.status == "pass", f"{report.message}\n{kernel.source.text}"
        kernels.append(kernel)
    return kernels


def entry(statement: str, at: str, **what: object) -> engine.Entry:
    return engine.entry(statement, at=at, **what)  # type: ignore[arg-type]


MATMULS = {
    "ragged": ((65, 33), (33, 17)),
    "one row": ((1, 100), (100, 37)),
    "one column": ((37, 100), (100, 1)),
    "deep": ((20, 1000), (1000, 24)),
    "batched": ((3, 2, 33, 20), (3, 2, 20, 40)),
    "batch of the first only": ((4, 7, 24), (24, 36)),
    "batch of the second only": ((24, 20), (5, 20, 12)),
    "aligned": ((128, 64), (64, 128)),
}


@pytest.mark.few(6)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shapes", MATMULS.values(), ids=MATMULS.keys())
def test_matrix_product(tmp_path: Path, shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: str) -> None:
    path = write_model(
        tmp_path / "m.onnx",
        [("MatMul", ["a", "b"], ["c"], {}), ("Relu", ["c"], ["y"], {})],
        {"a": (dtype, shapes[0]), "b": (dtype, shapes[1])},
        ["y"],
    )
    (kernel,) = check_all(path)
    assert len(kernel.group.program.statements) == 2


@pytest.mark.few(5)
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_pipeline_stages_and_transpositions(tmp_path: Path, stages: int, transposed: tuple[int, int]) -> None:
    a = (44, 90) if not transposed[0] else (90, 44)
    b = (90, 52) if not transposed[1] else (52, 90)
    attributes = {"transA": transposed[0], "transB": transposed[1], "alpha": 0.5}
    path = write_model(
        tmp_path / "g.onnx",
        [("Gemm", ["a", "b", "c"], ["y"], attributes)],
        {"a": ("float32", a), "b": ("float32", b), "c": ("float32", (52,))},
        ["y"],
    )
    (kernel,) = check_all(path, entry("S0", "k", mark=("stages", stages)))
    assert kernel.tile.stages == stages
    assert ("async_copy" in kernel.source.text) and (f"  STAGES = {stages}," in kernel.source.text)


@pytest.mark.parametrize(
    "marks",
    [(128, 8, 8), (64, 8, 32), (16, 1, 4), (16, 2, 64), (32, 4, 8)],
    ids=lambda m: f"block {m[0]}, thread {m[1]}, depth {m[2]}",
)
def test_tile_sizes(tmp_path: Path, marks: tuple[int, int, int]) -> None:
    block, thread, depth = marks
    path = write_model(
        tmp_path / "m.onnx",
        [("MatMul", ["a", "b"], ["y"], {})],
        {"a": ("float32", (70, 52)), "b": ("float32", (52, 100))},
        ["y"],
    )
    entries = [entry("S0", d, mark=(name, n)) for d in "ij" for name, n in (("block", block), ("thread", thread))]
    check_all(path, *entries, entry("S0", "k", mark=("tile", depth)))


REDUCTIONS: dict[str, tuple[tuple[int, ...], list[int], str]] = {
    "rows": ((37, 129), [1], "ReduceSum"),
    "short rows": ((50, 3), [1], "ReduceMax"),
    "long row": ((3, 5000), [1], "ReduceSum"),
    "very long row": ((2, 100_003), [1], "ReduceMax"),
    "columns": ((130, 37), [0], "ReduceSum"),
    "aligned columns": ((100, 64), [0], "ReduceMin"),
    "middle axis": ((5, 40, 12), [1], "ReduceMean"),
    "two inner axes": ((6, 7, 7), [1, 2], "ReduceMean"),
    "outer and inner": ((6, 9, 8), [0, 2], "ReduceSum"),
    "everything": ((12, 11, 3), [0, 1, 2], "ReduceSum"),
    "product": ((4, 12), [1], "ReduceProd"),
}


@pytest.mark.few(8)
@pytest.mark.parametrize("case", REDUCTIONS.values(), ids=REDUCTIONS.keys())
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_reduction(tmp_path: Path, case: tuple[tuple[int, ...], list[int], str], dtype: str) -> None:
    shape, axes, kind = case
    if dtype == "float16" and kind == "ReduceProd":
        shape = (4, 5)
    path = write_model(
        tmp_path / "r.onnx",
        [("Mul", ["x", "x"], ["xx"], {}), (kind, ["xx", "axes"], ["r"], {"keepdims": 0}), ("Neg", ["r"], ["y"], {})],
        {"x": (dtype, shape)},
        ["y"],
        {"axes": np.array(axes, np.int64)},
    )
    check_all(path)


@pytest.mark.few(4)
@pytest.mark.parametrize("shape", [(7, 5), (3, 4, 1000), (2, 3000), (2, 40_000)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_softmax_and_layer_normalisation(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    size = shape[-1]
    path = write_model(
        tmp_path / "s.onnx",
        [
            ("Add", ["x", "bias"], ["z"], {}),
            ("Softmax", ["z"], ["p"], {"axis": -1}),
            ("LayerNormalization", ["z", "scale", "bias"], ["y"], {"axis": -1, "epsilon": 1e-5}),
        ],
        {"x": (dtype, shape), "bias": (dtype, (size,)), "scale": (dtype, (size,))},
        ["p", "y"],
    )
    check_all(path)


@pytest.mark.few(6)
@pytest.mark.parametrize("perm", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
def test_transpose_with_a_reader(tmp_path: Path, perm: tuple[int, ...], dtype: str) -> None:
    shape = (33, 6, 70)
    nodes: list[Node] = [("Transpose", ["x"], ["t"], {"perm": list(perm)})]
    nodes.append(("Not" if dtype == "bool" else "Neg", ["t"], ["y"], {}))
    check_all(write_model(tmp_path / "t.onnx", nodes, {"x": (dtype, shape)}, ["y", "t"]))


def test_gather_with_negative_indices(tmp_path: Path) -> None:
    path = write_model(
        tmp_path / "g.onnx",
        [
            ("Sub", ["i", "shift"], ["j"], {}),
            ("Gather", ["table", "j"], ["rows"], {"axis": 0}),
            ("Add", ["rows", "b"], ["y"], {}),
        ],
        {"table": ("float32", (11, 24)), "i": ("int64", (3, 5)), "b": ("float32", (24,))},
        ["y"],
        {"shift": np.array(5, np.int64)},
    )
    check_all(path)


def test_integers_and_booleans(tmp_path: Path) -> None:
    path = write_model(
        tmp_path / "i.onnx",
        [
            ("Div", ["a", "b"], ["q"], {}),
            ("Mod", ["a", "b"], ["m"], {}),
            ("Greater", ["q", "m"], ["g"], {}),
            ("And", ["g", "flag"], ["h"], {}),
            ("Where", ["h", "a", "m"], ["w"], {}),
            ("Cast", ["w"], ["f"], {"to": TensorFloat}),
            ("Max", ["a", "m"], ["x"], {}),
        ],
        {"a": ("int32", (9, 7)), "flag": ("bool", (7,))},
        ["f", "h", "x"],
        {"b": np.arange(1, 8, dtype=np.int32)},
    )
    check_all(path)


TensorFloat = 1


@pytest.mark.parametrize("order", ["i", "j", "k"])
def test_element_wise_in_any_loop_order(tmp_path: Path, order: str) -> None:
    path = write_model(
        tmp_path / "e.onnx",
        [("Add", ["x", "b"], ["z"], {}), ("Tanh", ["z"], ["y"], {})],
        {"x": ("float32", (6, 10, 16)), "b": ("float32", (10, 1))},
        ["y"],
    )
    (kernel,) = check_all(path, entry("S1", "innermost", pin=order))
    text = kernel.source.text
    assert text.count("x.load<4>") == text.count("y.store<4>") == 1, "vectors run along the contiguous dimension"
    assert ("k_strip" in text) == (order != "k"), "in strips where it is not the innermost loop"


def test_vector_width_asked_for_too_wide_is_relaxed(tmp_path: Path) -> None:
    path = write_model(
        tmp_path / "v.onnx", [("Neg", ["x"], ["y"], {})], {"x": ("float32", (5, 6))}, ["y"]
    )
    group = engine.fuse(engine.load(path)).groups[0]
    recipe = engine.default_recipe(group).advise("user", entry("S0", "innermost", mark=("vector", 4)))
    kernel = engine.compile(group, recipe)
    (verdict,) = [v for v in kernel.verdicts if v.placed.author == "user"]
    assert verdict.outcome == "relaxed"
    assert "vector 2" in verdict.because


def test_reversed_axes_that_were_split_and_turned(tmp_path: Path) -> None:
    """The place in x is a quotient and a remainder of 7 - i: C truncates where floor division is meant."""
    path = write_model(
        tmp_path / "r.onnx",
        [
            ("Transpose", ["x"], ["t"], {"perm": [1, 0, 2]}),
            ("Reshape", ["t", "shape"], ["r"], {}),
            ("Slice", ["r", "last", "before", "axis", "back"], ["b"], {}),
            ("Neg", ["b"], ["y"], {}),
        ],
        {"x": ("float32", (4, 2, 3))},
        ["y"],
        {
            "shape": np.array([8, 3]), "last": np.array([7]), "before": np.array([-9]), "axis": np.array([0]),
            "back": np.array([-1]),
        },
    )  # fmt: skip
    check_all(path)


def test_branches_keep_their_loads(tmp_path: Path) -> None:
    """31 elements and 256 threads: no thread past the end may read."""
    path = write_model(tmp_path / "n.onnx", [("Neg", ["x"], ["y"], {})], {"x": ("float32", (31,))}, ["y"])
    check_all(path)


def test_ragged_rows_and_columns_at_once(tmp_path: Path) -> None:
    """37 rows of 65 elements: several chunks a thread, and both ends are masked."""
    path = write_model(tmp_path / "s.onnx", [("Softmax", ["x"], ["y"], {})], {"x": ("float32", (37, 65))}, ["y"])
    check_all(path)


@pytest.mark.parametrize("columns", [33, 34, 36, 40])
def test_columns_that_are_no_multiple_of_a_threads_run(tmp_path: Path, columns: int) -> None:
    nodes: list[Node] = [
        ("MatMul", ["a", "b"], ["c"], {}),
        ("Pad", ["z", "ends"], ["p"], {}),
        ("Add", ["c", "p"], ["y"], {}),
    ]
    inputs = {"a": ("float32", (9, 20)), "b": ("float32", (20, columns)), "z": ("float32", (9, columns - 2))}
    path = write_model(tmp_path / "m.onnx", nodes, dict(inputs), ["y"], {"ends": np.array([0, 1, 0, 1])})
    check_all(path)


def test_columns_of_halves_are_handed_over_as_floats(tmp_path: Path) -> None:
    """Eight halves are one load, but their eight sums are two stores."""
    nodes: list[Node] = [("ReduceSum", ["x", "axes"], ["y"], {"keepdims": 0})]
    path = write_model(tmp_path / "c.onnx", nodes, {"x": ("float16", (96, 64))}, ["y"], {"axes": np.array([0])})
    (kernel,) = check_all(path, entry("S0", "i", mark=("vector", 8)))
    assert "  VECTOR = 4," in kernel.source.text
