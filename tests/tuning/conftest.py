"""The same small product is searched by most tests: what can be chosen of it is found out once for each recipe."""

from __future__ import annotations

import pytest

from engine.fusion.nodes import FusionGroup
from engine.recipe import Recipe
from engine.tuning import searched_groups
from engine.tuning.problem import SearchProblem, problem
from tests.tuning.runs import known, plan, recipe

_found: list[tuple[Recipe, SearchProblem | str]] = []
"""Recipes of the product, and what was found for them."""


@pytest.fixture(autouse=True)
def known_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of the product take what is known of it, also where a file of it was read again; all others ask."""

    def remembered(group: FusionGroup, wanted: Recipe) -> SearchProblem | str:
        if group != plan().groups[0]:
            return problem(group, wanted)
        result = known() if wanted == recipe() else next((made for asked, made in _found if asked == wanted), None)
        if result is None:
            result = problem(group, wanted)
            _found.append((wanted, result))
        return result

    monkeypatch.setattr(searched_groups, "problem", remembered)
