"""Tile bands in schedule trees: how they are made of `split` marks, folded back, moved, cut and found legal."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from engine import Entry, entry
from engine.poly.dependences import dependences
from engine.poly.nodes import Dependence
from engine.recipe import Advice, Scenario
from engine.scheduling.attach import replace_members
from engine.scheduling.compose import compose
from engine.scheduling.legality import check_schedule
from engine.scheduling.nodes import Band, ConstraintTree, Mark, Scheduled, ScheduleTree, walk
from engine.scheduling.solve import schedule
from engine.scheduling.tiling import fold_tiles, split_marked
from engine.tensor.nodes import TensorProgram
from tests.scheduling.stencils import jacobi, stencil_chain
from tests.support import programs
from tests.support.random_programs import random_program


def solved(program: TensorProgram, *entries: Entry, needed: tuple[Dependence, ...] | None = None) -> Scheduled:
    """The schedule under a user's entries."""
    advice = (Advice("user", Scenario(entries)),)
    return schedule(program, needed or dependences(program), compose(advice, program))


def order(tree: ScheduleTree) -> list[list[str]]:
    """The dimensions of each band, top down."""
    return [[m.name for m in node.members] for node in walk(tree.root) if isinstance(node, Band)]


@pytest.mark.parametrize("seed", range(20))
def test_tiles_made_in_place_fold_back_to_marks(seed: int) -> None:
    draw = random.Random(seed)
    program = random_program(seed)
    tree = schedule(program, dependences(program), ConstraintTree()).tree
    members = [m for node in walk(tree.root) if isinstance(node, Band) for m in node.members]
    marked = {
        id(m): replace(m, marks=(Mark("split", draw.randint(2, 9), "user"), Mark("unroll", 2, "user")))
        for m in members if draw.random() < 0.6
    }  # fmt: skip
    before = ScheduleTree(replace_members(tree.root, marked))
    tiled = split_marked(program, before)
    assert fold_tiles(tiled) == before
    assert not check_schedule(program, dependences(program), tiled)
    assert len([n for names in order(tiled) for n in names]) == len(members) + len(marked)


def test_a_skewed_band_is_tiled_in_time_and_space() -> None:
    program, needed = jacobi()
    entries = entry(terms="skew", at="innermost"), entry(split=4, at="t"), entry(split=4, at="i")
    tiled = solved(program, *entries, needed=needed).tree
    tiles, places = (node for node in walk(tiled.root) if isinstance(node, Band))
    assert [m.name for m in tiles.members] == [f"{m.name}_tile" for m in places.members]
    assert {str(m.rows["S0"]) for m in tiles.members} == {"(t) / 4", "(i + t) / 4"}
    assert tiles.permutable and places.permutable and not check_schedule(program, needed, tiled)


def test_a_tile_that_a_pin_moves_keeps_the_claims_that_stay_true() -> None:
    program = programs.matmul_bias_relu(8, 12, 16, associative=False)
    program = replace(program, statements=program.statements[:1], outputs=("c",))
    found = solved(
        program, entry(split=4, at="k", required=True), entry(pin="k_tile", at="outermost", required=True)
    )
    assert order(found.tree) == [["k_tile"], ["i"], ["j"], ["k"]]
    parallel = {m.name for n in walk(found.tree.root) if isinstance(n, Band) for m in n.members if m.parallel}
    assert parallel == {"i", "j"}


def test_places_before_their_tiles_are_refused_where_terms_keep_their_order() -> None:
    program = programs.column_reduction(8, 12, associative=False)
    entries = entry(split=4, at="i"), entry(pin="i_tile", at="innermost")
    verdict = solved(program, *entries).verdicts[1]
    assert verdict.outcome == "infeasible" and "adds the next term first" in verdict.because


def test_a_cut_in_a_tile_is_legal_where_sweeps_are_skewed_and_in_order() -> None:
    skewed = entry(terms="shift", at="outermost", required=True), entry(split=4, at="outermost", required=True)
    program = stencil_chain(2, 12)
    ((tile,), _) = order(solved(program, *skewed).tree)
    good = entry(cut=(("S0",), ("S1",)), at=f"after {tile}", required=True)
    tree = solved(program, *skewed, good).tree
    assert order(tree) == [[tile], *[[tile.removesuffix("_tile")]] * 2]
    bands = [node for node in walk(tree.root) if isinstance(node, Band)]
    assert [band.members[0].parallel for band in bands] == [False, True, True]
    bad = entry(cut=(("S1",), ("S0",)), at=f"after {tile}")
    verdict = solved(program, *skewed, bad).verdicts[2]
    assert verdict.outcome == "infeasible" and "S1[i=1] reads it first" in verdict.because
