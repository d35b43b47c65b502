"""Expressions rebuilt."""

from __future__ import annotations

from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Literal
from engine.tensor.rewrite import with_element


def test_an_element_stands_for_what_is_read_wherever_that_lies() -> None:
    """As a head of keys that several heads of queries share: its index is a quotient, and nobody asks for extents."""
    shared = Access("k", (Index.of("h").floordiv(4, {"h": 6}), Index.of("d")))
    element = Access("key_part", (Index.of("r"),))
    scaled = Apply("mul", (Apply("cast", (shared,), "float32"), Literal(0.5, "float32")), "float32")
    assert with_element(scaled, element) == Apply(
        "mul", (Apply("cast", (element,), "float32"), Literal(0.5, "float32")), "float32"
    )
