"""What a drag says: the lines, and whether the order may be."""

from __future__ import annotations

import pytest

import engine
from tests.explore.groups import advised, group_of, made_of
from tests.support import programs

SOFTMAX, MATMUL, TRANSPOSE = "softmax_96x512", "matmul_bias_gelu_128x256x512", "transpose_2x12x64x64"


def test_one_edit_interchanges_for_all_statements() -> None:
    group = group_of(MATMUL)
    asked = engine.order(group, order=("j", "i"))
    everyone = "S0, S1, S2, S3, S4, S5, S6"
    assert asked.entries == (f"required {everyone} @ outermost: pin j", f"required {everyone} @ after j: pin i")
    assert asked.legal and asked.because == "7 of 7 dependences hold"
    kernel = engine.compile(group, advised(group, asked.recipe))
    assert {v.outcome for v in kernel.verdicts if v.placed.author == "user"} == {"honoured"}
    assert engine.space(group, advised(group, asked.recipe)).order[:2] == ("j", "i")


def test_interchanging_twice_takes_the_first_pins_out() -> None:
    group = group_of(MATMUL)
    once = engine.order(group, order=("j", "i"))
    twice = engine.order(group, advised(group, once.recipe), order=("i", "j"))
    assert twice.legal
    assert [line for line in twice.recipe.splitlines() if "pin" in line] == [f"  {entry}" for entry in twice.entries]


def test_an_order_that_breaks_a_dependence_is_illegal_with_two_instances() -> None:
    asked = engine.order(group_of(SOFTMAX), order=("j", "i"))
    assert not asked.legal
    assert "S0[i=0, j=511] writes y_max[0], S1[i=0, j=0] reads it first" in asked.because
    assert not engine.order(group_of(MATMUL), order=("k", "j")).legal


def test_dragging_back_repairs_a_recipe_that_was_refused() -> None:
    group = group_of(SOFTMAX)
    clash = "advice user\n  required all @ outermost: pin j\n  required S0 @ outermost: pin i\n  S0 @ i: mark block 2\n"
    back = engine.order(group, advised(group, clash), order=("i", "j"))
    assert back.legal and back.entries == ()
    assert back.recipe == "advice user\n  S0 @ i: mark block 2\n"
    tiled = engine.order(
        group, advised(group, "advice user\n  required all @ innermost: cut S3 | S0\n"), tiles={"i": 2}
    )
    assert not tiled.legal and "S3" in tiled.because and "cut S3 | S0" in tiled.recipe


def test_the_order_in_use_asks_for_nothing() -> None:
    asked = engine.order(group_of(SOFTMAX), order=("i", "j"))
    assert (asked.entries, asked.legal) == ((), True)
    assert asked.recipe == engine.moves(group_of(SOFTMAX), should_stop=lambda: True).recipe


def test_a_dragged_tile_changes_the_mark_that_tiles_the_dimension() -> None:
    group = made_of(programs.softmax(2048, 512))
    asked = engine.order(group, tiles={"i": 4})
    assert asked.entries == ("S0, S1, S2, S3 @ outermost: mark block 4",)
    assert asked.legal
    assert engine.compile(group, advised(group, asked.recipe)).source.grid == (512, 1, 1)
    again = engine.order(group, advised(group, asked.recipe), tiles={"i": 2})
    assert again.recipe.count("mark block") == 2, "the user's one line and the adviser's"


def test_a_mark_of_one_value_is_made_larger_where_it_stands() -> None:
    group = group_of(SOFTMAX)
    assert engine.compile(group).source.grid == (96, 1, 1), "one row a block"
    asked = engine.order(group, tiles={"i": 4})
    assert asked.entries == ("S0, S1, S2, S3 @ outermost: mark block 4",) and asked.legal
    assert engine.compile(group, advised(group, asked.recipe)).source.grid == (24, 1, 1)


def test_a_tile_that_the_kernel_cannot_take_says_so() -> None:
    asked = engine.order(group_of(MATMUL), tiles={"k": 3})
    assert asked.entries == ("S0 @ k: mark tile 3",)
    assert "a power of two" in asked.because


@pytest.mark.parametrize(("order", "tiles"), [(("z",), {}), (("i", "i"), {}), ((), {"z": 2}), ((), {"i": 0})])
def test_what_is_no_dimension_or_no_tile_is_bad_input(order: tuple[str, ...], tiles: dict[str, int]) -> None:
    with pytest.raises(engine.BadInput):
        engine.order(group_of(TRANSPOSE), order=order, tiles=tiles)
