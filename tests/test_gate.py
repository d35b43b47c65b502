"""The gate without a GPU: it passes when nothing changed, and closes for each planted change."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.fusion.nodes import FusionPlan
from engine.regression import baseline as gate
from engine.regression.baseline import Baseline, GroupFigures
from engine.scheduling.text import to_text
from engine.support.errors import BadInput
from tests.support.commands import MODELS, loomscope, refused

pytest.importorskip("cuda.bindings.nvrtc")

PRODUCT = str(MODELS / "matmul_bias_gelu_128x256x512.onnx")
SOFTMAX = str(MODELS / "softmax_96x512.onnx")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The baseline of the matrix product."""
    path = tmp_path_factory.mktemp("gate") / "b.json"
    assert loomscope("baseline", PRODUCT, "-o", str(path)).returncode == 0
    return path


def planted(folder: Path, change: Callable[[str], str]) -> str:
    """A recipe file whose advice for the matrix product was changed."""
    plan = engine.fuse(engine.load(PRODUCT))
    group, recipe = plan.groups[0], engine.default_recipe(plan)
    text = to_text(recipe.groups[group.name])
    assert change(text) != text
    path = folder / "r.json"
    engine.write_recipe(engine.replace_advice(recipe, group, change(text)), path)
    return str(path)


def taken(plan: FusionPlan) -> Baseline:
    return gate.take(plan, ((group, engine.compile(group)) for group in plan.groups), "h200")


def test_nothing_changed_passes(kept: Path) -> None:
    done = loomscope("check", PRODUCT, str(kept))
    assert done.returncode == 0
    assert done.stdout.startswith("no regression in 1 kernel, ")


@pytest.mark.parametrize(
    ("figure", "before", "after"),
    [
        ("sectors", "S0 @ i: mark block 16", "S0 @ i: mark block 8"),
        ("conflicts", "S0 @ j: mark block 32", "S0 @ j: mark block 16"),
        ("registers sm_80", "S0 @ i: mark thread 4", "S0 @ i: mark thread 8"),
    ],
)
def test_a_planted_change_closes_the_gate(kept: Path, tmp_path: Path, figure: str, before: str, after: str) -> None:
    recipe = planted(tmp_path, lambda text: text.replace(before, after))
    done = loomscope("check", PRODUCT, str(kept), "--recipe", recipe, "--json")
    assert done.returncode == 1
    regressions = json.loads(done.stdout)["regressions"]
    row = next(row for row in regressions if row["figure"] == figure and row["group"])
    assert row["after"] > row["before"] and row["worse"]
    # The figures of the unchanged kernel are those of the file.
    assert row["before"] == gate.read_baseline(kept).groups[row["group"]].launch[figure]


def test_more_kernels_close_the_gate() -> None:
    graph = engine.load(SOFTMAX)
    fused, apart = taken(engine.fuse(graph)), taken(engine.fuse(graph, policy="xla"))
    worse = {(change.group, change.figure) for change in gate.compare(fused, apart).regressions}
    assert {(gate.WHOLE, "kernels"), (gate.WHOLE, "sectors")} <= worse
    assert not any(c.figure == "kernels" for c in gate.compare(apart, fused).regressions)


def figures(**launch: int) -> GroupFigures:
    return GroupFigures(
        2, {"sectors": 100, "conflicts": 0, "registers sm_80": 32, "spill bytes sm_80": 0, **launch}, "4 of 4"
    )


def model(**groups: GroupFigures) -> Baseline:
    return Baseline("m", "h200", {}, "13.0", groups)


def test_spills_and_a_lost_kernel_close_the_gate() -> None:
    before = model(a=figures(), b=figures())
    spilled = gate.compare(before, model(a=figures(**{"spill bytes sm_80": 8}), b=figures()))
    assert [(c.group, c.figure, c.after) for c in spilled.regressions] == [("a", "spill bytes sm_80", 8)]
    lost = replace(model(a=figures()), unsupported={"b": "no kernel follows"})
    assert [c.figure for c in gate.compare(before, lost).regressions] == ["groups without a kernel"]


def test_less_is_a_change_and_no_regression() -> None:
    found = gate.compare(model(a=figures()), model(a=figures(sectors=90)))
    assert [(c.group, c.figure, c.before, c.after) for c in found.changes] == [
        ("", "sectors", 200, 180), ("a", "sectors", 100, 90),
    ]  # fmt: skip
    assert found.regressions == ()


def test_a_tolerance_lets_a_figure_grow_up_to_it() -> None:
    before, after = model(a=figures()), model(a=figures(sectors=105))
    assert gate.compare(before, after, 0.05).regressions == ()
    assert len(gate.compare(before, after, 0.04).regressions) == 2


def test_another_compiler_is_said_and_the_rest_goes_on() -> None:
    after = replace(model(a=figures(sectors=120, **{"registers sm_80": 64})), compiler="13.1")
    found = gate.compare(model(a=figures()), after)
    assert "NVRTC 13.0 then, by 13.1 now" in found.notes[0]
    assert {c.figure for c in found.regressions} == {"sectors"}


@pytest.mark.parametrize("change", [{"model": "n"}, {"target": "a100"}, {"dimensions": {"batch": 8}}])
def test_a_baseline_of_something_else_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(BadInput, match=f"of another {next(iter(change))}"):
        gate.compare(model(a=figures()), replace(model(a=figures()), **change))  # type: ignore[arg-type]


def test_a_baseline_of_another_model_is_refused(kept: Path) -> None:
    assert "of another model" in refused("check", SOFTMAX, str(kept))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is empty"),
        ("[]", "is no baseline"),
        ('{"format": "loomscope-workspace", "version": 1}', "is no baseline"),
        ('{"format": "loomscope-baseline", "version": 2}', "is of version 2"),
        ('{"format": "loomscope-baseline", "version": 1, "model": 3}', "model"),
    ],
)
def test_a_broken_baseline_is_refused(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(content, encoding="utf-8")
    assert says in refused("check", SOFTMAX, str(path))


def test_a_missing_baseline_and_a_place_that_is_none_are_told(tmp_path: Path) -> None:
    assert "loomscope baseline" in refused("check", SOFTMAX, str(tmp_path / "none.json"))
    assert "cannot be written" in refused("baseline", SOFTMAX, "-o", str(tmp_path))


def test_large_arrays_are_compiled_and_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "MAX_COUNTED_BYTES", 1000)
    group = engine.fuse(engine.load(SOFTMAX)).groups[0]
    found = gate.figures(engine.compile(group))
    assert "no block ran" in found.counted
    assert "sectors" not in found.launch and found.launch["registers sm_80"] > 0


def test_the_workflow_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its two commands, as they are written, before and after a planted change."""
    text = (MODELS.parents[1] / "resources/docs/command_line.md").read_text(encoding="utf-8")
    section = text.partition("## A gate in continuous integration")[2]
    check, baseline = (re.search(rf"loomscope ({verb} model.onnx[^`\n]*)", section) for verb in ("check", "baseline"))
    assert check and baseline
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(PRODUCT, "model.onnx")
    engine.write_recipe(engine.default_recipe(engine.fuse(engine.load("model.onnx"))), "recipe.json")
    assert loomscope(*baseline[1].split()).returncode == 0
    assert loomscope(*check[1].split()).returncode == 0
    worse = planted(tmp_path, lambda text: text.replace("S0 @ i: mark block 16", "S0 @ i: mark block 8"))
    shutil.copyfile(worse, "recipe.json")
    done = loomscope(*check[1].split())
    assert done.returncode == 1 and "sectors" in done.stdout + done.stderr
