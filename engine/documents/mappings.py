"""Mappings of a group's iterators to an intrinsic."""

from __future__ import annotations

from dataclasses import dataclass

LISTED, COMPILED, CHECKED, WRONG = "listed", "compiled", "checked", "wrong"
"""Progress of a mapping: listed, compiled, checked against the reference, or found wrong."""


@dataclass(frozen=True, slots=True)
class IntrinsicAxisDoc:
    """One axis of an intrinsic."""

    name: str
    iterators: tuple[str, ...]
    """The iterators that form the axis, the last one innermost; "unit.j" is an added iterator of extent 1."""
    index: str
    """The iterators flattened into one number."""
    extent: int
    size: int
    """Of one call."""
    tiles: int
    padding: int
    """Padding points of the last tile."""


@dataclass(frozen=True, slots=True)
class MappingDoc:
    """One mapping of a group to an intrinsic."""

    intrinsic: str
    binding: str
    """ "i = n p q, j = k, l = c r s"."""
    axes: tuple[IntrinsicAxisDoc, ...]
    outer: tuple[str, ...]
    """Iterators that stay loops around the intrinsic."""
    is_swapped: bool
    """Whether the second factor is the intrinsic's first operand."""
    calls: int
    """Of the intrinsic."""
    cost: int
    """Multiplications including padding."""
    padding: float
    """Fraction of them that is padding, 0..1."""
    why_not_strict: str
    """Axes shorter than the intrinsic's; "" where none is."""
    entries: tuple[str, ...]
    """Advice of the author `tensorize` that asks for it, as text."""
    state: str
    """LISTED, COMPILED, CHECKED or WRONG."""
    why_not: str
    """Why there is no kernel of it, or what is wrong with it; "" otherwise."""


@dataclass(frozen=True, slots=True)
class RefusedDoc:
    """An intrinsic that cannot compute a group."""

    intrinsic: str
    because: str


@dataclass(frozen=True, slots=True)
class MappingsDoc:
    """Every mapping of one group, cheapest first for each intrinsic."""

    group: str
    statement: str
    """The statement that is mapped, "" where none is a sum."""
    product: str
    """The statement as a sum of products."""
    because: str
    """How it was rewritten into one; "" if it is written so."""
    mappings: tuple[MappingDoc, ...]
    refused: tuple[RefusedDoc, ...]
