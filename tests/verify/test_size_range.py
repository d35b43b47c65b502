"""Kernels for all sizes of a dimension: made for the largest, launched with the blocks that a smaller one needs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import engine
from engine.execution.emulate.emulate import emulate
from engine.export import harness
from engine.support.errors import BadInput, Unsupported
from engine.verify.footprint import written_by
from engine.verify.size_range import RangedPlan, check_sizes
from engine.verify.values import group_values
from tests.support.commands import document, refused
from tests.support.emulated_driver import EmulatedDriver
from tests.support.needs import needs_compiler, needs_nvrtc

HIGH = 12
RANDOM = np.random.default_rng(5)
Nodes = list[onnx.NodeProto]
make = helper.make_node


def weight(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


CONSTANTS = {
    "w": weight(24, 24), "wk": weight(24, 24), "wv": weight(24, 24), "w1": weight(24, 40), "w2": weight(40, 24),
    "scale": np.ones(24, np.float32), "shift": np.zeros(24, np.float32), "table": weight(50, 24),
    "heads": np.array([0, 0, 3, 8]), "joined": np.array([0, 0, 24]), "part": np.array(0.35, np.float32),
    "filter": weight(6, 5, 3, 3), "image": np.array([0, 5, 8, 12]), "flat": np.array([-1, 24]), "axis": np.array([0]),
    "last": np.array([-1]), "one": np.array([1]), "minus": np.array([-1]), "end": np.array([-(2**31)]),
}  # fmt: skip
NORM = make("LayerNormalization", ["x", "scale", "shift"], ["n"], axis=-1)


def attention() -> Nodes:
    """Heads of a normalised input, what they give added to it, and a product with ReLU behind."""
    nodes = [NORM]
    for name, of, perm in (("q", "w", [0, 2, 1, 3]), ("k", "wk", [0, 2, 3, 1]), ("v", "wv", [0, 2, 1, 3])):
        nodes += [make("MatMul", ["n", of], [f"{name}0"]), make("Reshape", [f"{name}0", "heads"], [f"{name}1"]),
                  make("Transpose", [f"{name}1"], [f"{name}2"], perm=perm)]  # fmt: skip
    return [
        *nodes, make("MatMul", ["q2", "k2"], ["s"]), make("Mul", ["s", "part"], ["t"]),
        make("Softmax", ["t"], ["p"], axis=-1),
        make("MatMul", ["p", "v2"], ["o"]), make("Transpose", ["o"], ["o1"], perm=[0, 2, 1, 3]),
        make("Reshape", ["o1", "joined"], ["o2"]), make("Add", ["o2", "x"], ["r"]), make("MatMul", ["r", "w1"], ["h"]),
        make("Relu", ["h"], ["a"]), make("MatMul", ["a", "w2"], ["y"]),
    ]  # fmt: skip


def flipped() -> onnx.NodeProto:
    return make("Slice", ["x", "minus", "end", "axis", "minus"], ["y"])


FITTING: dict[str, Nodes] = {
    "element-wise": [make("Exp", ["x"], ["e"]), make("Mul", ["e", "scale"], ["y"])],
    "rows": [NORM, make("ReduceMax", ["n", "last"], ["y"], keepdims=0)],
    "attention": attention(),
    "rows joined": [make("Reshape", ["x", "flat"], ["f"]), make("MatMul", ["f", "w1"], ["y"])],
    "looked up": [make("Gather", ["table", "ids"], ["g"], axis=0), make("Add", ["g", "x"], ["y"])],
}
MISFITTING = {
    "a mean over the dimension": (
        [make("ReduceMean", ["x", "axis"], ["m"]), make("Sub", ["x", "m"], ["y"])], "computes something else"
    ),
    "a sum over the dimension": ([make("ReduceMax", ["x", "axis"], ["m"]), make("Sub", ["x", "m"], ["y"])], "makes"),
    "another axis": ([make("Transpose", ["x"], ["t"], perm=[1, 0, 2]), make("Exp", ["t"], ["y"])], "tensor t"),
    "turned round": ([flipped()], "makes|computes something else"),
    "side by side": ([make("Concat", ["x", "x"], ["y"], axis=0)], "makes|computes something else"),
    "divided by the size": (
        [make("Shape", ["x"], ["d"], end=1), make("Cast", ["d"], ["c"], to=1), make("Div", ["x", "c"], ["y"])],
        "computes something else",
    ),
}  # fmt: skip


def save(folder: Path, nodes: Nodes, length: int = 17) -> Path:
    """x [batch, length, 24] and, where they are read, ids [batch, length]."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", length, 24])]
    if any("ids" in node.input for node in nodes):
        inputs.append(helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", length]))
    used = {name for node in nodes for name in node.input}
    stored = [numpy_helper.from_array(value, name) for name, value in CONSTANTS.items() if name in used]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "sizes", inputs, [output], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / "s.onnx")
    return folder / "s.onnx"


def ranged_plan(path: Path, low: int = 1, high: int = HIGH) -> RangedPlan:
    return engine.for_sizes(engine.fuse(engine.load(path, {"batch": high})), "batch", low, high)


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("length", [16, 17])
@pytest.mark.parametrize("case", FITTING)
def test_one_text_is_right_at_smaller_sizes(case: str, length: int, tmp_path: Path) -> None:
    """With rows beyond the size spoilt, at both levels; no more blocks than rows need."""
    ranged = ranged_plan(save(tmp_path, FITTING[case], length))
    for group in ranged.plan.groups:
        kernel = engine.compile(group)
        assert isinstance(kernel, engine.Kernel)
        for level in ("source", "ptx"):
            found = engine.check_sizes(ranged, kernel, level=level)
            assert found.status == "pass" and found.elements_compared, (group.name, level, found.message)


@pytest.mark.parametrize("case", FITTING)
def test_blocks_grow_with_the_size_and_write_all_of_its_rows(case: str, tmp_path: Path) -> None:
    ranged = ranged_plan(save(tmp_path, FITTING[case]))
    for group in ranged.plan.groups:
        kernel, rows = engine.compile(group), ranged.rows(group)
        assert isinstance(kernel, engine.Kernel)
        blocks = [ranged.blocks(kernel, size) for size in range(1, HIGH + 1)]
        assert blocks == sorted(blocks) and blocks[-1] == kernel.source.blocks
        # Parts that share a launch have their blocks one behind another: the first rows of the last part come late.
        assert group.kind == "packed" or blocks[0] == 1 or blocks[0] <= kernel.source.blocks / 4
        for size, count in enumerate(blocks, 1):
            for array in (b for b in kernel.source.buffers if b.written and b.array in rows):
                written = written_by(kernel.source, array.array, array.elements, range(count))
                assert written[: array.elements // HIGH * size].all()


@pytest.mark.parametrize("case", MISFITTING)
def test_a_dimension_that_is_not_outermost_is_refused_by_name(case: str, tmp_path: Path) -> None:
    nodes, words = MISFITTING[case]
    with pytest.raises(Unsupported, match=words):
        ranged = ranged_plan(save(tmp_path, nodes))
        for group in ranged.plan.groups:
            ranged.rows(group)


@needs_compiler
def test_a_block_too_few_and_rows_of_others_are_found(tmp_path: Path) -> None:
    """A launch that is a block short leaves rows out; a kernel that reads the next row reads what is spoilt."""
    ranged = ranged_plan(save(tmp_path, FITTING["element-wise"]))
    kernel = engine.compile(ranged.plan.groups[0])
    assert isinstance(kernel, engine.Kernel)
    values, _ = group_values(kernel.group)
    assert check_sizes(ranged, kernel, values, emulate).status == "pass"

    class Short(RangedPlan):
        def blocks(self, kernel: engine.Kernel, size: int) -> int:
            return super().blocks(kernel, size) - 1 or 1

    short = check_sizes(Short(ranged.plan, ranged.sizes, ranged.tensors), kernel, values, emulate)
    assert short.status == "fail" and "not written" in short.message
    text = kernel.source.text
    assert "x.load<4>(" in text
    wrong = replace(kernel, source=replace(kernel.source, text=text.replace("x.load<4>(", "x.load<4>(408 + ", 1)))
    assert check_sizes(ranged, wrong, values, emulate).status == "fail"


def test_what_is_lost_is_predicted_beside_kernels_for_one_size(tmp_path: Path) -> None:
    ranged = ranged_plan(save(tmp_path, FITTING["attention"]))
    losses = {size: engine.size_loss(ranged, size) for size in (1, HIGH)}
    every, alone = losses[HIGH]
    assert every == pytest.approx(alone)
    assert losses[1][0] <= every and losses[1][0] > 0.9 * losses[1][1]


@pytest.mark.parametrize(("low", "high"), [(0, 4), (4, 4), (5, 4)])
def test_what_is_no_range_is_refused(low: int, high: int, tmp_path: Path) -> None:
    path = save(tmp_path, FITTING["element-wise"])
    with pytest.raises(BadInput, match=rf"is {low}\.\.{high}"):
        engine.for_sizes(engine.fuse(engine.load(path, {"batch": 4})), "batch", low, high)
    for verb in ("verify", "predict"):
        assert f"is {low}..{high}" in refused(verb, str(path), f"--dim=batch={low}..{high}")
    two = refused("verify", str(path), "--dim=batch=1..4", "--dim=other=1..4")
    assert "is a second range" in two
    assert "no blocks to leave out" in refused("verify", str(path), "--dim=batch=1..4", "--target=avx2")
    assert "is a second size of batch" in refused("verify", str(path), "--dim=batch=1..4", "--dim=batch=3")
    assert "is a second number for batch" in refused("predict", str(path), "--dim=batch=4", "--dim=batch=3")
    assert "none of a range" in refused("verify", str(path), "--dim=batch=1..4", "--whole")


@pytest.mark.slow(sentinel=True)
@needs_compiler
@needs_nvrtc
def test_the_command_line_checks_and_exports_all_sizes(tmp_path: Path) -> None:
    """The exported program at a size of its own gives what ONNX Runtime does at that size."""
    path = save(tmp_path, FITTING["attention"])
    checked = document("verify", str(path), f"--dim=batch=1..{HIGH}")
    assert checked["summary"]["fail"] == checked["summary"]["unsupported"] == 0
    assert all(row["sizes"] == [1, 7, 11] for row in checked["groups"])
    made = tmp_path / "made"
    document("generate", str(path), f"--dim=batch=1..{HIGH}", "-o", str(made), "--with", "harness")
    manifest, sizes = (json.loads((made / f).read_text(encoding="utf-8")) for f in ("manifest.json", "sizes.json"))
    assert (sizes["dimension"], sizes["from"], sizes["to"]) == ("batch", 1, HIGH)
    assert {row["size"] for row in sizes["predicted"]} == {1, 7, 11, HIGH}
    x = RANDOM.standard_normal((5, 17, 24)).astype(np.float32)
    values = {**np.load(made / "constants.npz"), "x": x}
    run = harness.FolderRun(EmulatedDriver(made, manifest), made, values, size=5)
    expected = onnxruntime.InferenceSession(path).run(None, {"x": x})[0]
    found = run.all(samples=1)["y"]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(SystemExit, match="batch is 1 to 12, not 13"):
        harness.FolderRun(run.driver, made, values, size=13)
