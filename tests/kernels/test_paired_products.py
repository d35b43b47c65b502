"""Gate and up in one main loop: chosen by the estimate, right at both levels, refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.execution.nvrtc import compile_cuda
from engine.fusion.paired_products import pair_of
from engine.fusion.stitching.nodes import Fixed
from engine.tensor.traffic import compulsory_bytes
from tests.benchmarks.work import Row, compare
from tests.kernels.test_gemm_work import assert_same_work, configurations
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc

GATED: list[Node] = [
    ("MatMul", ["x", "w"], ["g"], {}), ("Sigmoid", ["g"], ["s"], {}), ("Mul", ["g", "s"], ["a"], {}),
    ("MatMul", ["x", "v"], ["u"], {}), ("Mul", ["a", "u"], ["y"], {}),
]  # fmt: skip
CASES = [
    # rows, depth, columns, type, machine: ragged and whole tiles, few of them with slices and with a shared depth
    (48, 64, 72, "float16", "a100"),
    (256, 512, 640, "bfloat16", "h200"),
    (40, 72, 36, "float16", "a100"),
    (17, 2048, 96, "float16", "h200"),
    (300, 128, 1000, "float16", "a100"),
]


def plan_of(
    folder: Path, rows: int, depth: int, columns: int, dtype: str = "float16", target: str = "a100",
    outputs: tuple[str, ...] = ("y",),
) -> engine.FusionPlan:  # fmt: skip
    """A product times the sigmoid linear unit of another one of the same rows: SwiGLU."""
    inputs = {"x": (dtype, (rows, depth)), "w": (dtype, (depth, columns)), "v": (dtype, (depth, columns))}
    return engine.fuse(engine.load(write_model(folder / "g.onnx", GATED, inputs, list(outputs))), target)


@pytest.mark.few(2)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_main_loop(case: tuple[int, int, int, str, str], tmp_path: Path) -> None:
    """x is read once, gate and up never leave the kernel; work is what is counted."""
    (group,) = plan_of(tmp_path, *case).groups
    assert "share their first factor and their main loop" in group.because
    kernel = engine.compile(group)
    assert kernel.tile.family == "gemm" and kernel.tile.intrinsic
    checks = [engine.check(kernel, level=level) for level in ("source", "ptx")]
    assert [(one.status, one.message) for one in checks] == [("pass", "")] * 2
    assert compile_cuda(kernel.source.text, kernel.target.architecture).spill_bytes == 0
    assert kernel.facts.dram_bytes_read == compulsory_bytes(group.program)[0]
    row = compare(kernel)
    assert isinstance(row, Row) and not row.left, row


@pytest.mark.slow(sentinel=True)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("layout", ["weights transposed", "batches", "biases"])
def test_other_layouts_and_epilogues(layout: str, tmp_path: Path) -> None:
    """Tiles with the depth inside; batches of products; other sums after both."""
    gemm = {"transB": 1} if layout == "weights transposed" else {}
    kind = "Gemm" if gemm else "MatMul"
    lead, weight = (2,) if layout == "batches" else (), (72, 128) if gemm else (128, 72)
    nodes: list[Node] = [(kind, ["x", "w"], ["g"], dict(gemm)), (kind, ["x", "v"], ["u"], dict(gemm))]
    inputs = {"x": ("float16", (*lead, 80, 128)), **dict.fromkeys("wv", ("float16", (*lead, *weight)))}
    if layout == "biases":
        nodes += [("Add", ["g", "b"], ["p"], {}), ("Add", ["u", "c"], ["q"], {}), ("Tanh", ["p"], ["a"], {})]
        nodes += [("Mul", ["a", "q"], ["y"], {})]
        inputs |= {"b": ("float16", (72,)), "c": ("float16", (72,))}
    else:
        nodes += [("Sigmoid", ["g"], ["a"], {}), ("Mul", ["a", "u"], ["y"], {})]
    (group,) = engine.fuse(engine.load(write_model(tmp_path / "l.onnx", nodes, inputs, ["y"])), "a100").groups
    kernel = engine.compile(group)
    assert pair_of(group.program.statements) and kernel.tile.family == "gemm"
    assert [engine.check(kernel, level=level).status for level in ("source", "ptx")] == ["pass", "pass"]
    assert all(map(assert_same_work, configurations(group, seed=3, count=3)))


@needs_compiler
def test_sums_that_others_need_are_stored_too(tmp_path: Path) -> None:
    graph = plan_of(tmp_path, 64, 64, 64, outputs=("y", "u")).source
    (group,) = engine.fuse(graph, "a100", "xla", Fixed(groups=(("n0", "n1", "n2", "n3", "n4"),))).groups
    assert pair_of(group.program.statements) and len(group.program.outputs) == 2
    assert engine.check(engine.compile(group)).status == "pass"


def test_the_work_of_drawn_configurations_is_what_is_counted(tmp_path: Path) -> None:
    (group,) = plan_of(tmp_path, 128, 1024, 200).groups
    kernels = list(configurations(group, seed=5, count=12))
    assert len(kernels) > 6 and all(map(assert_same_work, kernels))


@needs_compiler
@pytest.mark.parametrize("marks", ["block 32 warp 32", "block 64 warp 32", "block 128 warp 64"])
def test_marks_ask_for_columns_of_both(marks: str, tmp_path: Path) -> None:
    """Of 32 columns of a warp each product has 16, of 8 none would have a fragment: the nearest is taken."""
    (group,) = plan_of(tmp_path, 96, 96, 80).groups
    _, block, _, warp = marks.split()
    asked = f"advice user\n  S0 @ j: mark block {block}\n  S0 @ j: mark warp {warp}\n"
    kernel = engine.compile(group, engine.merge_advice(engine.default_recipe(group), group, asked))
    assert kernel.tile.config.block[1] == int(block) and kernel.tile.config.part[1] == int(warp)
    assert kernel.tile.grid % -(-80 // (int(block) // 2)) == 0
    assert engine.check(kernel).status == "pass"


def test_a_person_joins_and_parts_them(tmp_path: Path) -> None:
    graph = plan_of(tmp_path, 64, 64, 64).source
    everything = ("n0", "n1", "n2", "n3", "n4")
    assert len(engine.fuse(graph, "a100", "xla").launches) == 2
    assert len(engine.fuse(graph, "a100", "xla", Fixed(groups=(everything,))).launches) == 1
    assert len(engine.fuse(graph, "a100", fixed=Fixed(apart=(("n0", "n3"),))).launches) == 2


@pytest.mark.parametrize("rows", ["z", "g"])
def test_other_products_are_refused(rows: str, tmp_path: Path) -> None:
    """Of other rows, and one that needs the other."""
    nodes: list[Node] = [
        ("MatMul", ["x", "w"], ["g"], {}), ("MatMul", [rows, "v"], ["u"], {}), ("Mul", ["g", "u"], ["y"], {}),
    ]  # fmt: skip
    shapes = {"x": (64, 64), "z": (64, 64), "w": (64, 32), "v": (32 if rows == "g" else 64, 32)}
    used = {name: ("float16", shape) for name, shape in shapes.items() if name in {"x", rows, "w", "v"}}
    graph = engine.load(write_model(tmp_path / "o.onnx", nodes, used, ["y"]))
    with pytest.raises(engine.EngineError, match="two matrix products need two main loops"):
        engine.fuse(graph, "a100", fixed=Fixed(groups=(("n0", "n1", "n2"),)))
    assert len(engine.fuse(graph, "a100").launches) == 2


def test_floats_keep_kernels_of_their_own(tmp_path: Path) -> None:
    """CUDA cores multiply them, whose threads have the sums of one product."""
    assert len(plan_of(tmp_path, 128, 128, 128, "float32").launches) == 2


@needs_compiler
def test_a_product_with_the_others_factor_is_found(tmp_path: Path) -> None:
    (group,) = plan_of(tmp_path, 48, 64, 72).groups
    kernel = engine.compile(group)
    assert engine.check(kernel).status == "pass"
    tile = next(name for name in kernel.tile.buffers if name.startswith("v") and name.endswith("_tile"))
    other = next(name for name in kernel.tile.buffers if name.startswith("w") and name.endswith("_tile"))
    text = kernel.source.text
    loads = [line for line in text.splitlines() if "ldmatrix" in line and tile in line]
    assert loads
    for line in loads:
        text = text.replace(line, line.replace(tile, other))
    wrong = replace(kernel, source=replace(kernel.source, text=text))
    assert engine.check(wrong).status == "fail"
