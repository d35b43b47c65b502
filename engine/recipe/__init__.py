"""The Recipe: every choice made by a person, an analysis or a tuner, as one immutable value.

A recipe names its target, then holds for each fusion group an ordered list of `Advice`.  One advice is one author's
tree of entries; an entry is one wish about one dimension of some statements, with a reason.  `schedule.compose` turns
the advice of a group into its constraint tree.  Nothing else steers the compiler.
"""

from engine.recipe.difference import diff, without
from engine.recipe.entries import (
    ASSOCIATIVE,
    DEPTH,
    ENTRY_FIELDS,
    FAMILY,
    MARKS,
    ONLINE,
    RECOMPUTE,
    REWRITES,
    Entry,
    Value,
    checked_entry,
    entry,
)
from engine.recipe.recipe import (
    AUTHORS,
    NOT_INSIDE,
    VERSION,
    Advice,
    Path,
    Recipe,
    Scenario,
    entry_at,
    replace_entry,
    walk_entries,
    with_entries,
)

__all__ = [
    "ASSOCIATIVE", "AUTHORS", "DEPTH", "ENTRY_FIELDS", "FAMILY", "MARKS", "NOT_INSIDE", "ONLINE", "RECOMPUTE",
    "REWRITES", "VERSION", "Advice", "Entry", "Path", "Recipe", "Scenario", "Value", "checked_entry", "diff", "entry",
    "entry_at", "replace_entry", "walk_entries", "with_entries", "without",
]  # fmt: skip
