"""A plan and its groups are for one GPU: what is made of them is for that one, and decided by its figures."""

from __future__ import annotations

import pytest

import engine
from engine import api
from engine.execution import reference
from engine.fusion.attention import attention_of
from engine.fusion.attention_cost import gain
from engine.target import target
from tests.explore.groups import SHARED, needs_shared
from tests.support.attentions import Attention
from tests.support.commands import MODELS

BETWEEN = Attention(heads=5, queries=1024, keys=256, depth=32, head=32, dtype="float32")
"""One kernel is faster on an H200 and slower on an A100."""
GPUS = ("a100", "h100", "h200")


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> engine.OperatorGraph:
    return engine.load(BETWEEN.model(tmp_path_factory.mktemp("between")))


def test_an_attention_is_one_kernel_where_that_pays_on_the_plans_gpu(between: engine.OperatorGraph) -> None:
    (group,) = engine.fuse(between, target="h200").groups
    found = attention_of(group.program)
    for name in GPUS:
        saved = gain(group.program, found, target(name))
        plan = engine.fuse(between, target=name)
        assert ([g.kind for g in plan.groups] == ["attention"]) == saved.pays, name
        told = plan.groups[0].because if saved.pays else " ".join(b.because for b in plan.boundaries)
        assert str(saved) in told, name
    assert not gain(group.program, found, target("a100")).pays


@needs_shared
@pytest.mark.parametrize(("name", "attentions", "apart"), [("a100", 3, True), ("h200", 4, False)])
def test_segformer(name: str, attentions: int, apart: bool) -> None:
    plan = engine.fuse(engine.load(SHARED / "models" / "segformer_b0_b1_512.onnx"), target=name)
    assert sum(group.kind == "attention" for group in plan.groups) == attentions
    reasons = [b.because for b in plan.boundaries if "one kernel would not be faster" in b.because]
    assert any("23.5 µs predicted in place of 23.2" in reason for reason in reasons) == apart


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
    monkeypatch.setattr(reference, "MAX_BYTES", sum(tensor.bytes for tensor in graph.tensors.values()) - 1)
    monkeypatch.setattr(api, "fuse", lambda *_: pytest.fail("planned again"))
    api._reference.cache_clear()
    for group in plan.groups:
        expected, _ = api.group_values(group, 3)
        assert expected.keys() == {*group.program.inputs, *group.program.outputs}
        kernel = engine.compile(group)
        assert (kernel.target.name, kernel.target.architecture) == ("a100", "sm_80")
        assert group.beside >= {group.instances[0].arrays[name] for name in expected}
    api._reference.cache_clear()
