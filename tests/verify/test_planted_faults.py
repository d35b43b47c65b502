"""Faults planted into generated kernels are caught, with the line that shows them; the unedited kernels are clean."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import pytest

import engine
from engine.api import group_values
from engine.verify.kernel import check_kernel

MODELS = Path(__file__).parents[2] / "resources" / "models"


@lru_cache
def kernel(file: str, group: str, *edits: tuple[str, tuple[str, object]]) -> engine.Kernel:
    """A kernel of a shipped model; edits change marks: (mark name, value) by statement @ dimension."""
    plan = engine.fuse(engine.load(MODELS / file))
    chosen = plan.group(group)
    recipe = engine.default_recipe(chosen)
    for place, mark in edits:
        statement, dimension = place.split("@")
        recipe = recipe.advise("user", engine.entry(statement, mark=mark, at=dimension))
    return engine.compile(chosen, recipe)


def matmul(stages: int = 3) -> engine.Kernel:
    alone = ("S0@k", ("split_k", 1))
    return kernel("matmul_bias_gelu_128x256x512.onnx", "matmul_0", ("S0@k", ("stages", stages)), alone)


def softmax() -> engine.Kernel:
    return kernel("softmax_96x512.onnx", "softmax_0")


def wide_softmax() -> engine.Kernel:
    return kernel("softmax_96x512.onnx", "softmax_0", ("S0@innermost", ("lane", 128)))


def odd() -> engine.Kernel:
    return kernel("add_relu_odd_3x5x127.onnx", "add_0")


def column() -> engine.Kernel:
    return kernel("column_sum_1000x384.onnx", "reducesum_0")


def shared_column() -> engine.Kernel:
    return kernel("column_sum_1000x384.onnx", "reducesum_0", ("S0@innermost", ("split_k", 4)))


def transpose() -> engine.Kernel:
    return kernel("transpose_2x12x64x64.onnx", "transpose_0")


def layernorm() -> engine.Kernel:
    return kernel("layernorm_64x768.onnx", "layernorm_0")


KERNELS = (matmul, softmax, wide_softmax, odd, column, shared_column, transpose, layernorm)


@dataclass(frozen=True)
class Fault:
    """One edit of a kernel's text: the first match of `pattern` becomes `text`."""

    name: str
    of: Callable[[], engine.Kernel]
    pattern: str
    text: str
    kinds: tuple[str, ...]
    """Findings of which at least one must appear ..."""
    line: str
    """... at a line that matches this."""


MAIN_LOOP_BARRIER = r"(for \(int tile = 0.*\n\s*async_wait<1>\(\);\n\s*)barrier\(\);"

FAULTS = (
    Fault("barrier of the main loop removed", matmul, MAIN_LOOP_BARRIER, r"\1;", ("race",), r"_tile"),
    Fault("barrier of a transpose removed", transpose, r"barrier\(\);", ";", ("race",), r"_tile"),
    Fault("barrier of a column sum removed", column, r"barrier\(\);", ";", ("race", "uninitialised"), r"_parts"),
    Fault("barrier of a wide row removed", wide_softmax, r"barrier\(\);", ";", ("race", "uninitialised"), r"_parts"),
    Fault(
        "row and column of the result swapped", matmul, r"\.store<4>\(row \* (\d+) \+ column",
        r".store<4>(column * \1 + row",
        ("out of bounds", "misaligned", "written twice"), r"\.store<4>",
    ),
    Fault("tile indices swapped", transpose, r"row \* 32 \+ \(row / 4\) \* 4 \+ written",
          "written * 32 + (written / 4) * 4 + row", ("wrong result",), r"\.store"),
    Fault("guard one too wide", odd, r"element < 1905", "element < 1906", ("out of bounds",), r"\.(load|store)"),
    Fault("guard one too narrow", odd, r"element < 1905", "element < 1904", ("not written",), r"\.store"),
    Fault(
        "element before the array", softmax, r"\.load<4>\((.*)\);", r".load<4>(\1 - 4);",
        ("out of bounds",), r"\.load",
    ),
    Fault(
        "element after the array", softmax, r"\.load<4>\((.*)\);", r".load<4>(\1 + 4);",
        ("out of bounds",), r"\.load",
    ),
    Fault("misaligned vector", softmax, r"\.load<4>\((.*)\);", r".load<4>(\1 + 1);", ("misaligned",), r"\.load"),
    Fault("sum starts at one", softmax, r"(\w+_acc) = 0\.0f;", r"\1 = 1.0f;", ("wrong result",), r"\.store"),
    Fault("maximum starts at zero", softmax, r"= NEG_INF;", "= 99.0f;", ("wrong result",), r"\.store"),
    Fault(
        "half of the lanes reduced", softmax, r"warp_reduce<Sum>", "warp_reduce<Sum, 16>",
        ("wrong result",), r"\.store",
    ),
    Fault("reduction left out", layernorm, r"\w+ = warp_reduce<Sum>\(\w+\);", ";", ("wrong result",), r"\.store"),
    Fault(
        "stage read one too late", matmul, r"load<4>\(\(tile % 3\)", "load<4>(((tile + 1) % 3)",
        ("unfinished copy", "uninitialised", "race"), r"_tile",
    ),
    Fault(
        "copy into the stage in use", matmul, r"\(tile \+ 2\) % 3", "tile % 3",
        ("race", "unfinished copy"), r"_tile",
    ),
    Fault(
        "wait one short", matmul, r"async_wait<1>", "async_wait<2>", ("unfinished copy",), r"_tile",
    ),
    Fault(
        "commit missing", matmul, r"(for \(int tile[\s\S]*?)async_commit\(\);", r"\1;",
        ("unfinished copy", "race"), r"_tile|async",
    ),
    Fault(
        "a copy left out", matmul, r"async_copy<\d+>\(.*\);", ";",
        ("uninitialised", "unfinished copy"), r"_tile",
    ),
    Fault("one tile left out", matmul, r"tile < 4;", "tile < 3;", ("wrong result",), r"\.store"),
    Fault(
        "two blocks write one element", softmax, r"store<4>\(block \* 512", "store<4>(block / 2 * 512",
        ("written twice",), r"\.store",
    ),
    Fault(
        "barrier under a branch", wide_softmax, r"barrier\(\);", "if (threadIdx.x < 64) barrier();",
        ("divergent barrier",), r"barrier",
    ),
    Fault(
        "one counter for all teams", shared_column, r"\(arrivals, \w+\)", "(arrivals, 0)",
        ("wrong result", "not written", "uninitialised"), r"\.store|is_last_of|block_of_team|load",
    ),
    Fault(
        "last of fewer blocks", shared_column, r"is_last_of<4>", "is_last_of<2>",
        ("race", "uninitialised", "written twice", "wrong result"), r".",
    ),
    Fault(
        "parts of all blocks in one place", shared_column, r"(y_parts_of_blocks\.store\()part_of_team \* \d+ \+", r"\1",
        ("race", "uninitialised", "wrong result"), r".",
    ),
    Fault(
        "wrong bias element", matmul, r"bias\.load<4>\(column\)", "bias.load<4>(column ^ 4)",
        ("wrong result",), r"\.store",
    ),
)  # fmt: skip


@pytest.mark.parametrize("of", KERNELS, ids=lambda of: of.__name__)
def test_unedited_kernel_is_clean(of: Callable[[], engine.Kernel]) -> None:
    report = engine.check(of())
    assert report.status == "pass", report.message
    assert not report.findings
    assert report.elements_compared > 0
    assert report.orders == ("late", "early")


@pytest.mark.few(12)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught_at_its_line(fault: Fault) -> None:
    assert_caught(fault)


def assert_caught(fault: Fault) -> None:
    """The fault makes the check fail with one of its findings at one of its lines."""
    good = fault.of()
    text, edits = re.subn(fault.pattern, fault.text, good.source.text, count=1)
    assert edits == 1 and text != good.source.text, f"nothing to edit in\n{good.source.text}"
    bad = replace(good, source=replace(good.source, text=text))
    expected, before = group_values(good.group)
    report = check_kernel(bad, expected, before)
    assert report.status == "fail"
    lines = text.splitlines()
    hits = [f for f in report.findings if f.kind in fault.kinds and f.line and re.search(fault.line, lines[f.line - 1])]
    shown = "\n".join(f"{f.kind} at {f.line}: {f.message}" for f in report.findings)
    assert hits, f"expected {fault.kinds} at a line with {fault.line}; found\n{shown}\nin\n{text}"
