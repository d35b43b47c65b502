"""What statements and programs know of themselves, also those that were made by renaming others."""

from __future__ import annotations

from dataclasses import replace

from engine.tensor.rewrite import rename_statement
from tests.support.programs import apply, at, program, statement

BOX = (("i", 4), ("j", 8))


def test_arrays_are_told_once_each_in_order_of_appearance() -> None:
    product = apply("mul", at("b", "i", "j"), apply("add", at("a", "i"), at("b", "j", "i")))
    made = statement("S0", BOX, at("y", "i", "j"), product)
    assert made.sources == ("b", "a") and made.arrays == ("b", "a", "y")
    updated = statement("S0", BOX, at("a", "i", "j"), product)
    assert updated.sources == updated.arrays == ("b", "a")
    other = rename_statement(made, "S1", "op", {"a": "c", "b": "d", "y": "z"})
    assert other.form is made.form
    assert other.sources == ("d", "c") and other.arrays == ("d", "c", "z")


def test_points_follow_the_box_and_not_the_statement_it_was_made_from() -> None:
    made = statement("S0", BOX, at("y", "i"), at("x", "i", "j"), reduce=("sum", "j"))
    assert made.points == 32 and made.extents == {"i": 4, "j": 8}
    longer = replace(made, iterators=(made.iterators[0], replace(made.iterators[1], extent=16)))
    assert longer.points == 64 and longer.extents == {"i": 4, "j": 16}
    assert made.points == 32
    assert rename_statement(made, "S1", "op", {"x": "u", "y": "v"}).points == 32
    assert statement("S2", (), at("y"), at("x")).points == 1


def test_a_program_knows_who_reads_an_array() -> None:
    first = statement("S0", BOX, at("t", "i", "j"), apply("add", at("x", "i", "j"), at("x", "i", "j")))
    second = statement("S1", BOX, at("y", "i", "j"), apply("mul", at("t", "i", "j"), at("x", "i", "j")))
    made = program("p", dict.fromkeys("xty", (4, 8)), [first, second], "y")
    assert made.readers == {"x": [first, second], "t": [second]}
    assert replace(made, statements=(first,)).readers == {"x": [first]}
