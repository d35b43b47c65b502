"""What a verb works on: a file, a target and, where one is named, one group of it, opened with the engine's API."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import engine
from engine.errors import BadInput, Unsupported

if TYPE_CHECKING:
    from engine.fuse.nodes import FusionGroup, FusionPlan
    from engine.graph.nodes import OperatorGraph
    from engine.recipe import Recipe

EXAMPLE = "example"
"""Names the built-in model wherever a file is asked for."""


@dataclass(frozen=True)
class Job:
    """The operands that most verbs share; each stage runs when it is first asked for."""

    file: str
    target: str
    dimensions: dict[str, int]
    only: str | None = None
    """The one group to work on; None for all."""
    recipe_file: Path | None = None
    policy: str = "first"

    @cached_property
    def graph(self) -> OperatorGraph:
        """The file."""
        return engine.load(path_of(self.file), dims=self.dimensions)

    @cached_property
    def plan(self) -> FusionPlan:
        """Its kernels to be."""
        return engine.fuse(self.graph, target=self.target, policy=self.policy)

    @cached_property
    def recipe(self) -> Recipe:
        """The one of --recipe, else that of all advisers."""
        if self.recipe_file is not None:
            return engine.read_recipe(self.recipe_file)
        return engine.default_recipe(self.plan, target=self.target)

    @cached_property
    def groups(self) -> tuple[FusionGroup, ...]:
        """The groups to work on; BadInput when --group names none."""
        if self.only is None:
            return self.plan.groups
        names = [group.name for group in self.plan.groups]
        if self.only not in names:
            near = difflib.get_close_matches(self.only, names, n=3) or names[:8]
            raise BadInput("command line", f"group {self.only}", "the plan has no such group", f"try {', '.join(near)}")
        return (self.plan.group(self.only),)

    def kernels(self) -> Iterator[tuple[FusionGroup, engine.Kernel | Unsupported]]:
        """Compile each group; one that cannot be compiled gives its reason, unless it was asked for by name."""
        for group in self.groups:
            try:
                yield group, engine.compile(group, self.recipe)
            except Unsupported as error:
                if self.only is not None:
                    raise
                yield group, error


def path_of(file: str) -> Path:
    """The path of a FILE argument: its own, or the built-in model's."""
    if file == EXAMPLE:
        return Path(__file__).resolve().parent.parent / "resources" / "models" / "bert_tiny.onnx"
    return Path(file)


def dimensions_of(bindings: list[str]) -> dict[str, int]:
    """--dim batch=8 --dim sequence=128 as a mapping; BadInput for anything else."""
    found: dict[str, int] = {}
    for binding in bindings:
        matched = re.fullmatch(r"([^=]+)=([1-9][0-9]*)", binding)
        if matched is None:
            raise BadInput("command line", f"--dim {binding}", "is not NAME=VALUE", "for example --dim batch=8")
        found[matched[1].strip()] = int(matched[2])
    return found
