"""Tiles of products with three times a power of two rows: kernels are right, and refused where they cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.kernels.gemm.problem import config_of_tile, gemm_problem
from engine.tensorize.intrinsics import INTRINSICS
from engine.tuning.problem import SearchProblem, problem
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc

Sizes = tuple[int, int, int]
Tiles = tuple[tuple[int, int], tuple[int, int], int]
"""Rows and columns of a block, of a warp or thread, blocks that share the depth."""


def product(folder: Path, kind: str, shape: Sizes, turned: str = "") -> engine.FusionGroup:
    """The group of a product of so many rows, columns and depths, and what follows it.

    turned: which of "a", "b" and "y", the factors and the result, are transposed.
    """
    rows, columns, depth = shape
    left = (depth, rows) if "a" in turned else (rows, depth)
    right = (columns, depth) if "b" in turned else (depth, columns)
    attributes = {"transA": int("a" in turned), "transB": int("b" in turned)}
    inputs = {"left": (kind, left), "right": (kind, right)}
    nodes: list[Node] = [("Gemm", ["left", "right"], ["product"], attributes)]
    nodes += [("Transpose", ["product"], ["y"], {})] if "y" in turned else [("Neg", ["product"], ["y"], {})]
    path = write_model(folder / "product.onnx", nodes, inputs, ["y"])
    return engine.fuse(engine.load(path), "a100").groups[0]


def kernel_with(group: engine.FusionGroup, *wishes: str) -> engine.Kernel:
    text = "advice user\n" + "".join(f"  all @ {wish}\n" for wish in wishes)
    return engine.compile(group, engine.merge_advice(engine.default_recipe(group, "a100"), group, text))


RIGHT = [
    # type, product, transposed factors, tiles
    ("float16", (200, 136, 96), "", ((96, 64), (48, 32), 1)),
    ("float16", (100, 72, 160), "", ((48, 32), (48, 32), 1)),
    ("float16", (256, 128, 96), "", ((192, 64), (48, 32), 1)),
    ("float16", (300, 64, 512), "", ((96, 64), (48, 32), 2)),
    ("float16", (200, 136, 96), "b", ((96, 64), (48, 32), 1)),
    ("float16", (200, 136, 96), "y", ((96, 64), (48, 32), 1)),
    ("float32", (200, 136, 96), "y", ((96, 64), (6, 4), 1)),
    ("float32", (100, 72, 64), "by", ((48, 32), (3, 4), 2)),
    ("float32", (200, 136, 96), "", ((96, 64), (6, 4), 1)),
]  # fmt: skip


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("level", ["source", "ptx"])
@pytest.mark.parametrize(("kind", "shape", "turned", "tiles"), RIGHT)
def test_kernels_are_right(kind: str, shape: Sizes, turned: str, tiles: Tiles, level: str, tmp_path: Path) -> None:
    block, part, split_k = tiles
    name = "warp" if kind == "float16" else "thread"
    pairs = [(mark, at, n) for mark, of in (("block", block), (name, part)) for at, n in zip("ij", of, strict=True)]
    sides = [f"{at}: mark {mark} {n}" for mark, at, n in pairs]
    rest = ("k: mark slices 1", "k: mark stages 3", "k: mark tile 32", f"k: mark split_k {split_k}")
    kernel = kernel_with(product(tmp_path, kind, shape, turned), *sides, *rest)
    config = config_of_tile(kernel.tile)
    assert config is not None and (config.block, config.part) == ((*block, 32), part)
    assert (config.slices, config.split_k) == (1, split_k)
    asked = [v for v in kernel.verdicts if str(v.placed.entry) in {f"all @ {side}" for side in sides}]
    assert len(asked) == 4 and all(v.outcome == "honoured" for v in asked)
    found = engine.check(kernel, level=level)
    assert found.status == "pass", found.message


REFUSED = [
    ("float16", "", ("j: mark block 96",), "a power of two from 16 to 256"),  # rows of the tile lie along the columns
    ("float16", "a", ("i: mark block 96",), "a power of two from 16 to 256"),
    ("float32", "", ("j: mark block 96",), "a power of two up to 128"),  # columns are read as vectors
    ("float16", "", ("i: mark block 80",), "one of 16, 32, 48, 64, 96, 128, 192, 256"),
    ("float16", "", ("i: mark block 96", "i: mark warp 32"), "takes 48"),
    ("float16", "", ("i: mark block 96", "k: mark slices 2"), "slices share tiles of powers of two"),
]


@pytest.mark.parametrize(("kind", "turned", "wishes", "reason"), REFUSED)
def test_what_cannot_be_had_is_told(
    kind: str, turned: str, wishes: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    kernel = kernel_with(product(tmp_path, kind, (200, 136, 96), turned), *wishes)
    verdict = next(v for v in kernel.verdicts if str(v.placed.entry) == f"all @ {wishes[-1]}")
    assert (verdict.outcome, reason in verdict.because) == ("relaxed", True), verdict.because


@pytest.mark.parametrize(("turned", "has_them"), [("", True), ("b", True), ("a", False)])
def test_only_tiles_that_lie_along_the_depth_have_uneven_rows(turned: str, has_them: bool, tmp_path: Path) -> None:
    program = product(tmp_path, "float16", (200, 136, 96), turned).program
    assert gemm_problem(program, INTRINSICS["mma_m16n8k16_f16"]).takes_thirds == has_them
    assert gemm_problem(program, None).takes_thirds == has_them


@needs_compiler
def test_the_estimate_of_a_configuration_is_that_of_its_kernel(tmp_path: Path) -> None:
    """What programs of a search with such tiles are ranked by is what their kernels are predicted to take."""
    group = product(tmp_path, "float16", (1024, 2304, 768), "b")
    found = problem(group, engine.default_recipe(group, "a100"))
    assert isinstance(found, SearchProblem)
    uneven = [p for p in found.tasks[0].programs if p["row_tiles"] == 3]
    drawn = [uneven[n] for n in np.random.default_rng(5).choice(len(uneven), 8, replace=False)]
    for program in drawn:
        kernel = engine.compile(group, found.recipe_of(program))
        assert found.tasks[0].template.program_of(kernel) == program
        assert engine.predict(kernel).microseconds == pytest.approx(found.rank(program), rel=0.05)
