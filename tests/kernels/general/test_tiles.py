"""Kernels of tile bands: what `split` entries make of dimensions, emulated against the reference."""

from __future__ import annotations

import random

import pytest

import engine
from engine import Entry, entry
from engine.explore.interchange import pins
from engine.scheduling.address import places
from engine.scheduling.nodes import Band, Conflict, walk
from engine.scheduling.tree_text import show
from engine.support.errors import EngineError, Illegal
from tests.kernels.general.test_lower import by_any_family, compiled, element_wise, softmax
from tests.support.checked_programs import check_program
from tests.support.random_programs import random_program


def required(*statements: str, **wish: object) -> Entry:
    """A required entry."""
    return entry(*statements, required=True, **wish)  # type: ignore[arg-type]


def names(kernel: engine.Kernel) -> list[str]:
    """The dimensions of a schedule, outermost first."""
    return [m.name for band in walk(kernel.schedule.root) if isinstance(band, Band) for m in band.members]


def test_a_split_that_the_family_cannot_take_becomes_two_loops() -> None:
    kernel = by_any_family(element_wise(), required(split=7, at="j"))
    assert kernel.family == "general" and "split 5: this kernel takes a divisor of 40" in kernel.tile.misfit
    assert names(kernel) == ["i", "j_tile", "j"]
    assert kernel.verdicts[0].outcome == "honoured"
    assert check_program(kernel).status == "pass"


def test_a_family_that_makes_strips_itself_still_does() -> None:
    kernel = by_any_family(element_wise(), required(split=8, at="j"))
    assert kernel.family == "element-wise" and names(kernel) == ["i", "j"]
    assert kernel.verdicts[0].outcome == "honoured"


def test_all_tiles_of_a_permutable_band_stand_outside() -> None:
    kernel = compiled(element_wise(), required(split=7, at="i"), required(split=16, at="j"))
    assert names(kernel) == ["i_tile", "j_tile", "i", "j"]
    assert "j_tile = 0 … 2  parallel  (S0: (j) / 16)" in show(kernel.schedule, kernel.program)
    assert check_program(kernel).status == "pass"


@pytest.mark.parametrize(
    ("entries", "order"),
    [
        ([required(pin="j_tile", at="outermost")], ["j_tile", "i", "j"]),
        ([required(pin="j", at="outermost")], ["j_tile", "j", "i"]),  # a whole dimension, before it is split
        ([required(pin="j_tile", at="innermost")], ["i", "j", "j_tile"]),
        ([required(pin="j_tile", at="outermost"), required(pin="j", at="after j_tile")], ["j_tile", "j", "i"]),
        ([required(split=2, at="j_tile")], ["i", "j_tile_tile", "j_tile", "j"]),
        ([required(split=5, at="j")], ["i", "j_tile", "j_tile2", "j"]),
    ],
    ids=["tile out", "dimension out", "tile inside its place", "place after tile", "tile of tiles", "twice"],
)
def test_tiles_are_dimensions_that_entries_move_and_split(entries: list[Entry], order: list[str]) -> None:
    kernel = compiled(element_wise(), required(split=12, at="j"), *entries)
    assert names(kernel) == order
    assert {v.outcome for v in kernel.verdicts} == {"honoured"}
    assert check_program(kernel).status == "pass"


def test_tiles_in_another_order_than_their_places_are_not_taken_for_strips() -> None:
    split = [required(split=8, at="i"), required(split=8, at="j")]
    assert by_any_family(element_wise(), *split).family == "element-wise"
    swapped = [required(pin="j_tile", at="outermost"), required(pin="i_tile", at="after j_tile")]
    kernel = by_any_family(element_wise(), *split, *swapped)
    assert kernel.family == "general" and names(kernel) == ["j_tile", "i_tile", "i", "j"]
    assert check_program(kernel).status == "pass"


def test_an_interchange_of_tiles_is_written_as_pins() -> None:
    kernel = compiled(element_wise(), required(split=7, at="i"), required(split=16, at="j"))
    entries = pins(places(kernel.schedule.root), ("i", "j_tile"))
    assert [str(one) for one in entries] == ["S0 @ after i_tile: pin i", "S0 @ after i: pin j_tile"]
    moved = compiled(element_wise(), required(split=7, at="i"), required(split=16, at="j"), *entries)
    assert names(moved) == ["i_tile", "i", "j_tile", "j"]


def test_a_mark_on_a_tile_is_the_tiles_alone() -> None:
    kernel = compiled(element_wise(), required(split=8, at="j"), required(mark=("unroll", 5), at="j_tile"))
    assert kernel.family == "general"
    tile = next(m for b in walk(kernel.schedule.root) if isinstance(b, Band) for m in b.members if m.name == "j_tile")
    assert [mark.name for mark in tile.marks] == ["unroll"]


def test_sums_over_tiles_that_go_around_their_elements_are_collected_in_memory() -> None:
    kernel = compiled(
        softmax(),
        required("S0", pin="j", at="outermost"),
        required("S0", split=16, at="j"),
        required("S0", pin="i", at="after j_tile"),
    )
    assert names(kernel)[:3] == ["j_tile", "i", "j"]
    assert check_program(kernel).status == "pass"


def test_a_tile_does_not_leave_its_sequence() -> None:
    with pytest.raises(Conflict, match="a sequence stands between j_tile and outermost"):
        compiled(softmax(), required("S0", split=8, at="j"), required("S0", pin="j_tile", at="outermost"))


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_with_random_tiles_compute_the_same(seed: int) -> None:
    draw = random.Random(seed)
    text = random_program(seed)
    made = 0
    for _ in range(4):
        entries = []
        for _ in range(draw.randint(1, 2)):
            chosen = draw.choice([s for s in text.statements if s.iterators])
            name = draw.choice(chosen.iterators).name
            entries.append(required(chosen.name, split=draw.randint(2, 7), at=name))
            if draw.random() < 0.5:
                entries.append(entry(chosen.name, pin=f"{name}_tile", at=draw.choice(["outermost", "innermost"])))
        try:
            kernel = compiled(text, *entries)
        except Illegal:
            continue
        except EngineError as error:
            raise AssertionError(list(map(str, entries))) from error
        made += 1
        assert check_program(kernel).status == "pass", list(map(str, entries))
    assert made
