"""PolyBench's jacobi stencils over time steps as ONNX models: a few operators a sweep, and all sweeps written out.

A tensor program's statement reads what was there before it, so a recurrence over time is a statement for each step.
Steps that share a loop after a shift are a skewed nest; its tiles are tiles of time and space.
"""

from __future__ import annotations

import numpy as np

from tests.support.make_models import FLOAT, Model

STEPS, POINTS = 20, 30
"""TSTEPS and N of PolyBench's MINI dataset; a step is two sweeps, from A to B and back."""


def jacobi_1d(sweeps: int = 2 * STEPS, points: int = POINTS) -> Model:
    """A'[i] = 0.33333 (A[i-1] + A[i] + A[i+1]) inside, the ends stay."""
    m = Model(f"jacobi_1d_{sweeps}x{points}")
    a = m.input("A", FLOAT, points)
    ends = [m.constant(f"at_{at}", np.array([at])) for at in (0, 1, 2, points - 2, points - 1, points)]
    zero, one, two, before, last, end = ends
    third = m.constant("third", np.float32(0.33333))
    for n in range(sweeps):
        near = [
            m.node("Slice", [a, start, stop], f"{side}_{n}")
            for side, start, stop in (("left", zero, before), ("here", one, last), ("right", two, end))
        ]
        total = m.node("Add", [m.node("Add", near[:2], f"two_{n}"), near[2]], f"three_{n}")
        mean = m.node("Mul", [total, third], f"mean_{n}")
        first = m.node("Slice", [a, zero, one], f"first_{n}")
        final = m.node("Slice", [a, last, end], f"final_{n}")
        a = m.node("Concat", [first, mean, final], f"A_{n + 1}", axis=0)
    m.output(a, FLOAT, points)
    return m


def jacobi_2d(sweeps: int = 2 * STEPS, points: int = POINTS) -> Model:
    """A'[i, j] = 0.2 (A[i, j] + A[i, j-1] + A[i, j+1] + A[i+1, j] + A[i-1, j]) inside, the edges stay."""
    m = Model(f"jacobi_2d_{sweeps}x{points}")
    a = m.input("A", FLOAT, points, points)
    inner = np.zeros((points, points), bool)
    inner[1:-1, 1:-1] = True
    mask, fifth = m.constant("inner", inner), m.constant("fifth", np.float32(0.2))
    around = m.constant("around", np.array([1, 1, 1, 1]))
    sides = {"here": (1, 1), "left": (1, 0), "right": (1, 2), "down": (2, 1), "up": (0, 1)}
    corners = {
        side: [m.constant(f"{side}_from", np.array(at)), m.constant(f"{side}_to", np.array(at) + points)]
        for side, at in sides.items()
    }
    for n in range(sweeps):
        padded = m.node("Pad", [a, around], f"padded_{n}")
        total = ""
        for side, corner in corners.items():
            part = m.node("Slice", [padded, *corner], f"{side}_{n}")
            total = m.node("Add", [total, part], f"to_{side}_{n}") if total else part
        mean = m.node("Mul", [total, fifth], f"mean_{n}")
        a = m.node("Where", [mask, mean, a], f"A_{n + 1}")
    m.output(a, FLOAT, points, points)
    return m
