"""The benchmark's own parts: it runs, its counts are those worked out by hand, and being behind is told."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import engine
from engine.scheduling.address import places
from tests.benchmarks import advice
from tests.benchmarks.advice import CORRECTED, NONE, OURS, PUBLISHED, QUICK, RULE, TEXT, Comparison, pair
from tests.benchmarks.counting import Counted, count, gains, sample, shortfalls
from tests.benchmarks.published_rule import rule_advice
from tests.scheduling.published_files import (
    LEGAL,
    TRANSPOSE,
    TWO_ITERATORS,
    adding,
    corrected,
    group_of,
    needs_advice,
    operator,
)
from tests.semantics.single import write_model
from tests.support.needs import needs_compiler

FULL = Counted(
    blocks=64, threads=256, blocks_run=6, loads=96, stores=48, widest=144, sectors=2304, useful=Fraction(2304 * 32),
    relaxed=(), faults=(),
)  # fmt: skip
"""Every sector full, every request 16 bytes a thread."""


@needs_advice
@needs_compiler
def test_the_quick_run_writes_its_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "advice.json"
    advice.main(["--quick", "--json", str(file)])
    document = json.loads(file.read_text())
    assert document.keys() == {"name", "environment", "rows", "summary"}
    assert document["environment"]["origin"] == "counted"
    followed, refused = document["rows"]
    assert [*followed["ways"]] == [NONE, PUBLISHED, RULE, TEXT, OURS] and followed["compared_with"] == PUBLISHED
    assert followed["alternatives"] and followed["saved_over_text"] == 0
    assert document["summary"]["groups_with_alternatives"] == 2 and document["summary"]["least_saved"] == 0
    assert refused["operator"] == TWO_ITERATORS and refused["compared_with"] == CORRECTED
    assert "contradicts itself" in refused["ways"][PUBLISHED]["refused"]
    published = followed["ways"][PUBLISHED]
    assert (published["blocks"], published["threads"], published["blocks_run"]) == (640, 192, 6)
    assert document["summary"]["pairs"] == 2 and document["summary"]["published_refused"] == 1
    assert document["summary"]["faults"] == 0
    printed = capsys.readouterr().out
    assert "640 x 192" in printed and "declares 2 iterators" in printed


@needs_compiler
def test_one_element_a_thread_is_four_full_sectors_a_request(tmp_path: Path) -> None:
    group = adding(tmp_path, (64, 1024))
    plain = count(engine.compile(group, engine.default_recipe(group).with_group(group.name, ())))
    assert (plain.blocks, plain.threads, plain.blocks_run) == (256, 256, 6)
    assert (plain.loads, plain.stores, plain.widest) == (6 * 8 * 2, 6 * 8, 0)
    assert (plain.sectors_per_request, plain.efficiency) == (4, 1)


@needs_compiler
def test_our_advice_moves_sixteen_bytes_a_thread(tmp_path: Path) -> None:
    wide = count(engine.compile(adding(tmp_path, (64, 1024))))
    assert (wide.sectors_per_request, wide.widest_share, wide.efficiency) == (16, 1, 1)


@needs_compiler
def test_an_operand_that_every_block_reads_again_is_not_useful(tmp_path: Path) -> None:
    group = adding(tmp_path, (64, 1024), bias=True)
    plain = count(engine.compile(group, engine.default_recipe(group).with_group(group.name, ())))
    needed = (2 * 64 * 1024 + 1024) * 4
    moved = 3 * 64 * 1024 * 4
    assert plain.efficiency == pytest.approx(needed / moved, rel=1e-12)


def test_the_sample_is_the_first_the_middle_and_the_last_two() -> None:
    assert sample(100) == [0, 1, 49, 50, 98, 99]
    assert [sample(total) for total in (1, 2, 3)] == [[0], [0, 1], [0, 1, 2]]


def test_equal_traffic_with_as_many_threads_is_not_behind() -> None:
    assert shortfalls(FULL, FULL) == ()
    assert shortfalls(replace(FULL, threads=512), FULL) == ()
    half_the_sample = replace(FULL, blocks_run=3, loads=48, stores=24, sectors=1152, useful=FULL.useful / 2)
    assert shortfalls(half_the_sample, FULL) == ()


def test_more_sectors_fewer_threads_and_faults_are_behind() -> None:
    assert shortfalls(replace(FULL, sectors=4608), FULL) == ("2.000 x the sectors",)
    assert shortfalls(replace(FULL, blocks=16), FULL) == ("0.25 x the threads",)
    assert shortfalls(replace(FULL, faults=("line 3: race",)), FULL) == ("line 3: race",)


def test_ours_is_compared_with_what_was_published_before_anything_else() -> None:
    ways = {NONE: replace(FULL, blocks=256), PUBLISHED: FULL, OURS: FULL}
    assert Comparison("op", "g", ways).shortfalls == ()
    assert Comparison("op", "g", {**ways, PUBLISHED: "refused"}).shortfalls == ("0.25 x the threads",)
    assert Comparison("op", "g", {**ways, PUBLISHED: "refused", CORRECTED: FULL}).rival == CORRECTED
    assert Comparison("op", "g", {**ways, OURS: "no kernel"}).shortfalls == ("not counted",)


def test_what_our_choice_saves_is_a_share_of_the_sectors_in_the_order_of_the_text() -> None:
    ways = {NONE: FULL, TEXT: replace(FULL, sectors=4 * FULL.sectors), OURS: FULL}
    assert Comparison("op", "g", ways).saved == Fraction(3, 4)
    assert Comparison("op", "g", {NONE: FULL, OURS: FULL}).saved is None


def test_gains_are_said_apart_and_equal_kernels_have_none() -> None:
    assert gains(FULL, FULL) == ()
    twice_as_wide = replace(FULL, loads=48, stores=24, widest=72)
    assert gains(twice_as_wide, FULL) == ("0.50 x the requests",)
    assert gains(replace(FULL, sectors=1152), FULL) == ("0.50 x the sectors",)
    assert gains(FULL, replace(FULL, widest=36)) == ("100% of 16 bytes, not 25%",)


@needs_advice
@pytest.mark.parametrize("name", LEGAL)
def test_the_rule_makes_of_an_operator_what_was_published_for_it(name: str) -> None:
    group = group_of(operator(name))
    made = rule_advice(group)
    assert made is not None
    kernel = engine.compile(group, engine.default_recipe(group).with_group(group.name, made))
    vector = next(e.value[1] for e in made[0].scenario.entries if e.field == "mark" and e.value[0] == "vector")
    assert (kernel.source.grid[0], kernel.source.block[0], vector) == LEGAL[name]
    assert {v.outcome for v in kernel.verdicts} == {"honoured"}


@needs_advice
def test_the_rule_orders_the_loops_of_the_transpose_as_published() -> None:
    group = group_of(operator(TRANSPOSE))
    published = engine.merge_advice(engine.default_recipe(group), group, corrected(TRANSPOSE)).groups[group.name]
    made = rule_advice(group)
    assert made is not None

    def loops(advice: tuple[engine.Advice, ...]) -> list[str]:
        kernel = engine.compile(group, engine.default_recipe(group).with_group(group.name, advice))
        return [str(member.rows["S0"]) for member in places(kernel.schedule.root)["S0"].members]

    assert loops(made) == loops(published) == ["i", "k", "j", "l"]


def test_the_rule_skips_reductions(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.onnx", [("Softmax", ["x"], ["y"], {})], {"x": ("float32", (8, 64))}, ["y"], {})
    (group,) = engine.fuse(engine.load(path)).groups
    assert rule_advice(group) is None
    assert rule_advice(adding(tmp_path, (8, 64))) is not None


@needs_advice
@needs_compiler
@pytest.mark.parametrize("name", [next(iter(LEGAL)), TRANSPOSE, QUICK[0]])
def test_ours_equals_or_beats_what_was_published(name: str) -> None:
    """The half-precision ones are where an access of 16 bytes would launch half the threads."""
    assert pair(name).shortfalls == ()


@needs_advice
@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("name", [*LEGAL, TRANSPOSE, TWO_ITERATORS])
def test_ours_equals_or_beats_everything_that_was_published(name: str) -> None:
    assert pair(name).shortfalls == ()
