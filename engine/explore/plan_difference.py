"""Two plans side by side, each under the advice of some of its groups."""

from __future__ import annotations

from collections.abc import Mapping

from engine.compilation import default_recipe
from engine.documents.difference import ModelComparisonDoc
from engine.fusion.nodes import FusionPlan
from engine.present.model import model_doc
from engine.present.model_difference import compare_models
from engine.recipe_files import replace_advice


def compare_plans(
    a: tuple[FusionPlan, Mapping[str, str]], b: tuple[FusionPlan, Mapping[str, str]]
) -> ModelComparisonDoc:
    """Two plans side by side, of one graph or of two, each under the advice given as text for some of its groups.

    Advice for groups that a plan does not have is left out.  Raises BadInput for advice that cannot be read.
    """
    models, recipes = [], []
    for one, advice in (a, b):
        recipe = default_recipe(one, target=one.target)
        for group in one.groups:
            if group.name in advice:
                recipe = replace_advice(recipe, group, advice[group.name])
        assert one.source is not None, "plans are made from graphs"
        models.append(model_doc(one.source, one, recipe))
        recipes.append(recipe)
    return ModelComparisonDoc(models[1], compare_models(models[0], models[1], (recipes[0], recipes[1])))
