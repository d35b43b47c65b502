"""What became of every entry, collected while a constraint tree is searched."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.recipe import Path
from engine.scheduling.nodes import (
    DISABLED,
    INFEASIBLE,
    NOT_REACHED,
    ConstraintNode,
    ConstraintTree,
    Verdict,
    entries_of,
)


@dataclass(slots=True)
class VerdictTable:
    """Verdicts by the path of the entry; a later one replaces an earlier one."""

    found: dict[Path, Verdict] = field(default_factory=dict)

    def record(self, *verdicts: Verdict) -> None:
        """Verdicts of entries that were tried."""
        self.found |= {verdict.placed.path: verdict for verdict in verdicts}

    def record_not_reached(self, node: ConstraintNode, because: str) -> None:
        """The entries of a subtree were not tried; those that have a verdict keep it."""
        for placed in entries_of(node):
            self.found.setdefault(placed.path, Verdict(placed, NOT_REACHED, because))

    def first_reason(self, node: ConstraintNode) -> str:
        """Why the first entry of a subtree that cannot hold cannot; "" where all may."""
        found = (self.found.get(p.path) for p in entries_of(node))
        return next((f"{v.placed.entry}: {v.because}" for v in found if v and v.outcome == INFEASIBLE), "")

    def of_tree(self, tree: ConstraintTree) -> tuple[Verdict, ...]:
        """One verdict for every entry of the tree, in its order, then those that no search looks at."""
        result = [
            self.found.get(p.path, Verdict(p, NOT_REACHED, "the solve ended before it")) for p in entries_of(tree.root)
        ]
        result += [Verdict(p, NOT_REACHED, "too many alternatives; this one was left out") for p in tree.beyond]
        return (*result, *(Verdict(p, DISABLED, "switched off") for p in tree.disabled), *tree.rewrites)
