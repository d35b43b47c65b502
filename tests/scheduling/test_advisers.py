"""The advisers of element-wise groups: patterns and scores by hand, plans against what the emulator counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.emulate.emulate import emulate
from engine.kernels.access_patterns import Pattern, patterns
from engine.kernels.advice import AS_IN_TEXT
from engine.kernels.elementwise.plans import ALTERNATIVES, WalkPlan, alternatives, plans
from engine.kernels.elementwise.warp import count_requests
from engine.kernels.reduction.advise import best_first
from engine.kernels.score import greedy_order, score
from engine.recipe import AUTHORS, Advice, Scenario
from engine.tensor.access import uniform_along
from engine.tensor.index import Index
from tests.explore.groups import made_of
from tests.scheduling.published_files import adding
from tests.semantics.single import Node, write_model
from tests.support.checked_programs import check_program
from tests.support.needs import needs_compiler
from tests.support.random_programs import random_program

MACHINE = 132 * 2048
"""Threads that an H200 holds at once."""

Inputs = dict[str, tuple[str, tuple[int, ...]]]
GRAPHS: dict[str, tuple[list[Node], Inputs, dict[str, np.ndarray]]] = {
    "bias": ([("Add", ["x", "b"], ["y"], {})], {"x": ("float32", (64, 128)), "b": ("float32", (128,))}, {}),
    "halves": ([("Add", ["x", "b"], ["y"], {})], {"x": ("float16", (64, 128)), "b": ("float16", (64, 128))}, {}),
    "rows of 7": ([("Mul", ["x", "s"], ["y"], {})], {"x": ("float32", (96, 7, 7)), "s": ("float32", (96, 1, 1))}, {}),
    "shifted": (
        [("Slice", ["x", "from", "to", "axes"], ["s"], {}), ("Neg", ["s"], ["y"], {})],
        {"x": ("float32", (64, 132))},
        {"from": np.array([1]), "to": np.array([129]), "axes": np.array([1])},
    ),
    "aligned slice": (
        [("Slice", ["x", "from", "to", "axes"], ["s"], {}), ("Neg", ["s"], ["y"], {})],
        {"x": ("float32", (64, 136))},
        {"from": np.array([4]), "to": np.array([132]), "axes": np.array([1])},
    ),
    "padded": (
        [("Pad", ["x", "pads"], ["y"], {})], {"x": ("float32", (64, 120))}, {"pads": np.array([0, 4, 0, 4])},
    ),
    "gathered": (
        [("Gather", ["x", "rows"], ["y"], {})], {"x": ("float32", (40, 128)), "rows": ("int64", (64,))}, {},
    ),
    "channels last": ([("Transpose", ["x"], ["y"], {"perm": [1, 0]})], {"x": ("float32", (3, 4096))}, {}),
    "eight columns": ([("Transpose", ["x"], ["y"], {"perm": [1, 0]})], {"x": ("float16", (8, 4096))}, {}),
    "padded channels": (
        [("Transpose", ["x"], ["t"], {"perm": [1, 0]}), ("Pad", ["t", "pads"], ["y"], {})],
        {"x": ("float32", (130, 64))}, {"pads": np.array([0, 1, 0, 1])},
    ),
    "turned": ([("Transpose", ["x"], ["y"], {"perm": [1, 0]})], {"x": ("float32", (128, 64))}, {}),
}  # fmt: skip


def group_of(name: str, folder: Path) -> engine.FusionGroup:
    nodes, inputs, constants = GRAPHS[name]
    path = write_model(folder / "graph.onnx", nodes, dict(inputs), ["y"], constants)
    return engine.fuse(engine.load(path)).groups[-1]


def lines(advice: tuple[Advice, ...]) -> list[str]:
    """Entries and, indented, the labels and entries of alternatives."""

    def visit(scenario: Scenario, indent: str) -> list[str]:
        found = [indent + str(e) for e in scenario.entries]
        for inner in scenario.alternatives:
            found += [f"{indent}{inner.label}:", *visit(inner, indent + "  ")]
        return found

    return [line for one in advice for line in visit(one.scenario, "")]


# Accesses


def pattern(group: engine.FusionGroup, array: str) -> Pattern:
    return next(p for p in patterns(group.program) if p.access.array == array)


def test_patterns_of_a_bias(tmp_path: Path) -> None:
    group = group_of("bias", tmp_path)
    x, b, y = patterns(group.program)
    assert (x.order, x.vector, x.written) == (("j", "i"), 4, False)
    assert (b.order, b.vector, b.moves) == (("j",), 4, {"j"})
    assert (y.order, y.vector, y.written) == (("j", "i"), 4, True)


@pytest.mark.parametrize(
    ("name", "array", "order", "vector"),
    [
        ("shifted", "x", ("j", "i"), 1),
        ("aligned slice", "x", ("j", "i"), 4),
        ("padded", "x", ("j", "i"), 4),
        ("gathered", "x", ("j",), 4),
        ("channels last", "x", ("i", "j"), 4),
        ("channels last", "y", ("j", "i"), 1),
        ("halves", "x", ("j", "i"), 8),
    ],
)
def test_orders_and_vectors(name: str, array: str, order: tuple[str, ...], vector: int, tmp_path: Path) -> None:
    found = pattern(group_of(name, tmp_path), array)
    assert (found.order, found.vector) == (order, vector)


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("slope", [1, -1])
def test_a_guard_is_uniform_where_no_vector_sees_it_change(slope: int, width: int) -> None:
    for constant in range(-9, 10):
        condition = Index.of("j") * slope + constant
        values = [[slope * (start + lane) + constant >= 0 for lane in range(width)] for start in range(0, 16, width)]
        changes = any(len(set(one)) > 1 for one in values)
        uniform = uniform_along(condition, ("j",), width, {"j": 16})
        assert not (uniform and changes), (constant, slope)
        if -8 <= -slope * constant < 8 and not changes:
            assert uniform == ((constant + (slope == -1)) % width == 0)


# Scores, worked out by hand after AKG's published terms


def test_the_score_of_a_copy_says_its_terms(tmp_path: Path) -> None:
    found = patterns(adding(tmp_path, (64, 128)).program)
    best = score("j", found, innermost=True)
    assert best.value == 2 * (2 + 3 * 4) + (2 + 1 + 3 * 4 + 2)
    assert str(best) == (
        "j innermost: score 45 = 2 x (contiguous read 2 + vector 3 x 4) + contiguous write 2 + 1 + vector 3 x 4 + 2"
    )
    assert score("i", found, innermost=True).value == 3 * 1
    assert score("j", found, innermost=False).value == 2 * 2 + 2 + 1


def test_among_equals_the_later_loop_stays_inside(tmp_path: Path) -> None:
    node = ("Transpose", ["x"], ["y"], {"perm": [0, 2, 1, 3]})
    path = write_model(tmp_path / "t.onnx", [node], {"x": ("float32", (4, 6, 10, 32))}, ["y"], {})
    found = patterns(engine.fuse(engine.load(path)).groups[0].program)
    assert score("j", found, False).value == score("k", found, False).value
    assert greedy_order("l", ["i", "j", "k", "l"], found) == ("i", "j", "k", "l")


# What the advisers say


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bias", ["S0 @ j: mark vector 4", "S0 @ innermost: mark thread 64"]),
        ("halves", ["S0 @ j: mark vector 4", "S0 @ innermost: mark thread 64"]),
        ("rows of 7", ["S0 @ k: mark vector 4", "S0 @ innermost: mark thread 64"]),
        (
            "shifted",
            [
                "j innermost, in the order of the text, one at a time:", "  all @ innermost: pin j",
                "j innermost, in the order of the text, 2 at once:", "  all @ innermost: pin j",
                "  S0 @ j: mark vector 2", "S0 @ innermost: mark thread 64",
            ],
        ),
        ("aligned slice", ["S0 @ j: mark vector 4", "S0 @ innermost: mark thread 64"]),
        ("padded", ["S0 @ j: mark vector 4", "S0 @ innermost: mark thread 64"]),
        (
            "turned",
            [
                "turned in a shared tile:", "  S0 @ innermost: mark tile 32", "  S0 @ innermost: mark vector 4",
                "i innermost, j in strips, 4 at once:", "  all @ innermost: pin i", "  S0 @ j: split 4",
            ],
        ),
        (
            "eight columns",
            [
                "j innermost, in the order of the text, 4 at once:", "  all @ innermost: pin j",
                "  S0 @ j: mark vector 4",
                "i innermost, j in strips, 4 at once:", "  all @ innermost: pin i", "  S0 @ j: split 4",
                "  S0 @ j: mark vector 4",
            ],
        ),
        (
            "padded channels",
            [
                "j innermost, i in strips, in the order of the text, 4 at once:", "  all @ innermost: pin j",
                "  S0 @ i: split 4", "  S0 @ i: mark vector 4",
                "j innermost, in the order of the text, one at a time:", "  all @ innermost: pin j",
            ],
        ),
    ],
)  # fmt: skip
def test_entries(name: str, expected: list[str], tmp_path: Path) -> None:
    group = group_of(name, tmp_path)
    found = lines(engine.default_recipe(group).groups[group.name])
    assert found[: len(expected)] == expected, found


@pytest.mark.parametrize("shape", [(132 * 2048 * 16,), (2048, 8)], ids=["fills the machine twice", "small"])
def test_eight_halves_are_for_launches_that_keep_the_machine_full(shape: tuple[int, ...], tmp_path: Path) -> None:
    nodes: list[Node] = [("Neg", ["x"], ["y"], {})]
    path = write_model(tmp_path / "n.onnx", nodes, {"x": ("float16", shape)}, ["y"], {})
    (group,) = engine.fuse(engine.load(path)).groups
    best = plans(group.program, MACHINE)[0]
    assert best.walk.width == (8 if len(shape) == 1 else 4)
    assert best.held_back == (0 if len(shape) == 1 else 8)


def test_alternatives_are_few_ranked_and_there_where_accesses_disagree(tmp_path: Path) -> None:
    for name in GRAPHS:
        program = group_of(name, tmp_path).program
        ranked, found = plans(program, MACHINE), patterns(program)
        offered = alternatives(program, ranked)
        assert offered[0] is ranked[0]
        assert len(offered) <= ALTERNATIVES and len({plan.way for plan in offered}) == len(offered)
        places = [ranked.index(plan) for plan in offered]
        assert places == sorted(places)
        last = program.statements[-1].iterators[-1].name
        moving = [p for p in found if last in p.moves]
        disagree = len({p.ideal for p in moving if p.ideal}) > 1 or len({p.vector for p in moving}) > 1
        possible = {plan.way for plan in ranked if plan.is_tiled or plan.walk.order == ranked[0].walk.order or disagree}
        assert (len(offered) > 1) == (disagree and len(possible) > 1), name
        assert any(plan.is_textual for plan in offered) or not disagree


def test_what_agrees_says_so_once(tmp_path: Path) -> None:
    for name in ("bias", "halves"):
        group = group_of(name, tmp_path)
        (vectorize,) = (a for a in engine.default_recipe(group).groups[group.name] if a.author == "vectorize")
        assert "in the order of the text" in vectorize.scenario.label
        assert not vectorize.scenario.alternatives


@pytest.mark.parametrize(("shape", "offered"), [((512, 256), 2), ((128, 4096), 2), ((256, 4096), 0)], ids=str)
def test_a_reduction_whose_operands_disagree_offers_both_mappings(
    shape: tuple[int, int], offered: int, tmp_path: Path
) -> None:
    """sum over j of x[i,j] * y[j,i]: x is contiguous along j, y along i.  A program that is promised to be much faster
    than either stands alone."""
    nodes: list[Node] = [
        ("Transpose", ["y"], ["t"], {"perm": [1, 0]}), ("Mul", ["x", "t"], ["m"], {}),
        ("ReduceSum", ["m", "axes"], ["z"], {"keepdims": 0}),
    ]  # fmt: skip
    rows, columns = shape
    inputs = {"x": ("float32", (rows, columns)), "y": ("float32", (columns, rows))}
    path = write_model(tmp_path / "r.onnx", nodes, inputs, ["z"], {"axes": np.array([1])})
    group = engine.fuse(engine.load(path)).groups[-1]
    (mapped,) = (a for a in engine.default_recipe(group).groups[group.name] if a.author == "map")
    assert len(mapped.scenario.alternatives) == offered
    assert all("score" in one.entries[0].because for one in mapped.scenario.alternatives)
    assert bool(mapped.scenario.entries) == (offered == 0)
    assert all("for what the family reduction would choose else" in e.because for e in mapped.scenario.entries)
    assert engine.compile(group).family == "reduction"


def test_groups_with_reductions_get_no_plans(tmp_path: Path) -> None:
    path = write_model(tmp_path / "s.onnx", [("Softmax", ["x"], ["y"], {})], {"x": ("float32", (64, 256))}, ["y"], {})
    (group,) = engine.fuse(engine.load(path)).groups
    assert plans(group.program, MACHINE) == ()
    entries = [e for a in engine.default_recipe(group).groups[group.name] for e in a.scenario.entries]
    assert not [e for e in entries if e.field in ("pin", "split")]


@needs_compiler
@pytest.mark.parametrize("seed", [21, 32, 60])
def test_statements_that_name_their_loops_differently_get_no_plans(seed: int) -> None:
    program = random_program(seed)
    group = made_of(program, "element-wise")
    assert plans(program, MACHINE) == ()
    kernel = engine.compile(group, engine.default_recipe(group))
    assert check_program(kernel).status == "pass"


def test_every_default_entry_is_honoured_and_says_why(tmp_path: Path) -> None:
    for name in GRAPHS:
        kernel = engine.compile(group_of(name, tmp_path))
        for verdict in kernel.verdicts:
            assert verdict.outcome in ("honoured", "not reached"), (name, str(verdict.placed.entry), verdict.because)
            assert verdict.placed.author in AUTHORS and verdict.placed.entry.because


def under(order: str, name: str, folder: Path) -> tuple[engine.Kernel, dict[str, str]]:
    """The kernel of a group when the user pins a loop innermost, and the outcomes of the advisers' entries."""
    group = group_of(name, folder)
    text = f"advice user\n  all @ innermost: pin {order}\n"
    kernel = engine.compile(group, engine.merge_advice(engine.default_recipe(group), group, text))
    return kernel, {str(v.placed.entry): v.outcome for v in kernel.verdicts if v.placed.author == "vectorize"}


@needs_compiler
def test_a_pin_of_the_user_chooses_the_alternative_that_agrees(tmp_path: Path) -> None:
    kernel, told = under("i", "eight columns", tmp_path)
    assert told == {
        "all @ innermost: pin j": "infeasible",
        "all @ innermost: pin i": "honoured",
        "S0 @ j: split 4": "honoured",
        "S0 @ j: mark vector 4": "honoured",
    }
    assert "y.store<4>(" in kernel.source.text
    assert engine.check(kernel).status == "pass"


@needs_compiler
def test_a_vector_stays_with_its_iterator_when_the_user_turns_the_loops(tmp_path: Path) -> None:
    kernel, told = under("i", "bias", tmp_path)
    assert told == {"S0 @ j: mark vector 4": "honoured"}
    assert "x.load<4>(" in kernel.source.text and "j_strip" in kernel.source.text
    assert engine.check(kernel).status == "pass"


# The model of a warp against the emulator


def recipe_of(plan: WalkPlan, group: engine.FusionGroup) -> engine.Recipe:
    """The entries of one plan alone, in blocks of two warps."""
    walk = plan.walk
    names = [name for name, _ in walk.order]
    wishes = [f"all @ {'after ' + names[k - 1] if k else 'outermost'}: pin {names[k]}" for k in range(len(names) - 1)]
    if plan.is_tiled:
        wishes.append("all @ innermost: mark tile 32")
    if walk.width > 1:
        at = walk.run[-1]
        wishes += [f"all @ {at}: mark vector {walk.width}"]
    text = "advice user\n" + "".join(f"  {w}\n" for w in [*wishes, "all @ innermost: mark thread 64"])
    plain = engine.default_recipe(group).with_group(group.name, ())
    return engine.merge_advice(plain, group, text)


def events(kernel: engine.Kernel) -> tuple[int, int]:
    """(sectors, requests) of global memory over all blocks, as the emulator counts them; arrays hold zeros."""
    source = kernel.source
    zeros = {b.array: np.zeros(b.elements, b.dtype) for b in source.buffers if b.read}
    found = emulate(source, zeros, blocks=list(range(source.grid[0])), order="late", timeout=60)[0]
    outside = [c for c in found.counts if c.kind in ("global load", "global store")]
    return sum(c.sectors for c in outside), sum(c.requests for c in outside)


@pytest.mark.few(4)
@needs_compiler
@pytest.mark.parametrize("name", [name for name in GRAPHS if name != "gathered"])
def test_what_a_warp_requests_is_what_the_emulator_counts(name: str, tmp_path: Path) -> None:
    """Sectors and requests for each element, within what other warps than the two sampled ones differ by."""
    group = group_of(name, tmp_path)
    points = 1
    for iterator in group.program.statements[-1].iterators:
        points *= iterator.extent
    for plan in [plan for plan in plans(group.program, MACHINE) if not plan.is_tiled][:4]:
        kernel = engine.compile(group, recipe_of(plan, group))
        assert engine.check(kernel).status == "pass"
        sectors, requests = (count / points for count in events(kernel))
        assert sectors == pytest.approx(plan.requests.sectors, rel=0.08), plan
        assert requests == pytest.approx(plan.requests.requests, rel=0.08), plan
        assert count_requests(plan.walk, patterns(group.program)) == plan.requests


# Better with the tree than without


@needs_compiler
@pytest.mark.parametrize(
    ("name", "sectors", "requests"),
    [("turned", 0.4, 1.0), ("eight columns", 0.6, 0.7), ("rows of 7", 1.05, 0.52), ("padded", 1.0, 0.3)],
)
def test_fewer_events_with_the_tree_than_without(
    name: str, sectors: float, requests: float, tmp_path: Path
) -> None:
    group = group_of(name, tmp_path)
    ours = engine.default_recipe(group)
    with_tree, without = (engine.compile(group, r) for r in (ours, ours.with_group(group.name, ())))
    assert engine.check(with_tree).status == engine.check(without).status == "pass"
    after, before = events(with_tree), events(without)
    assert after[0] <= sectors * before[0] and after[1] <= requests * before[1], (before, after)


@pytest.mark.parametrize(
    ("rows", "columns", "first"),
    [
        ((100, 2.0), (120, 1.0), "along a row"),
        ((100, 2.0), (90, 1.0), "across columns"),
        ((100, 1.0), (90, 2.0), "along a row"),
        ((200, 1.0), (90, 2.0), "across columns"),
        ((100, 1.0), (10**9, float("inf")), "along a row"),
    ],
    ids=["more sectors than the text", "fewer and faster", "a little fewer, slower", "half of them", "no kernel"],
)
def test_the_first_mapping_never_takes_more_sectors_than_the_text(
    rows: tuple[int, float], columns: tuple[int, float], first: str
) -> None:
    figures = {"threads across columns": columns, f"threads along a row, {AS_IN_TEXT}": rows}
    offered = Advice("map", Scenario((), tuple(Scenario((), label=label) for label in figures)))
    ranked = best_first(offered, lambda advice: figures[advice.scenario.label]).scenario.alternatives
    assert first in ranked[0].label and len(ranked) == 2
