"""The same small product is searched by most tests: what can be chosen of it is found out once."""

from __future__ import annotations

import pytest

from engine.fuse.nodes import FusionGroup
from engine.recipe import Recipe
from engine.tune import begin
from engine.tune.problem import Problem, problem
from tests.tune.runs import known, plan, recipe


@pytest.fixture(autouse=True)
def known_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of tests.tune.runs take the known problem; all others ask as ever."""

    def remembered(group: FusionGroup, wanted: Recipe) -> Problem | str:
        return known() if group is plan().groups[0] and wanted == recipe() else problem(group, wanted)

    monkeypatch.setattr(begin, "problem", remembered)
