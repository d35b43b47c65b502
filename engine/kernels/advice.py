"""What the analyses of all families have in common when they write entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.recipe import FAMILY, Advice, Entry, Scenario

AS_IN_TEXT = "in the order of the text"
"""In the label of an alternative that leaves the loops as they are."""


def mark(statements: tuple[str, ...], dimension: str, name: str, value: int, because: str) -> Entry:
    """A `mark` entry."""
    return Entry(statements, dimension, "mark", (name, value), because=because)


def family_mark(name: str) -> Entry:
    """The entry that asks for the kernel of a family."""
    return Entry((), "outermost", "mark", (FAMILY, name))


def ranked_scenario(offered: Sequence[tuple[str, str, Sequence[Entry]]], because: str) -> Scenario:
    """Alternatives, best first, as (label, score, entries); what all of them say stands before them, once.

    The first own entry of each tells its score, that of the best also `because`: what the accesses disagree on.  One
    alone keeps its label.
    """
    (label, _, best), *others = offered
    if not others:
        return Scenario(tuple(best), label=label)
    common = [one for one in best if all(one in entries for *_, entries in others)]
    alternatives: list[Scenario] = []
    for label, score, entries in offered:
        first, *rest = (one for one in entries if one not in common)
        reasons = (first.because, score, because if not alternatives else "")
        first = replace(first, because="; ".join(filter(None, reasons)))
        alternatives.append(Scenario((first, *rest), label=label))
    return Scenario(tuple(common), tuple(alternatives))


def with_content(*advice: Advice) -> tuple[Advice, ...]:
    """Without authors that have nothing to say."""
    return tuple(one for one in advice if one.scenario != Scenario())
