"""Faults planted into a pipeline of both levels are caught; the unedited kernel is clean.

The loop over tiles holds three tiles in shared memory, the loop over a tile's two steps two sets of fragments, and the
wait for the next tile stands in the inner loop.
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
def nested() -> engine.Kernel:
    """96 x 80 halves with a bias, over ten tiles of 32, three in shared memory, two fragment sets in registers."""
    path = write_model(
        Path(FOLDER.name) / "product.onnx",
        [("MatMul", ["left", "right"], ["p"], {}), ("Add", ["p", "bias"], ["y"], {})],
        {"left": ("float16", (96, 320)), "right": ("float16", (320, 80)), "bias": ("float16", (80,))},
        ["y"],
    )
    (group,) = engine.fuse(engine.load(path)).groups
    marks = [f"{side}: mark {name} {size}" for side in "ij" for name, size in (("block", 64), ("warp", 32))]
    marks += ["k: mark tile 32", "k: mark slices 1", "k: mark stages 3", "k: mark register_stages 2"]
    text = "advice user\n" + "".join(f"  S0 @ {mark}\n" for mark in marks)
    return engine.compile(group, engine.merge_advice(engine.default_recipe(group), group, text))


LOOP = r"(for \(int tile = 0[\s\S]*?)"
BEFORE = r"(async_commit\(\);\n  \}\n  )"
"""The end of the copies before the loop."""
LATE = ("unfinished copy", "uninitialised", "race")
FAULTS = (
    Fault("wait in the loop one short", nested, LOOP + "async_wait<1>", r"\1async_wait<2>", LATE, "ldmatrix"),
    Fault("wait before the loop one short", nested, BEFORE + "async_wait<1>", r"\1async_wait<2>", LATE, "ldmatrix"),
    Fault(
        "wait a step too late", nested, r"if \(\(step \+ 1\) % 2 == 0\)", "if (step % 2 == 0 && tile > 0)",
        LATE, "ldmatrix|async_copy",
    ),
    Fault("wait in the loop missing", nested, LOOP + r"async_wait<1>\(\);", r"\1;", LATE, "ldmatrix"),
    Fault("barrier in the loop missing", nested, LOOP + r"barrier\(\);", r"\1;", ("race",), "ldmatrix|async_copy"),
    Fault(
        "barrier before the loop missing", nested, BEFORE + r"(async_wait<1>\(\);\s*)barrier\(\);", r"\1\2;",
        ("race",), "ldmatrix|async_copy",
    ),
    Fault("commit in the loop missing", nested, LOOP + r"async_commit\(\);", r"\1;", LATE, "ldmatrix|async_copy"),
    Fault("commit before the loop missing", nested, r"async_commit\(\);\n  \}", ";\n  }", LATE, "ldmatrix|async_copy"),
    Fault("first copies short by one tile", nested, "ahead < 2", "ahead < 1", LATE, "ldmatrix"),
    Fault(
        "first fragments missing", nested, r"  ldmatrix_x4\(left_part\[0\].*\n", "\n", ("wrong result",), r"\.store"
    ),
    Fault(
        "copied one stage too early", nested, r"(async_copy.*)\(\(tile \+ 2\) % 3\)", r"\1((tile + 1) % 3)",
        ("race", *LATE), "ldmatrix|async_copy",
    ),
    Fault(
        "copied from one tile too early", nested, r"(left_depth = .*)\+ 64", r"\1+ 32", ("wrong result",), r"\.store"
    ),
    Fault(
        "next tile read from the stage of this one", nested, r"(ldmatrix_x4\(.*)\(\(step \+ 1\) / 2 \+ tile\) % 3",
        r"\1tile % 3", ("wrong result", "race"), r"\.store|async_copy|ldmatrix",
    ),
    Fault(
        "fragments of this step, not the next", nested, r"(ldmatrix_x4_trans\(.*)\(step \+ 1\) % 2\) \* ",
        r"\1step % 2) * ", ("wrong result",), r"\.store",
    ),
    Fault(
        "fragments into the set in use", nested, r"left_part\[\(step \+ 1\) % 2\]", "left_part[step % 2]",
        ("wrong result",), r"\.store",
    ),
    Fault(
        "set of the other step multiplied", nested, r"(mma_.*)right_part\[step\]", r"\1right_part[1 - step]",
        ("wrong result",), r"\.store",
    ),
    Fault("copies go on too far", nested, r"if \(tile < 8\)", "if (tile < 9)", ("out of bounds",), "async_copy"),
    Fault("copies end one tile early", nested, r"if \(tile < 8\)", "if (tile < 7)", ("wrong result",), r"\.store"),
    Fault(
        "copies written where they are not read", nested, r"(async_copy<16>\(right_tile, .*)swizzle<128",
        r"\1swizzle<64", ("wrong result",), r"\.store",
    ),
)  # fmt: skip


@needs_compiler
def test_unedited_kernel_is_clean() -> None:
    report = engine.check(nested())
    assert report.status == "pass", report.message
    assert (nested().tile.stages, nested().tile.register_stages) == (3, 2)


@pytest.mark.few(9)
@needs_compiler
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught_at_its_line(fault: Fault) -> None:
    assert_caught(fault)
