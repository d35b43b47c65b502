"""Kernels written by hand in tests/execution/kernels, with their launch, inputs and a NumPy reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from engine.tile.source import CudaSource, GlobalWorkspace, Parameter

FOLDER = Path(__file__).parent / "kernels"

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Written:
    """A kernel, values for its inputs, and what it must compute (output name, value, tolerance)."""

    source: CudaSource
    inputs: Arrays
    output: str
    expected: np.ndarray
    tolerance: float

    def with_text(self, old: str, new: str) -> Written:
        """The same kernel with one place of its text replaced."""
        assert self.source.text.count(old) == 1, f"{old!r} occurs {self.source.text.count(old)} times"
        return replace(self, source=replace(self.source, text=self.source.text.replace(old, new)))

    def line_of(self, part: str) -> int:
        """1-based line of the only place where `part` occurs."""
        lines = [n for n, line in enumerate(self.source.text.splitlines(), 1) if part in line]
        assert len(lines) == 1, f"{part!r} occurs on lines {lines}"
        return lines[0]


def _kernel(
    name: str, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int, inputs: Arrays, output: str,
    expected: np.ndarray, tolerance: float,
) -> Written:  # fmt: skip
    buffers = [Parameter(f"{n}_", n, str(v.dtype), v.size, True, False) for n, v in inputs.items()]
    buffers.append(Parameter(f"{output}_", output, str(expected.dtype), expected.size, False, True))
    text = (FOLDER / f"{name}.cu").read_text()
    source = CudaSource(text, name, grid, block, shared, tuple(buffers), ())
    return Written(source, inputs, output, expected, tolerance)


def vector_add() -> Written:
    random = np.random.default_rng(1)
    x, y = random.standard_normal((2, 1000), np.float32)
    return _kernel("vector_add", (2, 1, 1), (128, 1, 1), 0, {"x": x, "y": y}, "z", x + y, 0.0)


def block_reduction() -> Written:
    x = np.random.default_rng(2).standard_normal((6, 200), np.float32)
    expected = x.astype(np.float64).sum(1).astype(np.float32)
    return _kernel("block_reduction", (6, 1, 1), (256, 1, 1), 1024, {"x": x}, "y", expected, 1e-5)


def warp_softmax() -> Written:
    """All values are far below 0, so that a maximum that starts at 0 shows."""
    x = (np.random.default_rng(3).standard_normal((10, 50)) - 200).astype(np.float16)
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    expected = (powers / powers.sum(1, keepdims=True)).astype(np.float16)
    return _kernel("warp_softmax", (3, 1, 1), (128, 1, 1), 0, {"x": x}, "y", expected, 1e-3)


def transpose() -> Written:
    x = np.random.default_rng(4).standard_normal((70, 50), np.float32)
    return _kernel("transpose", (2, 3, 1), (32, 8, 1), 4224, {"x": x}, "y", np.ascontiguousarray(x.T), 0.0)


def matmul(stages: int = 3) -> Written:
    random = np.random.default_rng(5)
    a, b = random.standard_normal((60, 72), np.float32), random.standard_normal((72, 64), np.float32)
    expected = (a.astype(np.float64) @ b).astype(np.float32)
    kernel = _kernel("matmul", (2, 2, 1), (64, 1, 1), stages * 4096, {"a": a, "b": b}, "c", expected, 1e-4)
    return kernel if stages == 3 else kernel.with_text("constexpr int STAGES = 3;", f"constexpr int STAGES = {stages};")


def grid_steps() -> Written:
    """Blocks that wait for each other: in each of 5 steps they read what others stored in the one before."""
    x = np.random.default_rng(6).standard_normal(384, np.float32)
    now, read = x.astype(np.float64), np.zeros(384)
    for _ in range(5):
        other = np.roll(now, -64)
        read += other
        now = other / 2 + now[::37].sum() / 8 + read / 16
    kernel = _kernel("grid_steps", (6, 1, 1), (64, 1, 1), 256, {"x": x}, "y", now.astype(np.float32), 1e-5)
    own = (
        GlobalWorkspace("parts_", "parts", "float32", 2 * 384, 4, False),
        GlobalWorkspace("arrivals_", "arrivals", "int32", 1, 4, True),
    )
    return replace(kernel, source=replace(kernel.source, workspaces=own, resident=1))


ALL: Mapping[str, Callable[[], Written]] = {
    "vector_add": vector_add,
    "block_reduction": block_reduction,
    "warp_softmax": warp_softmax,
    "transpose": transpose,
    "matmul, 2 stages": lambda: matmul(2),
    "matmul, 3 stages": matmul,
    "grid_steps": grid_steps,
}
