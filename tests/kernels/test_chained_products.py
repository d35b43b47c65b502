"""Kernels of two products in a row, emulated in both copy orders against float64; marks, registers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import ORDERS
from engine.execution.nvrtc import compile_cuda
from engine.target import ARCHITECTURES
from engine.tile.check import check_tile
from engine.tile.nodes import MatrixMultiply, operations
from engine.verify.kernel import kernel_tolerance
from tests.semantics.single import Node, write_model
from tests.support.attention_gradients import QueryGradient
from tests.support.attentions import inputs_of
from tests.support.needs import needs_compiler, needs_nvrtc

TF32 = {"tensor_cores": "tf32"}


def compiled(case: QueryGradient, folder: Path, *lines: str, numerics: dict[str, str] | None = None) -> engine.Kernel:
    """The kernel under the advisers' entries and a user's."""
    group = case.group(folder)
    recipe = engine.default_recipe(group, numerics=numerics)
    if lines:
        recipe = engine.merge_advice(recipe, group, "advice user\n" + "".join(f"  {s}\n" for s in lines))
    return engine.compile(group, recipe)


def agrees(kernel: engine.Kernel, case: QueryGradient, seed: int) -> None:
    """Every element in both orders within the tolerance of the number formats, and nothing found."""
    given = case.values(seed)
    expected, wanted = case.result(given), kernel_tolerance(kernel)
    tensors = kernel.group.instances[0].arrays
    for order in ORDERS:
        emulation, outputs, written = emulate(kernel.source, inputs_of(kernel, given), order=order)
        assert not emulation.findings, emulation.findings[0]
        assert {tensors[name] for name in outputs} == set(case.outputs)
        assert all(mask.all() for mask in written.values())
        for name, found in outputs.items():
            right = expected[tensors[name]].reshape(-1)
            assert (wanted.errors(found.reshape(-1), right, float(np.abs(right).max())) <= wanted.relative).all()


CASES = [
    QueryGradient(queries=70, keys=90, head=64),
    QueryGradient(queries=33, keys=47, head=24, outputs=("dq",)),
    QueryGradient(queries=64, keys=128, head=48, batch=1, heads=3, outputs=("dp", "ds", "dq")),
    QueryGradient(queries=40, keys=100, is_flat=True, heads=3),
    QueryGradient(queries=20, keys=16, head=128, heads=1),
    QueryGradient(queries=50, keys=150, is_given=True),
    QueryGradient(queries=90, keys=77, head=40, is_given=True, outputs=("dq",)),
]


@pytest.mark.few(6)
@needs_compiler
@pytest.mark.parametrize("kind", ["float32", "float16", "tf32"])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_gradients_of_queries(number: int, kind: str, tmp_path: Path) -> None:
    """Ragged rows, keys and heads; several outputs; rows that are reduced, and tiles of keys that follow each other."""
    case = replace(CASES[number], dtype="float32" if kind == "tf32" else kind)
    kernel = compiled(case, tmp_path, numerics=TF32 if kind == "tf32" else None)
    assert (kernel.tile.family, kernel.tile.misfit) == ("attention", "")
    assert any(isinstance(op, MatrixMultiply) for op in operations(kernel.tile.body)) == (kind != "float32")
    assert not check_tile(kernel.tile)
    agrees(kernel, case, seed=number)


@needs_compiler
@pytest.mark.parametrize(("mark", "value"), [("block", 64), ("block", 16), ("thread", 2), ("thread", 8)])
def test_tiles_are_marks(mark: str, value: int, tmp_path: Path) -> None:
    case = QueryGradient(queries=64, keys=60)
    kernel = compiled(case, tmp_path, f"S0 @ k: mark {mark} {value}")
    config = kernel.tile.config
    assert (config.tiles.queries if mark == "block" else config.own) == value
    agrees(kernel, case, seed=1)


@needs_compiler
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_tiles_of_keys_run_ahead(stages: int, tmp_path: Path) -> None:
    case = QueryGradient(queries=32, keys=120, is_given=True)
    kernel = compiled(case, tmp_path, "S0 @ l: mark tile 32", f"S0 @ l: mark stages {stages}")
    assert (kernel.tile.config.tiles.keys, kernel.tile.stages) == (32, stages)
    agrees(kernel, case, seed=2)


def test_a_tile_has_all_keys_where_rows_are_reduced(tmp_path: Path) -> None:
    kernel = compiled(QueryGradient(keys=100), tmp_path, "S0 @ l: mark tile 32")
    assert kernel.tile.config.tiles.keys == 128
    assert any("128" in note.because for note in kernel.tile.notes.values())


@needs_compiler
def test_rows_that_nothing_weighs(tmp_path: Path) -> None:
    """Columns past the last key meet rows of values that fill the tile: 1 / 0 there must not become NaN."""
    nodes: list[Node] = [
        ("MatMul", ["q", "k"], ["s"], {}), ("Reciprocal", ["s"], ["r"], {}),
        ("ReduceMax", ["r", "axes"], ["m"], {"keepdims": 1}), ("Div", ["r", "m"], ["w"], {}),
        ("MatMul", ["w", "v"], ["y"], {}),
    ]  # fmt: skip
    shapes = {"q": (2, 40, 16), "k": (2, 16, 37), "v": (2, 37, 16)}
    inputs = {name: ("float32", shape) for name, shape in shapes.items()}
    path = write_model(tmp_path / "m.onnx", nodes, inputs, ["y"], {"axes": np.array([-1])})
    (group,) = engine.fuse(engine.load(path)).groups
    assert group.kind == "chained products"
    kernel = engine.compile(group)
    draw = np.random.default_rng(3)
    given = {name: (1 + draw.random(shape)).astype(np.float32) for name, shape in shapes.items()}
    _, outputs, _ = emulate(kernel.source, inputs_of(kernel, given))
    r = 1 / np.einsum("bqd,bdk->bqk", given["q"].astype(np.float64), given["k"].astype(np.float64))
    expected = (r / r.max(-1, keepdims=True)) @ given["v"].astype(np.float64)
    (found,) = outputs.values()
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=64 * 2.0**-24)


WHOLE = [
    QueryGradient(queries=128, keys=128, head=64, batch=8, heads=4),
    QueryGradient(queries=128, keys=128, head=128, batch=16, heads=12, dtype="float16"),
    QueryGradient(queries=512, keys=512, head=64, batch=8, heads=12, dtype="float16", is_given=True),
]


@pytest.mark.few(2)
@needs_nvrtc
@pytest.mark.parametrize("case", WHOLE)
def test_defaults_spill_nothing(case: QueryGradient, tmp_path: Path) -> None:
    kernel = compiled(case, tmp_path)
    assert kernel.tile.misfit == ""
    for architecture in ARCHITECTURES:
        assert compile_cuda(kernel.source.text, architecture).spill_bytes == 0
