"""Two models side by side: what was done to a model is what the difference says, whatever operators are called."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import engine
from app.session.history import History
from app.session.loom_file import LoomFile, reference_to, write_loom
from engine.documents.difference import ADDED, CHANGED, REMOVED
from engine.documents.model import ModelDoc, OperatorDoc, Time, with_times
from engine.scheduling.text import to_text
from tests.support.commands import MODELS, SOFTMAX, document, loomscope

BERT = MODELS / "bert_tiny.onnx"


@cache
def bert() -> ModelDoc:
    graph = engine.load(BERT)
    return engine.model_doc(graph, engine.fuse(graph))


def rename(model: ModelDoc, name: Callable[[int, str], str]) -> ModelDoc:
    """The model under other names of operators and tensors."""
    names = {op.name: name(number, op.name) for number, op in enumerate(model.operators)}
    operators = tuple(
        replace(op, name=names[op.name], inputs=tuple(f"t{x}" for x in op.inputs),
                outputs=tuple(f"t{x}" for x in op.outputs))
        for op in model.operators
    )  # fmt: skip
    nodes = tuple(replace(node, operators=tuple(names[op] for op in node.operators)) for node in model.nodes)
    return replace(model, operators=operators, nodes=nodes)


def insert(model: ModelDoc, place: int) -> tuple[ModelDoc, str]:
    """The model with an operator of its own kernel behind operator `place`, which its first reader reads instead."""
    before = model.operators[place]
    tensor = before.outputs[0]
    new = OperatorDoc("new", "Clip", (tensor,), ("clipped",), before.shape)
    reader = next(n for n, op in enumerate(model.operators) if tensor in op.inputs)
    operators = list(model.operators)
    old = operators[reader]
    inputs = tuple("clipped" if each == tensor else each for each in old.inputs)
    operators[reader] = replace(old, inputs=inputs)
    operators.insert(place + 1, new)
    return replace(model, operators=tuple(operators)), old.name


def test_a_model_is_equal_to_itself_under_any_names() -> None:
    same = engine.compare_models(bert(), bert())
    assert (same.operators, same.launches, same.groups, same.renamed) == ((), (), (), 0)
    assert same.same_operators == len(bert().operators)
    other = engine.compare_models(bert(), rename(bert(), lambda number, _: f"n{number}"))
    assert (other.operators, other.launches) == ((), ())
    assert other.renamed == other.same_operators == len(bert().operators)


def test_numbers_that_shifted_are_no_change() -> None:
    """An exporter that counts from one higher gives every operator the name that its neighbour had."""
    names = [op.name for op in bert().operators]
    found = engine.compare_models(bert(), rename(bert(), lambda number, _: names[(number + 1) % len(names)]))
    assert (found.operators, found.launches) == ((), ())


@pytest.mark.parametrize("renamed", [False, True])
def test_an_operator_that_is_inserted_is_the_only_one_that_is_added(renamed: bool) -> None:
    rng = random.Random(5)
    read = {tensor for op in bert().operators for tensor in op.inputs}
    inner = [n for n, op in enumerate(bert().operators) if op.outputs[0] in read]
    for place in rng.sample(inner, 6):
        changed, reader = insert(bert(), place)
        found = engine.compare_models(bert(), rename(changed, lambda n, _: f"n{n}") if renamed else changed)
        added = [op for op in found.operators if op.state == ADDED]
        assert [op.kind for op in added] == ["Clip"]
        (other,) = [op for op in found.operators if op.state != ADDED]
        assert (other.state, other.a) == (CHANGED, reader) and "input" in other.because
        back = engine.compare_models(changed, bert())
        assert [op.a for op in back.operators if op.state == REMOVED] == ["new"]


def test_kinds_attributes_and_shapes_that_differ_are_told() -> None:
    operators = list(bert().operators)
    place = next(n for n, op in enumerate(operators) if op.kind == "Erf")
    operators[place] = replace(operators[place], kind="Tanh", name="other")
    soft = next(n for n, op in enumerate(operators) if op.kind == "Softmax")
    operators[soft] = replace(operators[soft], attributes=(("axis", "1"),))
    found = engine.compare_models(bert(), replace(bert(), operators=tuple(operators)))
    told = {op.b: (op.state, op.kind, op.because) for op in found.operators}
    assert told["other"][:2] == (CHANGED, "Erf → Tanh")
    name = operators[soft].name
    assert told[name][:2] == (CHANGED, "Softmax") and "axis" in told[name][2] and told[name][2].endswith("→ 1")
    assert len(told) == 2


def test_a_launch_whose_operators_are_the_same_is_unchanged_whatever_group_it_is_of() -> None:
    name = "matmul_0"
    nodes = tuple(
        replace(node, group="other_0", id="other_0#0") if node.id == f"{name}#1" else node for node in bert().nodes
    )  # fmt: skip
    group = next(each for each in bert().groups if each.name == name)
    twin = replace(group, name="other_0", statements=tuple(text.replace("x", "z") for text in group.statements))
    found = engine.compare_models(bert(), replace(bert(), nodes=nodes, groups=(*bert().groups, twin)))
    assert (found.operators, found.launches) == ((), ())


def test_times_and_launches_that_differ_are_told_once_for_each_group() -> None:
    name = "matmul_0"
    times = {group.name: group.time for group in bert().groups if group.time}
    slower = with_times(bert(), {**times, name: Time(2 * times[name].microseconds, "predicted")})
    found = engine.compare_models(bert(), slower)
    (row,) = found.groups
    group = next(each for each in bert().groups if each.name == name)
    assert (row.state, row.a, row.b, row.launches) == (CHANGED, name, name, group.instances)
    assert row.microseconds == (times[name].microseconds, 2 * times[name].microseconds)
    assert {each.name: (each.a, each.b) for each in found.figures}["time"] == (
        bert().total.microseconds if bert().total else None, slower.total.microseconds if slower.total else None
    )  # fmt: skip


def test_other_groups_of_one_graph_are_added_and_removed() -> None:
    graph = engine.load(BERT)
    apart = engine.model_doc(graph, engine.fuse(graph, policy="none"))
    found = engine.compare_models(bert(), apart)
    assert found.operators == () and found.same_operators == len(bert().operators)
    gained = len(apart.nodes) - len(bert().nodes)
    states = [each.state for each in found.launches]
    assert states.count(ADDED) - states.count(REMOVED) == gained
    there = {frozenset(node.operators) for node in apart.nodes}
    differing = {each.a for each in found.launches}
    assert all(frozenset(node.operators) in there for node in bert().nodes if node.id not in differing)


def test_of_equal_layers_the_one_that_is_gone_by_name_is_removed() -> None:
    first = [op for op in bert().operators if "layer.0" in op.scope]
    names = {f"l{layer}/{op.name}" for layer in range(5) for op in first}
    operators = tuple(
        replace(op, name=f"l{layer}/{op.name}", scope="",
                inputs=tuple(f"l{layer}/{x}" for x in op.inputs), outputs=tuple(f"l{layer}/{x}" for x in op.outputs))
        for layer in range(5) for op in first
    )  # fmt: skip
    five = replace(bert(), operators=operators, nodes=(), groups=(), total=None)
    assert first and len(names) == len(operators)
    four = replace(five, operators=tuple(op for op in operators if not op.name.startswith("l2/")))
    found = engine.compare_models(five, four)
    assert {op.state for op in found.operators} == {REMOVED}
    assert {op.a for op in found.operators} == {op.name for op in operators if op.name.startswith("l2/")}


def test_eight_thousand_operators_take_seconds() -> None:
    layers = 8000 // len(bert().operators)
    operators = tuple(
        replace(op, name=f"l{layer}/{op.name}",
                inputs=tuple(f"l{layer}/{x}" for x in op.inputs), outputs=tuple(f"l{layer}/{x}" for x in op.outputs))
        for layer in range(layers) for op in bert().operators
    )  # fmt: skip
    large = replace(bert(), operators=operators, nodes=(), groups=(), total=None)
    changed, _ = insert(large, 4000)
    started = time.process_time()
    found = engine.compare_models(large, rename(changed, lambda number, _: f"n{number}"))
    assert time.process_time() - started < 8, "half a second where nothing else runs"
    assert [op.kind for op in found.operators if op.state == ADDED] == ["Clip"] and len(found.operators) == 2


def test_workspaces_differ_by_their_advice(tmp_path: Path) -> None:
    graph = engine.load(SOFTMAX)
    group = engine.fuse(graph).groups[0]
    recipe = engine.default_recipe(group)
    edited = recipe.advise("user", engine.entry("S0", "S2", mark=("lane", 64), at="innermost"))
    paths = []
    for number, one in enumerate((recipe, edited)):
        history = History.start(to_text(one.groups[group.name]), "Baseline")
        content = LoomFile(reference_to(SOFTMAX, tmp_path), "h200", groups={group.name: history.trail()})
        paths.append(tmp_path / f"{number}.loom")
        write_loom(content, paths[-1])
    found = document("diff", *map(str, paths))
    (row,) = found["groups"]
    times = [document("predict", str(path))["microseconds"] for path in paths]
    assert row["microseconds"] == pytest.approx(times) and times[0] != times[1]
    assert row["entries"] == ["+ user: S0, S2 @ innermost: mark lane 64"]
    shown = loomscope("diff", *map(str, paths)).stdout
    assert "+ user: S0, S2 @ innermost: mark lane 64" in shown and "operators: all equal" in shown
    assert loomscope("diff", str(paths[0]), str(paths[0])).stdout.startswith("no difference: 1 equal operator")
    assert loomscope("diff", str(paths[0]), str(tmp_path / "absent.loom")).returncode == 2
