"""Iteration spaces against a naive run of the statements: the same dependences, the same order, the same violations."""

from __future__ import annotations

import itertools
import re

import pytest

import engine
from engine.documents.exploration import SpaceDoc
from engine.tensor.nodes import Access, TensorProgram
from tests.explore.groups import FILES, SHARED, advised, group_of, made_of, needs_shared
from tests.scheduling.stencils import downwards, stencil_chain
from tests.support import programs

SOFTMAX = "softmax_96x512"
SMALL = (
    programs.softmax(4, 5),
    programs.softmax(4, 5, associative=False),
    programs.layernorm(4, 5),
    programs.matmul_bias_relu(3, 4, 4),
    programs.matmul_bias_relu(3, 4, 4, associative=False),
    programs.elementwise_chain(3, (4, 5)),
    programs.transpose_add(4, 4),
    programs.in_place_update((4, 5)),
    stencil_chain(3, 6),
    downwards(6),
)


def drawn(program: TensorProgram, order: tuple[str, ...] = ()) -> SpaceDoc:
    return engine.space(made_of(program), engine.Recipe("h200"), order=order)


def touched(program: TensorProgram, text: str) -> tuple[set[tuple[object, ...]], tuple[object, ...]]:
    """(elements read, element written) by the instance that a picture calls "S0(i=0, j=1)"."""
    name = text.partition("(")[0]
    at = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", text)}
    statement = program.statement(name)

    def element(access: Access) -> tuple[object, ...]:
        return (access.array, *(i.constant + sum(c * at[str(a)] for a, c in i.terms) for i in access.indices))

    return {element(read) for read in statement.reads()}, element(statement.write)


@pytest.mark.parametrize("program", SMALL, ids=lambda p: p.name)
def test_every_arrow_joins_instances_that_touch_one_element(program: TensorProgram) -> None:
    doc = drawn(program)
    assert doc.arrows
    for arrow in doc.arrows:
        source, sink = doc.points[arrow.source], doc.points[arrow.sink]
        reads, written = touched(program, source.text)
        read_later, written_later = touched(program, sink.text)
        shared = {
            "flow": written in read_later,
            "anti": written_later in reads,
            "output": written == written_later,
            "reduction": written == written_later and source.statement == sink.statement,
        }
        assert shared[arrow.kind], arrow.text
        assert arrow.text.startswith(source.text) and sink.text in arrow.text


@pytest.mark.parametrize("program", SMALL, ids=lambda p: p.name)
def test_every_flow_between_points_is_an_arrow_or_follows_from_arrows(program: TensorProgram) -> None:
    """A pair that shares an element is joined by a path; in a fixed order only the last term hands the sum on."""
    doc = drawn(program)
    assert len(doc.arrows) < 400, "nothing was left out for want of room"
    after: dict[int, set[int]] = {}
    for arrow in doc.arrows:
        after.setdefault(arrow.source, set()).add(arrow.sink)
    order = {s.name: k for k, s in enumerate(program.statements)}
    for (a, first), (b, second) in itertools.permutations(enumerate(doc.points), 2):
        _, written = touched(program, first.text)
        reads, _ = touched(program, second.text)
        if order[first.statement] < order[second.statement] and written in reads:
            assert reaches(after, a, b), (first.text, second.text)


def reaches(after: dict[int, set[int]], source: int, sink: int) -> bool:
    seen, waiting = {source}, [source]
    while waiting:
        for point in after.get(waiting.pop(), set()) - seen:
            seen.add(point)
            waiting.append(point)
    return sink in seen


@pytest.mark.parametrize("program", SMALL, ids=lambda p: p.name)
def test_in_a_legal_schedule_every_arrow_leads_to_a_later_rank(program: TensorProgram) -> None:
    doc = drawn(program)
    assert not doc.requested and doc.violated == 0 and not doc.repairs
    assert doc.verdict == f"legal, {doc.dependences} of {doc.dependences} dependences"
    for arrow in doc.arrows:
        assert not arrow.violated
        assert doc.points[arrow.source].rank < doc.points[arrow.sink].rank


@pytest.mark.parametrize("file", FILES)
def test_real_groups_are_drawn_within_bounds(file: str) -> None:
    doc = engine.space(group_of(file))
    assert 1 <= len(doc.axes) <= 3 and len(doc.arrows) <= 400
    assert {axis.name for axis in doc.axes} == set(doc.order) <= set(doc.dimensions)
    for point in doc.points:
        assert all(0 <= x < axis.shown for x, axis in zip(point.position, doc.axes, strict=True))
    assert {p.rank for p in doc.points} == set(range(max(p.rank for p in doc.points) + 1))
    pairs = [(arrow.source, arrow.sink) for arrow in doc.arrows]
    assert len(set(pairs)) == len(pairs)


def test_a_reversed_loop_is_drawn_from_where_it_begins() -> None:
    doc = drawn(downwards(100))
    assert [point.text for point in sorted(doc.points, key=lambda p: p.rank)[:3]] == [
        "S0(i=98)",
        "S0(i=97)",
        "S0(i=96)",
    ]
    assert {point.position for point in doc.points} == {(k,) for k in range(doc.axes[0].shown)}


def test_a_group_of_many_statements_is_drawn_smaller() -> None:
    doc = drawn(programs.elementwise_chain(60, (64, 64)))
    assert len(doc.points) <= 1500
    assert all(axis.shown >= 3 for axis in doc.axes)


def test_tiles_come_from_the_marks() -> None:
    group = made_of(programs.softmax(2048, 512))
    across, down = engine.space(group).axes
    assert (across.name, down.name) == ("j", "i")
    assert (across.tile, across.tile_because) == (4, "vector 4")
    assert (down.tile, down.tile_because, down.shown) == (8, "block 8", 12)
    by_hand = advised(group, "advice user\n  all @ i: mark block 2\n")
    assert engine.space(group, by_hand).axes[1].tile_because == "block 2"


def test_a_group_without_loops_says_that_there_is_nothing_to_draw() -> None:
    one = programs.statement("S0", [], programs.at("y"), programs.apply("exp", programs.at("x")))
    with pytest.raises(engine.Unsupported, match="has no loops"):
        drawn(programs.program("scalar", {"x": (), "y": ()}, [one], "y"))


def test_axes_can_be_chosen_and_are_checked() -> None:
    group = group_of("matmul_bias_gelu_128x256x512")
    assert [axis.name for axis in engine.space(group).axes] == ["j", "i", "k"]
    assert [axis.name for axis in engine.space(group, axes=("k",)).axes] == ["k"]
    for wrong in (("z",), ("i", "i")):
        with pytest.raises(engine.BadInput):
            engine.space(group, axes=wrong)
    with pytest.raises(engine.BadInput):
        engine.space(group, order=("j", "z"))


def test_a_requested_order_that_cannot_hold_shows_what_it_breaks() -> None:
    doc = engine.space(group_of(SOFTMAX), order=("j", "i"))
    assert doc.requested and doc.order == ("j", "i")
    assert (doc.violated, doc.dependences) == (2, 4)
    first = "S0[i=0, j=511] writes y_max[0], S1[i=0, j=0] reads it first"
    assert doc.verdict == f"breaks 2 of 4 dependences: {first}"
    broken = [arrow for arrow in doc.arrows if arrow.violated]
    assert {arrow.array for arrow in broken} == {"y_max", "y_sum"}
    for arrow in broken:
        assert doc.points[arrow.source].rank >= doc.points[arrow.sink].rank


def test_a_requested_order_that_holds_is_legal() -> None:
    doc = engine.space(group_of("matmul_bias_gelu_128x256x512"), order=("j", "i"))
    assert not doc.requested and doc.order[:2] == ("j", "i")
    assert not any(arrow.violated for arrow in doc.arrows)


@pytest.mark.parametrize(
    ("advice", "order", "array"),
    [
        ("required all @ innermost: cut S3 | S0 S1 S2", ("i", "j"), "y_sum"),
        ("required S0, S1 @ innermost: cut S1 | S0", ("i", "j"), "y_max"),
    ],
)
def test_a_refused_recipe_is_drawn_as_it_asks(advice: str, order: tuple[str, ...], array: str) -> None:
    group = group_of(SOFTMAX)
    recipe = advised(group, f"advice user\n  {advice}\n")
    doc = engine.space(group, recipe)
    assert doc.requested and doc.order == order and doc.violated
    assert array in {arrow.array for arrow in doc.arrows if arrow.violated}
    assert advice in doc.recipe
    assert "relax" in [repair.kind for repair in doc.repairs]
    for repair in doc.repairs:
        assert not engine.space(group, advised(group, repair.recipe)).requested


def ordered_plane() -> TensorProgram:
    """A sum over two iterators whose terms come in the order of the text."""
    box = [("i", 4), ("k", 3), ("l", 3)]
    term = programs.apply("exp", programs.at("x", "i", "k", "l"))
    made = programs.statement("S0", box, programs.at("y", "i"), term, ("sum", "k l"), associative=False)
    return programs.program("plane", {"x": (4, 3, 3), "y": (4,)}, [made], "y")


@pytest.mark.parametrize(
    ("advice", "order"),
    [("required S0 @ after i: pin l", ("i", "l", "k")), ("required S0 @ k: parallel true", ("i", "k", "l"))],
)
def test_a_refused_pin_and_a_refused_claim_are_drawn(advice: str, order: tuple[str, ...]) -> None:
    group = made_of(ordered_plane())
    recipe = engine.replace_advice(engine.Recipe("h200"), group, f"advice user\n  {advice}\n")
    with pytest.raises(engine.EngineError):
        engine.compile(group, recipe)
    doc = engine.space(group, recipe)
    assert doc.requested and doc.order == order
    broken = [arrow for arrow in doc.arrows if arrow.violated]
    assert broken and all(arrow.kind == "reduction" for arrow in broken)


def test_pins_that_contradict_each_other_are_told_as_such() -> None:
    group = group_of("matmul_bias_gelu_128x256x512")
    both = "advice user\n  required all @ outermost: pin i\n  required all @ outermost: pin j\n"
    doc = engine.space(group, advised(group, both))
    assert doc.requested and doc.violated == 0 and doc.repairs
    assert doc.verdict.startswith("required all @ outermost: pin j: collides with “required all @ outermost: pin i”")


@needs_shared
def test_the_published_operators_are_drawn_as_they_run() -> None:
    for path in sorted((SHARED / "akg" / "stitch").glob("*.json")):
        doc = engine.space(engine.fuse(engine.load(path)).groups[0])
        assert not doc.violated and len(doc.points) <= 1500
        for arrow in doc.arrows:
            assert not arrow.violated
            assert doc.points[arrow.source].rank < doc.points[arrow.sink].rank
