"""One kernel has one predicted time, whoever tells it: fusion, adviser, search, chart, what-if, table, a trial."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine import compilation
from engine.compilation import default_microseconds
from engine.explore.pipeline_chart import chart
from engine.explore.recipe_trial import predicted_time
from engine.explore.what_if import what_if_of_chart
from engine.kernels.advised import AdvisedKernels
from engine.scheduling.nodes import NOT_REACHED
from engine.tuning.problem import SearchProblem, problem

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "models"
MODELS = (
    "bert_base_fp16_b8_s128", "llama_2l_fp16_b2_s128_op20", "segformer_b0_b1_512", "mobilenet_v2_b1", "din_b64_s50",
)  # fmt: skip
SMALL = ("bert_tiny", "add_relu_odd_3x5x127", "column_sum_1000x384", "transpose_2x12x64x64")
FUSED = re.compile(r"([\d.e+]+) µs predicted in place of")
ADVISED = re.compile(r"([\d.e+]+) µs predicted")
WHY = re.compile(r"Why it takes ([\d.e+]+) µs")


def numbers(group: engine.FusionGroup, kernel: engine.Kernel) -> Iterator[tuple[str, float]]:
    """(who, microseconds that they tell of a kernel)."""
    yield "what fusion asks", default_microseconds(group)
    time = predicted_time(kernel)
    assert time is not None
    yield "a trial of an edit", time.microseconds
    found = problem(group, kernel.recipe)
    if isinstance(found, SearchProblem):
        yield "the search, before it begins", found.before
        assert found.advised is not None, f"the search does not know the default kernel of {group.name}"
        yield "the rank of the program that the advisers chose", found.rank(found.advised)
    drawn = chart(kernel)
    yield "the chart", drawn.time.microseconds
    if drawn.gemm is not None and drawn.knobs is not None:
        answer = what_if_of_chart(drawn, drawn.knobs, kernel.target.name)
        assert answer.then is not None, f"what-if refuses the default kernel of {group.name}"
        yield from (("what-if, now", answer.now.microseconds), ("what-if, then", answer.then.microseconds))


def texts(group: engine.FusionGroup, kernel: engine.Kernel) -> Iterator[tuple[str, str]]:
    """(who, microseconds in three digits)."""
    yield from (("the explanation", time) for time in WHY.findall(engine.explain(kernel)))
    yield from (("fusion's reason", time) for time in FUSED.findall(group.because))
    yield from (("the adviser", time) for reason in _reasons(kernel) for time in ADVISED.findall(reason))


def _reasons(kernel: engine.Kernel) -> Iterator[str]:
    """Why the advisers ask for what they do, but for alternatives that were not reached."""
    return (v.placed.entry.because for v in kernel.verdicts if v.outcome != NOT_REACHED)


def check_family_entry(group: engine.FusionGroup, kernel: engine.Kernel) -> None:
    """Where another family's kernel is advised, its reason tells both times, and the entry can be undone."""
    (entry,) = (e for advice in kernel.advice for e in advice.scenario.entries if e.value == ("family", "general"))
    own = without_entry(kernel.recipe, group, entry)
    before = engine.compile(group, own)
    times = [engine.predict(one).microseconds for one in (kernel, before)]
    assert before.family != kernel.family == "general" and times[0] < 0.8 * times[1]
    assert entry.because.startswith(f"{times[0]:.3g} µs predicted, {times[1]:.3g} for what the family {before.family}")
    told = {time for reason in _reasons(before) for time in ADVISED.findall(reason)}
    assert told <= {f"{times[1]:.3g}"}


def without_entry(recipe: engine.Recipe, group: engine.FusionGroup, entry: engine.Entry) -> engine.Recipe:
    """A recipe with one entry switched off."""
    advice = tuple(
        replace(one, scenario=replace(one.scenario, entries=tuple(
            replace(e, enabled=False, because="") if e == entry else e for e in one.scenario.entries
        )))
        for one in recipe.groups[group.name]
    )  # fmt: skip
    return recipe.with_group(group.name, advice)


def check(path: Path) -> None:
    """Nobody tells another time than the prediction of any kernel of a model."""
    plan = engine.fuse(engine.load(path))
    reasons = 0
    for group in plan.groups:
        kernel = engine.compile(group, engine.default_recipe(group))
        time = engine.predict(kernel).microseconds
        other = {who: told for who, told in numbers(group, kernel) if told != time}
        told = [(who, text) for who, text in texts(group, kernel) if text != f"{time:.3g}"]
        if kernel.family == "general":  # advice that it does not follow tells the time of the kernel that would
            check_family_entry(group, kernel)
            told = [(who, text) for who, text in told if who != "the adviser"]
        other |= dict(told)
        assert not other, f"{group.name} takes {time} µs: {other}"
        reasons += len(FUSED.findall(group.because))
    assert reasons or "attention" not in {group.kind for group in plan.groups}


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize("name", SMALL)
def test_a_kernel_of_a_small_model_has_one_time(name: str) -> None:
    check(ROOT / "resources" / "models" / f"{name}.onnx")


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real graphs are not shipped")
@pytest.mark.parametrize("name", MODELS)
def test_a_kernel_of_a_shared_model_has_one_time(name: str) -> None:
    check(SHARED / f"{name}.onnx")


def test_what_fusion_judged_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is that of a kernel compiled afresh, and so is its text."""
    graph = engine.load(ROOT / "resources" / "models" / "bert_tiny.onnx")
    monkeypatch.setattr(compilation, "_works", {})
    monkeypatch.setattr(compilation, "_kernels", AdvisedKernels())
    compiled: list[str] = []
    advise = compilation.families.advise
    monkeypatch.setattr(
        compilation.families, "advise", lambda group, *rest: (compiled.append(group.name), advise(group, *rest))[1]
    )
    plan = engine.fuse(graph)
    assert compiled
    compiled.clear()
    recipe = engine.default_recipe(plan)
    assert 0 < len(compiled) < len(plan.groups), "fusion judged some, the others were compiled once"
    compiled.clear()
    kernels = [engine.compile(group, recipe) for group in plan.groups]
    document = engine.model_doc(graph, plan)
    engine.fuse(graph)
    assert not compiled
    for group, kernel in zip(plan.groups, kernels, strict=True):
        monkeypatch.setattr(compilation, "_kernels", AdvisedKernels())
        fresh = engine.compile(group)
        assert kernel.source == fresh.source and kernel.verdicts == fresh.verdicts and kernel.tile == fresh.tile
        (told,) = (one.time for one in document.groups if one.name == group.name)
        assert told and told.microseconds == engine.predict(fresh).microseconds
