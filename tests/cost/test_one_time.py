"""One kernel has one predicted time, whoever tells it: fusion, the search, the table, the explanation, a trial."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine
from engine.compilation import default_microseconds
from engine.explore.recipe_trial import predicted_time
from engine.kernels.families import family_of
from engine.kernels.gemm.family import GEMM_FAMILY
from engine.tuning.problem import SearchProblem, problem

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "models"
MODELS = (
    "bert_base_fp16_b8_s128", "llama_2l_fp16_b2_s128_op20", "segformer_b0_b1_512", "mobilenet_v2_b1", "din_b64_s50",
)  # fmt: skip
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


def texts(group: engine.FusionGroup, kernel: engine.Kernel) -> Iterator[tuple[str, str]]:
    """(who, microseconds in three digits)."""
    yield from (("the explanation", time) for time in WHY.findall(engine.explain(kernel)))
    yield from (("fusion's reason", time) for time in FUSED.findall(group.because))


def check(path: Path) -> None:
    """Nobody tells another time than the prediction of any kernel of a model."""
    plan = engine.fuse(engine.load(path))
    reasons = 0
    for group in plan.groups:
        kernel = engine.compile(group, engine.default_recipe(group))
        time = engine.predict(kernel).microseconds
        other = {who: told for who, told in numbers(group, kernel) if told != time}
        other |= {who: told for who, told in texts(group, kernel) if told != f"{time:.3g}"}
        assert not other, f"{group.name} takes {time} µs: {other}"
        reasons += len(FUSED.findall(group.because))
    assert reasons or "attention" not in {group.kind for group in plan.groups}


def test_a_kernel_of_a_small_model_has_one_time() -> None:
    check(ROOT / "resources" / "models" / "bert_tiny.onnx")


def test_advice_and_search_tell_the_time_of_a_product() -> None:
    """The adviser's reason, and the rank of the program that it chose, before the kernel is compiled."""
    plan = engine.fuse(engine.load(ROOT / "resources" / "models" / "bert_tiny.onnx"))
    products = [group for group in plan.groups if family_of(group) is GEMM_FAMILY]
    assert len(products) == 4
    for group in products:
        kernel = engine.compile(group, engine.default_recipe(group))
        time = engine.predict(kernel).microseconds
        reasons = [entry.because for advice in kernel.advice for entry in advice.scenario.entries]
        told = {time for reason in reasons for time in ADVISED.findall(reason)}
        assert told == {f"{time:.3g}"}
        found = problem(group, kernel.recipe)
        assert isinstance(found, SearchProblem) and found.advised is not None
        assert found.rank(found.advised) == time


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real graphs are not shipped")
@pytest.mark.parametrize("name", MODELS)
def test_a_kernel_of_a_shared_model_has_one_time(name: str) -> None:
    check(SHARED / f"{name}.onnx")
