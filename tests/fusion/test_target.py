"""A plan and its groups are for one GPU: what is made of them is for that one, and decided by its figures."""

from __future__ import annotations

import itertools
import re

import pytest

import engine
from engine import api
from engine.execution import reference
from engine.fusion.stitching.nodes import Fixed
from engine.verify import values
from tests.support.attentions import Attention
from tests.support.commands import MODELS

BETWEEN = Attention(heads=5, queries=1024, keys=256, depth=32, head=32, dtype="float32")
"""One kernel is faster on an H200 and slower on an A100."""
GPUS = ("a100", "h100", "h200")
TOLD = r"([\d.]+) µs predicted in place of ([\d.]+)"


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> engine.OperatorGraph:
    return engine.load(BETWEEN.model(tmp_path_factory.mktemp("between")))


@pytest.mark.parametrize("name", GPUS)
def test_an_attention_is_one_kernel_where_that_pays_on_the_plans_gpu(name: str, between: engine.OperatorGraph) -> None:
    """What the plan says of one kernel and of three is what the estimate says of those kernels on that GPU."""
    plan = engine.fuse(between, target=name)
    operators = [operator.name for operator in between.operators]
    apart = engine.fuse(between, target=name, fixed=Fixed(apart=tuple(itertools.pairwise(operators))))
    reasons = [g.because for g in plan.groups] + [b.because for b in plan.boundaries]
    (fused, separate), *_ = (map(float, pair) for text in reasons for pair in re.findall(TOLD, text))
    assert ([g.kind for g in plan.groups] == ["attention"]) == (fused < separate)
    total = sum(_microseconds(apart.group(launch.group)) for launch in apart.launches)
    assert (fused < separate) == (_microseconds(plan.groups[0]) < total) or len(plan.groups) > 1
    if fused < separate:
        assert f"{_microseconds(plan.groups[0]):.3g}" == f"{fused:.3g}"


def _microseconds(group: engine.FusionGroup) -> float:
    return engine.predict(engine.compile(group)).microseconds


@pytest.mark.few(1)
@pytest.mark.parametrize("name", GPUS)
def test_what_is_made_of_a_plan_is_for_its_gpu(name: str) -> None:
    plan = engine.fuse(engine.load(MODELS / "bert_tiny.onnx"), target=name)
    assert plan.target == name and {group.target for group in plan.groups} == {name}
    assert engine.default_recipe(plan).target == engine.default_recipe(plan.groups[0]).target == name
    assert engine.model_doc(plan.source, plan).target == name
    for group in plan.groups:
        kernel = engine.compile(group)
        assert kernel.target.name == name
        assert kernel.source.text == engine.compile(group, engine.default_recipe(group, target=name)).source.text
        assert engine.predict(kernel) == engine.predict(engine.compile(group, engine.default_recipe(plan)))
    other = next(each for each in GPUS if each != name)
    assert engine.compile(group, engine.default_recipe(group, target=other)).target.name == other


def test_a_plan_for_a100_goes_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where only what the kernels read and write is kept of the reference: nothing is planned again for that."""
    graph = engine.load(MODELS / "bert_tiny.onnx")
    plan = engine.fuse(graph, target="a100")
    monkeypatch.setattr(values, "KEPT_BYTES", sum(tensor.bytes for tensor in graph.tensors.values()) - 1)
    monkeypatch.setattr(reference, "MAX_REFERENCE_BYTES", sum(tensor.bytes for tensor in graph.tensors.values()) - 1)
    monkeypatch.setattr(api, "fuse", lambda *_: pytest.fail("planned again"))
    values._reference.cache_clear()
    for group in plan.groups:
        expected, _ = values.group_values(group, 3)
        assert expected.keys() == {*group.program.inputs, *group.program.outputs}
        kernel = engine.compile(group)
        assert (kernel.target.name, kernel.target.architecture) == ("a100", "sm_80")
        assert group.beside >= {group.instances[0].arrays[name] for name in expected}
    values._reference.cache_clear()
