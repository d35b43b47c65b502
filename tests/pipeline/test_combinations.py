"""Both levels of the pipeline together: stages 1 to 6 of shared memory by 1, 2 and 4 of registers, ragged sizes.

Every kernel runs whole in the emulator, with copies that land as late and as early as they may, against NumPy.  The
normal run takes a spread in which every number of stages occurs; the slow one takes all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import ORDERS
from tests.kernels.test_tensor_cores import ROUNDING, halves
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler

ALL = [(shared, register) for shared in range(1, 7) for register in (1, 2, 4)]
SPREAD = [(1, 2), (2, 4), (3, 2), (4, 1), (5, 4), (6, 2)]
SIZES = {"rows": 40, "columns": 24, "depth": 424}
"""Seven tiles of 64 depths, the last one ragged."""


MATMUL: list[Node] = [("MatMul", ["left", "right"], ["y"], {})]


@dataclass(frozen=True)
class Case:
    """A group of one kernel with its inputs, and what NumPy makes of them."""

    nodes: list[Node]
    arrays: dict[str, np.ndarray]
    expected: Callable[[dict[str, np.ndarray]], np.ndarray]
    depth: str
    """Name of the dimension that is reduced."""
    tile: int = 64
    numerics: str = ""
    most: int = 6
    """Stages of shared memory: 2 where elements go through registers, which hold one tile."""


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def numpy_product(x: dict[str, np.ndarray]) -> np.ndarray:
    return np.matmul(wide(x["left"]), wide(x["right"]))


def matmul() -> Case:
    m, n, k = SIZES.values()
    arrays = {"left": halves(1, (m, k), k**-0.5), "right": halves(2, (k, n))}
    return Case(MATMUL, arrays, numpy_product, "k")


def batched() -> Case:
    m, n, k = SIZES.values()
    arrays = {"left": halves(3, (2, m, k), k**-0.5), "right": halves(4, (2, k, n))}
    return Case(MATMUL, arrays, numpy_product, "k")


def fused() -> Case:
    """A computed factor, a bias and a residual: `relu` runs on fragments, the rest on sums."""
    m, n, k = SIZES.values()
    arrays = {
        "left": halves(5, (m, k), k**-0.5), "right": halves(6, (k, n)),
        "bias": halves(7, (n,)), "residual": halves(8, (m, n)),
    }  # fmt: skip
    nodes: list[Node] = [
        ("Relu", ["left"], ["r"], {}), ("MatMul", ["r", "right"], ["p"], {}), ("Add", ["p", "bias"], ["s"], {}),
        ("Add", ["s", "residual"], ["y"], {}),
    ]  # fmt: skip

    def expected(x: dict[str, np.ndarray]) -> np.ndarray:
        return wide(np.maximum(x["left"], 0)) @ wide(x["right"]) + wide(x["bias"]) + wide(x["residual"])

    return Case(nodes, arrays, expected, "k")


def convolution() -> Case:
    """3 x 3 over an image in tf32: floats have asynchronous copies one by one."""
    rng = np.random.default_rng(9)
    image = rng.integers(-8, 9, (1, 27, 7, 9)).astype(np.float32)
    weight = rng.integers(-8, 9, (20, 27, 3, 3)).astype(np.float32)

    def expected(x: dict[str, np.ndarray]) -> np.ndarray:
        windows = np.lib.stride_tricks.sliding_window_view(wide(x["image"]), (3, 3), (2, 3))
        return np.einsum("nchwrs,ocrs->nohw", windows, wide(x["weight"]))

    nodes: list[Node] = [("Conv", ["image", "weight"], ["y"], {"kernel_shape": [3, 3]})]
    return Case(nodes, {"image": image, "weight": weight}, expected, "innermost", 32, "tf32")


def windows_of_halves() -> Case:
    """No copy of 2 bytes is asynchronous: those of the image go through registers."""
    arrays = {"image": halves(11, (1, 27, 7, 9)), "weight": halves(12, (20, 27, 3, 3), 243**-0.5)}

    def expected(x: dict[str, np.ndarray]) -> np.ndarray:
        seen = np.lib.stride_tricks.sliding_window_view(wide(x["image"]), (3, 3), (2, 3))
        return np.einsum("nchwrs,ocrs->nohw", seen, wide(x["weight"]))

    nodes: list[Node] = [("Conv", ["image", "weight"], ["y"], {"kernel_shape": [3, 3]})]
    return Case(nodes, arrays, expected, "innermost", most=2)


def on_cuda_cores() -> Case:
    rng = np.random.default_rng(10)
    arrays = {"left": rng.integers(-8, 9, (20, 107)), "right": rng.integers(-8, 9, (107, 12))}
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    return Case(MATMUL, arrays, numpy_product, "k", 16)


CASES = (matmul, batched, fused, convolution, windows_of_halves, on_cuda_cores)


def kernel_of(case: Case, shared: int, register: int, folder: Path) -> engine.Kernel:
    inputs = {name: (str(array.dtype), array.shape) for name, array in case.arrays.items()}
    plan = engine.fuse(engine.load(write_model(folder / "m.onnx", case.nodes, inputs, ["y"])))
    (group,) = plan.groups
    recipe = engine.default_recipe(group, numerics={"tensor_cores": "tf32"} if case.numerics else None)
    depth = next(s for s in group.program.statements if s.reduction).reduced[-1].name
    wishes = [("tile", case.tile), ("slices", 1), ("split_k", 1), ("stages", shared), ("register_stages", register)]
    text = "".join(f"  all @ {depth}: mark {name} {value}\n" for name, value in wishes)
    return engine.compile(group, engine.merge_advice(recipe, group, "advice user\n" + text))


def check(case: Case, shared: int, register: int, folder: Path) -> None:
    kernel = kernel_of(case, shared, register, folder)
    assert (kernel.tile.stages, kernel.tile.register_stages) == (min(shared, case.most), register)
    expected = case.expected(case.arrays)
    arrays = {b.array: case.arrays[b.array] for b in kernel.source.buffers if b.read}
    for order in ORDERS:
        emulation, outputs, written = emulate(kernel.source, arrays, order=order)
        assert not emulation.findings, emulation.findings[0]
        (name,) = outputs
        assert written[name].all()
        error = np.abs(wide(outputs[name].reshape(expected.shape)) - expected)
        assert (error <= 4 * ROUNDING * (np.abs(expected) + 1)).all()


@pytest.mark.few(4)
@needs_compiler
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("number", range(2))
def test_a_spread_of_stages(case: Callable[[], Case], number: int, tmp_path: Path) -> None:
    at = CASES.index(case) * 2 + number
    check(case(), *SPREAD[at % len(SPREAD)], tmp_path)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize(("shared", "register"), ALL)
def test_all_stages(case: Callable[[], Case], shared: int, register: int, tmp_path: Path) -> None:
    check(case(), shared, register, tmp_path)
