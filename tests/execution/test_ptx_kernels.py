"""The compiled code of kernels of every family computes what the reference does: a sample, and more under slow."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import engine
from engine.execution.nvrtc import compile_ptx
from engine.execution.ptx.arithmetic import decode_dot
from engine.execution.ptx.nodes import Instruction
from engine.execution.ptx.parse import parse
from engine.fusion.nodes import FusionGroup
from engine.suite import read_suite, suite_names
from engine.verify.levels import LINE_TABLE, PTX_WORK, work_of
from tests.semantics.single import Node, write_model
from tests.support.commands import MODELS, document, refused
from tests.support.needs import needs_nvrtc
from tests.support.sentinels import sentinels, shipped_models

pytestmark = needs_nvrtc

SHARED = Path(__file__).parents[3] / "shared"
LINEAR: list[Node] = [
    ("MatMul", ["x", "w"], ["p"], {}), ("Add", ["p", "b"], ["s"], {}), ("Relu", ["s"], ["y"], {}),
]  # fmt: skip
CASES: dict[str, tuple[list[Node], dict[str, tuple[int, ...]]]] = {
    "linear": (LINEAR, {"x": (70, 64), "w": (64, 96), "b": (96,)}),
    "odd linear": (LINEAR, {"x": (47, 31), "w": (31, 29), "b": (29,)}),
    "convolution": ([("Conv", ["x", "w"], ["y"], {"pads": [1, 1, 1, 1]})], {"x": (1, 16, 9, 11), "w": (24, 16, 3, 3)}),
    "attention": (
        [("MatMul", ["q", "k"], ["s"], {}), ("Softmax", ["s"], ["p"], {"axis": -1}), ("MatMul", ["p", "v"], ["y"], {})],
        {"q": (2, 40, 32), "k": (2, 32, 64), "v": (2, 64, 32)},
    ),
    "rows": ([("LayerNormalization", ["x", "w", "b"], ["y"], {"axis": -1})], {"x": (5, 96), "w": (96,), "b": (96,)}),
    "pooling": ([("MaxPool", ["x"], ["y"], {"kernel_shape": [3, 3], "strides": [2, 2]})], {"x": (2, 5, 17, 19)}),
    "functions": (
        [("Sin", ["x"], ["a"], {}), ("Tanh", ["a"], ["b"], {}), ("Erf", ["b"], ["c"], {}), ("Exp", ["c"], ["y"], {})],
        {"x": (7, 33)},
    ),
}  # fmt: skip


def group_plan(folder: Path, case: str, dtype: str) -> engine.FusionPlan:
    """The plan of a case in a type."""
    nodes, inputs = CASES[case]
    shapes = {name: (dtype, shape) for name, shape in inputs.items()}
    return engine.fuse(engine.load(write_model(folder / "model.onnx", nodes, shapes, ["y"], opset=22)))


def assert_right(group: FusionGroup, recipe: engine.Recipe | None = None) -> engine.Kernel:
    """The group's kernel, which passes as compiled."""
    kernel = engine.compile(group, recipe)
    report = engine.check(kernel, level="ptx")
    assert report.status == "pass", f"{group.name}: {report.message}"
    assert report.elements_compared and report.orders == ("late", "early")
    return kernel


@pytest.mark.few(3)
@pytest.mark.parametrize("target", ["a100", "h200"])
@pytest.mark.parametrize("path", shipped_models())
def test_kernels_of_the_shipped_models(path: Path, target: str) -> None:
    plan = engine.fuse(engine.load(path), target=target)
    assert [assert_right(group) for group in plan.groups]


@pytest.mark.few(8)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_kernels_of_every_type(tmp_path: Path, case: str, dtype: str) -> None:
    for group in group_plan(tmp_path, case, dtype).groups:
        assert_right(group)


def test_float32_products_on_tensor_cores(tmp_path: Path) -> None:
    (group,) = group_plan(tmp_path, "linear", "float32").groups
    kernel = assert_right(group, engine.default_recipe(group, numerics={"tensor_cores": "tf32"}))
    assert "mma.sync.aligned.m16n8k8" in compile_ptx(kernel.source.text, kernel.target.architecture)


def test_kernels_of_the_general_family() -> None:
    group = engine.fuse(engine.load(MODELS / "transpose_2x12x64x64.onnx")).groups[0]
    statement = group.program.statements[0]
    wish = engine.entry(terms=tuple((i.name, 1) for i in statement.iterators[-2:]), at="innermost", required=True)
    assert assert_right(group, engine.default_recipe(group).advise("user", wish)).family == "general"


def test_lines_of_the_cuda_text_are_known() -> None:
    kernel = engine.compile(engine.fuse(engine.load(MODELS / "softmax_96x512.onnx")).groups[0])
    (entry,) = parse(compile_ptx(kernel.source.text, "sm_80", LINE_TABLE)).values()
    lines = kernel.source.text.splitlines()
    stores = {lines[one.cuda_line - 1].strip() for one in entry.code if one.opcode.startswith("st.global")}
    assert stores and all(".store" in line for line in stores)


def test_verify_tells_levels() -> None:
    for level, outcome in (("both", ["pass", "pass"]), ("source", ["pass", "not run"]), ("ptx", ["not run", "pass"])):
        (row,) = document("verify", str(MODELS / "softmax_96x512.onnx"), "--level", level)["groups"]
        assert [row["levels"][name] for name in ("source", "ptx")] == outcome


def test_a_whole_model_runs_at_both_levels() -> None:
    rows = document("verify", str(MODELS / "softmax_96x512.onnx"), "--whole", "--level", "both")["groups"]
    assert [row["levels"] for row in rows] == [{"source": "pass", "ptx": "pass"}]


@pytest.mark.parametrize("word", ["sass", "", "source,ptx"])
def test_a_level_that_there_is_not_is_bad_input(word: str) -> None:
    assert "both, auto" in refused("verify", str(MODELS / "softmax_96x512.onnx"), "--level", word)


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize("path", sentinels(sorted((SHARED / "akg" / "stitch").glob("*.json")), 0), ids=lambda p: p.stem)
def test_kernels_of_akg_files(path: Path) -> None:
    groups = engine.fuse(engine.load(path)).groups
    small = [group for group in groups if work_of(engine.compile(group)) <= 8 * PTX_WORK]
    for group in small:
        assert_right(group)
    if not small:
        pytest.skip("all groups take too long to interpret")


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((SHARED / "models").glob("*.onnx")), ids=lambda p: p.stem)
def test_kernels_of_shared_models(path: Path) -> None:
    for group in engine.fuse(engine.load(path)).groups:
        assert_right(group)


ROWS = [f"suite:{name}/{row.name}" for name in suite_names() for row in read_suite(name).rows]


@pytest.mark.slow
@pytest.mark.parametrize("reference", ROWS)
def test_kernels_of_suite_rows(reference: str) -> None:
    for group in engine.fuse(engine.load(reference)).groups:
        assert_right(group)


@pytest.mark.parametrize(
    ("text", "a", "b", "c", "result"),
    [
        ("dp4a.s32.s32", [[1, -2, 3, -4]], [[5, 6, -7, 8]], 10, 10 + 5 - 12 - 21 - 32),
        ("dp4a.u32.s32", [[255, 2, 0, 1]], [[-1, 100, 9, 7]], -5, -5 - 255 + 200 + 7),
        ("dp2a.lo.s32.s32", [[-300, 25]], [[3, -4, 50, 60]], 1, 1 - 900 - 100),
        ("dp2a.hi.s32.u32", [[-300, 25]], [[3, 4, 50, 200]], 1, 1 - 15000 + 5000),
    ],
)
def test_dot_products_of_bytes(text: str, a: list[list[int]], b: list[list[int]], c: int, result: int) -> None:
    name, *_, first, second = text.split(".")
    kinds = {"s32": "i", "u32": "u"}
    left = np.array(a, f"{kinds[first]}{2 if name == 'dp2a' else 1}").view(np.uint32).reshape(-1)
    right = np.array(b, f"{kinds[second]}1").view(np.uint32).reshape(-1)
    values = {"a": left, "b": right, "c": np.array([c], np.int32)}
    written: list[np.ndarray] = []
    given = SimpleNamespace(
        read=lambda name, dtype: lambda _: values[name].view(dtype),
        write=lambda _: lambda _, value: written.append(value),
    )
    step: Any = decode_dot(Instruction(text, ("d", "a", "b", "c")), given)  # type: ignore[arg-type]
    step(None)
    assert written[0].tolist() == [result]
