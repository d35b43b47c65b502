"""What a verb works on: a file, a target and, where one is named, one group of it, opened with the engine's API."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import engine
from app.session.loom_file import SUFFIX, LoomFile, find_model, present_recipe, read_loom
from app.session.named_models import path_of
from engine import BadInput, Conflict, EngineError
from engine.documents.model import ModelDoc
from engine.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from engine.fusion.nodes import FusionGroup, FusionPlan
    from engine.graph.nodes import OperatorGraph
    from engine.recipe import Recipe
    from engine.verify.size_range import RangedPlan


@dataclass(frozen=True)
class CompileJob:
    """The operands that most verbs share; each stage runs when it is first asked for."""

    file: str
    asked_target: str | None
    """--target; None leaves it to the recipe."""
    asked_dimensions: dict[str, int]
    """--dim."""
    only: str | None = None
    """The one group to work on; None for all."""
    recipe_file: Path | None = None
    tree_file: Path | None = None
    """Advice for the one group in place of the user's."""
    policy: str | None = None
    """--policy; None leaves it to the recipe."""
    asked_numerics: dict[str, str] = field(default_factory=dict)
    """--numerics."""
    asked_sizes: tuple[str, int, int] | None = None
    """--dim NAME=LOW..HIGH, whose largest size is among the dimensions."""
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """What opening the file took: "load" and "fuse"."""

    @cached_property
    def workspace(self) -> LoomFile | None:
        """The saved workspace, where the file is one; its advice stands in for a recipe file."""
        return read_loom(Path(self.file)) if self.file.lower().endswith(SUFFIX) else None

    @cached_property
    def model_file(self) -> str:
        """The model: the file itself, or the one that the workspace names."""
        return find_model(self.workspace.model, Path(self.file).absolute().parent) if self.workspace else self.file

    @cached_property
    def graph(self) -> OperatorGraph:
        """The file."""
        saved = self.workspace.dimensions if self.workspace else {}
        recipe = self._read_recipe
        dimensions = {**saved, **(recipe.dimensions if recipe else {}), **self.asked_dimensions}
        with self._measure_seconds("load"):
            return engine.load(path_of(self.model_file), dims=dimensions)

    @cached_property
    def plan(self) -> FusionPlan:
        """Its kernels to be."""
        graph = self.graph
        with self._measure_seconds("fuse"):
            return engine.fuse(graph, self.target, *self._choices, self._numerics)

    @cached_property
    def ranged(self) -> RangedPlan | None:
        """The plan for all sizes of a dimension, where a range is asked for."""
        return engine.for_sizes(self.plan, *self.asked_sizes) if self.asked_sizes else None

    @cached_property
    def _choices(self) -> tuple[str, engine.Fixed]:
        """Policy and fixed groups: those of --policy, else the recipe's."""
        if self.policy is not None:
            return self.policy, engine.Fixed()
        return engine.fusion_choices(self._read_recipe or engine.Recipe(self.target), self._recipe_source)

    @property
    def _numerics(self) -> dict[str, str] | None:
        """The recipe's, and --numerics in their place; None leaves all of it to the engine."""
        from engine.tensor.numerics import ARITHMETIC, OPMATH
        from engine.tensorize.numerics import check_numerics

        check_numerics(self.asked_numerics, "--numerics")
        if self._read_recipe is not None:
            check_numerics(self._read_recipe.numerics, f"{self._recipe_source}, numerics")
            return {**self._read_recipe.numerics, **self.asked_numerics}
        # Without 16-bit floats it says nothing.
        return {ARITHMETIC: OPMATH, **self.asked_numerics} if self.asked_numerics else None

    @cached_property
    def target(self) -> str:
        """The machine: that of --target, else the recipe's."""
        if self.asked_target is not None:
            return self.asked_target
        return self._read_recipe.target if self._read_recipe else DEFAULT_TARGET

    @cached_property
    def recipe(self) -> Recipe:
        """That of all advisers; where --recipe or --tree speaks of a group, it holds instead."""
        recipe = self.advised
        if self._read_recipe is not None:
            given = replace(self._read_recipe, target=self.target, numerics=self._numerics or {})
            if self.recipe_file is None:  # a workspace keeps histories of groups that its plan has no more
                here = {group.name for group in self.plan.groups}
                given = replace(given, groups={name: each for name, each in given.groups.items() if name in here})
            recipe = engine.complete_recipe(given, self.plan, self._recipe_source)
        if self.tree_file is not None:
            if len(self.groups) != 1:
                names = ", ".join(group.name for group in self.groups[:8])
                reason = "says nothing about which group it is for"
                raise BadInput("command line", str(self.tree_file), reason, f"add --group with one of {names}")
            text = engine.read_advice(self.tree_file)
            recipe = engine.merge_advice(recipe, self.groups[0], text, str(self.tree_file))
        return recipe

    @cached_property
    def model(self) -> ModelDoc:
        """The plan with the times of the kernels that its recipe makes."""
        return engine.model_doc(self.graph, self.plan, self.recipe)

    @cached_property
    def advised(self) -> Recipe:
        """The recipe of all advisers, whatever the user says."""
        return engine.default_recipe(self.plan, target=self.target)

    @cached_property
    def _read_recipe(self) -> Recipe | None:
        if self.recipe_file is not None:
            return engine.read_recipe(self.recipe_file)
        return present_recipe(self.workspace) if self.workspace else None

    @property
    def _recipe_source(self) -> str:
        return str(self.recipe_file or self.file)

    @cached_property
    def groups(self) -> tuple[FusionGroup, ...]:
        """The groups to work on; BadInput when --group names none."""
        return self.plan.groups if self.only is None else (self.plan.group(self.only),)

    @contextlib.contextmanager
    def _measure_seconds(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[stage] += time.perf_counter() - started

    def kernels(
        self, shown: tuple[type[EngineError], ...] = ()
    ) -> Iterator[tuple[FusionGroup, engine.AnyKernel | EngineError]]:
        """Compile each group; one that cannot be compiled gives its error, unless it was asked for by name.

        Required entries that cannot hold end the verb.  shown: errors that the verb shows itself, in any case.
        """
        recipe = self.recipe
        for group in self.groups:
            try:
                yield group, engine.compile(group, recipe)
            except EngineError as error:
                ends = isinstance(error, Conflict) or self.only is not None
                if ends and not isinstance(error, shown):
                    raise
                yield group, error
