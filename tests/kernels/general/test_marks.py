"""Marks that a general kernel takes, emulated against the reference."""

from __future__ import annotations

import pytest

import engine
from engine import Entry
from engine.kernels.families import GENERAL_FAMILY
from engine.kernels.family import Setting
from engine.kernels.general.config import GeneralConfig
from engine.kernels.nodes import Kernel
from engine.recipe import Recipe, entry
from engine.target import target
from engine.tensor.nodes import TensorProgram
from engine.tile.nodes import TileProgram
from tests.explore.groups import made_of
from tests.kernels.general.test_lower import compiled, element_wise, softmax
from tests.support.checked_programs import check_program
from tests.support.needs import needs_compiler
from tests.support.programs import apply, at, program, statement

pytestmark = needs_compiler

SKEWED = entry("S0", terms=(("i", 1), ("j", 1)), at="outermost", required=True)
"""Rows that no faster family takes."""
REVERSED = entry("S1", terms=("S1", "j", -1), at="innermost", required=True)


def config_of(kernel: Kernel) -> GeneralConfig:
    """What the general family chose."""
    assert isinstance(kernel.tile.config, GeneralConfig)
    return kernel.tile.config


def marked(name: str, value: int | str, of: str = "S0") -> Entry:
    """A required mark on the innermost dimension of a statement."""
    return entry(of, mark=(name, value), at="innermost", required=True)


@pytest.mark.parametrize("threads", [1, 7, 32, 100, 1024])
@pytest.mark.parametrize("text", [element_wise(), softmax()], ids=["threads alone", "threads that add up together"])
def test_a_block_has_as_many_threads_as_asked_for(text: TensorProgram, threads: int) -> None:
    kernel = compiled(text, SKEWED if text.name == "copy" else REVERSED, marked("thread", threads))
    assert kernel.tile.threads == threads
    assert check_program(kernel).status == "pass"


@pytest.mark.parametrize("points", [1, 5, 48, 4096])
@pytest.mark.parametrize("text", [element_wise(), softmax()], ids=["points of threads", "points of the block"])
def test_a_block_runs_as_many_points_as_asked_for(text: TensorProgram, points: int) -> None:
    kernel = compiled(text, SKEWED if text.name == "copy" else REVERSED, marked("block", points))
    mapping = config_of(kernel).mapping
    assert kernel.tile.grid == -(-mapping.points // points)
    assert check_program(kernel).status == "pass"


def sums() -> TensorProgram:
    """Few terms for each of many sums, so that a thread has all terms of one."""
    box = [("i", 65536), ("k", 20)]
    term = statement("S0", box, at("y", "i"), at("x", "k", "i"), ("sum", "k"))
    return program("sums", {"x": (20, 65536), "y": (65536,)}, [term], "y")


@pytest.mark.parametrize(("unroll", "pragma"), [(4, "#pragma unroll 4"), (64, "#pragma unroll")])
def test_a_loop_of_a_thread_is_written_out_as_often_as_asked_for(unroll: int, pragma: str) -> None:
    kernel = compiled(sums(), entry("S0", terms=("S0", "k", -1), at="innermost"), marked("unroll", unroll))
    assert f"{pragma}\n" in kernel.source.text
    assert check_program(kernel).status == "pass"


@pytest.mark.parametrize("name", ["vector", "unroll"])
@pytest.mark.parametrize("width", [2, 3, 8, 64])
@pytest.mark.parametrize("text", [element_wise(), softmax()], ids=["threads", "loops that threads share"])
def test_a_thread_runs_neighbours(text: TensorProgram, width: int, name: str) -> None:
    moved = entry("S0", terms=("S0", "i", 2), at="outermost", required=True) if text.name == "copy" else REVERSED
    kernel = compiled(text, moved, marked(name, width, of="S0" if text.name == "copy" else "S1"))
    assert check_program(kernel).status == "pass"


def test_neighbours_that_are_contiguous_are_loaded_as_one_vector() -> None:
    moved = entry("S0", terms=("S0", "i", 2), at="outermost", required=True)
    kernel = compiled(element_wise(), moved, marked("vector", 4))
    assert config_of(kernel).vector == 4
    assert "x.load<4>(" in kernel.source.text


@pytest.mark.parametrize("scope", ["shared", "global"])
def test_a_value_lies_where_it_is_asked_for(scope: str) -> None:
    kernel = compiled(softmax(), REVERSED, marked("scope", scope, of="S1"))
    assert config_of(kernel).placed["S1"] == scope
    assert kernel.tile.buffers["e"].scope == {"shared": "shared", "global": "workspace"}[scope]
    assert check_program(kernel).status == "pass"


def test_lanes_share_the_loop_that_is_asked_for() -> None:
    kernel = compiled(softmax(), REVERSED, marked("lane", 16, of="S1"))
    assert kernel.tile.threads == 16
    assert check_program(kernel).status == "pass"


def test_what_cannot_apply_is_noted_with_the_reason() -> None:
    requests = (marked("stages", 3), marked("intrinsic", "mma"), marked("scope", "tape"), marked("thread", 2048))
    tile = lowered(element_wise(), *requests)
    reasons = " ".join(str(note) for note in tile.notes.values())
    for reason in ("fetched ahead", "tensor cores", "a value lies in register, shared, global", "up to 1024 threads"):
        assert reason in reasons


def lowered(text: TensorProgram, *entries: Entry) -> TileProgram:
    """The general family's program, although a faster family would fit the schedule."""
    group = made_of(text, "element-wise")
    soft = [Entry(e.statements, e.dimension, e.field, e.value) for e in entries]
    recipe = Recipe(target=group.target).advise("user", *soft, group=group.name)
    kernel = engine.compile(group, recipe)
    return GENERAL_FAMILY.lower(group, kernel.schedule, Setting(target(recipe.target)))


def test_terms_are_collected_by_block_where_the_complete_sums_are_shared() -> None:
    box = [("i", 6), ("j", 40), ("k", 9)]
    product = apply("mul", at("x", "i", "k"), at("w", "k", "j"))
    shapes = {"x": (6, 9), "w": (9, 40), "y": (6, 40), "z": (6, 40)}
    statements = [
        statement("S0", box, at("y", "i", "j"), product, ("sum", "k")),
        statement("S1", box[:2], at("z", "i", "j"), apply("exp", at("y", "i", "j"))),
    ]
    kernel = compiled(
        program("product", shapes, statements, "z"),
        entry("S1", terms=("S1", "j", -1), at="innermost", required=True),
        entry("S0", pin="j", at="innermost", required=True),
    )
    assert (kernel.tile.buffers["y"].scope, kernel.tile.buffers["y_sums"].scope) == ("shared", "workspace")
    assert check_program(kernel).status == "pass"
