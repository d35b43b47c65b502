"""Recipe and advice files: reading, checking against a plan, completing and writing them.

What a stage cannot follow is refused here, by the file, group and entry that asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.compilation import default_recipe
from engine.fusion.choices import choices_of
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.fusion.stitching.nodes import Fixed
from engine.recipe import Advice, Recipe
from engine.scheduling.compose import validate
from engine.scheduling.published.export import export as _published_text
from engine.scheduling.published.parse import parse as _parse_published
from engine.scheduling.published.translate import translate as _translate
from engine.scheduling.text import from_text
from engine.support.errors import BadInput
from engine.support.files import read_text, write_whole
from engine.tensorize.numerics import check_numerics


def fusion_choices(recipe: Recipe, source: str = "recipe") -> tuple[str, Fixed]:
    """(policy, fixed groups) that a recipe requests, by default those of `fuse`.  Raises BadInput."""
    return choices_of(recipe.fusion, source)


def read_recipe(path: str | Path) -> Recipe:
    """A recipe from its JSON file.

    >>> path = os.path.join(tempfile.mkdtemp(), "mine.json")
    >>> engine.write_recipe(engine.Recipe("h200", dimensions={"batch": 8}), path)
    >>> engine.read_recipe(path).dimensions
    {'batch': 8}

    Raises BadInput for another version, unknown words and sizes below 1.
    """
    content = read_text(path, "recipe", "write one with `loomscope recipe`")
    try:
        return Recipe.loads(content, str(path))
    except BadInput as error:
        if error.subject.startswith(str(path)):
            raise
        raise BadInput("recipe", f"{path}, {error.subject}", error.reason, error.hint) from None


def read_advice(path: str | Path) -> str:
    """The text of an advice file, in our form or in the published JSON format.  Raises BadInput."""
    return read_text(path, "recipe", "write it in the form that `loomscope schedule` shows")


def published_advice(path: str | Path, group: FusionGroup) -> tuple[Advice, ...]:
    """Advice of the user from a file in AKG's published JSON format.

    Raises BadInput for a broken file, one that contradicts itself and advice for another operator; Unsupported for
    advice that no kernel here can follow.
    """
    return _translate(_parse_published(read_advice(path), Path(path).name), group)


def write_published(advice: Sequence[Advice], group: FusionGroup, path: str | Path) -> None:
    """Write advice for a group in the published JSON format.

    Raises Unsupported, naming the entry, for what the format cannot say, BadInput where the file cannot be written.
    """
    write_whole(path, _published_text(advice, group), "schedule")


def write_recipe(recipe: Recipe, path: str | Path) -> None:
    """Write a recipe as JSON.

    >>> recipe = engine.default_recipe(engine.fuse(engine.load("suite:alcop/MM_RN50_FC")))
    >>> path = os.path.join(tempfile.mkdtemp(), "mine.json")
    >>> engine.write_recipe(recipe, path)
    >>> engine.read_recipe(path) == recipe
    True

    Raises BadInput where the file cannot be written.
    """
    write_whole(path, recipe.dumps(), "recipe")


def replace_advice(recipe: Recipe, group: FusionGroup, text: str) -> Recipe:
    """The recipe with a group's advice replaced by what `text` says (`engine/scheduling/text.py` has the grammar).

    Raises BadInput with the line number, also for statements that the group does not have.
    """
    advice = from_text(text, f"advice of {group.name}")
    validate(advice, group.program)
    return recipe.with_group(group.name, advice)


def merge_advice(recipe: Recipe, group: FusionGroup, text: str, source: str = "advice") -> Recipe:
    """The recipe with `text` in place of the user's advice for a group, and of that of every author it has.

    Text in the published JSON format replaces all advice of the group: it says the whole launch.
    Raises BadInput with the line number of `source`, also for statements that the group does not have.
    """
    if text.lstrip()[:1] in ("{", "["):
        return recipe.with_group(group.name, _translate(_parse_published(text, source), group))
    advice = from_text(text, source)
    _validate(advice, group, source)
    replaced = {"user", *(one.author for one in advice)}
    kept = (one for one in recipe.groups.get(group.name, ()) if one.author not in replaced)
    return recipe.with_group(group.name, (*kept, *advice))


def complete_recipe(recipe: Recipe, plan: FusionPlan, source: str = "recipe") -> Recipe:
    """A recipe for every group of a plan: those that it does not speak of get their advisers' entries.

    Raises BadInput for groups and statements that the plan does not have, and for choices that nothing here follows;
    `source` names the recipe.
    """
    _check_choices(recipe, plan, source)
    for name, advice in recipe.groups.items():
        try:
            group = plan.group(name)
        except BadInput as error:
            hint = f"{error.hint}; is it a recipe for another file?"
            raise BadInput("recipe", f"{source}, {error.subject}", error.reason, hint) from None
        _validate(advice, group, f"{source}, group {name}")
    return with_proposals(recipe, plan)


def with_proposals(recipe: Recipe, what: FusionGroup | FusionPlan) -> Recipe:
    """The recipe with their advisers' entries for groups that it does not speak of."""
    proposed = default_recipe(what, recipe.target, recipe.numerics)
    return replace(recipe, groups={**proposed.groups, **recipe.groups})


def _check_choices(recipe: Recipe, plan: FusionPlan, source: str) -> None:
    """BadInput for numerics that no stage reads, and fusion choices that the plan was not made with."""
    check_numerics(recipe.numerics, f"{source}, numerics")
    if recipe.fusion and choices_of(recipe.fusion, source) != (plan.policy, plan.fixed):
        hint = "fuse the graph with the recipe's choices, or leave them out of it"
        raise BadInput("recipe", f"{source}, fusion", "asks for other groups than those of the plan", hint)


def _validate(advice: Sequence[Advice], group: FusionGroup, source: str) -> None:
    try:
        validate(advice, group.program)
    except BadInput as error:
        raise BadInput("recipe", f"{source}, {error.subject}", error.reason, error.hint) from None
