"""Contractions on tensor cores, emulated in both copy orders against NumPy; bank conflicts, registers and verdicts."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import ORDERS
from engine.execution.nvrtc import compile_cuda
from engine.kernels.gemm.tiles import TILES as DEFAULT_TILES
from engine.recipe import Advice, Entry
from engine.target import ARCHITECTURES
from engine.tile.nodes import AsyncCopy, MatrixLoad, MatrixMultiply, operations
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc

Shape = tuple[int, ...]
TF32 = {"tensor_cores": "tf32"}
ROUNDING = 2.0**-11
"""Of a result to float16; a sum of k products in float32 adds sqrt(k) 2^-24, which is less."""


def product_group(folder: Path, left: Shape, right: Shape, kind: str = "float16", **gemm: int) -> engine.FusionGroup:
    """The group of one matrix product; `gemm` (transA, transB) makes it a Gemm."""
    nodes: list[Node] = [("Gemm" if gemm else "MatMul", ["left", "right"], ["y"], dict(gemm))]
    path = write_model(folder / "product.onnx", nodes, {"left": (kind, left), "right": (kind, right)}, ["y"])
    return engine.fuse(engine.load(path)).groups[0]


def advised(group: engine.FusionGroup, *lines: str) -> engine.Kernel:
    """The kernel under the advisers' entries and a user's."""
    recipe = engine.default_recipe(group)
    text = "advice user\n" + "".join(f"  {line}\n" for line in lines)
    return engine.compile(group, engine.merge_advice(recipe, group, text) if lines else recipe)


def is_on_tensor_cores(kernel: engine.Kernel) -> bool:
    return any(isinstance(op, MatrixMultiply) for op in operations(kernel.tile.body))


def copies(kernel: engine.Kernel) -> list[int]:
    """Elements of each asynchronous copy of the main loop: (first factor, second factor); empty where plain."""
    return [op.width for op in operations(kernel.tile.body) if isinstance(op, AsyncCopy)][-2:]


def check_against_numpy(kernel: engine.Kernel, expected: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
    """Every block in both orders, every element within one rounding to half of float64's result."""
    for order in ORDERS:
        emulation, outputs, written = emulate(kernel.source, arrays, order=order)
        assert not emulation.findings, emulation.findings[0]
        (name,) = outputs
        assert written[name].all()
        error = np.abs(outputs[name].reshape(expected.shape).astype(np.float64) - expected)
        assert (error <= ROUNDING * (np.abs(expected) + 1)).all()


def halves(seed: int, shape: Shape, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float16)


def product_arrays(kernel: engine.Kernel, left: np.ndarray, right: np.ndarray) -> dict[str, np.ndarray]:
    return {b.array: {"left": left, "right": right}[b.array] for b in kernel.source.buffers if b.read}


SIZES = [
    # rows, columns, depth, elements of one copy of each factor
    (16, 16, 16, [8, 8]),
    (64, 64, 64, [8, 8]),
    (65, 72, 40, [8, 8]),
    (33, 50, 100, [4, 2]),
    (100, 36, 18, [2, 4]),
    (47, 31, 29, []),
    (130, 24, 200, [8, 8]),
    (8, 64, 128, [8, 8]),
    (48, 8, 8, [8, 4]),
]


@pytest.mark.few(4)
@needs_compiler
@pytest.mark.parametrize(("rows", "columns", "depth", "widths"), SIZES)
def test_ragged_sizes(rows: int, columns: int, depth: int, widths: list[int], tmp_path: Path) -> None:
    """Zero-filled copies as wide as alignment allows, and plain ones where no row begins at 4 bytes."""
    kernel = advised(product_group(tmp_path, (rows, depth), (depth, columns)))
    assert is_on_tensor_cores(kernel)
    assert copies(kernel) == widths
    left, right = halves(1, (rows, depth), depth**-0.5), halves(2, (depth, columns))
    expected = left.astype(np.float64) @ right.astype(np.float64)
    check_against_numpy(kernel, expected, product_arrays(kernel, left, right))


@needs_compiler
@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize(("rows", "columns", "depth"), [(64, 32, 48), (40, 56, 24)])
def test_transpositions(rows: int, columns: int, depth: int, trans_a: int, trans_b: int, tmp_path: Path) -> None:
    """No element is moved to transpose: tiles keep the order of memory, matrix loads turn them."""
    left = halves(3, (depth, rows) if trans_a else (rows, depth), depth**-0.5)
    right = halves(4, (columns, depth) if trans_b else (depth, columns))
    kernel = advised(product_group(tmp_path, left.shape, right.shape, transA=trans_a, transB=trans_b))
    loads = [op.function for op in operations(kernel.tile.body) if isinstance(op, MatrixLoad)][-2:]
    plain, turned = "ldmatrix_x4", "ldmatrix_x4_trans"
    assert loads == [turned if trans_a else plain, plain if trans_b else turned]
    a, b = (x.astype(np.float64).T if t else x.astype(np.float64) for x, t in ((left, trans_a), (right, trans_b)))
    check_against_numpy(kernel, a @ b, product_arrays(kernel, left, right))


@needs_compiler
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 32, 16), (3, 16, 24)), ((2, 3, 20, 32), (3, 32, 16)), ((4, 1, 32, 16), (1, 3, 16, 40)),
        ((5, 33, 16), (16, 24)),
    ],
    ids=["batched", "broadcast leading axes", "broadcast both", "one right factor"],
)  # fmt: skip
def test_batches(left: Shape, right: Shape, tmp_path: Path) -> None:
    kernel = advised(product_group(tmp_path, left, right))
    assert is_on_tensor_cores(kernel)
    a, b = halves(5, left, left[-1] ** -0.5), halves(6, right)
    check_against_numpy(kernel, np.matmul(a.astype(np.float64), b.astype(np.float64)), product_arrays(kernel, a, b))


@needs_compiler
@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5, 6])
def test_stages(stages: int, tmp_path: Path) -> None:
    """Every length of the pipeline, up to as many stages as there are tiles."""
    kernel = advised(product_group(tmp_path, (48, 184), (184, 40)), f"all @ k: mark stages {stages}")
    assert kernel.tile.stages == stages
    left, right = halves(7, (48, 184), 184**-0.5), halves(8, (184, 40))
    expected = left.astype(np.float64) @ right.astype(np.float64)
    check_against_numpy(kernel, expected, product_arrays(kernel, left, right))


TILES = [*((*tile.block, *tile.warp) for tile in DEFAULT_TILES), (256, 128, 64, 64)]


def tiled(folder: Path, tile: tuple[int, int, int, int], size: int, **gemm: int) -> engine.Kernel:
    """A square product with four stages and the given tile."""
    rows, columns, warp_rows, warp_columns = tile
    marks = [f"i: mark block {rows}", f"j: mark block {columns}"]
    marks += [f"i: mark warp {warp_rows}", f"j: mark warp {warp_columns}"]
    group = product_group(folder, (size, size), (size, size), **gemm)
    return advised(group, *(f"all @ {mark}" for mark in marks), "all @ k: mark tile 32", "all @ k: mark stages 4")


@pytest.mark.few(2)
@needs_nvrtc
@pytest.mark.parametrize("tile", TILES, ids=lambda tile: "x".join(map(str, tile)))
def test_default_tiles_do_not_spill(tile: tuple[int, int, int, int], tmp_path: Path) -> None:
    kernel = tiled(tmp_path, tile, 1024)
    assert all(v.outcome == "honoured" for v in kernel.verdicts if v.placed.author == "user")
    for architecture in ARCHITECTURES:
        compiled = compile_cuda(kernel.source.text, architecture)
        assert compiled.spill_bytes == 0
        assert compiled.registers * kernel.source.block[0] <= 65536


@pytest.mark.few(4)
@needs_compiler
@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("tile", TILES[:-1], ids=lambda tile: "x".join(map(str, tile)))
def test_no_bank_conflicts(tile: tuple[int, int, int, int], trans: int, tmp_path: Path) -> None:
    """Neither matrix loads nor copies: eight rows, and eight neighbouring chunks, lie in different banks."""
    kernel = tiled(tmp_path, tile, 128, transA=trans, transB=trans)
    arrays = {b.array: halves(9, (128, 128)) for b in kernel.source.buffers if b.read}
    emulation, _, _ = emulate(kernel.source, arrays, blocks=[0])
    assert not emulation.findings
    shared = [count for count in emulation.counts if count.kind in ("shared load", "async copy")]
    assert {count.kind for count in shared} == {"shared load", "async copy"}
    assert [count.conflicts for count in shared] == [0] * len(shared)


EPILOGUES: dict[str, list[Node]] = {
    "bias": [("Add", ["p", "bias"], ["y"], {})],
    "bias and relu": [("Add", ["p", "bias"], ["s"], {}), ("Relu", ["s"], ["y"], {})],
    "bias and residual": [("Add", ["p", "bias"], ["s"], {}), ("Add", ["s", "residual"], ["y"], {})],
    "scaling": [("Mul", ["p", "half"], ["y"], {})],
}


@pytest.mark.few(4)
@needs_compiler
@pytest.mark.parametrize("name", EPILOGUES)
@pytest.mark.parametrize("columns", [48, 37])
def test_epilogues_are_computed_on_fragments(name: str, columns: int, tmp_path: Path) -> None:
    nodes: list[Node] = [("MatMul", ["left", "right"], ["p"], {}), *EPILOGUES[name]]
    shapes = {"left": (40, 64), "right": (64, columns), "bias": (columns,), "residual": (40, columns)}
    used = {i for _, inputs, _, _ in nodes for i in inputs} & set(shapes)
    inputs = {n: ("float16", shape) for n, shape in shapes.items() if n in used}
    path = write_model(tmp_path / "e.onnx", nodes, inputs, ["y"], {"half": np.array(0.5, np.float16)})
    (group,) = engine.fuse(engine.load(path)).groups
    kernel = advised(group)
    assert is_on_tensor_cores(kernel)
    report = engine.check(kernel)
    assert report.status == "pass", report.message


COMPUTED: dict[str, tuple[list[Node], bool]] = {
    # nodes before the product of p and q, whether zeros stay harmless
    "relu": ([("Relu", ["left"], ["p"], {}), ("Identity", ["right"], ["q"], {})], True),
    "scaled": ([("Mul", ["left", "half"], ["p"], {}), ("Tanh", ["right"], ["q"], {})], True),
    "exponential of one": ([("Identity", ["left"], ["p"], {}), ("Exp", ["right"], ["q"], {})], True),
    "exponentials": ([("Exp", ["left"], ["p"], {}), ("Exp", ["right"], ["q"], {})], False),
    "reciprocal": ([("Reciprocal", ["left"], ["p"], {}), ("Identity", ["right"], ["q"], {})], False),
}


@pytest.mark.few(7)
@needs_compiler
@pytest.mark.parametrize("kind", ["float16", "float32"])
@pytest.mark.parametrize("depth", [48, 37])
@pytest.mark.parametrize("name", COMPUTED)
def test_computed_factors(name: str, depth: int, kind: str, tmp_path: Path) -> None:
    """Prologues are computed on fragments, unless zeros of a ragged tile would then count; CUDA cores mask those."""
    nodes, is_harmless = COMPUTED[name]
    inputs = {"left": (kind, (40, depth)), "right": (kind, (depth, 36))}
    half = {"half": np.array(0.5, kind)}
    path = write_model(tmp_path / "c.onnx", [*nodes, ("MatMul", ["p", "q"], ["y"], {})], inputs, ["y"], half)
    (group,) = engine.fuse(engine.load(path)).groups
    assert len(group.program.statements) == 1
    kernel = engine.compile(group, engine.default_recipe(group, numerics=TF32))
    assert is_on_tensor_cores(kernel) == is_harmless
    report = engine.check(kernel)
    assert report.status == "pass", report.message


CHOICES = {
    "block": (16, 32, 64, 128), "warp": (16, 32, 64), "tile": (16, 32, 64, 128), "stages": (1, 2, 3, 4, 6),
    "register_stages": (1, 2, 4), "slices": (1, 2, 4), "raster": (1, 2, 3),
}  # fmt: skip
PLACES = [
    ("block", "i"), ("block", "j"), ("warp", "i"), ("warp", "j"), ("raster", "i"), ("tile", "k"), ("stages", "k"),
    ("register_stages", "k"), ("slices", "k"),
]  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 150))])
def test_random_products_under_random_marks(seed: int, tmp_path: Path) -> None:
    source = random.Random(seed)
    rows, columns, depth = source.randint(16, 90), source.randint(16, 90), source.randint(16, 300)
    trans_a, trans_b = source.randint(0, 1), source.randint(0, 1)
    left = halves(seed, (depth, rows) if trans_a else (rows, depth), depth**-0.5)
    right = halves(seed + 100, (columns, depth) if trans_b else (depth, columns))
    wishes = [f"all @ {at}: mark {name} {source.choice(CHOICES[name])}" for name, at in PLACES]
    group = product_group(tmp_path, left.shape, right.shape, transA=trans_a, transB=trans_b)
    kernel = advised(group, *wishes)
    assert is_on_tensor_cores(kernel)
    a, b = (x.astype(np.float64).T if t else x.astype(np.float64) for x, t in ((left, trans_a), (right, trans_b)))
    check_against_numpy(kernel, a @ b, product_arrays(kernel, left, right))


@pytest.mark.few(4)
@needs_compiler
@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize(("rows", "columns", "depth"), [(64, 32, 48), (37, 50, 43)])
def test_tf32_where_the_numerics_say_so(
    rows: int, columns: int, depth: int, trans_a: int, trans_b: int, tmp_path: Path
) -> None:
    """Operands of few bits are exact in tf32 too: the results are NumPy's."""
    rng = np.random.default_rng(11)
    left = rng.integers(-64, 65, (depth, rows) if trans_a else (rows, depth)).astype(np.float32)
    right = rng.integers(-64, 65, (columns, depth) if trans_b else (depth, columns)).astype(np.float32)
    group = product_group(tmp_path, left.shape, right.shape, "float32", transA=trans_a, transB=trans_b)
    kernel = engine.compile(group, engine.default_recipe(group, numerics=TF32))
    assert kernel.tile.intrinsic == "mma_m16n8k8_tf32"
    expected = (left.T if trans_a else left) @ (right.T if trans_b else right)
    for order in ORDERS:
        emulation, outputs, _ = emulate(kernel.source, product_arrays(kernel, left, right), order=order)
        assert not emulation.findings
        assert all(count.conflicts == 0 for count in emulation.counts if count.kind == "shared load")
        np.testing.assert_array_equal(outputs["y"].reshape(expected.shape), expected)


@needs_compiler
def test_tf32_rounds_operands_and_the_check_allows_for_it(tmp_path: Path) -> None:
    group = product_group(tmp_path, (64, 96), (96, 64), "float32")
    recipe = engine.default_recipe(group, numerics=TF32)
    report = engine.check(engine.compile(group, recipe))
    assert report.status == "pass", report.message
    assert 2.0**-13 < report.max_error < report.tolerance
    assert "tf32" in report.tolerance_because
    plain = engine.check(engine.compile(group))
    assert plain.tolerance < 2.0**-16


@needs_nvrtc
def test_tf32_compiles_without_spills(tmp_path: Path) -> None:
    group = product_group(tmp_path, (2048, 2048), (2048, 2048), "float32")
    kernel = engine.compile(group, engine.default_recipe(group, numerics=TF32))
    assert [compile_cuda(kernel.source.text, a).spill_bytes for a in ARCHITECTURES] == [0, 0]


def test_tf32_needs_leave(tmp_path: Path) -> None:
    kernel = advised(product_group(tmp_path, (64, 64), (64, 64), "float32"), "all @ k: mark intrinsic mma_m16n8k8_tf32")
    (verdict,) = (v for v in kernel.verdicts if v.placed.author == "user")
    assert verdict.outcome == "relaxed"
    assert 'must say "tensor_cores": "tf32"' in verdict.because
    assert not is_on_tensor_cores(kernel)


# Who decides


def test_other_kernels_stay_on_cuda_cores(tmp_path: Path) -> None:
    """float32 without leave to round, and products with less than an instruction's rows, columns or depth."""
    for left, right, kind in [
        ((64, 64), (64, 64), "float32"), ((7, 64), (64, 64), "float16"), ((64, 64), (64, 7), "float16"),
        ((64, 7), (7, 64), "float16"),
    ]:  # fmt: skip
        assert not is_on_tensor_cores(advised(product_group(tmp_path, left, right, kind)))


@needs_compiler
@pytest.mark.parametrize("size", [64, 1600])
def test_a_user_switches_the_entry_off(size: int, tmp_path: Path) -> None:
    """The other entries of the same author still give the tile, as far as CUDA cores take it."""
    group = product_group(tmp_path, (size, 64), (64, size))
    recipe = engine.default_recipe(group)
    kernel = engine.compile(group, recipe.with_group(group.name, without_intrinsic(recipe, group.name)))
    assert not is_on_tensor_cores(kernel)
    outcomes = {str(v.placed.entry).partition("mark ")[2]: v.outcome for v in kernel.verdicts}
    assert outcomes["intrinsic mma_m16n8k16_f16"] == "disabled"
    assert engine.check(kernel).status == "pass"


def without_intrinsic(recipe: engine.Recipe, group: str) -> tuple[Advice, ...]:
    """The advice of a group with its `intrinsic` entry switched off."""

    def off(entry: Entry) -> Entry:
        is_intrinsic = entry.field == "mark" and isinstance(entry.value, tuple) and entry.value[0] == "intrinsic"
        return replace(entry, enabled=not is_intrinsic)

    return tuple(
        replace(a, scenario=replace(a.scenario, entries=tuple(map(off, a.scenario.entries))))
        for a in recipe.groups[group]
    )


MARKS = [
    ("all @ k: mark intrinsic mma_m16n8k16_bf16", "left holds float16, the instruction takes bfloat16"),
    ("all @ k: mark intrinsic wmma", "known are mma_m16n8k16_f16"),
    ("all @ i: mark thread 4", "the instruction says which sums a thread owns"),
    ("all @ i: mark warp 8", "a power of two from 16 to 32"),
    ("all @ k: mark stages 9", "the loop over tile has 2 iterations"),
    ("all @ k: mark tile 8", "a power of two from 16 to 128"),
    ("all @ k: mark tile wide", "a power of two from 16 to 128"),
    ("all @ k: mark stages two", "stages is a number"),
]


@pytest.mark.parametrize(("wish", "reason"), MARKS, ids=[wish for wish, _ in MARKS])
def test_marks_that_cannot_be_had(wish: str, reason: str, tmp_path: Path) -> None:
    kernel = advised(product_group(tmp_path, (64, 64), (64, 64)), wish)
    verdict = next(v for v in kernel.verdicts if v.placed.author == "user")
    assert verdict.outcome == "relaxed"
    assert reason in verdict.because
    assert math.prod(kernel.source.grid) > 0


def test_heads_that_lie_side_by_side_are_copied_as_vectors(tmp_path: Path) -> None:
    """The output projection of attention: the depth runs over heads, whose elements are neighbours in memory."""
    nodes: list[Node] = [
        ("Transpose", ["x"], ["t"], {"perm": [0, 2, 1, 3]}), ("Reshape", ["t", "shape"], ["rows"], {}),
        ("MatMul", ["rows", "right"], ["y"], {}),
    ]  # fmt: skip
    inputs = {"x": ("float16", (1, 8, 64, 64)), "right": ("float16", (512, 64))}
    path = write_model(tmp_path / "heads.onnx", nodes, inputs, ["y"], {"shape": np.array([1, 64, 512])})
    kernel = advised(engine.fuse(engine.load(path)).groups[0])
    assert copies(kernel) == [8, 8] and kernel.tile.stages > 2
    assert not any("one by one" in v.placed.entry.because for v in kernel.verdicts)
    random_values = np.random.default_rng(5)
    x, right = (random_values.standard_normal(shape).astype(np.float16) for _, shape in inputs.values())
    expected = x.astype(np.float64).transpose(0, 2, 1, 3).reshape(1, 64, 512) @ right.astype(np.float64)
    check_against_numpy(kernel, expected, {"x": x, "right": right})


def test_halves_that_windows_slide_over_are_copied_one_by_one(tmp_path: Path) -> None:
    inputs = {"x": ("float16", (1, 16, 18, 18)), "w": ("float16", (16, 16, 3, 3))}
    path = write_model(tmp_path / "windows.onnx", [("Conv", ["x", "w"], ["y"], {})], inputs, ["y"])
    group = next(g for g in engine.fuse(engine.load(path)).groups if g.kind == "contraction")
    kernel = advised(group)
    assert any("one by one" in v.placed.entry.because for v in kernel.verdicts) and kernel.tile.stages <= 2
