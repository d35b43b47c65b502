"""Kernels for this machine's CPU: executed, compared with the reference, timed; what is wrong is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.cpu.nodes import CpuKernel
from engine.execution.native.run import Measuring, measure_native
from engine.execution.nodes import MEASURED, Failure
from engine.target.host_cpu import host_cpu
from engine.verify.native import check_native
from engine.verify.values import group_values
from tests.semantics.single import Node, write_model
from tests.support.commands import MODELS, SOFTMAX, document, loomscope, refused
from tests.support.needs import needs_compiler

pytestmark = needs_compiler


def kernel_of(path: str | Path, number: int = 0) -> CpuKernel:
    """A kernel of an example model."""
    kernel = engine.compile(engine.fuse(engine.load(path), target="cpu").groups[number])
    assert isinstance(kernel, CpuKernel)
    return kernel


@pytest.mark.few(5)
@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_every_group_of_the_examples_is_right(path: Path) -> None:
    plan = engine.fuse(engine.load(path), target="cpu")
    found = {group.name: engine.check(engine.compile(group)) for group in plan.groups}
    assert {check.status for check in found.values()} == {"pass"}, found
    assert all(check.levels == {"native": "pass"} and check.elements_compared for check in found.values())


@pytest.mark.slow(sentinel=True)
def test_the_whole_model_equals_the_reference() -> None:
    graph = engine.load(MODELS / "bert_tiny.onnx")
    assert engine.check_model(graph, engine.fuse(graph, target="cpu")).status == "pass"


def test_rows_that_were_fused_stay_in_the_cache() -> None:
    text = kernel_of(SOFTMAX).source.text
    assert text.count("omp parallel for") == 1 and "float y_exp[512]" in text
    assert "for (i64 i = 0; i < 96; ++i)" in text


def test_weights_too_small_for_a_normal_number_may_be_none(tmp_path: Path) -> None:
    """Scores hundreds apart: weights of 1e-42 are 0 here and not in ONNX Runtime, and all larger ones are compared."""
    nodes = [("MatMul", ["x", "w"], ["s"], {}), ("Softmax", ["s"], ["y"], {"axis": -1})]
    weights = np.random.default_rng(0).normal(size=(96, 40)).astype(np.float32) * 6
    path = write_model(tmp_path / "m.onnx", nodes, {"x": ("float32", (64, 96))}, ["y"], {"w": weights})
    kernel = kernel_of(path, 1)
    expected, before = group_values(kernel.group)
    small = (expected["y"] > 0) & (expected["y"] < 2.0**-126)
    assert small.any() and engine.check(kernel).status == "pass"
    inverse = "fn_reciprocal(y_sum)"
    assert inverse in kernel.source.text
    source = replace(kernel.source, text=kernel.source.text.replace(inverse, f"{inverse} * 1.0001f"))
    wrong = replace(kernel, made=replace(kernel.made, source=source))
    assert check_native(wrong, expected, before, timeout=60).status == "fail"


@pytest.mark.parametrize(
    ("old", "new"),
    [("(y_sum)", "(y_sum + 1.0f)"), ("i < 96", "i < 95"), ("fn_exp(", "fn_tanh("), ("j < 512", "j < 511")],
)
def test_a_wrong_kernel_is_found(old: str, new: str) -> None:
    kernel = kernel_of(SOFTMAX)
    assert old in kernel.source.text
    source = replace(kernel.source, text=kernel.source.text.replace(old, new))
    wrong = replace(kernel, made=replace(kernel.made, source=source))
    found = check_native(wrong, *group_values(kernel.group), timeout=60)
    assert found.status == "fail" and [one.kind for one in found.findings] == ["wrong result"]


def test_accesses_outside_of_buffers_are_found() -> None:
    kernel = kernel_of(SOFTMAX)
    text = kernel.source.text.replace("i < 96", "i < 400")
    wrong = replace(kernel, made=replace(kernel.made, source=replace(kernel.source, text=text)))
    found = check_native(wrong, *group_values(kernel.group), timeout=60)
    assert found.status == "fail" and "ended with SIG" in found.message


@pytest.mark.slow(sentinel=True)
def test_a_kernel_that_never_ends_is_a_failure() -> None:
    kernel = kernel_of(SOFTMAX)
    text = kernel.source.text.replace("int y_max", "while (x[0] < 1e30f) asm volatile(\"\"); int y_max", 1)
    assert text != kernel.source.text
    wrong = replace(kernel, made=replace(kernel.made, source=replace(kernel.source, text=text)))
    found = measure_native([(wrong, group_values(kernel.group)[0])], Measuring(threads=1, timeout=2))
    assert isinstance(found, Failure) and found.kind == "hang"


def test_measured_times_name_their_machine() -> None:
    found = document("measure", SOFTMAX, "--target", "cpu")
    whole, row = found["end_to_end"], found["kernels"][0]
    assert whole["origin"] == MEASURED and whole["device"] == host_cpu().title and len(whole["samples"]) >= 30
    assert row["origin"] == MEASURED and row["device"] == host_cpu().title
    assert len(row["samples"]) >= 30 and 0 < row["p20"] <= row["microseconds"] <= row["p80"]
    assert row["environment"]["values"].endswith("agreed with the reference")
    assert "end_to_end" not in document("measure", SOFTMAX, "--target", "cpu", "--group", row["group"])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("function", ["ReduceMax", "ReduceMin"])
def test_extrema_of_rows_with_special_values(tmp_path: Path, function: str, axis: int) -> None:
    """NaN with either sign is the extremum of what has one; infinities and subnormal numbers keep their places."""
    x = np.random.default_rng(6).standard_normal((70, 70), "float32")
    special = [np.float32("nan"), -np.float32("nan"), np.inf, -np.inf, 1e-40, -1e-40, 3e38, -3e38]
    for place, value in enumerate(special):
        x[place * 7, place * 7 + 3] = value
    x[60, 1:4] = np.nan, np.inf, -np.inf
    x[:, 69] = x[69] = -1e-42
    nodes = [(function, ["x", "axes"], ["y"], {"keepdims": 0})]
    path = write_model(tmp_path / "m.onnx", nodes, {"x": ("float32", x.shape)}, ["y"], {"axes": np.array([axis])})
    (y,) = engine.run(kernel_of(path), {"x": x}).values()
    expected = (np.max if function == "ReduceMax" else np.min)(x, axis)
    assert np.isnan(expected).sum() == 3 and np.array_equal(y, expected, equal_nan=True)


def test_run_takes_arrays_of_the_caller() -> None:
    x = np.random.default_rng(3).standard_normal((96, 512), "float32") * 4
    kernel = kernel_of(SOFTMAX)
    found = engine.run(kernel, {"x": x})
    assert found.origin == host_cpu().title
    (y,) = found.values()
    expected = np.exp(x.astype("float64") - x.max(-1, keepdims=True))
    np.testing.assert_allclose(y, expected / expected.sum(-1, keepdims=True), rtol=2e-6, atol=1e-9)


def test_edits_are_followed_and_what_cannot_be_is_said() -> None:
    group = engine.fuse(engine.load(MODELS / "column_sum_1000x384.onnx"), target="cpu").groups[0]
    (statement,) = group.program.statements
    wish = engine.entry(statement.name, pin=statement.reduced[0].name, at="outermost", because="see what it costs")
    kernel = engine.compile(group, engine.default_recipe(group).advise("user", wish))
    assert [v.outcome for v in kernel.verdicts] == ["honoured"]
    assert engine.check(kernel).status == "pass"
    lane = engine.entry(statement.name, mark=("lane", 32), at="innermost", because="as on a GPU")
    kernel = engine.compile(group, engine.default_recipe(group).advise("user", lane))
    assert [v.outcome for v in kernel.verdicts] == ["relaxed"] and "no use for lane" in kernel.verdicts[0].because


def test_a_gpu_s_verbs_refuse_a_cpu_by_name(tmp_path: Path) -> None:
    assert "cpu" in refused("fuse", SOFTMAX, "--target", "pentium")
    never = str(tmp_path / "never")
    assert "is a CPU" in refused("generate", SOFTMAX, "--target", "cpu", "-o", never, "--with", "torch")
    assert "is a CPU" in refused("mappings", SOFTMAX, "--target", "cpu")
    assert "is a CPU" in refused("predict", SOFTMAX, "--target", "cpu", "--trace", never)


def test_sources_and_their_headers_are_written(tmp_path: Path) -> None:
    assert loomscope("generate", SOFTMAX, "--target", "avx2", "-o", str(tmp_path)).returncode == 0
    assert "softmax_0(" in (tmp_path / "softmax_0.cpp").read_text()
    assert (tmp_path / "include" / "scalar.hpp").is_file()


@pytest.mark.parametrize("kind", ["RNN", "LSTM"])
def test_kernels_that_fill_one_array_together_leave_each_other_s_parts(kind: str, tmp_path: Path) -> None:
    """Both directions of a recurrence write parts of one array, each in launches of its own."""
    gates, random = {"RNN": 1, "LSTM": 4}[kind], np.random.default_rng(3)
    weights = {"w": (2, 6 * gates, 5), "r": (2, 6 * gates, 6), "b": (2, 12 * gates)}
    constants = {name: random.normal(size=shape).astype(np.float32) * 0.3 for name, shape in weights.items()}
    attributes = {"hidden_size": 6, "direction": "bidirectional"}
    nodes: list[Node] = [(kind, ["x", *weights], ["y", "h"], attributes)]
    graph = engine.load(write_model(tmp_path / "m.onnx", nodes, {"x": ("float32", (4, 2, 5))}, ["y", "h"], constants))
    plan = engine.fuse(graph, target="cpu")
    assert engine.check_model(graph, plan).status == "pass"
    assert all(np.isfinite(value).all() for value in engine.run(plan, engine.inputs(plan)).values())


@pytest.mark.parametrize("zero", [0, 7])
def test_codes_are_those_of_the_nearest_numbers_in_range(zero: int, tmp_path: Path) -> None:
    values = [-np.inf, -1e9, -7.6, -0.5, -0.0, 0.5, 1.5, 247.5, 248.4, 254.5, 255.5, 300, 1e9, np.inf]
    x = np.array([values * 3], "float32")
    weights = {"scale": np.array(1, "float32"), "zero": np.array(zero, "uint8")}
    nodes: list[Node] = [("QuantizeLinear", ["x", "scale", "zero"], ["y"], {})]
    kernel = kernel_of(write_model(tmp_path / "m.onnx", nodes, {"x": ("float32", x.shape)}, ["y"], weights))
    (y,) = engine.run(kernel, {"x": x}).values()
    assert y.dtype == np.uint8 and "fn_code" in kernel.source.text
    np.testing.assert_array_equal(y, np.clip(np.rint(x) + zero, 0, 255))
