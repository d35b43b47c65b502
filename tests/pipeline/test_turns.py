"""Row-wise kernels in turns: what a block's threads load of the next rows is copied while they use these."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

import pytest

import engine
from engine.execution.emulate.emulate import emulate
from engine.execution.nvrtc import compile_cuda
from engine.target import ARCHITECTURES
from engine.tile.nodes import AsyncCopy, operations
from tests.kernels.test_tensor_cores import halves
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.verify.test_planted_faults import Fault, assert_caught

FOLDER = tempfile.TemporaryDirectory()
"""Of the model whose kernel is edited, which is read again when its values are made."""
SOFTMAX: list[Node] = [("Softmax", ["x"], ["y"], {"axis": -1})]
RESIDUAL: list[Node] = [("Add", ["x", "residual"], ["s"], {}), ("Softmax", ["s"], ["y"], {"axis": -1})]


def in_turns(
    folder: Path, shape: tuple[int, int], turns: int, stages: int, *more: str, kind: str = "float32",
    nodes: list[Node] = SOFTMAX,
) -> engine.Kernel:  # fmt: skip
    used = {name for _, names, _, _ in nodes for name in names} & {"x", "residual"}
    path = write_model(folder / "m.onnx", nodes, dict.fromkeys(sorted(used), (kind, shape)), ["y"])
    (group,) = engine.fuse(engine.load(path)).groups
    asked = ("block 8", f"turns {turns}", f"stages {stages}")
    wishes = [*(f"all @ outermost: mark {one}" for one in asked), *more]
    text = "advice user\n" + "".join(f"  {wish}\n" for wish in wishes)
    return engine.compile(group, engine.merge_advice(engine.default_recipe(group), group, text))


CASES = [
    # shape, turns, stages, lanes of a row, type, nodes
    ((96, 128), 4, 2, 32, "float32", SOFTMAX),
    ((96, 130), 3, 3, 32, "float32", SOFTMAX),
    ((50, 129), 7, 2, 32, "float32", SOFTMAX),
    ((24, 1024), 6, 4, 128, "float32", SOFTMAX),
    ((64, 256), 8, 6, 32, "float16", SOFTMAX),
    ((40, 1000), 5, 3, 64, "float16", RESIDUAL),
    ((48, 256), 6, 1, 32, "float32", SOFTMAX),
]


@needs_compiler
@pytest.mark.parametrize(("shape", "turns", "stages", "lanes", "kind", "nodes"), CASES)
def test_rows_in_turns(
    shape: tuple[int, int], turns: int, stages: int, lanes: int, kind: str, nodes: list[Node], tmp_path: Path
) -> None:
    """Ragged rows and columns, one warp and several to a row, one and two arrays: whole kernels, both copy orders."""
    kernel = in_turns(tmp_path, shape, turns, stages, f"S0 @ innermost: mark lane {lanes}", kind=kind, nodes=nodes)
    assert (kernel.tile.constants["TURNS"], kernel.tile.stages) == (turns, stages)
    sources = {op.source for op in operations(kernel.tile.body) if isinstance(op, AsyncCopy)}
    assert sources == ({"x", "residual"} if nodes is RESIDUAL else {"x"})
    report = engine.check(kernel)
    assert report.status == "pass", report.message
    assert report.blocks_run == report.blocks_total


@needs_compiler
def test_columns_in_turns() -> None:
    """A block takes several groups of columns, of 1000 rows: too many for two stages of them."""
    plan = engine.fuse(engine.load(Path(__file__).parents[2] / "resources" / "models" / "column_sum_1000x384.onnx"))
    (group,) = plan.groups
    text = "advice user\n  all @ outermost: mark turns 3\n  all @ outermost: mark stages 2\n"
    kernel = engine.compile(group, engine.merge_advice(engine.default_recipe(group), group, text))
    assert (kernel.tile.constants["TURNS"], kernel.tile.stages) == (3, 1)
    (_, told) = (v for v in kernel.verdicts if v.placed.author == "user")
    assert "2 stages need 256,256 bytes of shared memory" in told.because
    report = engine.check(kernel)
    assert report.status == "pass", report.message


@needs_compiler
def test_neighbours_copy_to_neighbouring_banks(tmp_path: Path) -> None:
    kernel = in_turns(tmp_path, (64, 512), 4, 2, kind="float16")
    emulation, _, _ = emulate(kernel.source, {"x": halves(1, (64, 512))})
    counted = [count for count in emulation.counts if count.kind in ("shared load", "async copy")]
    assert len(counted) >= 2 and all(count.conflicts == 0 for count in counted)


@needs_nvrtc
def test_turns_do_not_spill(tmp_path: Path) -> None:
    kernel = in_turns(tmp_path, (4096, 1024), 4, 3)
    assert [compile_cuda(kernel.source.text, a).spill_bytes for a in ARCHITECTURES] == [0, 0]


REFUSED = [
    # shape, turns, stages, type, mark, outcome
    ((96, 128), 5, 2, "float32", "turns", "turns 4: this kernel takes a divisor of its 12 blocks"),
    ((96, 128), 1, 2, "float32", "stages", "there is nothing to copy ahead: ask for turns"),
    ((96, 128), 2, 4, "float32", "stages", "stages 2: the loop over turn has 2 iterations"),
    ((96, 127), 4, 2, "float16", "stages", "no load of the rows is 4, 8 or 16 bytes wide, as cp.async is"),
    ((96, 10240), 8, 6, "float32", "stages", "stages 5: 6 stages need 245,"),
]


@pytest.mark.parametrize(("shape", "turns", "stages", "kind", "name", "because"), REFUSED)
def test_what_cannot_be_had(
    shape: tuple[int, int], turns: int, stages: int, kind: str, name: str, because: str, tmp_path: Path
) -> None:
    kernel = in_turns(tmp_path, shape, turns, stages, kind=kind)
    told = [v for v in kernel.verdicts if v.placed.author == "user" and f"mark {name} " in str(v.placed.entry)]
    assert [v.outcome for v in told] == ["relaxed"]
    assert because in told[0].because


@lru_cache
def good() -> engine.Kernel:
    return in_turns(Path(FOLDER.name), (60, 1030), 5, 3, "S0 @ innermost: mark lane 128")


LATE = ("unfinished copy", "uninitialised", "race")
FAULTS = (
    Fault("wait one short", good, "async_wait<1>", "async_wait<2>", LATE, "x_rows"),
    Fault("wait missing", good, r"async_wait<1>\(\);", ";", LATE, "x_rows"),
    Fault("first copies short by one turn", good, "ahead < 2", "ahead < 1", LATE, "x_rows"),
    Fault("stage of another turn read", good, r"(x_rows\.load.*)turn % 3", r"\1(turn + 1) % 3", LATE, "x_rows"),
    Fault("commit missing", good, r"(for \(int turn[\s\S]*?)async_commit\(\);", r"\1;", LATE, "x_rows"),
    Fault("copies go on too far", good, r"if \(turn < 3\)", "if (turn < 4)", ("out of bounds",), "async_copy"),
)  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught_at_its_line(fault: Fault) -> None:
    assert_caught(fault)
