"""Products that share a factor in one launch: chosen by the estimate, right at both levels, refused with the reason."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.documents.mappings import CHECKED, COMPILED, LISTED
from engine.execution.nvrtc import compile_cuda
from engine.fusion.stitching.nodes import Fixed
from engine.kernels.packed.lower import SharedProductsConfig
from engine.tensor.traffic import compulsory_bytes
from engine.tile.nodes import BlockRanges
from engine.tuning.problem import SearchProblem, problem, why_not_followed
from tests.benchmarks.work import Row, compare
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.tuning.test_programs import Case, differences

Widths = tuple[int, ...]
EQUAL, GROUPED, RAGGED = (64, 64, 64), (160, 64, 64), (72, 40)


def plan_of(
    folder: Path, widths: Widths, dtype: str = "float16", rows: int = 96, depth: int = 128
) -> engine.FusionPlan:
    """Products of one input with several weights: the first with a bias and a Relu behind it, the others bare."""
    nodes: list[Node] = [
        ("MatMul", ["x", "w0"], ["p0"], {}), ("Add", ["p0", "b0"], ["s0"], {}), ("Relu", ["s0"], ["y0"], {}),
    ]  # fmt: skip
    nodes += [("MatMul", ["x", f"w{n}"], [f"y{n}"], {}) for n in range(1, len(widths))]
    inputs = {"x": (dtype, (rows, depth)), "b0": (dtype, (widths[0],))}
    inputs |= {f"w{n}": (dtype, (depth, width)) for n, width in enumerate(widths)}
    outputs = [f"y{n}" for n in range(len(widths))]
    return engine.fuse(engine.load(write_model(folder / "p.onnx", nodes, inputs, outputs)), target="a100")


@pytest.mark.few(2)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("widths", [EQUAL, GROUPED, RAGGED], ids=str)
def test_one_launch(widths: Widths, dtype: str, tmp_path: Path) -> None:
    """Each product with its own epilogue and width; shared memory holds one part's tiles, DRAM is read once."""
    plan = plan_of(tmp_path, widths, dtype)
    (group,) = plan.groups
    assert len(plan.launches) == 1 and "share one launch" in group.because
    kernel = engine.compile(group)
    config, (ranges,) = kernel.tile.config, kernel.tile.body
    assert isinstance(config, SharedProductsConfig) and config.products == len(widths)
    assert isinstance(ranges, BlockRanges) and len(ranges.parts) == len(widths)
    assert [engine.check(kernel, level=level).status for level in ("source", "ptx")] == ["pass", "pass"]
    assert compile_cuda(kernel.source.text, kernel.target.architecture).spill_bytes == 0
    assert kernel.facts.dram_bytes_read == compulsory_bytes(group.program)[0]
    bytes_of = {b.name: b.elements * (2 if dtype == "float16" else 4) for b in kernel.tile.buffers.values()}
    own = sum(size for name, size in bytes_of.items() if kernel.tile.buffers[name].part == 1)
    assert kernel.source.shared_bytes < 1.5 * own
    row = compare(kernel)
    assert isinstance(row, Row) and not row.left, row


@needs_compiler
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_products_may_have_depths_of_their_own(dtype: str, tmp_path: Path) -> None:
    """As a gradient has: the rows of what they share are summed by one of them. Work counts what each multiplies."""
    nodes: list[Node] = [
        ("MatMul", ["x", "w"], ["y"], {}), ("Transpose", ["x"], ["t"], {"perm": [1, 0]}),
        ("MatMul", ["t", "g"], ["z"], {}),
    ]  # fmt: skip
    inputs = {"x": (dtype, (256, 512)), "w": (dtype, (512, 256)), "g": (dtype, (256, 256))}
    graph = engine.load(write_model(tmp_path / "p.onnx", nodes, inputs, ["y", "z"]))
    plan = engine.fuse(graph, "a100", "xla", Fixed(groups=(("n0", "n2"),)))
    (group,) = plan.groups
    kernel = engine.compile(group)
    assert isinstance(kernel.tile.config, SharedProductsConfig) and engine.check(kernel).status == "pass"
    assert (kernel.facts.tensor_flops or kernel.facts.flops) == 2 * 2 * 256 * 256 * 512


def test_a_launch_of_all_is_predicted_faster_than_each_alone(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, EQUAL)
    apart = engine.fuse(engine.load(tmp_path / "p.onnx"), target="a100", policy="xla")
    assert len(apart.launches) == 3

    def time(of: engine.FusionPlan) -> float:
        return sum(engine.predict(engine.compile(g)).microseconds * len(g.instances) for g in of.groups)

    assert time(plan) < time(apart)


def test_large_products_keep_kernels_of_their_own(tmp_path: Path) -> None:
    """Where each fills the machine many times over, tiles that suit each alone win or nothing is gained."""
    plan = plan_of(tmp_path, (4096, 64), rows=8192, depth=1024)
    time = sum(engine.predict(engine.compile(g)).microseconds for g in plan.groups)
    apart = engine.fuse(engine.load(tmp_path / "p.onnx"), target="a100", policy="xla")
    assert time <= sum(engine.predict(engine.compile(g)).microseconds for g in apart.groups)


def test_a_person_joins_and_parts_them(tmp_path: Path) -> None:
    plan_of(tmp_path, EQUAL)
    graph = engine.load(tmp_path / "p.onnx")
    joined = engine.fuse(graph, "a100", "xla", Fixed(groups=(("n0", "n1", "n2", "n3", "n4"),)))
    assert [group.kind for group in joined.groups] == ["packed"] and len(joined.launches) == 1
    parted = engine.fuse(graph, "a100", fixed=Fixed(apart=(("n0", "n3"),)))
    assert len(parted.launches) == 3
    with pytest.raises(engine.EngineError, match="products with a factor in common"):
        nodes: list[Node] = [("MatMul", ["a", "b"], ["y"], {}), ("MatMul", ["c", "d"], ["z"], {})]
        inputs = dict.fromkeys("abcd", ("float16", (64, 64)))
        other = engine.load(write_model(tmp_path / "o.onnx", nodes, inputs, ["y", "z"]))
        engine.fuse(other, "a100", fixed=Fixed(groups=(("n0", "n1"),)))


def test_products_of_which_one_needs_another_stay_apart(tmp_path: Path) -> None:
    nodes: list[Node] = [("MatMul", ["x", "w"], ["p"], {}), ("MatMul", ["x", "p"], ["y"], {})]
    inputs = {"x": ("float16", (64, 64)), "w": ("float16", (64, 64))}
    plan = engine.fuse(engine.load(write_model(tmp_path / "d.onnx", nodes, inputs, ["y"])), target="a100")
    assert {group.kind for group in plan.groups} == {"contraction"} and len(plan.launches) == 2


@needs_compiler
def test_tiles_of_all_products_are_one_choice(tmp_path: Path) -> None:
    """Marks on one product alone are refused with the reason; programs of a search mark all, and do what they say."""
    (group,) = plan_of(tmp_path, EQUAL).groups
    alone = engine.merge_advice(engine.default_recipe(group), group, "advice user\n  S0 @ i: mark block 64\n")
    odd = engine.compile(group, alone)
    assert odd.family == "general" and "its products ask for tiles of" in odd.tile.misfit
    found = problem(group, engine.default_recipe(group))
    assert isinstance(found, SearchProblem)
    (task,) = found.tasks
    assert found.advised in task.programs
    for program in random.Random(3).sample(task.programs, 6):
        kernel = engine.compile(group, found.recipe_of(program))
        assert why_not_followed(kernel) == "" and differences(Case(lambda _: group, ()), found, task, program) == {}
    assert engine.check(kernel).status == "pass"


@needs_compiler
@pytest.mark.parametrize(
    ("widths", "right", "wrong"),
    [
        (RAGGED, r"(?<=blockIdx\.x - )(\d+);", r"\1 + 1;"),
        (EQUAL, r"block_part == 0 \? (\w+)", r"block_part == 1 ? \1"),
        (EQUAL, r"const int block = (.*) % ", r"const int block = \1 / "),
    ],
    ids=["its range", "its arrays", "its number"],
)
def test_blocks_that_take_the_wrong_part_are_found(widths: Widths, right: str, wrong: str, tmp_path: Path) -> None:
    (group,) = plan_of(tmp_path, widths).groups
    kernel = engine.compile(group)
    text, times = re.subn(right, wrong, kernel.source.text, count=1)
    assert times == 1
    assert engine.check(replace(kernel, source=replace(kernel.source, text=text))).status == "fail"


def test_products_that_differ_in_their_arrays_alone_are_written_once(tmp_path: Path) -> None:
    """The last two of three: the first has a bias and a Relu.  A line of both stands for the statements of both."""
    (group,) = plan_of(tmp_path, EQUAL).groups
    source = engine.compile(group).source
    assert source.text.count("for (int tile = ") == 2
    pairs = zip(source.lines, source.text.splitlines(), strict=True)
    assert [len(line.statements) for line, text in pairs if "mma_m16n8k16_f16(" in text] == [1, 2]
    (apart,) = plan_of(tmp_path, (64, 64, 72)).groups
    assert engine.compile(apart).source.text.count("for (int tile = ") == 3


@needs_compiler
@pytest.mark.parametrize("widths", [EQUAL, GROUPED, RAGGED], ids=str)
def test_their_mapping_is_that_of_the_launch(widths: Widths, tmp_path: Path) -> None:
    """Its entries ask for the kernel of all products, and a search counts the mapping as its task alone."""
    (group,) = plan_of(tmp_path, widths).groups
    found = engine.mappings(group, emulate=True)
    assert [(m.intrinsic, m.state) for m in found.mappings if not m.why_not] == [("mma_m16n8k16_f16", CHECKED)]
    searched = problem(group, engine.default_recipe(group))
    assert isinstance(searched, SearchProblem) and [task.name for task in searched.tasks] == ["mma_m16n8k16_f16"]
    assert not [one for one in searched.refused if one.mapping == "mma_m16n8k16_f16"]


def test_loops_around_the_intrinsic_are_for_a_product_of_its_own(tmp_path: Path) -> None:
    nodes: list[Node] = [("MatMul", ["x", f"w{n}"], [f"y{n}"], {}) for n in range(3)]
    inputs = {"x": ("float16", (2, 48, 128))} | {f"w{n}": ("float16", (128, 64)) for n in range(3)}
    graph = engine.load(write_model(tmp_path / "p.onnx", nodes, inputs, ["y0", "y1", "y2"]))
    (group,) = engine.fuse(graph, target="a100").groups
    states = {m.binding: (m.state, m.why_not) for m in engine.mappings(group).mappings}
    whole, *others = states.values()
    assert whole == (COMPILED, "") and others
    assert all(state == LISTED and "share a launch" in why for state, why in others)
