"""Blocks that share the terms of a row or column: each leaves its parts, the last one to come joins them."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.kernels.reduction.config import MOST_JOINS, ReductionConfig
from engine.kernels.reduction.space import PARTS, RowPrograms, row_tasks
from engine.support.units import MICROSECONDS
from engine.target import target
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc

Shape = tuple[int, ...]


def reduced(operation: str, axes: tuple[int, ...], **attributes: object) -> list[Node]:
    constant: Node = ("Constant", [], ["axes"], {"value_ints": list(axes)})
    return [constant, (operation, ["x", "axes"], ["y"], {"keepdims": 0, **attributes})]


def group_of(folder: Path, nodes: list[Node], shape: Shape, dtype: str = "float32") -> engine.FusionGroup:
    path = write_model(folder / "m.onnx", nodes, {"x": (dtype, shape)}, [nodes[-1][2][0]], opset=20)
    return engine.fuse(engine.load(path), target="a100").groups[0]


def shared(group: engine.FusionGroup, parts: int | None) -> engine.Kernel:
    """The group's kernel with so many blocks for a row as the user asks for; None: as the analyses choose."""
    recipe = engine.default_recipe(group)
    if parts is not None:
        summed = next(s.name for s in group.program.statements if s.reduction)
        recipe = recipe.advise("user", engine.entry(summed, mark=("split_k", parts), at="innermost"))
    return engine.compile(group, recipe)


def parts_of(kernel: engine.Kernel) -> int:
    config = kernel.tile.config
    assert isinstance(config, ReductionConfig)
    return config.layout.parts


CASES: dict[str, tuple[list[Node], Shape, str]] = {
    "full sum": (reduced("ReduceSum", (0,)), (50_003,), "float32"),
    "columns": (reduced("ReduceSum", (0,)), (2_048, 96), "float32"),
    "odd columns": (reduced("ReduceMin", (0,)), (1_501, 33), "int32"),
    "few rows": (reduced("ReduceMax", (1,)), (5, 20_000), "float32"),
    "planes": (reduced("ReduceMean", (0, 2)), (3, 7, 4_500), "float16"),
    "products": (reduced("ReduceProd", (1,)), (7, 5_000), "float32"),
    "norm": (reduced("ReduceL2", (1,)), (2, 32_768), "float32"),
    "log of the sum": (reduced("ReduceLogSum", (0,)), (20_001,), "float32"),
}  # fmt: skip


@needs_compiler
@needs_nvrtc
@pytest.mark.few(3)
@pytest.mark.parametrize("parts", [None, 3, 16])
@pytest.mark.parametrize("case", CASES)
def test_parts_are_joined(case: str, parts: int | None, tmp_path: Path) -> None:
    """In both orders of blocks, as text and as compiled."""
    nodes, shape, dtype = CASES[case]
    kernel = shared(group_of(tmp_path, nodes, shape, dtype), parts)
    for level in ("source", "ptx"):
        report = engine.check(kernel, level=level)
        assert report.status == "pass", f"{level}: {report.message}"
        assert report.elements_compared and report.orders == ("late", "early")
    if parts == 3:
        assert parts_of(kernel) in (2, 3)


@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_parts_narrower_than_a_word(dtype: str, tmp_path: Path) -> None:
    """Parts of several rows lie in one word: a block that stores its own hands nothing to readers of the others'."""
    kernel = shared(group_of(tmp_path, reduced("ReduceMax", (1,)), (5, 20_000), dtype), 16)
    assert parts_of(kernel) > 1
    report = engine.check(kernel, level="ptx")
    assert report.status == "pass", report.message


@pytest.mark.parametrize(("nodes", "shape", "least"), [
    (reduced("ReduceSum", (0,)), (1 << 24,), 64),
    (reduced("ReduceSum", (0,)), (65_536, 32), 64),
    (reduced("ReduceMax", (1,)), (4, 1 << 20), 16),
], ids=["full", "columns", "rows"])  # fmt: skip
def test_too_few_rows_are_shared_by_default(nodes: list[Node], shape: Shape, least: int, tmp_path: Path) -> None:
    """And the estimate is far below that of a kernel whose rows stay whole."""
    group = group_of(tmp_path, nodes, shape)
    chosen, alone = shared(group, None), shared(group, 1)
    assert parts_of(chosen) >= least and parts_of(alone) == 1
    assert engine.predict(chosen).microseconds < 0.2 * engine.predict(alone).microseconds


@pytest.mark.parametrize(("nodes", "shape"), [
    (reduced("ReduceSum", (1,)), (8_192, 512)),
    (reduced("ReduceSum", (0,)), (512, 65_536)),
], ids=["many rows", "many columns"])  # fmt: skip
def test_rows_enough_to_fill_the_machine_stay_whole(nodes: list[Node], shape: Shape, tmp_path: Path) -> None:
    assert parts_of(shared(group_of(tmp_path, nodes, shape), None)) == 1


@pytest.mark.parametrize(("nodes", "because"), [
    ([("Softmax", ["x"], ["y"], {"axis": 1})], "walked again"),
    ([("ReduceSum", ["x"], ["s"], {"keepdims": 1}), ("Sub", ["x", "s"], ["y"], {})], "walked again"),
    ([("ArgMax", ["x"], ["y"], {"axis": 1, "keepdims": 0})], "walked again"),
], ids=["softmax", "subtracted", "argmax"])  # fmt: skip
def test_why_not(nodes: list[Node], because: str, tmp_path: Path) -> None:
    """Where blocks cannot share a row, the mark stays with a note that says why."""
    group = group_of(tmp_path, nodes, (4, 8_192))
    kernel = shared(group, 4)
    notes = [str(note) for note in kernel.tile.notes.values()]
    assert kernel.tile.team == 1
    assert any(because in note for note in notes), notes


def test_blocks_share_a_row_though_their_number_does_not_divide_it(tmp_path: Path) -> None:
    """As many blocks as have a chunk, which is no power of two: near what a launch and three trips to memory take."""
    group = group_of(tmp_path, reduced("ReduceSum", (0,)), (50_000,))
    kernel, machine = shared(group, None), target("a100")
    assert parts_of(kernel) not in PARTS and parts_of(kernel) > 16
    least = machine.empty_kernel + 3 * machine.dram_latency.value
    assert engine.predict(kernel).microseconds < 1.1 * least * MICROSECONDS


@pytest.mark.few(3)
@pytest.mark.parametrize("case", CASES)
def test_every_program_is_a_kernel_of_its_own(case: str, tmp_path: Path) -> None:
    """Also where several numbers of blocks come to the same parts."""
    nodes, shape, dtype = CASES[case]
    kernel = shared(group_of(tmp_path, nodes, shape, dtype), None)
    for task in row_tasks(kernel.group, kernel):
        assert isinstance(task.template, RowPrograms)
        configs = [task.template.config(program) for program in task.programs]
        assert len(set(configs)) == len(configs) > 0


@pytest.mark.few(3)
@pytest.mark.parametrize("parts", [16, 49])
@pytest.mark.parametrize("case", ["full sum", "columns", "log of the sum"])
def test_work_is_that_of_the_kernel(case: str, parts: int, tmp_path: Path) -> None:
    """The closed form of the space and the counts of the compiled program agree."""
    nodes, shape, dtype = CASES[case]
    kernel = shared(group_of(tmp_path, nodes, shape, dtype), parts)
    assert parts_of(kernel) > 1
    (way,) = [t.template for t in row_tasks(kernel.group, kernel) if t.template.program_of(kernel)]
    program = way.program_of(kernel)
    assert program is not None
    told, counted = way.work(program), kernel.facts
    for name in ("blocks", "threads", "serial_steps", "team", "team_bytes", "shared_bytes", "l2_bytes"):
        assert getattr(told, name) == pytest.approx(getattr(counted, name), rel=0.05), name


@pytest.mark.few(3)
@pytest.mark.parametrize("case", CASES)
def test_no_thread_waits_for_many_parts(case: str, tmp_path: Path) -> None:
    """What a thread of the last block reads is under way at once, by default and in every program of the space."""
    nodes, shape, dtype = CASES[case]
    kernel = shared(group_of(tmp_path, nodes, shape, dtype), None)
    for task in row_tasks(kernel.group, kernel):
        assert isinstance(task.template, RowPrograms)
        assert all(task.template.config(program).layout.joins <= MOST_JOINS for program in task.programs)
    config = kernel.tile.config
    assert isinstance(config, ReductionConfig) and config.layout.joins <= MOST_JOINS
    by_hand = shared(kernel.group, 1000)
    assert ("#pragma unroll\n  for (int block_of_team" in kernel.source.text) or config.layout.joins == 1
    assert "#pragma unroll\n  for (int block_of_team" not in by_hand.source.text or parts_of(by_hand) < 1000


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_the_largest_blocks_do_not_spill(architecture: str) -> None:
    """1,024 threads that read their rows three times; 32 registers, for two such blocks on an SM, are too few."""
    (group,) = engine.fuse(engine.load("suite:memory/softmax-4096x131072")).groups
    kernel = engine.compile(group)
    assert kernel.launches[0].block[0] == 1024
    assert engine.nvrtc(kernel, architecture).spill_bytes == 0
