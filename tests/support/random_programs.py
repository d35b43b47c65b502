"""Seeded random tensor programs: element-wise statements, broadcasts, transposes, reductions, constant indices."""

from __future__ import annotations

import random

from engine.tensor.nodes import Scalar, Statement, TensorProgram
from tests.support.programs import apply, at, program, statement

SIZES = (3, 5, 8)


def random_program(seed: int, statements: int = 6) -> TensorProgram:
    """A program in single assignment form; every statement reads one or two earlier arrays where it can."""
    draw = random.Random(seed)
    shapes: dict[str, tuple[int, ...]] = {"x0": (5, 8), "x1": (8, 5, 3)}
    made: list[Statement] = []
    for number in range(statements):
        names = draw.sample(["i", "j", "k", "l"], draw.randint(1, 3))
        box = [(name, draw.choice(SIZES)) for name in names]
        reduced = draw.sample(names, draw.choice([0, 0, 1, 1, 2])) if len(names) > 1 else []
        kept = [name for name in names if name not in reduced]
        draw.shuffle(kept)
        recent = list(shapes)[-3:]
        reads = [_read(draw, array, shapes[array], dict(box)) for array in draw.sample(recent, draw.randint(1, 2))]
        array = f"t{number}"
        shapes[array] = tuple(dict(box)[name] for name in kept)
        over = ("sum", " ".join(name for name in names if name in reduced)) if reduced else None
        expression = reads[0] if len(reads) == 1 else apply("add", *reads)
        made.append(statement(f"S{number}", box, at(array, *kept), expression, over, draw.random() < 0.6))
    return program(f"random{seed}", shapes, made, f"t{statements - 1}")


def _read(draw: random.Random, array: str, shape: tuple[int, ...], box: dict[str, int]) -> Scalar:
    """An access in bounds: an iterator of the same size on each axis, or a constant."""
    indices: list[str | int] = []
    for size in shape:
        fitting = [name for name, extent in box.items() if extent == size]
        indices.append(draw.choice(fitting) if fitting and draw.random() < 0.9 else draw.randrange(size))
    return at(array, *indices)
