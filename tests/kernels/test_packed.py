"""Packed kernels: independent parts in ranges of the blocks of one launch."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.execution.nvrtc import compile_cuda
from engine.fusion.packing import packed_shape, parts_of
from engine.tensor.nodes import TensorProgram
from engine.tile.check import check_tile
from engine.tile.nodes import Barrier, BlockRanges, If
from tests.kernels.stitched_programs import (
    RandomBlocks,
    checked,
    independent,
    kernel_of,
    layernorm_backward,
    pooled_attention,
    side_by_side,
)
from tests.support.misfits import own_refusal
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.support.programs import elementwise_chain, matmul_bias_relu, softmax


def ranges(kernel: engine.Kernel) -> list[int]:
    (op,) = kernel.tile.body
    assert isinstance(op, BlockRanges)
    return [blocks for blocks, _ in op.parts]


@needs_compiler
def test_each_part_has_its_own_blocks() -> None:
    kernel = kernel_of(independent())
    assert ranges(kernel) == [40, 1, 3]
    assert kernel.source.grid[0] == 44
    assert checked(kernel).status == "pass"


@needs_compiler
@pytest.mark.parametrize("sizes", [(48, 80), (37, 64), (5, 200)])
def test_the_gradients_of_a_layer_norm_are_one_launch(sizes: tuple[int, int]) -> None:
    """Row reductions with what needs them, and two column sums: three ranges of blocks."""
    kernel = kernel_of(layernorm_backward(*sizes))
    assert len(ranges(kernel)) == 3
    assert checked(kernel).status == "pass"


def test_element_wise_parts_of_one_size_are_one_loop() -> None:
    statements = independent().statements
    assert [[s.name for s in part] for part in parts_of(statements)] == [["S0", "S1", "S3"], ["S2", "S5"], ["S4"]]
    text = kernel_of(independent()).source.text
    assert text.count("const int element = ") == 1


def akg_tensor(name: str, shape: list[int], **more: object) -> dict[str, object]:
    return {"tensor_name": name, "shape": shape, "data_type": "float32", "format": "DefaultFormat", **more}


@needs_compiler
def test_statements_of_one_loop_have_iterators_of_their_own_names(tmp_path: Path) -> None:
    """Vectors run along each statement's own iterators: those of the last were taken for all."""
    a, b, flat, scalar = [4, 6], [6, 4], [24, 1], akg_tensor("two", [1], value=2)
    x, y, c, q, r, s, u, v, h, t = (
        akg_tensor(name, shape)
        for name, shape in zip("xycqrsuvht", (a, a, a, a, b, [6, 1], a, flat, b, b), strict=True)
    )
    operators = [
        ("Ceil", {}, [y], c), ("RealDiv", {}, [c, x], q), ("Exp", {}, [q], u), ("Reshape", {"shape": b}, [c], r),
        ("ReduceSum", {"axis": [1], "keep_dims": True}, [r], s), ("Reshape", {"shape": flat}, [x], v),
        ("RealDiv", {}, [r, scalar], h), ("Transpose", {"perm": [1, 0]}, [c], t),
    ]  # fmt: skip
    described = [
        {
            "name": kind, "attr": [{"name": key, "value": value} for key, value in attributes.items()],
            "input_desc": [[each] for each in inputs], "output_desc": [output],
        }
        for kind, attributes, inputs, output in operators
    ]  # fmt: skip
    path = tmp_path / "fused.json"
    path.write_text(json.dumps({"op_desc": described, "input_desc": [[x], [y]], "output_desc": [u, s, v, h, t]}))
    (group,) = engine.fuse(engine.load(path)).groups
    one, other = (s for s in group.program.statements if [i.extent for i in s.parallel] == b)
    assert one.iterators[1].name != other.iterators[1].name
    assert engine.check(engine.compile(group)).status == "pass"


def test_one_part_or_a_matrix_product_is_no_pack() -> None:
    chain, product = elementwise_chain(), side_by_side(softmax(), matmul_bias_relu())
    assert "they are one part" in str(packed_shape(chain.statements, frozenset(chain.outputs)))
    assert "is a matrix product" in str(packed_shape(product.statements, frozenset(product.outputs)))


@pytest.mark.few(4)
@needs_compiler
@pytest.mark.parametrize("seed", range(12))
def test_random_packs_are_exact(seed: int) -> None:
    source = side_by_side(*(RandomBlocks(100 * seed + n, 4).program() for n in range(3)))
    found = checked(kernel_of(source), seed, whole=True)
    assert found.status == "pass", found.message
    assert found.max_error == 0


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_no_spills(architecture: str) -> None:
    source: TensorProgram = side_by_side(pooled_attention(), softmax(), independent())
    assert compile_cuda(kernel_of(source).source.text, architecture).spill_bytes == 0


@needs_compiler
def test_parts_with_blocks_of_other_sizes_have_a_general_kernel() -> None:
    kernel = kernel_of(independent(), engine.entry("S0", mark=("thread", 128), at="outermost"))
    assert "blocks of 128 and 256 threads" in own_refusal(kernel).reason
    assert checked(kernel).status == "pass"


def test_a_barrier_in_a_range_is_one_for_all_its_threads() -> None:
    """Ranges may hold barriers, branches of single threads may not, wherever they stand."""
    tile = kernel_of(independent()).tile
    assert check_tile(tile) == ()
    (op,) = tile.body
    assert isinstance(op, BlockRanges)
    (blocks, body), *rest = op.parts
    mask = next(name for name, buffer in tile.buffers.items() if buffer.dtype == "bool")
    wrong = BlockRanges(((blocks, (*body, If(mask, (Barrier(),)))), *rest))
    assert any("Barrier stands under the branch" in fault for fault in check_tile(replace(tile, body=(wrong,))))


@needs_compiler
def test_a_range_that_begins_too_late_leaves_elements_out() -> None:
    kernel = kernel_of(independent())
    text = re.sub(r"blockIdx\.x - 40;", "blockIdx.x - 39;", kernel.source.text)
    assert text != kernel.source.text
    found = checked(replace(kernel, source=replace(kernel.source, text=text)))
    assert found.status == "fail"
