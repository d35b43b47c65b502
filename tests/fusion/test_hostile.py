"""Graphs whose shapes do not belong together: refused by the operator's name, or planned soundly; nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import engine
from engine.graph.load import load
from engine.graph.nodes import Operator, OperatorGraph
from engine.support.errors import BadInput
from engine.tensor.check import check_program
from tests.support.sentinels import shipped_models
from tests.tensor.test_lower import graph, op


@pytest.mark.parametrize(
    ("operator", "made", "words"),
    [
        (op("Slice", "x", "y", starts=(6,), ends=(8,)), (4,), "is read or written at 6 .. 9"),
        (op("Slice", "x", "y", starts=(6,), ends=(8,)), (2, 1), r"Slice of \[8\] does not give \[2, 1\]"),
        (op("Transpose", "x", "y", perm=(0,)), (9,), "is read or written at 0 .. 8"),
        (op("Transpose", "x", "y", perm=(0,)), (), r"Transpose of \[8\] does not give \[\]"),
        (op("Concat", "x x", "y", axis=0), (15,), "is read or written at 8 .. 15"),
        (op("Concat", "x x", "y", axis=0), (17,), "write 16 of the 17 elements"),
        (op("MatMul", "x x", "y"), (2,), "the result has 1 axes"),
        (op("Gemm", "x x", "y"), (8, 8), r"Gemm of \[8\], \[8\] does not give \[8, 8\]"),
        (op("Split", "x", "y z", axis=0), (5,), "is read or written at 5 .. 9"),
        (op("Relu", "x", "y"), (8, 8, 2), "does not broadcast"),
    ],
)
def test_what_reads_or_writes_outside_is_refused_by_name(operator: Operator, made: tuple[int, ...], words: str) -> None:
    g = graph([operator], {"x": (8,), "y": made, "z": (5,)}, "x", "y")
    with pytest.raises(BadInput, match=words) as refused:
        engine.fuse(g)
    assert operator.name in refused.value.subject


def test_the_same_operators_with_shapes_that_fit_are_planned() -> None:
    operators = [
        op("Slice", "x", "a", starts=(6,), ends=(8,)), op("Transpose", "x", "b", perm=(0,)),
        op("Concat", "x x", "c", axis=0), op("MatMul", "x x", "d"), op("Split", "x", "e f", axis=0),
        op("Relu", "x", "g"),
    ]  # fmt: skip
    shapes = {"x": (8,), "a": (2,), "b": (8,), "c": (16,), "d": (), "e": (5,), "f": (3,), "g": (8,)}
    plan = engine.fuse(graph(operators, shapes, "x", "a b c d e f g"))
    assert plan.unsupported == {} and all(check_program(group.program) == () for group in plan.groups)


@pytest.mark.parametrize("path", shipped_models("jacobi"))
def test_one_wrong_shape_is_refused_or_harmless(path: Path) -> None:
    sound, random = load(path), Random(path.stem)
    # Several kernels may write the parts of one array: each alone leaves elements to the others.
    in_parts = {fault for group in engine.fuse(sound).groups for fault in check_program(group.program)}
    assert all(" of the " in fault for fault in in_parts)
    refused = 0
    for _ in range(25):
        broken, name = _with_a_wrong_shape(sound, random)
        try:
            plan = engine.fuse(broken)
        except BadInput as error:
            refused += 1
            assert error.subject and error.reason, name
        else:
            assert all(in_parts.issuperset(check_program(group.program)) for group in plan.groups), name
    assert refused >= 5


def _with_a_wrong_shape(sound: OperatorGraph, random: Random) -> tuple[OperatorGraph, str]:
    """An axis more, one less, one longer or shorter, or all of them in another order."""
    tensor = sound.tensors[random.choice(sorted(sound.tensors))]
    shape = list(tensor.shape)
    at = random.randrange(len(shape) + 1)
    match random.randrange(4):
        case 0 if shape:
            shape.pop(at - 1)
        case 1 if shape:
            shape[at - 1] = max(1, shape[at - 1] + random.choice((-1, 1)))
        case 2:
            random.shuffle(shape)
        case _:
            shape.insert(at, random.choice((1, 2)))
    changed = replace(tensor, shape=tuple(shape))
    return replace(sound, tensors={**sound.tensors, tensor.name: changed}), f"{tensor} became {shape}"
