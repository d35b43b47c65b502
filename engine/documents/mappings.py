"""What is told of the ways to compute a group by an intrinsic."""

from __future__ import annotations

from dataclasses import dataclass

LISTED, COMPILED, CHECKED, WRONG = "listed", "compiled", "checked", "wrong"
"""How far a mapping came: known only, a kernel exists, it was compared with the reference and agreed or did not."""


@dataclass(frozen=True, slots=True)
class IntrinsicAxisDoc:
    """One axis of an intrinsic."""

    name: str
    iterators: tuple[str, ...]
    """What it is made of, the last one innermost; of the intermediate or file's loops, "unit.j" has extent 1."""
    index: str
    """The iterators flattened into one number."""
    extent: int
    size: int
    """Of one call."""
    tiles: int
    padding: int
    """Points of the last tile that only fill it."""


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
    """Multiplications done, those that fill tiles included."""
    padding: float
    """Part of them that only fills tiles, 0..1."""
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
    """It as a sum of products."""
    because: str
    """How it came to be one; "" where it is written so."""
    mappings: tuple[MappingDoc, ...]
    refused: tuple[RefusedDoc, ...]
