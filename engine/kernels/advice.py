"""What the analyses of all families have in common when they write entries."""

from __future__ import annotations

from engine.recipe import FAMILY, Advice, Entry, Scenario

AS_IN_TEXT = "in the order of the text"
"""In the label of an alternative that leaves the loops as they are."""


def mark(statements: tuple[str, ...], dimension: str, name: str, value: int, because: str) -> Entry:
    """A `mark` entry."""
    return Entry(statements, dimension, "mark", (name, value), because=because)


def family_mark(name: str) -> Entry:
    """The entry that asks for the kernel of a family."""
    return Entry((), "outermost", "mark", (FAMILY, name))


def with_content(*advice: Advice) -> tuple[Advice, ...]:
    """Without authors that have nothing to say."""
    return tuple(one for one in advice if one.scenario != Scenario())
