"""`legal` speaks of dependences and required entries alone; why a legal schedule has no kernel is told beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import engine
from engine.present.model import kernel_doc, refused_doc
from engine.service import Service
from tests.support.commands import SOFTMAX, document, loomscope

SKEWED = "required S1 @ innermost: terms ((i, 1), (j, 1))"
NOT_TAKEN = "required S0 @ innermost: mark lane 4096"
ILLEGAL = "required S1 @ outermost: cut S3 | S0 S1 S2"
GROUP = "softmax_0"


def refuses(*_: object) -> None:
    """Code generation in which no family makes a kernel: the general one takes every schedule of the softmax."""
    raise engine.Unsupported("codegen", GROUP, "no family takes it", "")


@pytest.fixture
def tree(tmp_path: Path):
    def written(entry: str) -> str:
        path = tmp_path / "tree.advice"
        path.write_text(f"advice user\n  {entry}\n")
        return str(path)

    return written


def row(tree: str, *more: str, code: int = 0) -> dict[str, object]:
    done = loomscope("schedule", SOFTMAX, "--tree", tree, "--json", *more)
    assert done.returncode == code, done.stderr
    (found,) = json.loads(done.stdout)["groups"]
    return found


def test_a_schedule_with_a_kernel_names_its_family() -> None:
    (found,) = document("schedule", SOFTMAX)["groups"]
    assert found["legal"] is True and "refused" not in found
    assert found["kernel"] == {"family": "reduction", "launches": 1}


@pytest.mark.parametrize("more", [(), ("--group", GROUP)])
def test_a_schedule_that_the_own_family_does_not_follow_has_a_general_kernel(tree, more: tuple[str, ...]) -> None:
    found = row(tree(SKEWED), *more)
    assert found["legal"] is True and "refused" not in found
    assert found["kernel"]["family"] == "general" and found["kernel"]["launches"] == 1
    assert "S1 runs over i + j in dimension" in found["kernel"]["misfit"]
    assert found["tree"]["children"], "the schedule is shown"
    assert {v["entry"]: v["verdict"] for v in found["verdicts"]}[SKEWED] == "honoured"
    told = loomscope("schedule", SOFTMAX, "--tree", tree(SKEWED), *more)
    assert told.returncode == 0 and "band" in told.stdout
    (columns,) = [line.split()[:2] for line in told.stdout.splitlines() if line.startswith("yes")]
    assert columns == ["yes", "general"]


def test_a_required_entry_that_no_kernel_takes_is_no_matter_of_legality(tree) -> None:
    found = row(tree(NOT_TAKEN), code=1)
    assert found["legal"] is True and found["tree"]["children"] and found["repairs"]
    assert "a power of two up to 1024" in found["refused"]["because"]


def test_entries_that_break_a_dependence_are_not_legal(tree) -> None:
    found = row(tree(ILLEGAL), code=1)
    assert found["legal"] is False and "kernel" not in found and "refused" not in found


def test_the_library_has_the_schedule_that_has_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    group = engine.fuse(engine.load(SOFTMAX)).group(GROUP)
    recipe = engine.merge_advice(engine.default_recipe(group), group, f"advice user\n  {SKEWED}\n")
    monkeypatch.setattr("engine.compilation.lower", refuses)
    with pytest.raises(engine.NoKernel) as refused:
        engine.compile(group, recipe)
    assert isinstance(refused.value, engine.Unsupported) and refused.value.scheduled.tree
    found = engine.schedule(group, recipe)
    assert found.legal and found.because == refused.value.reason and found.tree == refused.value.scheduled.tree
    monkeypatch.undo()
    shown = refused_doc(group, recipe, refused.value)
    assert shown.legal and not shown.has_kernel and shown.refused == refused.value.reason and not shown.cuda
    assert kernel_doc(engine.compile(group)).has_kernel


def test_the_window_is_told_that_the_order_is_legal(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service()
    service.answer("open", {"path": SOFTMAX}, lambda *_: None)
    made = service.answer("kernel", {"group": GROUP, "recipe": f"advice user\n  {SKEWED}\n"}, lambda *_: None)
    assert made["legal"] and made["family"] == "general" and "S1 runs over i + j" in made["misfit"]
    with monkeypatch.context() as patch, pytest.raises(engine.EngineError, match="the order is legal, and no kernel"):
        patch.setattr("engine.compilation.lower", refuses)
        service.answer("kernel", {"group": GROUP, "recipe": f"advice user\n  {SKEWED}\n\n"}, lambda *_: None)
    taken = service.answer("kernel", {"group": GROUP, "recipe": f"advice user\n  {NOT_TAKEN}\n"}, lambda *_: None)
    assert taken["legal"] and taken["refused"] and not taken["complete"]
    asked = {"group": GROUP, "recipe": f"advice user\n  {NOT_TAKEN}\n"}
    assert service.answer("conflict", asked, lambda *_: None)["repairs"]
