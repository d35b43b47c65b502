"""Sums of general kernels in which a thread has several results: neighbours jammed together, terms written out."""

from __future__ import annotations

import pytest

import engine
from engine import Entry, entry
from engine.fusion.nodes import FusionGroup
from engine.kernels.general.plans import GridPlanner, Plan
from engine.tensor.nodes import TensorProgram
from tests.kernels.general.test_lower import GENERAL, compiled
from tests.kernels.general.test_marks import config_of, sums
from tests.support.checked_programs import check_program
from tests.support.commands import MODELS
from tests.support.needs import needs_compiler
from tests.support.programs import apply, at, program, statement

BACKWARDS = entry("S0", terms=("S0", "i", -1), at="outermost", required=True)


def product(rows: int, columns: int, depth: int) -> TensorProgram:
    """A product, and what depends on each of its elements and on their column."""
    box = [("i", rows), ("j", columns), ("k", depth)]
    shapes = {"x": (rows, depth), "w": (depth, columns), "b": (columns,)} | dict.fromkeys("yz", (rows, columns))
    statements = [
        statement("S0", box, at("y", "i", "j"), apply("mul", at("x", "i", "k"), at("w", "k", "j")), ("sum", "k")),
        statement("S1", box[:2], at("z", "i", "j"), apply("max", at("y", "i", "j"), at("b", "j"))),
    ]
    return program("product", shapes, statements, "z")


def prefer_jams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the plan be the fastest by which a thread has most results, however small the program is."""
    plans = GridPlanner.plans

    def widest(planner: GridPlanner) -> list[Plan]:
        return [max(plans(planner), key=lambda plan: plan[0].jam * plan[0].vector)]

    monkeypatch.setattr(GridPlanner, "plans", widest)


@needs_compiler
@pytest.mark.parametrize(
    ("shape", "entries", "jammed"),
    [
        ((16, 24, 9), [BACKWARDS], ("i", 8)),
        ((12, 24, 9), [BACKWARDS], ("i", 4)),
        ((16, 24, 9), [entry("S0", terms=("S0", "j", -1), at="j", required=True)], ("i", 8)),
        ((16, 24, 9), [BACKWARDS, entry("S0", split=4, at="k", required=True)], ("i", 8)),
        ((16, 24, 9), [BACKWARDS, entry("S0", mark=("unroll", 2), at="i", required=True)], ("", 1)),
        ((15, 24, 9), [BACKWARDS], ("", 1)),
        ((16, 25, 9), [BACKWARDS], ("", 1)),
    ],
    ids=["rows", "four rows", "columns backwards", "tiled terms", "rows asked otherwise", "odd rows", "odd columns"],
)  # fmt: skip
def test_neighbours_share_what_a_thread_loads(
    shape: tuple[int, int, int], entries: list[Entry], jammed: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefer_jams(monkeypatch)
    kernel = compiled(product(*shape), *entries)
    config = config_of(kernel)
    assert (config.jammed, config.jam) == jammed
    assert check_program(kernel).status == "pass"
    if config.jam > 1:
        assert kernel.source.text.count("w.load") == 1 and kernel.source.text.count("x.load") == config.jam


def test_of_a_batch_the_rows_are_jammed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of the batch share nothing; neighbouring rows share the columns of the other factor."""
    prefer_jams(monkeypatch)
    box = [("b", 8), ("i", 8), ("j", 16), ("k", 5)]
    term = apply("mul", at("x", "b", "i", "k"), at("w", "b", "k", "j"))
    shapes = {"x": (8, 8, 5), "w": (8, 5, 16), "y": (8, 8, 16)}
    text = program("batch", shapes, [statement("S0", box, at("y", "b", "i", "j"), term, ("sum", "k"))], "y")
    kernel = compiled(text, entry("S0", terms=("S0", "b", -1), at="outermost", required=True))
    assert config_of(kernel).jammed == "i"
    assert check_program(kernel).status == "pass"


def test_rows_that_share_nothing_are_not_jammed(monkeypatch: pytest.MonkeyPatch) -> None:
    prefer_jams(monkeypatch)
    box = [("i", 8), ("j", 16), ("k", 5)]
    shapes = {"x": (8, 5, 16), "y": (8, 16)}
    text = program("rows", shapes, [statement("S0", box, at("y", "i", "j"), at("x", "i", "k", "j"), ("sum", "k"))], "y")
    assert config_of(compiled(text, BACKWARDS)).jam == 1


def test_a_product_in_another_order_is_at_most_five_times_slower() -> None:
    (group,) = engine.fuse(engine.load(MODELS / "matmul_bias_gelu_128x256x512.onnx")).groups
    assert _slowdown(group, BACKWARDS) < 5


def _slowdown(group: FusionGroup, *entries: Entry) -> float:
    recipe = engine.default_recipe(group)
    plain, edited = engine.compile(group, recipe), engine.compile(group, recipe.advise("user", *entries, GENERAL))
    assert edited.family == "general"
    return engine.predict(edited).microseconds / engine.predict(plain).microseconds


def test_terms_of_a_sum_are_written_out_together_unless_asked_otherwise() -> None:
    backwards = entry("S0", terms=("S0", "k", -1), at="innermost")
    assert "#pragma unroll 8\n" in compiled(sums(), backwards).source.text
    kernel = compiled(sums(), backwards, entry("S0", mark=("unroll", 1), at="innermost", required=True))
    assert "#pragma unroll 8\n" not in kernel.source.text
