"""The real graphs beside the repository: every kernel right, none spills, the model right end to end, quickly."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import engine
from tests.support.commands import document
from tests.support.sentinels import sentinels

SHARED = Path(__file__).parents[2] / "shared"
BERTS = ("bert_base_b1_s128", "bert_base_fp16_b8_s128")
HALVES = ("bert_base_fp16_b8_s128", "llama_2l_fp16_b2_s128_op20")
PRODUCTS = ("MatMul", "Gemm", "Conv")
GROUPS = 8
"""Kernels of a BERT after fusion, whatever its number of layers."""

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is absent: the real graphs are not shipped")
AKG = [path for folder in ("stitch", "advice/operators") for path in sorted((SHARED / "akg" / folder).glob("*.json"))]


def checked(path: Path) -> list[engine.Check]:
    plan = engine.fuse(engine.load(path))
    assert not plan.unsupported
    return [engine.check(engine.compile(group)) for group in plan.groups]


@pytest.mark.slow(sentinel=True)
@needs_shared
@pytest.mark.parametrize("name", sentinels(BERTS, 1))
def test_every_kernel_of_bert_passes(name: str) -> None:
    reports = checked(SHARED / "models" / f"{name}.onnx")
    assert len(reports) == GROUPS
    for report in reports:
        assert report.status == "pass", f"{report.group}: {report.message}"
        assert report.blocks_run and report.elements_compared and report.tolerance_because


@pytest.mark.slow(sentinel=True)
@needs_shared
@pytest.mark.parametrize("path", sentinels(AKG, 5), ids=lambda p: p.stem[:60])
def test_every_published_operator_passes(path: Path) -> None:
    (report,) = checked(path)
    assert report.status == "pass", report.message


@needs_shared
def test_buffers_written_in_place_are_compared_and_placeholders_are_not() -> None:
    path = next(p for p in AKG if "FusedAdamWeightDecay" in p.name)
    graph = engine.load(path)
    (group,) = engine.fuse(graph).groups
    assert {u.target for u in graph.updates} == {"input_1", "input_10", "input_18"}
    assert set(group.program.outputs) == {"input_1", "input_10", "input_18"}
    assert not graph.outputs, "its declared output is a fake_output"


@pytest.mark.slow(sentinel=True)
@needs_shared
@pytest.mark.parametrize("name", sentinels(BERTS, 1))
def test_no_kernel_of_bert_spills(name: str) -> None:
    plan = engine.fuse(engine.load(SHARED / "models" / f"{name}.onnx"))
    for group in plan.groups:
        kernel = engine.compile(group)
        for architecture in engine.ARCHITECTURES:
            compiled = engine.nvrtc(kernel, architecture)
            assert compiled.spill_bytes == 0 and compiled.registers > 0, f"{group.name} on {architecture}"


@pytest.mark.slow(sentinel=True)
@needs_shared
@pytest.mark.parametrize("name", HALVES)
def test_every_product_of_a_model_in_halves_is_on_tensor_cores(name: str, tmp_path: Path) -> None:
    """Named by the file's own operators, told by the manifest; neither model has a depthwise convolution."""
    path = SHARED / "models" / f"{name}.onnx"
    plan = engine.fuse(engine.load(path))
    products = {o.name for o in engine.load(path).operators if o.kind in PRODUCTS}
    expected = {
        group.name: any(s.reduction and s.operator in products for s in group.program.statements)
        for group in plan.groups
    }
    kernels = document("generate", str(path), "-o", str(tmp_path))["kernels"]
    assert {kernel["group"]: kernel["tensor_cores"] for kernel in kernels} == expected
    of_groups = {op for g in plan.groups if expected[g.name] for instance in g.instances for op in instance.operators}
    assert products and products <= of_groups
    for kernel in kernels:
        assert (kernel["stages"]["shared"] > 1) == expected[kernel["group"]], kernel["group"]


@needs_shared
def test_bert_to_cuda_text_within_its_bound() -> None:
    """15 s on 2 cores is the goal; it takes about one."""
    start = time.perf_counter()
    plan = engine.fuse(engine.load(SHARED / "models" / f"{BERTS[0]}.onnx"))
    texts = [engine.compile(group).source.text for group in plan.groups]
    assert time.perf_counter() - start < 15
    assert len(texts) == GROUPS


@needs_shared
@pytest.mark.slow(sentinel=True)
def test_bert_end_to_end() -> None:
    graph = engine.load(SHARED / "models" / f"{BERTS[0]}.onnx")
    result = engine.check_model(graph, engine.fuse(graph))
    assert result.launches == 86
    assert [c.group for c in result.checks] == list(graph.outputs)
    assert result.status == "pass", [c.message for c in result.checks]


def test_small_bert_end_to_end() -> None:
    graph = engine.load(Path(__file__).parents[1] / "resources" / "models" / "bert_tiny.onnx")
    result = engine.check_model(graph, engine.fuse(graph))
    assert result.status == "pass", [c.message for c in result.checks]
