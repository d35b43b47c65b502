"""Random graphs of 5 to 60 operators under the stitch policy: every kernel, emulated, agrees with NumPy."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.reference import input_values
from engine.tensor.evaluate import evaluate
from engine.tensor.lower import lower
from engine.verify.kernel import check_kernel
from tests.semantics.random_graphs import RandomGraph
from tests.support.needs import needs_compiler

SMALLEST, LARGEST = 5, 60
NORMAL, ALL = 15, 300


def drawn(seed: int) -> RandomGraph:
    """The graph of a seed; sizes are drawn so that each of them comes up, small ones more often."""
    operators = int(SMALLEST + (LARGEST - SMALLEST + 1) * random.Random(seed).random() ** 2)
    return RandomGraph(10_000 + seed, operators)


def check(seed: int, folder: Path) -> None:
    """Every group against the NumPy meaning of the graph as it was lowered, before anything was fused."""
    graph = engine.load(drawn(seed).write(folder / f"graph{seed}.onnx"))
    program = lower(graph)
    given = {name: value.reshape(program.arrays[name].shape) for name, value in input_values(graph, seed).items()
             if name in program.inputs}  # fmt: skip
    values = {**given, **evaluate(program, given)}
    plan = engine.fuse(graph)
    assert plan.policy == "stitch" and not plan.unsupported
    for group in plan.groups:
        own = group.instances[0]
        arrays = {
            name: own.view(group.program.arrays[name], values[own.arrays[name]])
            for name in (*group.program.inputs, *group.program.outputs)
        }
        report = check_kernel(engine.compile(group), arrays, {})
        wrong = [finding for finding in report.findings if finding.kind != "wrong result"]
        # Differences of large values keep their errors: these are relative to what the group computes with.
        sizes = [float(np.abs(v).max()) for v in arrays.values() if v.dtype.kind == "f" and v.size]
        results = [float(np.abs(arrays[n]).max()) for n in group.program.outputs if arrays[n].dtype.kind == "f"]
        allowed = report.tolerance * max([1.0, *sizes]) / max(min([1.0, *results]), 1e-30)
        assert not wrong and report.max_error <= allowed, f"{report.message}\n{group.program}"


@pytest.mark.few(4)
@needs_compiler
@pytest.mark.parametrize("seed", range(NORMAL))
def test_kernels_agree_with_numpy(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(NORMAL, ALL))
def test_many_more_kernels_agree_with_numpy(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


def test_the_graphs_have_the_sizes_that_are_asked_for() -> None:
    sizes = [len(drawn(seed).nodes) for seed in range(ALL)]
    assert min(sizes) == SMALLEST and LARGEST - 5 <= max(sizes) <= LARGEST
