"""The two evaluators and the layout of shared memory, on kernels small enough to count by hand."""

from __future__ import annotations

import pytest

from engine.fusion.stitching.instruction_costs import CYCLES
from engine.fusion.stitching.latency import LaunchShape, fast_latency, latency, launch_of, live_registers, per_element
from engine.fusion.stitching.nodes import Cost, Fit
from engine.fusion.stitching.pattern_score import cost, gain
from engine.fusion.stitching.shared_memory import degradation_order, shared_layout
from engine.support.errors import Unsupported
from engine.target import target
from engine.tensor.nodes import Statement
from tests.support.programs import apply, at, program, statement

H200 = target("h200")
ROWS, COLUMNS = 4096, 512
BOX = [("i", ROWS), ("j", COLUMNS)]
ARRAY = ROWS * COLUMNS * 4
FIT = Fit(None, ROWS, COLUMNS)

EXP = statement("S0", BOX, at("e", "i", "j"), apply("exp", at("x", "i", "j")))
SUM = statement("S1", BOX, at("s", "i"), at("e", "i", "j"), ("sum", "j"))
DIV = statement("S2", BOX, at("y", "i", "j"), apply("div", at("e", "i", "j"), at("s", "i")))
SHAPES = {"x": (ROWS, COLUMNS), "e": (ROWS, COLUMNS), "s": (ROWS,), "y": (ROWS, COLUMNS)}
PROGRAM = program("softmax", SHAPES, [EXP, SUM, DIV], "y")


def costs(*parts: tuple[list[Statement], set[str]]) -> list[Cost]:
    return [cost(statements, FIT, frozenset(kept), PROGRAM, H200) for statements, kept in parts]


def test_bytes_of_a_kernel_are_those_that_cross_global_memory() -> None:
    first, second, whole = costs(([EXP, SUM], {"e", "s"}), ([DIV], {"y"}), ([EXP, SUM, DIV], {"y"}))
    assert (first.bytes_read, first.bytes_written) == (ARRAY, ARRAY + ROWS * 4)
    assert (second.bytes_read, second.bytes_written) == (ARRAY + ROWS * 4, ARRAY)
    assert (whole.bytes_read, whole.bytes_written) == (ARRAY, ARRAY)
    assert dict(whole.handed) == {"e": ARRAY, "s": ROWS * 4}


def test_a_gain_is_memory_and_calls_less_the_penalty() -> None:
    first, second, whole = costs(([EXP, SUM], {"e", "s"}), ([DIV], {"y"}), ([EXP, SUM, DIV], {"y"}))
    found = {term.name: term for term in gain([first, second], whole, H200).terms}
    saved = 2 * (ARRAY + ROWS * 4)
    assert found["memory"].value == pytest.approx(saved / H200.dram_bandwidth.value * 1e6)
    assert found["calls"].value == pytest.approx((H200.launch_overhead.value + H200.ramp.value) * 1e6)
    assert f"{saved:,} bytes" in found["memory"].because and "1 launches fewer" in found["calls"].because
    assert gain([first, second], whole, H200).microseconds == pytest.approx(sum(t.value for t in found.values()))


def test_what_goes_through_shared_memory_costs_its_way_there_and_back() -> None:
    first, second, whole = costs(([EXP, SUM], {"e", "s"}), ([DIV], {"y"}), ([EXP, SUM, DIV], {"y"}))
    stored = Cost(
        Fit(None, ROWS, COLUMNS, shared_arrays=frozenset({"e"})), whole.bytes_read, whole.bytes_written, whole.handed,
        whole.latency,
    )  # fmt: skip
    less = gain([first, second], whole, H200).microseconds - gain([first, second], stored, H200).microseconds
    through = H200.shared_bandwidth.value * H200.clock.value * H200.sms.value
    assert less == pytest.approx(2 * ARRAY / through * 1e6)


def test_a_slower_whole_is_a_penalty_and_a_faster_one_no_gain() -> None:
    part = Cost(FIT, 0, 0, (), 1.0)
    for together, expected in ((5.0, -3.0), (1.5, 0.0)):
        terms = gain([part, part], Cost(FIT, 0, 0, (), together), H200).terms
        assert next(t.value for t in terms if t.name == "penalty") == pytest.approx(expected)


def test_few_rows_get_more_threads_each() -> None:
    assert launch_of(Fit(None, 1_000_000, 1), H200) == LaunchShape(977, 256, 1)
    assert launch_of(Fit(None, 100_000, 64), H200).per_row == 8
    assert launch_of(Fit(None, 16, 8192), H200).per_row == 1024


def test_waves_grow_with_blocks_that_do_not_fit_at_once() -> None:
    small, large = (
        latency([EXP, SUM, DIV], Fit(None, rows, COLUMNS), frozenset({"y"}), 0, H200) for rows in (1024, 256 * 1024)
    )
    waves = [next(t.value for t in found.terms if t.name == "waves") for found in (small, large)]
    assert waves[0] == 1.0 and waves[1] > 10
    assert large.microseconds > 4 * small.microseconds


def test_terms_of_the_latency_add_up() -> None:
    found = latency([EXP, SUM, DIV], FIT, frozenset({"y"}), 0, H200)
    assert sum(t.value for t in found.terms if t.unit == "µs") == pytest.approx(found.microseconds)
    assert {t.name for t in found.terms} >= {"waves", "occupancy", "arithmetic", "special", "shuffle", "load"}
    assert all(source for _, source in CYCLES.values())


def test_instructions_of_an_element_by_class() -> None:
    assert per_element(apply("exp", apply("add", at("x"), at("y")))) == {"arithmetic": 6, "special": 1}
    assert per_element(at("x")) == {}


def test_registers_are_those_of_values_alive_together() -> None:
    launch = launch_of(FIT, H200)
    held = -(-COLUMNS // launch.per_row)
    chain = [EXP, statement("S1", BOX, at("f", "i", "j"), apply("neg", at("e", "i", "j"))),
             statement("S2", BOX, at("y", "i", "j"), apply("neg", at("f", "i", "j")))]  # fmt: skip
    fork = [*chain[:2], statement("S2", BOX, at("y", "i", "j"), apply("add", at("f", "i", "j"), at("e", "i", "j")))]
    short, long = (live_registers(part, FIT, frozenset({"y"}), launch) for part in (chain, fork))
    assert long - short >= 4 and short >= 16 + 2 * held


def test_what_no_sm_holds_has_no_latency() -> None:
    too_much = int(H200.shared_per_block.value) + 1
    assert fast_latency([EXP, SUM, DIV], FIT, too_much, H200) == float("inf")
    with pytest.raises(Unsupported, match="bytes of shared memory"):
        latency([EXP, SUM, DIV], FIT, frozenset({"y"}), too_much, H200)


def stage(number: int, *reads: str, function: str = "neg") -> Statement:
    value = apply(function, at(reads[0], "i")) if len(reads) == 1 else apply("add", *(at(r, "i") for r in reads))
    return statement(f"S{number}", [("i", 64)], at(f"t{number}", "i"), value)


def test_a_dead_value_of_a_dominating_maker_gives_its_place() -> None:
    chain = [stage(0, "x"), stage(1, "t0"), stage(2, "t1"), stage(3, "t2")]
    found = shared_layout(chain, {"t0": 256, "t1": 256, "t2": 256})
    places = {p.array: (p.offset, p.after) for p in found.places}
    assert found.bytes == 512
    assert places == {"t0": (0, ""), "t1": (256, ""), "t2": (0, "t0")}


def test_a_value_of_another_branch_gives_none() -> None:
    """t0 is dead when t3 is made, but a part of the block may still read it: its maker does not come before t2's."""
    branches = [stage(0, "x"), stage(1, "t0"), stage(2, "z"), stage(3, "t2"), stage(4, "t1", "t3")]
    found = shared_layout(branches, {"t0": 256, "t3": 256})
    assert found.bytes == 512 and all(not p.after for p in found.places)


def test_a_living_value_and_a_small_place_are_not_taken() -> None:
    kept = [stage(0, "x"), stage(1, "t0"), stage(2, "t1", "t0")]
    assert shared_layout(kept, {"t0": 256, "t1": 256}).bytes == 512
    grown = [stage(0, "x"), stage(1, "t0"), stage(2, "t1"), stage(3, "t2")]
    assert shared_layout(grown, {"t0": 128, "t2": 256}).bytes == 384


def test_cheap_values_give_way_first_and_reductions_never() -> None:
    made = [
        stage(0, "x", function="exp"),
        stage(1, "t0"),
        statement("S2", [("i", 64), ("j", 8)], at("t2", "i"), at("w", "i", "j"), ("sum", "j")),
        stage(3, "t1", "t2"),
    ]
    assert degradation_order(made, ["t0", "t1", "t2", "t3"]) == ("t3", "t1", "t0")
