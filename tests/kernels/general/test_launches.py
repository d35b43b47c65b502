"""Schedules cut at the outermost dimension: several launches in order, emulated against the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import engine
from engine.cost.estimate import model_microseconds
from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import ORDERS
from engine.kernels.general.launches import fastest
from engine.kernels.nodes import Kernel
from engine.tensor.nodes import TensorProgram
from engine.tile.nodes import TileProgram
from engine.verify import kernel as verify
from tests.kernels.general.test_lower import compiled
from tests.support.checked_programs import check_program
from tests.support.needs import needs_compiler
from tests.support.programs import apply, at, program, statement

ROWS, COLUMNS = 96, 128
BOX = [("i", ROWS), ("j", COLUMNS)]


def softmax_then_columns(outputs: str) -> TensorProgram:
    """The sums of a softmax's columns: rows first, then columns."""
    shapes = dict.fromkeys("xey", (ROWS, COLUMNS)) | {"m": (ROWS,), "s": (ROWS,), "c": (COLUMNS,)}
    statements = [
        statement("S0", BOX, at("m", "i"), at("x", "i", "j"), ("max", "j")),
        statement("S1", BOX, at("e", "i", "j"), apply("exp", apply("sub", at("x", "i", "j"), at("m", "i")))),
        statement("S2", BOX, at("s", "i"), at("e", "i", "j"), ("sum", "j")),
        statement("S3", BOX, at("y", "i", "j"), apply("div", at("e", "i", "j"), at("s", "i"))),
        statement("S4", BOX, at("c", "j"), at("y", "i", "j"), ("sum", "i")),
    ]
    return program("columns", shapes, statements, outputs)


def there_and_back() -> TensorProgram:
    """Sums of rows, then of columns, then of rows again: three launches."""
    shapes = dict.fromkeys("xyz", (ROWS, COLUMNS)) | {"r": (ROWS,), "c": (COLUMNS,), "t": (ROWS,)}
    statements = [
        statement("S0", BOX, at("r", "i"), at("x", "i", "j"), ("sum", "j")),
        statement("S1", BOX, at("y", "i", "j"), apply("sub", at("x", "i", "j"), at("r", "i"))),
        statement("S2", BOX, at("c", "j"), at("y", "i", "j"), ("sum", "i")),
        statement("S3", BOX, at("z", "i", "j"), apply("mul", at("y", "i", "j"), at("c", "j"))),
        statement("S4", BOX, at("t", "i"), at("z", "i", "j"), ("max", "j")),
    ]
    return program("back", shapes, statements, "t")


def columns_of_rows_and_rows() -> TensorProgram:
    """Two reductions in different directions that need nothing from each other."""
    shapes = {"x": (ROWS, COLUMNS), "r": (ROWS,), "c": (COLUMNS,)}
    statements = [
        statement("S0", BOX, at("r", "i"), at("x", "i", "j"), ("sum", "j")),
        statement("S1", BOX, at("c", "j"), at("x", "i", "j"), ("sum", "i")),
    ]
    return program("two", shapes, statements, "r c")


def shape(kernel: Kernel) -> list[tuple[str, int]]:
    """(entry, blocks) of each launch."""
    return [(launch.entry, launch.blocks) for launch in kernel.launches]


@needs_compiler
@pytest.mark.parametrize(("outputs", "passed"), [("c", {"y"}), ("y c", set())])
def test_what_passes_between_launches_lies_in_a_workspace_or_in_an_output(outputs: str, passed: set[str]) -> None:
    kernel = compiled(softmax_then_columns(outputs))
    assert shape(kernel) == [("columns_1", ROWS), ("columns_2", COLUMNS)]
    assert {workspace.name for workspace in kernel.source.workspaces} == passed
    # An output that the second launch reads is no operand that the caller gives.
    assert {b.array for b in kernel.source.buffers if b.read} == {"x"}
    assert {b.array for b in kernel.source.buffers if b.written} == set(outputs.split())
    check = check_program(kernel)
    assert (check.status, check.blocks_run) == ("pass", ROWS + COLUMNS), check.message


@needs_compiler
def test_three_launches_pass_values_on() -> None:
    kernel = compiled(there_and_back())
    assert shape(kernel) == [("back_1", ROWS), ("back_2", COLUMNS), ("back_3", ROWS)]
    assert check_program(kernel).status == "pass"


@needs_compiler
def test_parts_that_need_nothing_from_each_other_stay_one_launch_where_that_is_faster() -> None:
    kernel = compiled(columns_of_rows_and_rows())
    assert len(kernel.launches) == 1
    assert check_program(kernel).status == "pass"


@needs_compiler
def test_rows_of_other_coefficients_are_cut_as_well() -> None:
    kernel = compiled(
        softmax_then_columns("c"),
        engine.entry("S0", terms=("S0", "i", -1), at="outermost", required=True),
        engine.entry("S4", terms=("S4", "j", 2), at="outermost", required=True),
    )
    assert len(kernel.launches) == 2
    assert check_program(kernel).status == "pass"


def test_the_time_of_a_kernel_is_that_of_its_launches_one_after_the_other() -> None:
    kernel = compiled(softmax_then_columns("c"))
    each = [model_microseconds(work, kernel.target) for work in kernel.facts.launches]
    assert len(each) == 2 and min(each) > kernel.target.launch_overhead.value * 1e6
    assert engine.predict(kernel).microseconds == pytest.approx(sum(each))
    launch = next(term for term in engine.predict(kernel).terms if term.name == "launch")
    assert launch.value == pytest.approx(2e6 * kernel.target.launch_overhead.value)
    assert kernel.facts.blocks == kernel.source.blocks == ROWS + COLUMNS


@needs_compiler
@pytest.mark.parametrize("order", ORDERS)
def test_a_launch_sees_what_the_one_before_stored_and_nothing_else_does(order: str) -> None:
    """The same two functions on the blocks of one grid would race; without the first the second reads nothing."""
    kernel = compiled(softmax_then_columns("c"))
    given = {"x": np.ones((ROWS, COLUMNS), np.float32)}
    run, _, _ = emulate(kernel.source, given, order=order)
    assert not run.findings
    later = range(ROWS, ROWS + COLUMNS)
    run, _, _ = emulate(kernel.source, given, order=order, blocks=later)
    assert {finding.kind for finding in run.findings} == {"uninitialised"}
    assert run.blocks_run == COLUMNS


def test_blocks_of_a_later_launch_come_with_all_before() -> None:
    source = compiled(softmax_then_columns("c")).source
    assert source.whole_teams((3, 1)) == (1, 3)
    assert source.whole_teams((1, ROWS + 2)) == (*range(ROWS), ROWS + 2)


@needs_compiler
def test_a_large_kernel_is_sampled_in_its_first_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = compiled(softmax_then_columns("c"))
    monkeypatch.setattr(verify, "WORK", 1)
    blocks = verify.sample_blocks(kernel)
    assert blocks and max(blocks) < ROWS and len(blocks) < ROWS


def test_the_text_of_one_launch_has_its_sizes_outside_its_function() -> None:
    """Entries of one text cannot share names: there each has its own sizes inside."""
    one, two = compiled(columns_of_rows_and_rows()).source.text, compiled(softmax_then_columns("c")).source.text
    assert one.index("enum") < one.index("__global__")
    assert two.index("__global__") < two.index("enum") and two.count("enum") == 2
    assert two.count('#include "loom.cuh"') == 1


@pytest.mark.parametrize("compiled_for", ["sm_80", "sm_90a"])
def test_nvrtc_takes_all_entries_of_a_text(compiled_for: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    kernel = compiled(softmax_then_columns("c"))
    found = engine.nvrtc(kernel, compiled_for)
    assert all(launch.entry.encode() in found.cubin for launch in kernel.launches)
    assert found.registers > 0


def test_the_launches_that_take_least_time_together_are_chosen() -> None:
    tile = compiled(columns_of_rows_and_rows()).tile

    def named(name: str) -> TileProgram:
        return replace(tile, name=name)

    names = {(0, 3): "all", (0, 1): "a", (1, 2): "b", (2, 3): "c"}
    times = {part: (9.0 if name == "all" else 2.0, named(name)) for part, name in names.items()}
    assert [one.name for one in fastest(times)] == ["a", "b", "c"]
    assert [one.name for one in fastest(times | {(1, 3): (3.0, named("bc"))})] == ["a", "bc"]
    assert [one.name for one in fastest(times | {(0, 3): (4.0, named("all"))})] == ["all"]
