"""Which last values of a product's kernel are computed where they are read: where fewer bytes cross global memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.fusion.nodes import FusionPlan
from engine.fusion.stitching.nodes import Fixed
from tests.fusion.test_whole_rows import Inputs, groups_of, reason
from tests.semantics.single import Node, write_model

ROWS, COLUMNS, DEPTH = 256, 2048, 512
FLOAT = 1
NORM: list[Node] = [
    ("MatMul", ["x", "w"], ["p"], {}), ("Add", ["p", "r"], ["t"], {}), ("Cast", ["t"], ["f"], {"to": FLOAT}),
    ("Mul", ["f", "f"], ["q"], {}), ("ReduceMean", ["q", "axes"], ["m"], {}), ("Div", ["f", "m"], ["z"], {}),
]  # fmt: skip
"""A product, its residual, and a norm of long rows."""


def planned(
    folder: Path, nodes: list[Node] = NORM, outputs: tuple[str, ...] = ("z", "t"), policy: str = "stitch",
    fixed: Fixed | None = None,
) -> FusionPlan:  # fmt: skip
    inputs: Inputs = {
        "x": ("float16", (ROWS, DEPTH)), "w": ("float16", (DEPTH, COLUMNS)), "r": ("float16", (ROWS, COLUMNS)),
        "v": ("float32", (COLUMNS, 512)),
    }  # fmt: skip
    used = {name for _, read, _, _ in nodes for name in read}
    own = {name: value for name, value in inputs.items() if name in used}
    path = write_model(folder / "m.onnx", nodes, {**own}, outputs, {"axes": np.array([-1])})
    return engine.fuse(engine.load(path), policy=policy, fixed=fixed)


def test_cast_and_square_are_computed_where_they_are_summed_up(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert groups_of(plan) == [{"n0", "n1"}, {"n2", "n3", "n4", "n5"}]
    assert plan.groups[0].program.outputs == ("t",)
    told = reason(plan, "t")
    assert "n2 is computed where its result is read: " in told and " predicted in place of " in told


def test_a_value_that_is_half_as_wide_is_stored_in_place_of_the_cast(tmp_path: Path) -> None:
    """Nobody else reads t: the product stores it all the same, because the cast and its square are eight bytes."""
    plan = planned(tmp_path, outputs=("z",))
    assert groups_of(plan) == [{"n0", "n1"}, {"n2", "n3", "n4", "n5"}]


def test_a_value_as_narrow_as_what_it_is_made_of_stays(tmp_path: Path) -> None:
    """Without the cast nothing is saved: the square is as wide as the sum, which is one array in place of two."""
    plan = planned(tmp_path, [NORM[0], NORM[1], ("Mul", ["t", "t"], ["q"], {}), *NORM[4:5]], outputs=("m",))
    assert groups_of(plan) == [{"n0", "n1", "n2"}, {"n3"}]


@pytest.mark.parametrize(
    ("more", "outputs"),
    [([], ("z", "q")), ([("MatMul", ["q", "v"], ["y"], {})], ("z", "y"))],
    ids=["given out", "read by a product"],
)
def test_what_others_need_stays_in_the_product(more: list[Node], outputs: tuple[str, ...], tmp_path: Path) -> None:
    """The square is stored in any case, and the cast serves it."""
    first, *_ = groups_of(planned(tmp_path, [*NORM, *more], outputs))
    assert first == {"n0", "n1", "n2", "n3"}


def test_a_group_of_a_person_keeps_its_operators(tmp_path: Path) -> None:
    plan = planned(tmp_path, fixed=Fixed(groups=(("n0", "n1", "n2", "n3"),)))
    assert groups_of(plan)[0] == {"n0", "n1", "n2", "n3"}


def test_operators_that_a_person_keeps_apart_do_not_meet_in_the_reader(tmp_path: Path) -> None:
    plan = planned(tmp_path, fixed=Fixed(apart=(("n2", "n4"),)))
    assert groups_of(plan)[0] == {"n0", "n1", "n2", "n3"}


def test_other_policies_leave_products_as_they_grow(tmp_path: Path) -> None:
    assert groups_of(planned(tmp_path, policy="xla"))[0] == {"n0", "n1", "n2", "n3"}


def test_figures_count_what_is_bound_by_memory_and_what_both_kernels_move(tmp_path: Path) -> None:
    choice = planned(tmp_path).choice
    assert choice is not None
    figures = choice.figures()
    assert (figures.kernels, figures.memory_bound) == (2, 1)
    product = 2 * (ROWS * DEPTH + DEPTH * COLUMNS + 2 * ROWS * COLUMNS)
    assert figures.bytes == product + (2 + 4) * ROWS * COLUMNS
