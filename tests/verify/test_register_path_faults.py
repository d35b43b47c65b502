"""Faults planted into a pipeline whose tiles go through registers are caught; the unedited kernel is clean.

The window of a convolution of halves moves along rows, so that no asynchronous copy is small enough: a thread loads its
elements of the next tile before it uses one, and stores them in the inner loop, before the barrier.
"""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

import pytest

import engine
from tests.semantics.single import write_model
from tests.support.needs import needs_compiler
from tests.verify.test_planted_faults import Fault, assert_caught

FOLDER = tempfile.TemporaryDirectory()
"""Of the model, which is read again when its values are made."""


@lru_cache
def held() -> engine.Kernel:
    """3 x 3 over 2 x 16 x 9 x 11 halves, 24 channels: five tiles of 32, two in shared memory, two fragment sets."""
    path = write_model(
        Path(FOLDER.name) / "convolution.onnx",
        [("Conv", ["x", "w"], ["y"], {})],
        {"x": ("float16", (2, 16, 9, 11)), "w": ("float16", (24, 16, 3, 3))},
        ["y"],
    )
    (group,) = engine.fuse(engine.load(path)).groups
    wishes = "advice user\n  all @ o: mark tile 32\n  all @ o: mark register_stages 2\n"
    return engine.compile(group, engine.merge_advice(engine.default_recipe(group), group, wishes))


LOOP = r"(for \(int tile = 0[\s\S]*?)"
TILE = ("race", "uninitialised", "wrong result")
USES = r"ldmatrix|x_tile\.store|y\.store"
FAULTS = (
    Fault("stored into the stage in use", held, r"(x_tile\.store\(\()\(tile \+ 1\) % 2", r"\1tile % 2", TILE, USES),
    Fault("loaded from the tile in use", held, r"(x_depth = tile \* 32 \+ x_outer) \+ 32", r"\1", TILE, USES),
    Fault("nothing stored in the loop", held, LOOP + r"x_tile\.store\([^;]*;", r"\1;", TILE, USES),
    Fault("nothing stored before the loop", held, r"x_tile\.store\([^;]*;", ";", TILE, USES),
    Fault("barrier after the stores missing", held, LOOP + r"barrier\(\);", r"\1;", ("race",), USES),
    Fault("loads end one tile early", held, r"if \(tile < 4\) (\{\n      #p)", r"if (tile < 3) \1", TILE, USES),
    Fault(
        "loads go on past the image", held, r"(for \(int tile[\s\S]*?)x_inside_1 \?", r"\1true ?",
        ("out of bounds",), r"x\.load",
    ),
    Fault("stored where it is not read", held, r"(x_tile\.store\(.*)swizzle<64", r"\1swizzle<128", TILE, USES),
    Fault("the registers of one element shared", held, r"x_held\[x_share\] = ", "x_held[0] = ", TILE, USES),
)  # fmt: skip


@needs_compiler
def test_unedited_kernel_is_clean() -> None:
    report = engine.check(held())
    assert report.status == "pass", report.message
    assert (held().tile.stages, held().tile.register_stages) == (2, 2)
    assert "x through registers" in held().source.text


@needs_compiler
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught_at_its_line(fault: Fault) -> None:
    assert_caught(fault)
