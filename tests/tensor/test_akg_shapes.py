"""AKG operators that move, count and compare: tiles, strided slices, running sums, places of extremes, angles.

Each by its statements, by its meaning and, as a kernel, on the emulator, against NumPy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.support.errors import BadInput
from tests.graph.test_akg import operator, tensor, write
from tests.support.needs import needs_compiler
from tests.tensor.test_akg_operators import run

X = np.random.RandomState(3).standard_normal((4, 6, 5)).astype(np.float32)
INTEGERS = np.random.RandomState(4).randint(-9, 9, (4, 6)).astype(np.int32)


def same(path: Path, kind: str, operands: list[np.ndarray], want: np.ndarray, **attributes: object) -> None:
    for got in run(path, kind, operands, want, **attributes):
        assert got.shape == want.shape
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), 2e-6, 2e-6)


@pytest.mark.parametrize("multiples", [(1, 2, 3), (2, 1, 1), (3, 1, 2, 1)], ids=["inner", "outer", "a new axis"])
def test_tiles(multiples: tuple[int, ...], tmp_path: Path) -> None:
    same(tmp_path / "op.json", "Tile", [X], np.tile(X, multiples), multiples=list(multiples))


def cut(begin: list[int], end: list[int], strides: list[int], /, **masks: int) -> dict[str, object]:
    return {"begin": begin, "end": end, "strides": strides, **{f"{name}_mask": mask for name, mask in masks.items()}}


SLICES: dict[str, tuple[dict[str, object], np.ndarray]] = {
    "plain": (cut([1, 0, 2], [3, 6, 5], [1, 2, 1]), X[1:3, ::2, 2:5]),
    "negative": (cut([-1, -2, 0], [-4, 6, -1], [-2, 1, 1]), X[-1:-4:-2, -2:, :-1]),
    "fewer entries": (cut([2], [4], [1]), X[2:4]),
    "begin and end masks": (cut([2, 3, 1], [3, 4, 4], [1, -1, 2], begin=2, end=3), X[2:, ::-1, 1:4:2]),
    "an axis left out": (cut([0, -2, 0], [4, 0, 5], [1, 1, 1], shrink_axis=2), X[:, -2]),
    "all left out": (cut([1, 2, 3], [0] * 3, [1] * 3, shrink_axis=7), X[1, 2, 3:4]),
    "a new axis": (cut([1, 0, 2], [4, 0, 5], [1, 1, 2], new_axis=2), X[1:4, None, 2:5:2]),
    "an ellipsis": (cut([1, 0, 1], [3, 0, 4], [1, 1, 1], ellipsis=2), X[1:3, ..., 1:4]),
    "an ellipsis for none": (cut([1, 0, 0, 0], [3, 2, 0, 5], [1] * 4, ellipsis=4), X[1:3, :2, ..., :5]),
}


@pytest.mark.parametrize("case", SLICES)
def test_strided_slices(case: str, tmp_path: Path) -> None:
    attributes, want = SLICES[case]
    same(tmp_path / "op.json", "StridedSlice", [X], np.ascontiguousarray(want), **attributes)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        (cut([0], [2], [0]), "has a stride of 0"),
        (cut([0, 0], [2], [1]), "not three lists of one length"),
        (cut([0] * 4, [1] * 4, [1] * 4), "4 entries do not fit 3 axes"),
        (cut([7, 0, 0], [8, 6, 5], [1, 1, 1], shrink_axis=1), "place 7 of an axis with 4"),
        (cut([0], [3], [1]), r"makes \(3, 6, 5\), its output has \(4, 6, 5\)"),
    ],
)
def test_slices_that_make_no_sense_are_refused(attributes: dict[str, object], reason: str, tmp_path: Path) -> None:
    x, y = tensor("x", list(X.shape)), tensor("y", list(X.shape))
    document = {"op": "f", "op_desc": [operator("StridedSlice", [x], y, **attributes)], "input_desc": [[x]],
                "output_desc": [y]}  # fmt: skip
    with pytest.raises(BadInput, match=reason):
        engine.fuse(engine.load(write(tmp_path / "f.json", document)))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("kind", "axis"), [("CumSum", 1), ("CumSum", -1), ("CumProd", 0)])
def test_running_sums_and_products(kind: str, axis: int, exclusive: bool, reverse: bool, tmp_path: Path) -> None:
    function, neutral = (np.cumsum, 0) if kind == "CumSum" else (np.cumprod, 1)
    turned = np.flip(X, axis) if reverse else X
    want = function(turned.astype(np.float64), axis=axis)
    if exclusive:
        want = np.roll(want, 1, axis)
        want[tuple(slice(0, 1) if at == axis % 3 else slice(None) for at in range(3))] = neutral
    want = (np.flip(want, axis) if reverse else want).astype(np.float32)
    same(tmp_path / "op.json", kind, [X], want, axis=axis, exclusive=exclusive, reverse=reverse)


@pytest.mark.parametrize(("kind", "function"), [("Argmax", np.argmax), ("Argmin", np.argmin)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_places_of_extremes(kind: str, function: object, axis: int, tmp_path: Path) -> None:
    want = function(INTEGERS, axis=axis).astype(np.int32)  # type: ignore[operator]
    same(tmp_path / "op.json", kind, [INTEGERS], want, axis=axis)
    same(tmp_path / "op.json", kind, [X], function(X, axis=axis).astype(np.int32), axis=axis)  # type: ignore[operator]


def test_the_place_of_an_extreme_of_all_has_an_axis(tmp_path: Path) -> None:
    same(tmp_path / "op.json", "Argmax", [X[0, 0]], np.array([np.argmax(X[0, 0])], np.int32))


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_remainders_have_the_sign_of_the_dividend(dtype: str, tmp_path: Path) -> None:
    a, b = INTEGERS.astype(dtype), np.array([3, -4, 5, -2, 7, -6], dtype)
    same(tmp_path / "op.json", "Mod", [a, b], np.fmod(a, b))


def test_angles_in_every_quadrant_and_on_every_axis(tmp_path: Path) -> None:
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 1e-30, -1e30], np.float32)
    y, x = (each.ravel().astype(np.float32) for each in np.meshgrid(special, special))
    want = np.arctan2(y, x)
    for got in run(tmp_path / "op.json", "Atan2", [y, x], want):
        np.testing.assert_allclose(got, want, 1e-6, 1e-6)
        assert np.array_equal(np.signbit(got), np.signbit(want)), "zeros keep their sign"
    same(tmp_path / "op.json", "Atan2", [X, X[::-1].copy()], np.arctan2(X, X[::-1]))


def fused(folder: Path) -> engine.OperatorGraph:
    """Every one of them in one file, behind and before other operators."""
    x, z, a, t = tensor("x", [4, 6]), tensor("z", [4, 6]), tensor("a", [4, 6]), tensor("t", [8, 6])
    s, c, m, f = tensor("s", [4, 6]), tensor("c", [4, 6]), tensor("m", [4], "int32"), tensor("f", [4, 6])
    nodes = [
        operator("Atan2", [x, z], a),
        operator("Tile", [a], t, multiples=[2, 1]),
        operator("StridedSlice", [t], s, begin=[7, 0], end=[-9, 6], strides=[-2, 1]),
        operator("CumSum", [s], c, axis=1, exclusive=False, reverse=True),
        operator("Argmax", [c], m, axis=-1),
        operator("Mod", [c, z], f),
    ]
    document = {"op": "all", "op_desc": nodes, "input_desc": [[x], [z]], "output_desc": [m, f], "process": "cuda"}
    return engine.load(write(folder / "all.json", document))


@needs_compiler
def test_as_kernels_on_the_emulator(tmp_path: Path) -> None:
    graph = fused(tmp_path)
    plan = engine.fuse(graph)
    assert plan.unsupported == {}
    assert engine.check_model(graph, plan).status == "pass"
    assert [engine.check(engine.compile(group)).status for group in plan.groups] == ["pass"] * len(plan.groups)
