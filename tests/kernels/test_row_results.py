"""Reductions of a product's rows in its own kernel, run whole by the emulator in both copy orders, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import ORDERS
from engine.execution.nvrtc import compile_cuda
from engine.fusion.shape import is_contraction
from engine.fusion.stitching.nodes import Fixed
from engine.kernels.gemm.row_epilogue import passes
from engine.scheduling.nodes import NOT_REACHED
from engine.target import ARCHITECTURES
from tests.kernels.test_tensor_cores import halves
from tests.semantics.single import Node, write_model
from tests.support.misfits import own_refusal
from tests.support.needs import needs_compiler, needs_nvrtc

Arrays = dict[str, np.ndarray]
HALF, SINGLE = 2.0**-11, 2.0**-24


@dataclass(frozen=True)
class Case:
    """Operators of one kernel with their inputs, and what NumPy makes of them in float64."""

    nodes: list[Node]
    arrays: Arrays
    expected: Callable[[Arrays], Arrays]
    roundings: float
    """Relative error of an output of about 1."""
    numerics: str = ""


def floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def with_residual(x: Arrays) -> np.ndarray:
    return x["x"] @ x["w"] + x["b"] + x["r"]


def operands(kind: Callable[..., np.ndarray], rows: int, columns: int, depth: int) -> Arrays:
    return {"x": kind(1, rows, depth) / np.sqrt(depth).astype(kind(0, 1).dtype), "w": kind(2, depth, columns),
            "b": kind(3, columns) + kind(0, 1).dtype.type(2), "r": kind(4, rows, columns)}  # fmt: skip


def half(seed: int, *shape: int) -> np.ndarray:
    return halves(seed, shape)


RESIDUAL: list[Node] = [
    ("MatMul", ["x", "w"], ["p"], {}), ("Add", ["p", "b"], ["s"], {}), ("Add", ["s", "r"], ["t"], {}),
]  # fmt: skip


def layer_norm() -> Case:
    """Bias, residual and layer norm over 104 of 128 columns; the sum is an output, as a residual stream is."""

    def expected(x: Arrays) -> Arrays:
        t = with_residual(x)
        centred = t - t.mean(-1, keepdims=True)
        y = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return {"t": t, "y": y * x["g"] + x["h"]}

    arrays = operands(half, 40, 104, 72) | {"g": half(5, 104), "h": half(6, 104)}
    nodes: list[Node] = [*RESIDUAL, ("LayerNormalization", ["t", "g", "h"], ["y"], {"axis": -1})]
    return Case(nodes, arrays, expected, 16 * HALF)


def softmax(t: np.ndarray) -> np.ndarray:
    e = np.exp(t - t.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_of_floats() -> Case:
    """On CUDA cores, with ragged rows and columns."""
    nodes: list[Node] = [*RESIDUAL, ("Softmax", ["t"], ["y"], {"axis": -1})]
    return Case(nodes, operands(floats, 37, 45, 20), lambda x: {"y": softmax(with_residual(x))}, 64 * SINGLE)


def log_softmax_of_batches() -> Case:
    """A batch of products, the second factor transposed, as scores of an attention are."""
    arrays = {"q": half(1, 3, 24, 40) / np.float16(6), "k": half(2, 3, 50, 40)}
    nodes: list[Node] = [
        ("Transpose", ["k"], ["kt"], {"perm": [0, 2, 1]}), ("MatMul", ["q", "kt"], ["s"], {}),
        ("LogSoftmax", ["s"], ["y"], {"axis": -1}),
    ]  # fmt: skip

    def expected(x: Arrays) -> Arrays:
        return {"y": np.log(softmax(np.einsum("bik,bjk->bij", x["q"], x["k"])))}

    return Case(nodes, arrays, expected, 16 * HALF)


def wide_rms_norm() -> Case:
    """All 256 columns that a block holds, in tf32."""
    nodes: list[Node] = [
        ("MatMul", ["x", "w"], ["p"], {}), ("Mul", ["p", "p"], ["q"], {}),
        ("ReduceMean", ["q", "axis"], ["m"], {"keepdims": 1}), ("Sqrt", ["m"], ["d"], {}),
        ("Div", ["p", "d"], ["y"], {}),
    ]  # fmt: skip

    def expected(x: Arrays) -> Arrays:
        p = x["x"] @ x["w"]
        return {"y": p / np.sqrt((p**2).mean(-1, keepdims=True))}

    integers = np.random.default_rng(7)
    arrays = {name: integers.integers(-4, 5, shape).astype(np.float32) for name, shape in
              (("x", (20, 32)), ("w", (32, 256)))}  # fmt: skip
    return Case(nodes, arrays | {"axis": np.array([-1])}, expected, 64 * SINGLE, "tf32")


def unit_rows_and_their_sums() -> Case:
    """Rows of length 1, and a sum and a maximum of each row that leave the kernel."""

    def expected(x: Arrays) -> Arrays:
        p = x["x"] @ x["w"]
        length = np.sqrt((p**2).sum(-1, keepdims=True))
        return {"y": p / length, "total": p.sum(-1), "most": p.max(-1)}

    nodes: list[Node] = [
        ("MatMul", ["x", "w"], ["p"], {}), ("ReduceL2", ["p", "axis"], ["l"], {"keepdims": 1}),
        ("Div", ["p", "l"], ["y"], {}), ("ReduceSum", ["p", "axis"], ["total"], {"keepdims": 0}),
        ("ReduceMax", ["p", "axis"], ["most"], {"keepdims": 0}),
    ]  # fmt: skip
    arrays = {"x": floats(1, 50, 33) / np.float32(6), "w": floats(2, 33, 130), "axis": np.array([-1])}
    return Case(nodes, arrays, expected, 128 * SINGLE)


def means_of_planes() -> Case:
    """The mean over each plane of a convolution: its windows are the first factor, its images batches."""

    def expected(x: Arrays) -> Arrays:
        seen = np.lib.stride_tricks.sliding_window_view(x["image"], (3, 3), (2, 3))
        y = np.maximum(np.einsum("nchwrs,ocrs->nohw", seen, x["weight"]), 0)
        return {"y": y.mean((2, 3), keepdims=True)}

    nodes: list[Node] = [
        ("Conv", ["image", "weight"], ["c"], {"kernel_shape": [3, 3]}), ("Relu", ["c"], ["r"], {}),
        ("GlobalAveragePool", ["r"], ["y"], {}),
    ]  # fmt: skip
    arrays = {"image": half(1, 2, 16, 7, 9), "weight": half(2, 24, 16, 3, 3) / np.float16(12)}
    return Case(nodes, arrays, expected, 8 * HALF)


def norm_of_pixels() -> Case:
    """A layer norm over the channels of a convolution, whose pixels are one axis by then."""

    def expected(x: Arrays) -> Arrays:
        seen = np.lib.stride_tricks.sliding_window_view(x["image"], (3, 3), (2, 3))
        t = np.einsum("nchwrs,ocrs->nohw", seen, x["weight"]).reshape(24, 35).T
        centred = t - t.mean(-1, keepdims=True)
        return {"y": centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * x["g"]}

    nodes: list[Node] = [
        ("Conv", ["image", "weight"], ["c"], {"kernel_shape": [3, 3]}), ("Reshape", ["c", "shape"], ["f"], {}),
        ("Transpose", ["f"], ["t"], {"perm": [1, 0]}), ("LayerNormalization", ["t", "g"], ["y"], {"axis": -1}),
    ]  # fmt: skip
    arrays = {"image": floats(1, 1, 16, 7, 9), "weight": floats(2, 24, 16, 3, 3) / np.float32(12), "g": floats(3, 24)}
    return Case(nodes, arrays | {"shape": np.array([24, 35])}, expected, 256 * SINGLE)


def softmax_of_heads() -> Case:
    """Scores whose batches are one axis for the product and two for the softmax."""
    nodes: list[Node] = [
        ("MatMul", ["q", "k"], ["s"], {}), ("Reshape", ["s", "shape"], ["h"], {}), ("Add", ["h", "mask"], ["m"], {}),
        ("Softmax", ["m"], ["y"], {"axis": -1}),
    ]  # fmt: skip

    def expected(x: Arrays) -> Arrays:
        return {"y": softmax((x["q"] @ x["k"]).reshape(2, 3, 20, 30) + x["mask"])}

    arrays = {"q": half(1, 6, 20, 40) / np.float16(6), "k": half(2, 6, 40, 30), "mask": half(3, 2, 1, 1, 30)}
    return Case(nodes, arrays | {"shape": np.array([2, 3, 20, 30])}, expected, 8 * HALF)


CASES = (
    layer_norm, softmax_of_floats, log_softmax_of_batches, wide_rms_norm, unit_rows_and_their_sums, means_of_planes,
    norm_of_pixels, softmax_of_heads,
)  # fmt: skip
SHAPES = ("axis", "shape")
"""Names of inputs that ONNX asks to know beforehand."""


def group_of(case: Case, folder: Path) -> engine.FusionGroup:
    """All operators as one kernel, whatever the plan would choose."""
    fed = {name: array for name, array in case.arrays.items() if name not in SHAPES}
    constants = {name: array for name, array in case.arrays.items() if name in SHAPES}
    inputs = {name: (str(array.dtype), array.shape) for name, array in fed.items()}
    outputs = tuple(case.expected(wide(case.arrays)))
    graph = engine.load(write_model(folder / "m.onnx", case.nodes, inputs, outputs, constants))
    (group,) = engine.fuse(graph, fixed=Fixed(groups=(tuple(op.name for op in graph.operators),))).groups
    return group


def wide(arrays: Arrays) -> Arrays:
    return {name: array.astype(np.float64) for name, array in arrays.items()}


def kernel_of(case: Case, folder: Path, *lines: str) -> engine.Kernel:
    group = group_of(case, folder)
    recipe = engine.default_recipe(group, numerics={"tensor_cores": case.numerics} if case.numerics else None)
    text = "advice user\n" + "".join(f"  {line}\n" for line in lines)
    return engine.compile(group, engine.merge_advice(recipe, group, text) if lines else recipe)


def faults(case: Case, kernel: engine.Kernel, order: str, text: str = "") -> list[str]:
    """What the emulator finds in a kernel, or in other text in its place, and which outputs are wrong."""
    source = replace(kernel.source, text=text or kernel.source.text)
    arrays = {b.array: _held(case.arrays, b.array) for b in source.buffers if b.read}
    emulation, outputs, written = emulate(source, arrays, order=order)
    found = [str(finding) for finding in emulation.findings]
    for name, value in case.expected(wide(case.arrays)).items():
        array = _named(outputs, name)
        error = np.abs(outputs[array].reshape(value.shape).astype(np.float64) - value)
        if not written[array].all() or not (error <= case.roundings * (np.abs(value) + 1)).all():
            found.append(f"{name} is off by {np.nanmax(error):.2g}")
    return found


def _held(arrays: Arrays, array: str) -> np.ndarray:
    return arrays[_named(arrays, array)]


def _named(arrays: Arrays, name: str) -> str:
    """Kernels number names that several arrays end with, and those of loops."""
    return next(n for n in arrays if n == name or n.rpartition("_")[0] == name or name.rpartition("_")[0] == n)


@pytest.mark.few(6)
@needs_compiler
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_rows_agree_with_numpy(case: Callable[[], Case], order: str, tmp_path: Path) -> None:
    kernel = kernel_of(case(), tmp_path)
    is_half = any(array.dtype == np.float16 for array in case().arrays.values())
    assert bool(kernel.tile.intrinsic) == (is_half or bool(case().numerics))
    assert faults(case(), kernel, order) == []


@needs_compiler
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("all @ k: mark stages 3", "all @ k: mark register_stages 2", "all @ k: mark tile 16"), (3, 1)),
        (("all @ i: mark block 32", "all @ j: mark warp 32", "all @ k: mark slices 2"), (3, 2)),
        (("all @ i: mark block 16", "all @ k: mark split_k 2"), (2, 1)),
        (("all @ i: mark warp 16", "all @ j: mark warp 128"), (3, 1)),
    ],
    ids=["stages", "slices", "blocks that share the depth", "warps of 64 columns"],
)
def test_pipelines_and_shared_depths_stay(lines: tuple[str, ...], expected: tuple[int, int], tmp_path: Path) -> None:
    kernel = kernel_of(layer_norm(), tmp_path, *lines)
    assert (kernel.tile.stages, kernel.tile.config.slices) == expected
    for order in ORDERS:
        assert faults(layer_norm(), kernel, order) == []


FAULTS = {
    "a barrier less before the parts of warps are read": ("y_sum_acc[r]);\n  }\n  barrier();", "y_sum_acc[r]);\n  }\n"),
    "lanes that share a row left out": ("warp_reduce<Sum, 4>(y_sum", "warp_reduce<Sum, 2>(y_sum"),
    "the parts of another row": ("y_squares_parts.load<4>(r * ", "y_squares_parts.load<4>(0 * "),
    "a lane's own part counted twice": ("y_squares_acc[r] = 0.0f;\n    ", "\n    "),
    "every lane hands over a part": ("if (first_lane) y_sum_parts", "y_sum_parts"),
    "parts of all warps at one place": ("+ thread / 32, y_sum_acc[r]", ", y_sum_acc[r]"),
    "columns past the edge counted": ("(inside ? ((t_value", "(true ? ((t_value"),
    "a mean over the tile, not the row": ("0.00961538462f * y_sum", "0.0078125f * y_sum"),
    "the statistics of the row beside": ("- y_mean[r])", "- y_mean[1 - r])"),
    "results kept of another column": ("((((t_value[r * 4 + s][v]", "((((t_value[r * 4][v]"),
}
TILE = ("all @ i: mark block 16", "all @ i: mark warp 16", "all @ j: mark warp 32")


@pytest.mark.few(5)
@needs_compiler
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault: str, tmp_path: Path) -> None:
    kernel = kernel_of(layer_norm(), tmp_path, *TILE)
    assert any(faults(layer_norm(), kernel, order, _broken(kernel, *FAULTS[fault])) for order in ORDERS)


@needs_compiler
def test_a_sum_that_every_thread_of_a_row_stores_is_caught(tmp_path: Path) -> None:
    kernel = kernel_of(unit_rows_and_their_sums(), tmp_path)
    found = faults(unit_rows_and_their_sums(), kernel, ORDERS[0], _broken(kernel, "if (first_of_row) total", "total"))
    assert any("total" in one for one in found)


def _broken(kernel: engine.Kernel, before: str, after: str) -> str:
    assert before in kernel.source.text, "the kernel has no such place any more"
    return kernel.source.text.replace(before, after)


def test_passes_are_as_few_as_the_order_allows(tmp_path: Path) -> None:
    """Two reductions of the same values share a pass; one that waits for another's result has one of its own."""

    def names(case: Case) -> list[tuple[str, str]]:
        statements = group_of(case, tmp_path).program.statements
        anchor = next(s for s in statements if is_contraction(s))
        todo = passes(anchor, [s for s in statements if s is not anchor])
        return [tuple(" ".join(s.name for s in part) for part in (p.of_rows, p.of_elements)) for p in todo]

    assert names(layer_norm()) == [("", "S1 S2 S3"), ("S3 S4", "S5"), ("S5 S6", "S7")]
    assert names(softmax_of_floats()) == [("", "S1 S2 S3"), ("S3", "S4 S5"), ("S5", "S6")]
    assert names(unit_rows_and_their_sums()) == [("", "S1"), ("S1 S2", "S3 S4 S5"), ("S4 S5", "")]
    assert names(means_of_planes()) == [("", "S1 S2"), ("S2 S3", "")]


def test_a_tile_that_would_cut_rows_is_another_one_and_says_why(tmp_path: Path) -> None:
    kernel = kernel_of(layer_norm(), tmp_path, "all @ j: mark block 64")
    assert kernel.tile.config.block[1] == 128
    (mine,) = [v for v in kernel.verdicts if v.placed.author == "user"]
    assert mine.outcome == "relaxed"
    assert "block 128: this kernel takes whole rows of 104 columns, 128 in all" in mine.because
    required = kernel_of(layer_norm(), tmp_path, "required all @ j: mark block 64")
    assert required.family == "general" and "whole rows of 104 columns" in required.tile.misfit
    held = kernel_of(layer_norm(), tmp_path, "required all @ j: mark block 128")
    assert all(v.outcome == "honoured" for v in held.verdicts if v.outcome != NOT_REACHED)


@needs_compiler
def test_sums_relative_to_a_running_maximum_have_a_general_kernel(tmp_path: Path) -> None:
    kernel = kernel_of(softmax_of_floats(), tmp_path, "rewrite online S5")
    assert own_refusal(kernel).hint == "leave the reduction as it was written"
    assert engine.check(kernel).status == "pass"


@pytest.mark.parametrize("case", [layer_norm, softmax_of_floats, wide_rms_norm], ids=lambda case: case.__name__)
def test_how_rows_come_together_is_told(case: Callable[[], Case], tmp_path: Path) -> None:
    kernel = kernel_of(case(), tmp_path)
    reduced = [s.name for s in kernel.program.statements if s.reduction][1:]
    assert reduced and all("shuffle over" in kernel.tile.placements[name] for name in reduced)


@pytest.mark.few(4)
@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_no_kernel_spills(case: Callable[[], Case], architecture: str, tmp_path: Path) -> None:
    compiled = compile_cuda(kernel_of(case(), tmp_path).source.text, architecture)
    assert compiled.spill_bytes == 0 and compiled.registers <= 168


@needs_compiler
@pytest.mark.parametrize("lines", [(), ("all @ i: mark block 2", "all @ k: mark tile 4", "all @ j: mark thread 4")])
def test_few_columns_still_fill_the_warps_that_share_rows(lines: tuple[str, ...], tmp_path: Path) -> None:
    nodes: list[Node] = [*RESIDUAL, ("Softmax", ["t"], ["y"], {"axis": -1})]
    case = Case(nodes, operands(floats, 21, 3, 40), lambda x: {"y": softmax(with_residual(x))}, 64 * SINGLE)
    kernel = kernel_of(case, tmp_path, *lines)
    assert kernel.tile.threads % 32 == 0 and kernel.tile.config.block[1] == 4
    assert [faults(case, kernel, order) for order in ORDERS] == [[], []]
