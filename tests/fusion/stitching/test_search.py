"""The search on graphs small enough to draw: joins without cycles, copies, packs, plans, and time in proportion."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import pytest

from engine.fusion.stitching.beam_search import plans
from engine.fusion.stitching.confirm import JoinJudge
from engine.fusion.stitching.dataflow import Flow
from engine.fusion.stitching.horizontal_fusion import pack_kernels
from engine.fusion.stitching.kernel_graph import Joins, KernelGraph
from engine.fusion.stitching.nodes import CandidateKernel
from engine.fusion.stitching.pattern_reduction import ScoredPattern
from engine.fusion.stitching.rematerialize import read_stored_values
from engine.fusion.stitching.search import stitch_kernels
from engine.fusion.stitching.xla_rules import xla_kernels
from engine.support.garbage_collection import cycles_left_alone
from engine.tensor.nodes import Statement, TensorProgram
from tests.fusion.stitching.flows import alone, assessor_of, flow_of, names
from tests.support.programs import apply, at, program, statement

BOX = [("i", 64), ("j", 32)]


def element(number: int, *reads: str, function: str = "add", size: int = 64) -> Statement:
    """`t<number>` from arrays of the same shape."""
    values = [at(read, "i", "j") for read in reads]
    value = apply(function, *values) if len(values) == 2 else apply("neg" if function == "add" else function, *values)
    return statement(f"S{number}", [("i", size), ("j", 32)], at(f"t{number}", "i", "j"), value)


def made(*statements: Statement, outputs: str, size: int = 64) -> TensorProgram:
    arrays = {"x": (size, 32), "y": (size, 32), **{s.write.array: (size, 32) for s in statements}}
    return program("g", arrays, statements, outputs)


DIAMOND = made(element(0, "x"), element(1, "t0"), element(2, "t0"), element(3, "t1", "t2"), outputs="t3")


@pytest.mark.parametrize(
    ("pattern", "cycle"),
    [((0, 1), False), ((0, 3), True), ((0, 1, 3), True), ((1, 2), False), ((0, 1, 2, 3), False), ((1, 3), False)],
)
def test_a_pattern_that_something_outside_leads_back_to_is_a_cycle(pattern: tuple[int, ...], cycle: bool) -> None:
    flow = flow_of(DIAMOND)
    assert Joins(KernelGraph(flow, alone(flow))).closes_cycle(pattern) is cycle


def test_two_patterns_may_not_wait_for_each_other() -> None:
    """0 -> 1 and 2 -> 3: {0, 3} and {1, 2} are no cycle each, and one together."""
    flow = flow_of(made(element(0, "x"), element(1, "t0"), element(2, "y"), element(3, "t2"), outputs="t1 t3"))
    joins = Joins(KernelGraph(flow, alone(flow)))
    assert joins.join((0, 3)) and not joins.join((1, 2))
    assert [joins.group(n) for n in (0, 1)] == [{0, 3}, {1}]


def reachable(graph: KernelGraph, joins: Joins, start: frozenset[int]) -> set[int]:
    seen: set[int] = set()
    pending = [c for n in start for c in graph.consumers[n] if c not in start]
    while pending:
        n = pending.pop()
        if n not in seen:
            seen |= joins.group(n)
            pending += [c for m in joins.group(n) for c in graph.consumers[m]]
    return seen


@pytest.mark.parametrize("seed", range(20))
def test_joins_agree_with_a_search_of_the_whole_graph(seed: int) -> None:
    draw = random.Random(seed)
    statements = [
        element(n, *(draw.choice(["x", *(f"t{m}" for m in range(max(0, n - 6), n))]) for _ in range(2)))
        for n in range(30)
    ]
    flow = flow_of(made(*statements, outputs=" ".join(f"t{n}" for n in range(30))))
    graph = KernelGraph(flow, alone(flow))
    joins = Joins(graph)
    for _ in range(60):
        pair = draw.sample(range(30), 2)
        whole = joins.group(pair[0]) | joins.group(pair[1])
        cycle = bool(reachable(graph, joins, whole) & whole)
        assert joins.closes_cycle(pair) is cycle
        assert joins.join(pair) is not cycle
    assert KernelGraph(flow, joins.kernels())  # has an order


ROWS = statement("S1", BOX, at("t1", "i"), at("t0", "i", "j"), ("sum", "j"))


@pytest.mark.parametrize(("function", "kernels"), [("neg", ["S0 S1*", "S0 S2*"]), ("tanh", ["S0* S1*", "S2*"])])
def test_xla_copies_what_is_cheap_and_writes_what_is_expensive(function: str, kernels: list[str]) -> None:
    """Sums of rows read each element once, what is repeated along k four times."""
    arrays = {"x": (64, 32), "t0": (64, 32), "t1": (64,), "t2": (64, 32, 4)}
    wide = statement("S2", [*BOX, ("k", 4)], at("t2", "i", "j", "k"), apply("exp", at("t0", "i", "j")))
    flow = flow_of(program("g", arrays, [element(0, "x", function=function), ROWS, wide], "t1 t2"))
    assert sorted(names(flow, xla_kernels(flow))) == kernels


def test_a_copy_of_what_is_written_anyway_is_read_where_that_moves_less() -> None:
    flow = flow_of(made(element(0, "x", "y"), element(1, "t0"), element(2, "t1", "x"), outputs="t1 t2"))
    kernels = [
        CandidateKernel(frozenset((0, 1)), frozenset((1,))), CandidateKernel(frozenset((0, 1, 2)), frozenset((2,))),
    ]  # fmt: skip
    assert names(flow, read_stored_values(assessor_of(flow), KernelGraph(flow, kernels)).kernels) == ["S0 S1*", "S2*"]


def test_a_result_that_nobody_reads_any_more_is_not_written() -> None:
    flow = flow_of(made(element(0, "x"), element(1, "t0"), outputs="t1"))
    kernels = [CandidateKernel(frozenset((0,)), frozenset((0,))), CandidateKernel(frozenset((0, 1)), frozenset((1,)))]
    assert names(flow, read_stored_values(assessor_of(flow), KernelGraph(flow, kernels)).kernels) == ["S0 S1*"]


def packed(flow: Flow, pays: JoinJudge = lambda parts, whole: True) -> KernelGraph:
    """Each statement alone, then packed where the search's model and `pays` agree."""
    return pack_kernels(assessor_of(flow), KernelGraph(flow, alone(flow)), pays)


def test_independent_kernels_of_one_depth_share_a_launch() -> None:
    flow = flow_of(made(element(0, "x"), element(1, "y"), element(2, "t0"), outputs="t0 t1 t2"), closed=["S2"])
    kernels = packed(flow).kernels
    assert sorted(names(flow, kernels)) == ["S0* S1*", "S2*"]


def test_a_pack_that_the_estimate_does_not_gain_by_is_not_made() -> None:
    """Two pay together, three do not: the largest of the three, the last by its points, stays alone."""
    flow = flow_of(made(element(0, "x"), element(1, "y"), element(2, "x"), outputs="t0 t1 t2"))
    kernels = packed(flow, lambda parts, whole: len(parts) < 3).kernels
    assert sorted(names(flow, kernels)) == ["S0* S1*", "S2*"]
    assert sorted(names(flow, packed(flow, lambda parts, whole: False).kernels)) == ["S0*", "S1*", "S2*"]


@pytest.mark.parametrize(
    ("gains", "kernels"), [(True, ["S0* S1* S2*"]), (False, ["S0* S1*", "S2*"])], ids=["with", "without"]
)
def test_the_largest_stays_alone_where_the_others_gain_more_without_it(gains: bool, kernels: list[str]) -> None:
    """All three pay together; whether the largest is in it is asked again, against the pack of the other two."""
    flow = flow_of(made(element(0, "x"), element(1, "y"), element(2, "x"), outputs="t0 t1 t2"))
    asked: list[list[str]] = []

    def pays(parts: Sequence[CandidateKernel], whole: CandidateKernel) -> bool:
        asked.append(names(flow, parts))
        return gains or len(parts) == len(whole.members)

    assert sorted(names(flow, packed(flow, pays).kernels)) == kernels
    assert asked[:2] == [["S0*", "S1*", "S2*"], ["S0* S1*", "S2*"]]


def test_a_pack_of_two_is_asked_about_once() -> None:
    """Without its largest nothing is left to share a launch."""
    flow = flow_of(made(element(0, "x"), element(1, "y"), outputs="t0 t1"))
    asked: list[int] = []

    def pays(parts: Sequence[CandidateKernel], whole: CandidateKernel) -> bool:
        asked.append(len(parts))
        return True

    assert names(flow, packed(flow, pays).kernels) == ["S0* S1*"] and asked == [2]


def test_kernels_that_wait_for_each_other_are_not_packed() -> None:
    flow = flow_of(made(element(0, "x"), element(1, "t0"), element(2, "t1"), outputs="t0 t2"), closed=["S1"])
    assert names(flow, packed(flow).kernels) == ["S0*", "S1*", "S2*"]


def test_the_best_disjoint_patterns_are_chosen() -> None:
    def one(score: float, *pattern: int) -> tuple[ScoredPattern, ...]:
        return (ScoredPattern(frozenset(pattern), score), ScoredPattern(frozenset((pattern[0],)), 0.0))

    candidates = {0: one(5, 0, 1), 1: one(7, 1, 2), 2: one(4, 2, 3), 3: (ScoredPattern(frozenset((3,)), 0.0),)}
    found = plans([0, 1, 2, 3], candidates)
    assert [set(c.pattern) for c in found[0]] == [{0, 1}, {2, 3}]
    assert [sum(c.score for c in plan) for plan in found] == [9, 7, 5]


def test_what_saves_nothing_is_in_no_plan() -> None:
    candidates = {0: (ScoredPattern(frozenset((0, 1)), -1.0), ScoredPattern(frozenset((0,)), 0.0)),
                  1: (ScoredPattern(frozenset((1,)), 0.0),)}  # fmt: skip
    assert plans([0, 1], candidates)[0] == ()


def test_a_softmax_is_one_kernel_and_two_parts_that_a_product_divides_are_two() -> None:
    box = [("i", 256), ("j", 512)]
    softmax = [
        statement("S0", box, at("m", "i"), at("x", "i", "j"), ("max", "j")),
        statement("S1", box, at("e", "i", "j"), apply("exp", apply("sub", at("x", "i", "j"), at("m", "i")))),
        statement("S2", box, at("s", "i"), at("e", "i", "j"), ("sum", "j")),
        statement("S3", box, at("y", "i", "j"), apply("div", at("e", "i", "j"), at("s", "i"))),
    ]
    arrays = {"x": (256, 512), "m": (256,), "e": (256, 512), "s": (256,), "y": (256, 512)}
    for closed, expected in (((), ["S0 S1 S2 S3*"]), (("S2",), ["S0 S1*", "S2*", "S3*"])):
        flow = flow_of(program("softmax", arrays, softmax, "y"), closed)
        assert names(flow, stitch_kernels(assessor_of(flow), KernelGraph(flow, alone(flow))).kernels) == expected


@pytest.mark.parametrize("operators", [1, 2])
def test_the_smallest_graphs(operators: int) -> None:
    statements = [element(n, f"t{n - 1}" if n else "x") for n in range(operators)]
    flow = flow_of(made(*statements, outputs=f"t{operators - 1}"))
    assert len(stitch_kernels(assessor_of(flow), KernelGraph(flow, xla_kernels(flow))).kernels) == 1


def test_parts_that_nothing_connects_are_explored_apart() -> None:
    flow = flow_of(made(element(0, "x"), element(1, "t0"), element(2, "y"), element(3, "t2"), outputs="t1 t3"))
    kernels = stitch_kernels(assessor_of(flow), KernelGraph(flow, alone(flow))).kernels
    assert names(flow, kernels) == ["S0 S1*", "S2 S3*"]


def test_time_is_in_proportion_to_the_graph() -> None:
    spent = []
    for size in (300, 2400):
        statements = [element(n, f"t{n - 1}" if n else "x", "y") for n in range(size)]
        flow = flow_of(made(*statements, outputs=f"t{size - 1}"), closed=[f"S{n}" for n in range(0, size, 5)])
        start = time.process_time()
        with cycles_left_alone():
            assert len(stitch_kernels(assessor_of(flow), KernelGraph(flow, xla_kernels(flow))).kernels) == 2 * size // 5
        spent.append(time.process_time() - start)
    assert spent[1] < 8 * spent[0] * 3, "eight times the operators may take thrice as long each, for noise"
