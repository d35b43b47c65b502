"""What a verb works on: a file, a target and, where one is named, one group of it, opened with the engine's API."""

from __future__ import annotations

import contextlib
import difflib
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import engine
from app.example import path_of
from engine.errors import BadInput, EngineError

if TYPE_CHECKING:
    from engine.fuse.nodes import FusionGroup, FusionPlan
    from engine.graph.nodes import OperatorGraph
    from engine.recipe import Recipe


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
    seconds: Counter[str] = field(default_factory=Counter)
    """What opening the file took: "load" and "fuse"."""

    @cached_property
    def graph(self) -> OperatorGraph:
        """The file."""
        with self._timed("load"):
            return engine.load(path_of(self.file), dims=self.dimensions)

    @cached_property
    def plan(self) -> FusionPlan:
        """Its kernels to be."""
        graph = self.graph
        with self._timed("fuse"):
            return engine.fuse(graph, target=self.target, policy=self.policy)

    @cached_property
    def recipe(self) -> Recipe:
        """That of all advisers; a group that the --recipe file speaks of has the file's advice instead."""
        proposed = engine.default_recipe(self.plan, target=self.target)
        if self.recipe_file is None:
            return proposed
        read = engine.read_recipe(self.recipe_file)
        return replace(read, groups={**proposed.groups, **read.groups})

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

    @contextlib.contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[stage] += time.perf_counter() - started

    def kernels(self) -> Iterator[tuple[FusionGroup, engine.Kernel | EngineError]]:
        """Compile each group; one that cannot be compiled gives its error, unless it was asked for by name."""
        recipe = self.recipe
        for group in self.groups:
            try:
                yield group, engine.compile(group, recipe)
            except EngineError as error:
                if self.only is not None:
                    raise
                yield group, error


def dimensions_of(bindings: list[str]) -> dict[str, int]:
    """--dim batch=8 --dim sequence=128 as a mapping; BadInput for anything else."""
    found: dict[str, int] = {}
    for binding in bindings:
        matched = re.fullmatch(r"([^=]+)=([1-9][0-9]*)", binding)
        if matched is None:
            raise BadInput("command line", f"--dim {binding}", "is not NAME=VALUE", "for example --dim batch=8")
        found[matched[1].strip()] = int(matched[2])
    return found
