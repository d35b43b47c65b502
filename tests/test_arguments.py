"""Arguments of the library's verbs: what a parameter is not annotated as is refused by the verb and the parameter."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from inspect import isfunction, signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine
from engine.support.argument_types import parameter_kinds

VERBS = [name for name in engine.__all__ if isfunction(getattr(engine, name))]
SOFTMAX = str(Path(__file__).parents[1] / "resources/models/softmax_96x512.onnx")
OF_PYTORCH = {("from_torch", "program"), ("torch_backend", "module")}
"""Parameters whose types are PyTorch's, which need not be installed."""


@pytest.fixture(scope="module")
def graph() -> engine.OperatorGraph:
    return engine.load(SOFTMAX)


@pytest.fixture(scope="module")
def plan(graph: engine.OperatorGraph) -> engine.FusionPlan:
    return engine.fuse(graph)


def misused(call: Callable[[], object]) -> str:
    with pytest.raises(engine.BadInput) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("name", VERBS)
def test_every_parameter_of_a_verb_says_what_it_takes(name: str) -> None:
    verb = getattr(engine, name)
    unknown = {key for key, kind in parameter_kinds(verb.__wrapped__, engine.__getattr__).items() if kind is Any}
    assert {(name, key) for key in unknown} <= OF_PYTORCH


@pytest.mark.parametrize("name", VERBS)
def test_no_verb_takes_a_value_of_a_type_that_there_was_not(name: str) -> None:
    verb = getattr(engine, name)
    needed = [key for key, one in signature(verb).parameters.items() if one.default is one.empty]
    if (name, needed[0]) not in OF_PYTORCH:
        said = misused(lambda: verb(*(object() for _ in needed)))
        assert said.startswith(f"{name}, {needed[0]}: is of type object, not ")


def test_a_value_of_another_stage_is_refused_by_the_parameter(graph: Any, plan: Any) -> None:
    group: Any = plan.groups[0]
    assert misused(lambda: engine.fuse(SOFTMAX)) == (  # type: ignore[arg-type]
        "fuse, graph: is of type str, not OperatorGraph (help(engine.fuse) says what it takes)"
    )
    assert misused(lambda: engine.compile(plan)).startswith("compile, group: is of type FusionPlan, not FusionGroup")
    assert "kernel: is of type FusionGroup, not Kernel or CpuKernel" in misused(lambda: engine.check(group))
    assert "recipe: is of type str, not Recipe or None" in misused(lambda: engine.compile(group, "best.json"))  # type: ignore[arg-type]
    assert "target: is None, not str" in misused(lambda: engine.fuse(graph, None))  # type: ignore[arg-type]
    assert engine.compile(group, None).family == "reduction"


def test_numbers_are_told_apart(plan: Any) -> None:
    for trials in ("4", 1.5, True, None):
        assert "trials" in misused(lambda trials=trials: engine.tune(plan, trials=trials))
    assert engine.tune(plan, trials=np.int64(2), minutes=1, strategy="model").budget == 2
    assert "minutes: is of type str, not float or None" in misused(lambda: engine.tune(plan, minutes="1"))  # type: ignore[arg-type]


def test_one_name_is_no_list_of_names(plan: Any) -> None:
    group = plan.groups[0]
    assert "order, order: is of type str, not Sequence" in misused(lambda: engine.order(group, order="ij"))
    assert engine.order(group, order=["i", "j"]).legal
    assert "entry, statements: is of type list" in misused(lambda: engine.entry("S0", ["S1"], pin="j"))  # type: ignore[arg-type]
    assert engine.entry("S0", "S1", pin="j").statements == ("S0", "S1")


def test_a_verb_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(engine.load)) is engine.load
