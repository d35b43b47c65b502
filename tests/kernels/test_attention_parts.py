"""Attention split over its keys: parts of blocks that meet in global memory, against float64; planted faults."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import ORDERS
from engine.execution.nvrtc import compile_cuda
from engine.recipe import walk_entries
from engine.target import ARCHITECTURES
from engine.tile.nodes import BreakIf, operations
from tests.kernels.test_attention import KINDS, agrees, compiled, is_on_tensor_cores, stored
from tests.semantics.single import Node, write_model
from tests.support.attentions import Attention, inputs_of
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.verify.test_planted_faults import Fault, assert_caught

FOLDER = tempfile.TemporaryDirectory()
"""Of the model whose kernel is edited, which is read again when its values are made."""


def key_of(group: engine.FusionGroup) -> str:
    """The name of the loop over keys."""
    entries = [entry for *_, entry in walk_entries(engine.default_recipe(group).groups[group.name])]
    return next(e.dimension for e in entries if isinstance(e.value, tuple) and e.value[0] == "tile")


def split(case: Attention, folder: Path, parts: int, tile: int = 16, *lines: str) -> engine.Kernel:
    """The kernel with so many blocks to each tile of queries."""
    key = key_of(stored(case).group(folder))
    return compiled(case, folder, f"S0 @ {key}: mark tile {tile}", f"S0 @ {key}: mark split_k {parts}", *lines)


CASES = [
    # parts, case
    (3, Attention(queries=1, keys=300, heads=6, mask="padding")),
    (5, Attention(queries=1, keys=77, heads=8, depth=64, head=48, shared_by=4)),
    (2, Attention(queries=70, keys=90, mask="add", batch=2)),
    (7, Attention(queries=40, keys=110, heads=4, shared_by=2, mask="causal")),
    (4, Attention(queries=40, keys=120, mask="infinite")),
    (3, Attention(queries=40, keys=48, mask="lowest", scale="before")),
    (2, Attention(queries=20, keys=40, depth=24, head=272, mask="padding")),
    (6, Attention(queries=90, keys=96, mask="triangle")),
    (3, Attention(queries=50, keys=46, mask="chosen triangle")),
]


def quick_or_slow(is_quick: bool, *values: object) -> object:
    return pytest.param(*values, marks=() if is_quick else (pytest.mark.slow,))


@pytest.mark.few(4)
@needs_compiler
@pytest.mark.parametrize(
    ("number", "dtype"),
    [quick_or_slow(n % 3 == k or n == 7, n, kind) for n in range(len(CASES)) for k, kind in enumerate(KINDS)],
)
def test_parts_make_one(number: int, dtype: str, tmp_path: Path) -> None:
    """Ragged keys, shared heads, results of several blocks; parts that are masked whole, rows that are in all parts."""
    parts, case = CASES[number]
    case = replace(case, dtype=dtype)
    kernel = split(case, tmp_path, parts)
    assert kernel.source.team == parts == kernel.tile.constants["PARTS"]
    assert is_on_tensor_cores(kernel) == (dtype != "float32")
    agrees(kernel, case, seed=number)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_parts_behind_a_diagonal_are_left_at_once(dtype: str, tmp_path: Path) -> None:
    """Three tiles of queries see 1, 2 and 3 of 4 parts of two tiles: the other parts have no key at all."""
    case = Attention(queries=96, keys=128, mask="triangle", dtype=dtype, heads=1)
    rows = stored(case).triangle
    kernel = split(case, tmp_path, 4, 16, "S0 @ i: mark block 32", "S0 @ i: mark stages 3")
    (left,) = (op for op in operations(kernel.tile.body) if isinstance(op, BreakIf))
    seen = [np.isfinite(rows[n : n + 32]).any(0) for n in (0, 32, 64)]
    assert left.runs == (sum(tile[k : k + 16].any() for tile in seen for k in range(0, 128, 16)), 3 * 8)
    agrees(kernel, case)


@needs_compiler
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_parts_are_pipelined(stages: int, tmp_path: Path) -> None:
    case = Attention(queries=24, keys=186, mask="add", heads=1)
    key = key_of(case.group(tmp_path))
    more = (f"S0 @ {key}: mark stages {stages}", f"S0 @ {key}: mark register_stages 2")
    kernel = split(case, tmp_path, 3, 32, *more)
    assert (kernel.source.team, kernel.tile.stages, kernel.tile.register_stages) == (3, min(stages, 2), 2)
    agrees(kernel, case)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_order_of_the_parts_is_fixed(dtype: str, tmp_path: Path) -> None:
    """Whichever block comes last, every bit is the same."""
    case = Attention(queries=20, keys=150, mask="add", dtype=dtype)
    kernel = split(case, tmp_path, 5)
    blocks = kernel.source.grid[0]
    arrays = inputs_of(kernel, case.values(0))
    comings = [range(blocks), (*range(3, blocks), 0, 1, 2), range(blocks - 1, -1, -1)]
    runs = [emulate(kernel.source, arrays, blocks=tuple(some), order=order) for some in comings for order in ORDERS]
    assert not any(emulation.findings for emulation, _, _ in runs)
    (name,) = runs[0][1]
    assert all(np.array_equal(runs[0][1][name], outputs[name]) for _, outputs, _ in runs)


@needs_compiler
def test_bfloat16(tmp_path: Path) -> None:
    nodes: list[Node] = [
        ("MatMul", ["q", "k"], ["s"], {}), ("Softmax", ["s"], ["p"], {"axis": -1}), ("MatMul", ["p", "v"], ["y"], {}),
    ]  # fmt: skip
    shapes = {"q": (2, 40, 32), "k": (2, 32, 100), "v": (2, 100, 32)}
    inputs = {name: ("bfloat16", shape) for name, shape in shapes.items()}
    (group,) = engine.fuse(engine.load(write_model(tmp_path / "m.onnx", nodes, inputs, ["y"], opset=22))).groups
    wishes = f"advice user\n  S0 @ {key_of(group)}: mark tile 16\n  S0 @ {key_of(group)}: mark split_k 4\n"
    kernel = engine.compile(group, engine.merge_advice(engine.default_recipe(group), group, wishes))
    assert kernel.source.team == 4 and "bf16" in kernel.tile.intrinsic
    assert engine.check(kernel).status == "pass"


DECODE = Attention(queries=1, keys=4096, heads=8, shared_by=4, depth=64, head=64, mask="padding")


@needs_compiler
@pytest.mark.parametrize("keys", [4096, 4001])
def test_decoding_from_file_to_checked_kernel(keys: int, tmp_path: Path) -> None:
    """One query and long keys, four heads of queries to one of keys: one launch, as the advisers want it."""
    plan = engine.fuse(engine.load(replace(DECODE, keys=keys).model(tmp_path)))
    assert len(plan.launches) == 1
    kernel = engine.compile(plan.groups[0])
    first = [v.outcome for v in kernel.verdicts if not any(v.placed.path[1:-1])]  # not those of other alternatives
    assert kernel.source.team > 8 and set(first) == {"honoured"}
    assert engine.check(kernel).status == "pass"


QUICK = {(1, 64, "tf32"), (1, 128, "float16"), (64, 128, "float16")}


@pytest.mark.few(1)
@needs_nvrtc
@pytest.mark.parametrize(
    ("queries", "head", "dtype"),
    [quick_or_slow((q, h, kind) in QUICK, q, h, kind) for q in (1, 64) for h in (64, 128) for kind in KINDS],
)
def test_parts_do_not_spill(queries: int, head: int, dtype: str, tmp_path: Path) -> None:
    heads = 4 if queries == 1 else 160
    case = Attention(queries=queries, keys=1001, depth=head, head=head, heads=heads, mask="add", dtype=dtype)
    group = stored(case).group(tmp_path)
    kernel = compiled(case, tmp_path, f"S0 @ {key_of(group)}: mark split_k 3")
    assert kernel.source.team == 3
    assert [compile_cuda(kernel.source.text, a).spill_bytes for a in ARCHITECTURES] == [0, 0]


@pytest.mark.parametrize(("asked", "given"), [(4, 4), (6, 5), (11, 10), (10**9, 10)])
def test_no_part_is_without_a_tile(asked: int, given: int, tmp_path: Path) -> None:
    """Ten tiles of keys: six parts of two tiles would leave the last one none."""
    kernel = split(Attention(queries=24, keys=150, mask="add", heads=1), tmp_path, asked)
    assert kernel.source.team == given
    (verdict,) = (v for v in kernel.verdicts if v.placed.author == "user" and "split_k" in str(v.placed.entry))
    assert verdict.outcome == ("honoured" if asked == given else "relaxed")
    needs = "at most 10, and no part without one of the 10 tiles of keys"
    assert asked == given or verdict.because == f"split_k {given}: this kernel takes {needs}"


VICTIM = Attention(queries=10, keys=80, depth=16, head=16)


@lru_cache
def good(mask: str = "add", dtype: str = "float16") -> engine.Kernel:
    return split(replace(VICTIM, mask=mask, dtype=dtype), Path(FOLDER.name), 3)


def on_cuda_cores() -> engine.Kernel:
    return good("add", "float32")


FAULTS = (
    Fault("nobody waits for the others", good, r"if \(!is_last_of.*return;", "barrier();", ("race",), r"_parts\.load"),
    Fault("every block stores", good, r"if \(!(is_last_of.*)\) return;", r"\1;", ("written twice",), r"y\.store"),
    Fault("a block too few", good, "is_last_of<3>", "is_last_of<2>", ("race", "wrong result"), "parts|is_last|y"),
    Fault("a block too many", good, "is_last_of<3>", "is_last_of<4>", ("unfinished team", "not written"), "is_last|y"),
    Fault("the maximum of another part", good, r"(other_largest_part_2 = .*)q \*", r"\1(q ^ 1) *",
          ("wrong result", "out of bounds"), "y|parts"),
    Fault("a sum left out", good, r"(moved to their maximum[\s\S]*)q < 3", r"\1q < 2", ("wrong result",), "y"),
    Fault("results of the own part twice", good, r"results\[0\]\[s / 2\]\[r\]\[s % 2\] = 0\.0f;", ";",
          ("wrong result",), "y"),
    Fault("sums of the own part twice", good, r"total\[r\] = 0\.0f;", ";", ("wrong result",), "y"),
    Fault("parts that are not moved", good, r"\+= \(other_result_part(.*) \* part_weight\)",
          r"+= other_result_part\1", ("wrong result",), "y"),
    Fault("rows at the same place", good, r"(largest_parts\.store\(.*)\brow\b", r"\g<1>0", ("written twice",), "parts"),
    Fault("rows past the last", good, r"if \(row_inside\) result_parts", "result_parts",
          ("out of bounds", "written twice"), "parts"),
    Fault("another tile's counter", good, r"\(arrivals, team\)", "(arrivals, 0)",
          ("race", "not written", "unfinished team"), "is_last|parts"),
    Fault("sums of other lanes on top", on_cuda_cores, r"&& thread % 16 == 0", "", ("written twice",), "parts"),
)  # fmt: skip


@pytest.mark.few(6)
@needs_compiler
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught_at_its_line(fault: Fault) -> None:
    assert_caught(fault)
