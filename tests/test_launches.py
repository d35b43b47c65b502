"""A group whose kernel is two launches: what the verbs, the library and the window's documents say of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import engine
from engine.kernels.nodes import Kernel
from engine.present.model import kernel_doc
from engine.recipe import Recipe
from tests.support.commands import document, loomscope
from tests.support.cut_models import columns_of_a_softmax
from tests.support.needs import needs_compiler, needs_nvrtc


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return columns_of_a_softmax(tmp_path_factory.mktemp("cut"))


@pytest.fixture(scope="module")
def kernel(files: tuple[str, str]) -> Kernel:
    model, recipe = files
    (group,) = engine.fuse(engine.load(model)).groups
    return engine.compile(group, Recipe.from_json(json.loads(Path(recipe).read_text())))


def test_the_schedule_says_how_many_launches_its_kernel_is(files: tuple[str, str]) -> None:
    model, recipe = files
    (found,) = document("schedule", model, "--recipe", recipe)["groups"]
    assert found["kernel"]["family"] == "general" and found["kernel"]["launches"] == 2
    assert "general, 2 launches" in loomscope("schedule", model, "--recipe", recipe).stdout


@needs_nvrtc
def test_each_launch_is_in_the_table_of_what_is_generated(files: tuple[str, str], tmp_path: Path) -> None:
    model, recipe = files
    made = loomscope("generate", model, "--recipe", recipe, "-o", str(tmp_path))
    assert made.returncode == 0 and "96 x 1 x 1, 128 x 1 x 1" in made.stdout
    (told,) = document("generate", model, "--recipe", recipe, "-o", str(tmp_path))["kernels"]
    assert [one["grid"] for one in told["launches"]] == [[96, 1, 1], [128, 1, 1]]


@needs_compiler
def test_the_check_runs_every_block_of_both(kernel: Kernel) -> None:
    check = engine.check(kernel)
    assert (check.status, check.blocks_run, check.blocks_total) == ("pass", 224, 224)
    assert len(kernel.launches) == 2


@needs_compiler
def test_the_first_warp_s_addresses_are_those_of_each_launch(kernel: Kernel) -> None:
    lanes = engine.addresses(kernel).lanes
    (result,) = kernel.program.outputs
    (operand,) = kernel.program.inputs
    below = kernel.source.text[: kernel.source.text.index(f"{kernel.launches[1].entry}(")].count("\n")
    of_each = [{lane.array for lane in lanes if (lane.line > below) == later} for later in (False, True)]
    assert operand in of_each[0] and result not in of_each[0]
    assert result in of_each[1] and operand not in of_each[1]


def test_the_window_s_document_has_each_launch(kernel: Kernel) -> None:
    found = kernel_doc(kernel)
    name = kernel.group.name
    assert [(one.entry, one.blocks) for one in found.launches] == [(f"{name}_1", 96), (f"{name}_2", 128)]
    assert all(any(one.entry in line for line in found.cuda.splitlines()) for one in found.launches)
    assert f"{name}_2: {kernel.program.statements[-1].name} on 128 blocks of" in found.explain
    # Lines of the second launch's text are linked to its statement, too.
    last = kernel.program.statements[-1].name
    below = found.cuda[: found.cuda.index(kernel.launches[1].entry)].count("\n")
    assert any(last in line.statements and line.line > below for line in found.lines)
