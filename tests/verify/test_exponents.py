"""Tolerances of exponentials of sums: a right kernel passes however large its scores are, a wrong one does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.api import group_values
from engine.verify.exponents import with_exponents
from engine.verify.kernel import check_kernel
from engine.verify.tolerance import Tolerance
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler

BARE = Tolerance(1e-6, "bare")


def compiled(folder: Path, depth: int) -> engine.Kernel:
    """A product and its softmax in one kernel: scores of about three roots of the depth."""
    nodes: list[Node] = [("MatMul", ["q", "k"], ["s"], {}), ("Softmax", ["s"], ["p"], {"axis": -1})]
    inputs = {"q": ("float32", (64, depth)), "k": ("float32", (depth, 64))}
    graph = engine.load(write_model(folder / f"{depth}.onnx", nodes, inputs, ["p"], {}))
    (group,) = engine.fuse(graph).groups
    return engine.compile(group)


@needs_compiler
def test_large_scores_pass_and_a_slightly_wrong_exponent_does_not(tmp_path: Path) -> None:
    kernel = compiled(tmp_path, 400)
    assert engine.check(kernel).status == "pass"
    text = kernel.source.text
    wrong = text.replace("fn_exp((", "fn_exp(1.003f * (")
    assert wrong != text
    checked = check_kernel(replace(kernel, source=replace(kernel.source, text=wrong)), *group_values(kernel.group))
    assert checked.status == "fail" and {finding.kind for finding in checked.findings} == {"wrong result"}


def test_the_freedom_grows_with_the_scores(tmp_path: Path) -> None:
    found = []
    for depth in (16, 400):
        kernel = compiled(tmp_path, depth)
        values, _ = group_values(kernel.group)
        wanted = with_exponents(BARE, kernel.group.program, values)
        assert "an exponential of sums of up to" in wanted.because
        found.append(wanted.relative)
    assert 1e-6 < found[0] < found[1] / 5 and found[1] < 1e-3


@pytest.mark.parametrize("file", ["softmax_96x512.onnx", "matmul_bias_gelu_128x256x512.onnx"])
def test_without_an_exponential_of_a_sum_nothing_changes(file: str) -> None:
    (group,) = engine.fuse(engine.load(Path("resources/models") / file)).groups
    values, _ = group_values(group)
    assert with_exponents(BARE, group.program, values) == BARE
