"""Products of numbers with weights that are codes of 4 or 8 bits, which blocks take apart as they come to shared
memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import engine
from engine.api import group_values
from engine.execution.nvrtc import compile_cuda
from engine.target import ARCHITECTURES
from engine.verify.kernel import check_kernel
from tests.benchmarks import work
from tests.kernels.test_gemm_work import assert_same_work, configurations
from tests.kernels.test_tensor_cores import advised, is_on_tensor_cores
from tests.support.needs import needs_compiler, needs_nvrtc

RANGES = {
    TensorProto.INT4: (-8, 8), TensorProto.UINT4: (0, 16), TensorProto.INT8: (-128, 128), TensorProto.UINT8: (0, 256)
}  # fmt: skip


@dataclass(frozen=True)
class Weights:
    """x[rows, depth] W, with W = (codes - zero points) * scales."""

    code: int
    block: int = 0
    """Depths that share a scale; 0: each column has one."""
    sizes: tuple[int, int, int] = (40, 256, 96)
    """Rows, depths, columns."""
    dtype: int = TensorProto.FLOAT16
    has_zero: bool = True
    is_transposed: bool = False
    """Whether W lies as columns of depths, and a Transpose turns it."""

    def save(self, folder: Path) -> Path:
        """The model in a file; drawn codes, scales and zero points."""
        chance = np.random.default_rng(sum(self.sizes))
        (rows, depth, columns), (low, high) = self.sizes, RANGES[self.code]
        shape = (columns, depth) if self.is_transposed else (depth, columns)
        axis = 1 if self.is_transposed else 0
        few: tuple[int, ...] = (columns,)
        if self.block:
            few = tuple(-(-n // self.block) if at == axis else n for at, n in enumerate(shape))
        constants = [
            helper.make_tensor("w", self.code, shape, chance.integers(low, high, shape).ravel().tolist()),
            helper.make_tensor("s", self.dtype, few, (chance.uniform(0.5, 1.5, few) / (high - low)).ravel().tolist()),
        ]
        if self.has_zero:
            constants.append(helper.make_tensor("z", self.code, few, chance.integers(low, high, few).ravel().tolist()))
        axes = {"axis": axis, "block_size": self.block} if self.block else {"axis": 1 - axis}
        nodes = [helper.make_node("DequantizeLinear", [one.name for one in constants], ["real"], **axes)]
        if self.is_transposed:
            nodes.append(helper.make_node("Transpose", ["real"], ["turned"], perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", ["x", nodes[-1].output[0]], ["y"]))
        shapes = {"x": (rows, depth), "y": (rows, columns)}
        ends = [helper.make_tensor_value_info(n, self.dtype, size) for n, size in shapes.items()]
        graph = helper.make_graph(nodes, "weights", ends[:1], ends[1:], constants)
        path = folder / "weights.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
        return path

    def group(self, folder: Path) -> engine.FusionGroup:
        """The only one."""
        (group,) = engine.fuse(engine.load(self.save(folder)), target="h200").groups
        return group


UINT4, INT4, UINT8, INT8 = TensorProto.UINT4, TensorProto.INT4, TensorProto.UINT8, TensorProto.INT8
BFLOAT16, FLOAT = TensorProto.BFLOAT16, TensorProto.FLOAT
BFLOAT16_TYPE = np.dtype(ml_dtypes.bfloat16)
CASES = {
    "uint4 in blocks of 32": Weights(UINT4, 32),
    "int4 in blocks of 128": Weights(INT4, 128, has_zero=False),
    "int4 in blocks of 16, ragged": Weights(INT4, 16, (33, 200, 80)),
    "uint8 in blocks of 64, ragged": Weights(UINT8, 64, (17, 136, 48)),
    "int8 by column": Weights(INT8, has_zero=False),
    "uint4 by column": Weights(UINT4),
    "uint4 of float32": Weights(UINT4, 32, dtype=FLOAT),
    "int8 of float32, ragged": Weights(INT8, 32, (19, 104, 56), dtype=FLOAT),
    "uint4 in blocks of 32 along depths": Weights(UINT4, 32, is_transposed=True),
    "int8 in blocks of 16 along depths": Weights(INT8, 16, (40, 176, 64), is_transposed=True, has_zero=False),
    "int8 along depths": Weights(INT8, is_transposed=True, has_zero=False),
    "uint4 along depths": Weights(UINT4, is_transposed=True),
}


@pytest.mark.few(4)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("name", CASES)
def test_codes_are_taken_apart_in_the_loads_of_a_product(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    group = case.group(tmp_path)
    kernel = engine.compile(group)
    assert is_on_tensor_cores(kernel) == (case.dtype != FLOAT)
    for level in ("source", "ptx"):
        checked = engine.check(kernel, level=level)
        assert checked.status == "pass", (level, checked.message)
    _, depth, columns = case.sizes
    (codes,) = (a for a in group.program.arrays.values() if a.name.startswith("w"))
    assert codes.bytes == depth * columns // (2 if case.code in (INT4, UINT4) else 1)
    assert kernel.facts.dram_bytes_read < 2 * depth * columns + group.program.arrays["x"].bytes
    assert all(compile_cuda(kernel.source.text, a).spill_bytes == 0 for a in ARCHITECTURES)


def nbits_product(
    folder: Path, bits: int, block: int, sizes: tuple[int, int, int], zero: str, has_bias: bool = False
) -> engine.FusionGroup:
    """MatMulNBits of float16.  sizes: rows, depths, columns.  zero: "none", "codes" or "numbers"."""
    (rows, depth, columns), chance = sizes, np.random.default_rng(bits + block)
    blocks = -(-depth // block)
    constants = {
        "w": chance.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8),
        "s": (chance.uniform(0.5, 1.5, (columns, blocks)) / 2**bits).astype(np.float16),
    }
    if zero == "codes":
        constants["z"] = chance.integers(0, 256, (columns, -(-blocks * bits // 8))).astype(np.uint8)
    elif zero == "numbers":
        constants["z"] = (chance.uniform(0, 1, (columns, blocks)) * 2**bits).astype(np.float16)
    operands = ["x", *constants]
    if has_bias:
        constants["bias"] = chance.normal(size=columns).astype(np.float16)
        operands = [*operands, *[""] * (5 - len(operands)), "bias"]
    size = {"K": depth, "N": columns, "bits": bits, "block_size": block}
    node = helper.make_node("MatMulNBits", operands, ["y"], domain="com.microsoft", **size)
    shapes = {"x": (rows, depth), "y": (rows, columns)}
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, shape) for n, shape in shapes.items()]
    stored = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "nbits", ends[:1], ends[1:], stored)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / "nbits.onnx")
    (group,) = engine.fuse(engine.load(folder / "nbits.onnx"), target="h200").groups
    return group


@pytest.mark.few(3)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("zero", ["none", "codes", "numbers"])
@pytest.mark.parametrize(
    ("bits", "block", "sizes"), [(4, 32, (40, 256, 96)), (8, 16, (17, 208, 64)), (2, 64, (16, 256, 32))]
)
def test_blocks_of_codes_of_onnx_runtime_are_read_once(
    bits: int, block: int, sizes: tuple[int, int, int], zero: str, tmp_path: Path
) -> None:
    group = nbits_product(tmp_path, bits, block, sizes, zero, has_bias=bits == 4)
    kernel = engine.compile(group)
    assert kernel.tile.intrinsic == "mma_m16n8k16_f16" and group.name == "matmulnbits_0"
    for level in ("source", "ptx"):
        checked = engine.check(kernel, level=level)
        assert checked.status == "pass", (level, checked.message)
    rows, depth, columns = sizes
    of_block = {"none": 2, "codes": 3, "numbers": 4}[zero] * columns * -(-depth // block)
    bias = 2 * columns if bits == 4 else 0
    assert kernel.facts.dram_bytes_read == 2 * rows * depth + depth * columns * bits // 8 + of_block + bias


@needs_compiler
@pytest.mark.parametrize("case", [Weights(INT4, 32), Weights(UINT8), Weights(UINT8, 16, (21, 144, 64))], ids=str)
def test_weights_of_bfloat16_are_those_of_double_precision(case: Weights, tmp_path: Path) -> None:
    """ONNX Runtime does not dequantise to bfloat16."""
    case = replace(case, dtype=BFLOAT16)
    path = case.save(tmp_path)
    graph = engine.load(path)
    (group,) = engine.fuse(graph, target="h200").groups
    kernel = engine.compile(group)
    assert kernel.tile.intrinsic == "mma_m16n8k16_bf16"
    x = np.random.default_rng(3).normal(size=case.sizes[:2]).astype(BFLOAT16_TYPE)
    tensors = group.instances[0].arrays
    given = {n: x if n == "x" else graph.constants[tensors[n]].value for n in group.program.inputs}
    got = engine.run(kernel, given, device="cpu")["y"].astype(np.float64)
    stored = {one.name: numpy_helper.to_array(one) for one in onnx.load(path).graph.initializer}
    scale, zero = (stored[n].astype(np.float64) for n in "sz")
    if case.block:
        scale, zero = (np.repeat(one, case.block, axis=0)[: case.sizes[1]] for one in (scale, zero))
    weights = ((stored["w"].astype(np.float64) - zero) * scale).astype(BFLOAT16_TYPE).astype(np.float64)
    expected = x.astype(np.float64) @ weights
    np.testing.assert_allclose(got, expected, rtol=2**-8, atol=2**-8 * np.abs(expected).max())


@pytest.mark.few(4)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize(
    "lines",
    [
        ("all @ k: mark stages 1",), ("all @ k: mark slices 2", "all @ k: mark tile 64"), ("all @ k: mark split_k 2",),
        ("all @ i: mark warp 16", "all @ k: mark tile 128", "all @ k: mark register_stages 2"),
        ("all @ j: mark block 16", "all @ j: mark warp 16", "all @ k: mark tile 16"),
    ],
    ids=["one stage", "slices", "split-K", "small warps", "small tiles"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["uint4 in blocks of 32", "int8 along depths"])
def test_every_configuration_is_right_at_both_levels(name: str, lines: tuple[str, ...], tmp_path: Path) -> None:
    kernel = advised(CASES[name].group(tmp_path), *lines)
    for level in ("source", "ptx"):
        checked = engine.check(kernel, level=level)
        assert checked.status == "pass", (level, checked.message)


@pytest.mark.few(2)
@needs_compiler
@pytest.mark.parametrize(
    "name", ["uint4 in blocks of 32", "int4 in blocks of 16, ragged", "uint4 of float32", "int8 along depths"]
)
def test_the_work_is_what_is_counted(name: str, tmp_path: Path) -> None:
    group = CASES[name].group(tmp_path)
    assert all(map(assert_same_work, configurations(group, 3, 4)))
    row = work.compare(engine.compile(group))
    assert isinstance(row, work.Row) and row.left == {}, row


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize(("rows", "groups"), [(16, 1), (4096, 1), (16384, 2)])
def test_the_estimate_says_whether_weights_are_taken_apart_once_or_by_every_block(
    rows: int, groups: int, tmp_path: Path
) -> None:
    path = Weights(INT4, 32, (rows, 4096, 4096), has_zero=False).save(tmp_path)
    assert len(engine.fuse(engine.load(path), target="h200").groups) == groups


@pytest.mark.slow(sentinel=True)
def test_a_product_of_few_rows_is_predicted_faster_than_with_float16_weights(tmp_path: Path) -> None:
    codes = engine.compile(Weights(INT4, 32, (16, 4096, 4096), has_zero=False).group(tmp_path))
    x, w, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT16, s) for n, s in
               (("x", (16, 4096)), ("w", (4096, 4096)), ("y", (16, 4096))))  # fmt: skip
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "halves", [x, w], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "h.onnx")
    (halves,) = engine.fuse(engine.load(tmp_path / "h.onnx"), target="h200").groups
    plain = engine.compile(halves)
    assert 3 * codes.facts.dram_bytes_read < plain.facts.dram_bytes_read
    assert engine.predict(codes).microseconds < engine.predict(plain).microseconds


@pytest.mark.parametrize(
    ("case", "is_one"),
    [
        (Weights(INT8, 32, (16, 96, 64)), True),
        (Weights(INT8, 48, (16, 96, 64)), False),
        (Weights(INT8, 32, (16, 96, 61), has_zero=False), False),
    ],
    ids=["blocks of a power of two", "blocks of 48", "columns that no copy divides"],
)
def test_what_no_copy_brings_is_dequantised_before(case: Weights, is_one: bool, tmp_path: Path) -> None:
    groups = engine.fuse(engine.load(case.save(tmp_path)), target="h200").groups
    assert len(groups) == (1 if is_one else 2)


@needs_compiler
def test_codes_of_the_wrong_half_of_a_byte_are_found(tmp_path: Path) -> None:
    group = CASES["uint4 in blocks of 32"].group(tmp_path)
    kernel = engine.compile(group)
    assert engine.check(kernel).status == "pass"
    text = kernel.source.text
    assert "(int(v % 2) * 4)" in text
    wrong = replace(kernel, source=replace(kernel.source, text=text.replace("int(v % 2)", "int((v + 1) % 2)")))
    checked = check_kernel(wrong, *group_values(group))
    assert checked.status == "fail" and {finding.kind for finding in checked.findings} == {"wrong result"}


@pytest.mark.parametrize("name", ["uint4 in blocks of 32", "int8 along depths"])
def test_codes_are_a_factor_of_the_product_that_instructions_are_matched_to(name: str, tmp_path: Path) -> None:
    found = engine.mappings(CASES[name].group(tmp_path))
    assert found.product.startswith("y[i, j] = sum(k) x[i, k] * w") and found.product.endswith("[j, k]")
    assert [one.intrinsic for one in found.mappings if one.state == "compiled"] == ["mma_m16n8k16_f16"]
