"""Texts of phases that are alike are written once: numbers that grow evenly, arrays that take turns; others are not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from engine.tile.nodes import Buffer
from engine.tile.nodes.alike_texts import AlikeTexts, alike_runs, text_of
from engine.tile.nodes.grid_phases import PHASE, GridPhases
from engine.tile.nodes.operation import TileOp
from engine.tile.nodes.writer import CudaWriter, RegisterForms
from engine.tile.source import NOWHERE

ARRAYS = ("x", "h0", "h1", "h2", "h3", "g")
BUFFERS = {
    **{name: Buffer(name, "float32", (64,), "global") for name in ARRAYS},
    "half": Buffer("half", "float16", (64,), "global"),
    "long": Buffer("long", "float32", (128,), "global"),
    "w": Buffer("w", "float32", (64,), "workspace"),
    "sums": Buffer("sums", "float32", (4,), "register"),
    "others": Buffer("others", "float32", (4,), "register"),
    "tile": Buffer("tile", "float32", (64,), "shared"),
    "arrivals": Buffer("arrivals", "int32", (1,), "workspace"),
}  # fmt: skip


def written(*lines: str) -> TileOp:
    """Lines that stand as they are: no kind of operation, of which other tests know all."""

    def write(out: CudaWriter) -> None:
        for line in lines:
            out.line(line, NOWHERE)

    return cast(TileOp, SimpleNamespace(write=write))


def writer(*changed: str) -> CudaWriter:
    return CudaWriter(BUFFERS, RegisterForms(frozenset(changed)), extents=defaultdict(lambda: 1, {"i": 8, "j": 8}))


def runs(*parts: str, may_grow: bool = True, keys: Sequence[object] = ()) -> list[AlikeTexts]:
    """Those of parts of lines, which ";;" divides."""
    out = writer(*ARRAYS[1:], "w")
    texts = (text_of(out, [written(*part.split(";; "))]) for part in parts)
    return alike_runs([(keys[n] if keys else None, text) for n, text in enumerate(texts)], may_grow)


def once(*parts: str, may_grow: bool = True) -> list[str] | None:
    """The one text of all parts; None where they are not alike."""
    found = runs(*parts, may_grow=may_grow)
    return [line.strip() for line in found[0].together(PHASE).text] if len(found) == 1 else None


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (["x.load(i + 8)", "x.load(i + 16)", "x.load(i + 24)"], "x.load(i + (8 + phase * 8))"),
        (["x.load(i + 0)", "x.load(i + 5)"], "x.load(i + (phase * 5))"),
        (["x.load(9 - i)", "x.load(7 - i)", "x.load(5 - i)"], "x.load((9 + phase * -2) - i)"),
        (["f(3, 10, 7)", "f(4, 10, 9)", "f(5, 10, 11)"], "f((3 + phase), 10, (7 + phase * 2))"),
        (["x.load(i)", "x.load(i)"], "x.load(i)"),
    ],
)
def test_numbers_that_grow_evenly_are_counted(parts: list[str], text: str) -> None:
    assert once(*parts) == [text]
    growing = len(set(parts)) > 1
    assert (once(*parts, may_grow=False) is None) == growing


@pytest.mark.parametrize(
    "parts",
    [
        ["x.load(i + 8)", "x.load(i + 16)", "x.load(i + 25)"],
        ["x.load(i + 8)", "x.load(i + 16)", "x.load(i + 16)"],
        ["x.load(i + 8)", "x.load(i + 8)", "x.load(i + 16)"],
        ["f(1, 1)", "f(2, 1)", "f(3, 2)"],
    ],
)
def test_numbers_that_grow_unevenly_are_not(parts: list[str]) -> None:
    """The first two are a run of their own; the third is written by itself."""
    assert [len(run.texts) for run in runs(*parts)] == [2, 1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x.load<4>(i)", "x.load<2>(i)"),
        ("const Pack<float, 4> v = x.load<4>(i)", "const Pack<float, 2> v = x.load<4>(i)"),
        ("sums[0] = 1", "sums[1] = 1"),
        ("sums[i + 0] = 1", "sums[i + 1] = 1"),
        ("y = 0.5f", "y = 0.25f"),
        ("y = 1e-5f", "y = 1e-6f"),
        ("y = x.load(i)", "y = x.store(i)"),
        ("y = fn_tanh(i)", "y = fn_exp(i)"),
        ("y = i + j", "y = i - j"),
        ("y = x.load(i)", "y = x.load(i) + 1"),
        ("y = x.load(i)", "y = half.load(i)"),
        ("y = x.load(i)", "y = long.load(i)"),
        ("y = x.load(i)", "y = tile.load(i)"),
        ("f(x, h0)", "f(h1, h1)"),
        ("f(x, x)", "f(h0, h1)"),
        ("f(x) + 1", "f(3) + 1"),
        ("y = x.load(i)", "y = h0.load(i)"),  # nobody stores to x: it is loaded through another cache
    ],
)
def test_what_the_compiler_must_know_or_another_operation_is_not_alike(first: str, second: str) -> None:
    assert once(first, second) is None and once(first, first) == [first]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("y = h0.load(i)", "y = h1.load(i)"),
        ("y = h0.load(i)", "y = w.load(i)"),
        ("sums[0] = 1", "others[0] = 1"),
        ("float sums_acc = 1", "float others_acc = 1"),
        ("i + 1", "j + 1"),
        ("f(i);; // of x", "f(i);; // of another"),
        ("if (i < 5) f(i)", "if (i < 6) f(i)"),
    ],
)
def test_names_of_one_kind_stand_for_each_other(first: str, second: str) -> None:
    assert once(first, second) is not None


def test_names_take_turns_by_part() -> None:
    """h1 is made of h0, h2 of h1, h3 of h2: two accessors, each of which chooses by the phase."""
    (run,) = runs("h1.store(i, h0.load(i))", "h2.store(i, h1.load(i))", "h3.store(i, h2.load(i))")
    made, read = sorted(run.accessors(writer("h0", "h1", "h2", "h3"), PHASE), key=lambda text: "h3_" not in text)
    assert made == "const Global<float> h1(phase == 0 ? h1_ : phase == 1 ? h2_ : h3_, 64);  // h1, h2, h3"
    assert read == "const Global<float> h0(phase == 0 ? h0_ : phase == 1 ? h1_ : h2_, 64);  // h0, h1, h2"
    assert [line.strip() for line in run.together(PHASE).text] == ["h1.store(i, h0.load(i))"]


def test_arrays_that_all_parts_share_keep_their_accessor() -> None:
    (run,) = runs("h1.store(i, x.load(i))", "h2.store(i, x.load(i))")
    assert [text.split("(")[0] for text in run.accessors(writer(*ARRAYS), PHASE)] == ["const Global<float> h1"]


def test_neighbours_alone_are_together() -> None:
    assert [len(run.texts) for run in runs("f(h0)", "g(h0)", "f(h0)", "f(h1)")] == [1, 1, 2]
    assert [len(run.texts) for run in runs("f(x)", "f(x)", keys=(16, 32))] == [1, 1]
    assert [len(run.texts) for run in runs("f(x)", "f(x)", keys=(16, 16))] == [2]


def phases_of(*parts: str) -> list[str]:
    """The text of phases that meet."""
    out = writer(*ARRAYS)
    works = [((written(part),), (f"S{n}",)) for n, part in enumerate(parts)]
    GridPhases.with_meetings(works, "arrivals").write(out)
    return [line.strip() for line in out.text]


def test_alike_phases_are_a_loop_that_meets_each_time() -> None:
    """The first phase of all waits for nobody."""
    assert phases_of("f(8)", "f(16)", "f(24)") == [
        "{", "f(8)", "}",
        "for (int phase = 0; phase < 2; ++phase) {", "grid_barrier(arrivals, 0, (1 + phase), 2);",
        "f((16 + phase * 8))", "}",
    ]  # fmt: skip


def test_phases_in_turn_are_a_loop_of_both() -> None:
    assert phases_of("g(1)", "f(2)", "g(2)", "f(3)", "g(3)") == [
        "{", "g(1)", "}",
        "for (int phase = 0; phase < 2; ++phase) {",
        "{", "grid_barrier(arrivals, 0, (1 + phase * 2), 4);", "f((2 + phase))", "}",
        "{", "grid_barrier(arrivals, 0, (2 + phase * 2), 4);", "g((2 + phase))", "}", "}",
    ]  # fmt: skip


def test_a_loop_in_the_middle_counts_on() -> None:
    """One phase, two that are alike, one that is not: four phases, three meetings, numbered in order."""
    assert phases_of("g(x)", "f(8)", "f(9)", "f(x)") == [
        "{", "g(x)", "}",
        "for (int phase = 0; phase < 2; ++phase) {", "grid_barrier(arrivals, 0, (1 + phase), 3);",
        "f((8 + phase))", "}",
        "{", "grid_barrier(arrivals, 0, 3, 3);", "f(x)", "}",
    ]  # fmt: skip


def test_phases_that_differ_meet_between_each_two() -> None:
    text = phases_of("f(i)", "g(i)", "f(i)")
    assert "phase" not in " ".join(text)
    assert [line for line in text if "grid" in line] == [f"grid_barrier(arrivals, 0, {n}, 2);" for n in (1, 2)]
