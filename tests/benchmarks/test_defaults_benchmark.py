"""Default kernels beside the best program: a model that is within the goal, and a recipe that is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import engine
from engine.recipe import Advice, Entry, Scenario
from tests.benchmarks import defaults

MODEL = Path(__file__).parents[2] / "resources" / "models" / "layernorm_64x768.onnx"


@pytest.mark.slow(sentinel=True)
def test_a_model_is_within_the_goal_or_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "defaults.json"
    assert defaults.main([str(MODEL), "--json", str(file)]) == 0
    document = json.loads(file.read_text())
    assert document["summary"]["origin"] == "predicted" and document["summary"]["met"] == 1
    assert document["rows"][0]["programs"] > 100
    monkeypatch.setattr(defaults, "GOAL", 0.9)
    assert defaults.main([str(MODEL)]) == 1
    assert "0 of 1 models" in capsys.readouterr().out


@pytest.mark.slow(sentinel=True)
def test_a_slow_default_loses_to_a_program_of_the_space() -> None:
    plan = engine.fuse(engine.load(MODEL))
    (group,) = plan.groups
    recipe = engine.default_recipe(plan)
    one_lane = Advice("map", Scenario(tuple(
        Entry((s.name,), "innermost", "mark", ("lane", 1)) for s in group.program.statements if s.reduction
    )))  # fmt: skip
    good, slow = (defaults.row_of("m", group, given) for given in (recipe, recipe.with_group(group.name, (one_lane,))))
    assert good.best <= good.default <= defaults.GOAL * good.best
    assert slow.default > 1.2 * slow.best and slow.program and slow.lost > 0
    assert slow.best == pytest.approx(good.best, rel=0.02)
