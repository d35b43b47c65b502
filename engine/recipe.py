"""The Recipe: every choice made by a person, an analysis or a tuner, as one immutable value.

A recipe names its target, then holds for each fusion group an ordered list of `Advice`.  One advice is one author's
tree of entries; an entry is one wish about one dimension of some statements, with a reason.  `schedule.compose` turns
the advice of a group into its constraint tree.  Nothing else steers the compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

VERSION = 1
"""Version of the JSON form; a newer one is refused, an older one is read."""

AUTHORS = ("user", "stitch", "vectorize", "map", "tensorize", "pipeline", "tune")
"""Who may give advice, in order of precedence in the composed tree."""

FIELDS = ("pin", "terms", "equal", "parallel", "objective", "cut", "split", "mark", "enabled")
"""What an entry can say (DESIGN 5)."""

MARKS = ("block", "thread", "warp", "lane", "vector", "tile", "intrinsic", "stages", "scope", "unroll")
"""What a mark can select (value of a `mark` entry: one of these names and a number or a word)."""

Value = bool | int | float | str | tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One wish: `field = value` for `statements` at `dimension`.

    pin: allowed iterator names, e.g. ("j",).  parallel: True.  cut: ordered partition of statement names,
    (("S0",), ("S1", "S2")).  split: factor.  mark: (name, value), e.g. ("stages", 3) or ("vector", 4).
    """

    statements: tuple[str, ...]
    """Names the entry speaks of; empty means all statements of the group."""
    dimension: str
    """"outermost", "innermost", "after NAME", or the name of a schedule dimension; "" where the field needs none."""
    field: str
    value: Value
    required: bool = False
    """A required entry is never relaxed silently: when it cannot hold, the solve fails and says why."""
    because: str = ""
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Scenario:
    """Entries that belong together, and alternatives for what follows, best first."""

    entries: tuple[Entry, ...] = ()
    alternatives: tuple[Scenario, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """One author's tree of entries."""

    author: str
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class Recipe:
    """Every choice that compiling a graph depends on."""

    target: str
    """Name of a GPU description in `engine/target`, e.g. "h200"."""
    dimensions: Mapping[str, int] = field(default_factory=dict)
    """Sizes bound to the graph's symbolic dimensions."""
    numerics: Mapping[str, str] = field(default_factory=dict)
    """"accumulate" and "tensor_cores" types; empty means float32 accumulation on CUDA cores."""
    rewrites: tuple[str, ...] = ()
    """Algebraic changes made before scheduling, by name."""
    fusion: Mapping[str, str] = field(default_factory=dict)
    """Fusion choices: "policy" and what a person forced."""
    groups: Mapping[str, tuple[Advice, ...]] = field(default_factory=dict)
    """Group name -> its advice in order."""
