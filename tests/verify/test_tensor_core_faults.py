"""Faults planted into a kernel on tensor cores are caught; the unedited kernel is clean."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

import pytest

import engine
from tests.semantics.single import write_model
from tests.support.needs import needs_compiler
from tests.verify.test_planted_faults import MAIN_LOOP_BARRIER, Fault, assert_caught

FOLDER = tempfile.TemporaryDirectory()
"""Of the model, which is read again when its values are made."""


@lru_cache
def product() -> engine.Kernel:
    """96 x 80 halves with a bias, over ten tiles of 16 in three stages."""
    path = write_model(
        Path(FOLDER.name) / "product.onnx",
        [("MatMul", ["left", "right"], ["p"], {}), ("Add", ["p", "bias"], ["y"], {})],
        {"left": ("float16", (96, 160)), "right": ("float16", (160, 80)), "bias": ("float16", (80,))},
        ["y"],
    )
    (group,) = engine.fuse(engine.load(path)).groups
    marks = ("i: mark block 64", "i: mark warp 32", "j: mark block 64", "j: mark warp 32", "k: mark tile 16")
    text = "advice user\n" + "".join(f"  S0 @ {line}\n" for line in (*marks, "k: mark stages 3"))
    return engine.compile(group, engine.merge_advice(engine.default_recipe(group), group, text))


STORED = r"\.store"
FAULTS = (
    Fault("barrier of the main loop removed", product, MAIN_LOOP_BARRIER, r"\1;", ("race",), r"ldmatrix|async_copy"),
    Fault("wait one short", product, r"async_wait<1>", "async_wait<2>", ("unfinished copy",), r"ldmatrix"),
    Fault(
        "prologue short by one tile", product, r"ahead < 2;", "ahead < 1;",
        ("uninitialised", "unfinished copy"), "ldmatrix",
    ),
    Fault(
        "stage read one too late", product, r"ldmatrix_x4\((.*)\(tile % 3\)", r"ldmatrix_x4(\1((tile + 1) % 3)",
        ("unfinished copy", "uninitialised", "race"), "ldmatrix|async_copy",
    ),
    Fault(
        "tile read without the permutation of its chunks", product, r"(ldmatrix_x4_trans\(.*)swizzle<\d+, f16>",
        r"\1", ("wrong result",), STORED,
    ),
    Fault(
        "permutation of another row length", product, r"(ldmatrix_x4\(.*)swizzle<32, f16>", r"\1swizzle<64, f16>",
        ("wrong result",), STORED,
    ),
    Fault("rows of the sums exchanged", product, r"(acc\[r\]\[s\])\[h\]", r"\1[1 - h]", ("wrong result",), STORED),
    Fault("columns of a fragment exchanged", product, r"(_part\[p\])\[h\]", r"\1[1 - h]", ("wrong result",), STORED),
    Fault("first fragment for every row", product, r"(mma_.*_part)\[r\]", r"\1[0]", ("wrong result",), STORED),
    Fault("load without the transposition", product, "ldmatrix_x4_trans", "ldmatrix_x4", ("wrong result",), STORED),
    Fault(
        "row of another lane", product, r"(results\.store<2>\(.*)lane / 4", r"\1(lane / 4 ^ 1)", ("wrong result",),
        STORED,
    ),
    Fault("a product left out", product, r"mma_m16n8k16_f16\(.*\);", "if (tile) {};", ("wrong result",), STORED),
    Fault(
        "lanes that do not come to the product", product, r"(mma_m16n8k16_f16\(.*\);)", r"if (lane < 16) \1",
        ("divergent barrier",), "mma_",
    ),
    Fault(
        "results of other lanes read too early", product, r"(results\.store[\s\S]*?)warp_sync\(\);", r"\1;", ("race",),
        r"results",
    ),
    Fault(
        "results overwritten before all are read", product, r"(y\.store[\s\S]*?)warp_sync\(\);", r"\1;", ("race",),
        r"results",
    ),
    Fault("edge not zero-filled", product, r"left_inside_1 \? 8 : 0", "8", ("out of bounds",), "async_copy"),
)  # fmt: skip


@needs_compiler
def test_unedited_kernel_is_clean() -> None:
    report = engine.check(product())
    assert report.status == "pass", report.message
    assert product().tile.intrinsic == "mma_m16n8k16_f16"


@pytest.mark.few(8)
@needs_compiler
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught_at_its_line(fault: Fault) -> None:
    assert_caught(fault)
