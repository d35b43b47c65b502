"""Faults planted into compiled code are found, with the line of the PTX and that of the CUDA text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import engine
from engine.execution.nvrtc import compile_ptx
from engine.execution.ptx import arithmetic, convert, transfers
from engine.execution.ptx.nodes import Instruction, PtxKernel
from engine.execution.ptx.operands import Operands
from engine.support.errors import Unsupported
from engine.verify.levels import LINE_TABLE
from tests.support.needs import needs_nvrtc

MODELS = Path(__file__).parents[2] / "resources" / "models"


def product(path: Path) -> None:
    """relu(x w + b) in float16, 128 x 128 x 128."""
    shapes = {"x": [128, 128], "w": [128, 128], "b": [128]}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape) for name, shape in shapes.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT16, [128, 128])
    graph = helper.make_graph(nodes, "product", inputs, [result])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


@cache
def compiled(file: str, group: str, *marks: tuple[str, str, object]) -> tuple[engine.Kernel, str]:
    """A kernel with its PTX.  marks: dimension, name and value, of the first statement."""
    chosen = engine.fuse(engine.load(file)).group(group)
    recipe = engine.default_recipe(chosen)
    for dimension, *mark in marks:
        recipe = recipe.advise("user", engine.entry("S0", mark=tuple(mark), at=dimension))
    kernel = engine.compile(chosen, recipe)
    return kernel, compile_ptx(kernel.source.text, kernel.target.architecture, LINE_TABLE)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[engine.Kernel, str]]:
    path = tmp_path_factory.mktemp("models") / "product.onnx"
    product(path)
    marks = (("k", "split_k", 1), ("k", "stages", 3))
    known = {
        "product": (str(path), "matmul_0", *marks),
        "split": (str(MODELS / "bert_tiny.onnx"), "matmul_3"),
        "softmax": (str(MODELS / "softmax_96x512.onnx"), "softmax_0", ("innermost", "lane", 128)),
        "odd": (str(MODELS / "add_relu_odd_3x5x127.onnx"), "add_0"),
        # A warp for a row: where several share one, only the first lane's sum counts.
        "layernorm": (str(MODELS / "layernorm_64x768.onnx"), "layernorm_0", ("innermost", "lane", 32)),
        # Warps that share a column: blocks of one warp that share it with others need no barrier among threads.
        "column": (str(MODELS / "column_sum_1000x384.onnx"), "reducesum_0", ("innermost", "warp", 8)),
        "transpose": (str(MODELS / "transpose_2x12x64x64.onnx"), "transpose_0"),
    }
    return lambda name: compiled(*known[name])


@dataclass(frozen=True)
class Fault:
    """One edit of a kernel's PTX: the first match of `pattern` becomes `text`."""

    name: str
    of: str
    pattern: str
    text: str
    kind: str = "wrong result"
    """Of a finding that must appear."""


WRONG = "wrong result"
OF_NO_INSTRUCTION = (WRONG, "not written", "unfinished team")
"""Kinds of findings about what a kernel leaves behind."""
CALLS = {"ld": ".load", "ldmatrix": "ldmatrix", "cp": "async_copy", "bar": "barrier", "membar": "is_last_of"}
"""Opcode -> what the CUDA line that it comes from calls."""
FAULTS = (
    # Operands of mma and the order of fragments.
    Fault("factors of mma from the other fragment", "product", r"(mma.*?), \{(%r\d+), (%r\d+)\},", r"\1, {\3, \2},"),
    Fault("rows of the left fragment swapped", "product", r"(mma\S+ \{[^}]*\}, )\{(%r\d+), (%r\d+),", r"\1{\3, \2,"),
    Fault("columns of the left fragment swapped", "product",
          r"(mma\S+ \{[^}]*\}, )\{(%r\d+), (%r\d+), (%r\d+),", r"\1{\4, \3, \2,"),
    Fault("sums swapped", "product", r"(mma\S+ )\{(%f\d+), (%f\d+),", r"\1{\3, \2,"),
    Fault("sums begin anew", "product", r"(mma.*\}, )\{%f\d+(, %f\d+, %f\d+, %f\d+\};[\s\S]*?mma)",
          r"\g<1>{0f3F800000\2"),
    Fault("bfloat16 in place of float16", "product", r"f32\.f16\.f16\.f32", "f32.bf16.bf16.f32"),
    Fault("matrix not transposed", "product", r"\.x4\.trans\.", ".x4."),
    Fault("matrix transposed", "product", r"m8n8\.x4\.shared", "m8n8.x4.trans.shared"),
    Fault("matrices in another order", "product", r"(ldmatrix\S+ )\{(%r\d+), (%r\d+),", r"\1{\3, \2,"),
    Fault("matrix from the next row", "product", r"(ldmatrix.*)\[(%r\d+)\]",
          r"\1[\2+64]", "race"),
    Fault("matrix at a misaligned address", "product", r"(ldmatrix.*)\[(%r\d+)\]", r"\1[\2+8]", "misaligned"),
    # Asynchronous copies.
    Fault("wait missing", "product", r"cp\.async\.wait_group 1;", "", "uninitialised"),
    Fault("wait one short", "product", r"cp\.async\.wait_group 1;", "cp.async.wait_group 2;", "uninitialised"),
    Fault("third wait missing", "product", r"((?:wait_group[\s\S]*?){2})cp\.async\.wait_group 1;", r"\1",
          "uninitialised"),
    Fault("commit missing", "product", r"cp\.async\.commit_group;", "", "uninitialised"),
    Fault("copy left out", "product", r"cp\.async\.cg\S+ \[%r\d+\].*;", "", "uninitialised"),
    Fault("copy of half its bytes", "product", r"(cp\.async\.cg.*), %r\d+;", r"\1, 8;"),
    Fault("copy of more than its bytes", "product", r"(cp\.async\.cg.*), %r\d+;", r"\1, 32;", "out of bounds"),
    Fault("copy to a misaligned place", "product", r"(cp\.async\.cg\S+ )\[(%r\d+)\]", r"\1[\2+4]", "misaligned"),
    Fault("copy from a misaligned address", "product", r"(cp\.async\.cg.*?\], )\[(%rd\d+)\]", r"\1[\2+2]",
          "misaligned"),
    Fault("copy from the next row", "product", r"(cp\.async\.cg.*?\], )\[(%rd\d+)\]",
          r"\1[\2+256]", "out of bounds"),
    Fault("copy into the stage in use", "product",
          r"(cp\.async\.cg\S+ )\[(%r\d+)\]([\s\S]*?bar\.sync[\s\S]*?cp\.async\.cg\S+ )\[%r\d+\]", r"\1[\2]\3[\2]",
          "race"),
    # Barriers, fences and atomics.
    Fault("first barrier missing", "product", r"bar\.sync \t?0;", "", "race"),
    Fault("barrier of a warp's results missing", "product", r"bar\.warp\.sync\s+-1;", "", "race"),
    Fault("barrier of a row missing", "softmax", r"bar\.sync \t?0;", "", "race"),
    Fault("barrier of a tile missing", "transpose", r"bar\.sync \t?0;", "", "race"),
    Fault("barrier of a column missing", "column", r"bar\.sync \t?0;", "", "race"),
    Fault("barrier of some threads", "softmax", r"(bar\.sync[\s\S]*?)bar\.sync \t?0;", r"\1@%p7 bar.sync 0;",
          "race"),
    Fault("return before a barrier", "softmax", r"(bar\.sync[\s\S]*?)bar\.sync \t?0;",
          r"\1@%p7 ret; bar.sync 0;", "divergent barrier"),
    Fault("fence of the writer missing", "split", r"membar\.gl;", "", "race"),
    Fault("fence of the reader missing", "split", r"(membar\.gl;[\s\S]*?)membar\.gl;", r"\1", "race"),
    Fault("counter moves by two", "split", r"(atom\S+\s+%r\d+, \[\S+\]), 1;", r"\1, 2;", "not written"),
    Fault("vote of all", "split", r"bar\.red\.or\.pred", "bar.red.and.pred", "not written"),
    # Predicates.
    Fault("guard negated", "odd", r"@%p(\d+) bra", r"@!%p\1 bra", "out of bounds"),
    Fault("guard one too wide", "odd", r"(setp\.gt\.s32\s+%p\d+, %r\d+), 1904;", r"\1, 1905;", "out of bounds"),
    Fault("guard one too narrow", "odd", r"(setp\.gt\.s32\s+%p\d+, %r\d+), 1904;", r"\1, 1903;", "not written"),
    Fault("comparison the other way", "softmax", r"setp\.gt\.s32", r"setp.le.s32", "out of bounds"),
    # Addresses, packing and arithmetic.
    Fault("parameters in another order", "odd", r"param_0\](;[\s\S]*?)param_1\]", r"param_1]\1param_0]",
          "out of bounds"),
    Fault("elements after the array", "transpose", r"(ld\.global\S*\s+[^[]*)\[(%rd\d+)\]", r"\1[\2+1048576]",
          "out of bounds"),
    Fault("address that no pointer is part of", "odd", r"(ld\.global\S*\s+%\w+, )\[(%rd\d+)\]", r"\1[4096]",
          "out of bounds"),
    Fault("misaligned vector", "softmax", r"(ld\.global\S*v4\S*\s+[^[]*)\[(%rd\d+)\]", r"\1[\2+4]",
          "misaligned"),
    Fault("lanes one too far apart", "layernorm", r"(shfl\.sync\.bfly\.b32\s+\S+ %\w+, )%r\d+", r"\g<1>3"),
    Fault("shuffle down in place of across", "layernorm", r"shfl\.sync\.bfly", "shfl.sync.down"),
    Fault("logarithm in place of the exponential", "softmax", r"ex2\.approx", "lg2.approx"),
    Fault("maximum left out", "softmax", r"sub\.f32\s+(%f\d+), (%f\d+), %f\d+;", r"mov.f32 \1, \2;"),
    Fault("halves of a pair swapped", "product", r"(st\.shared\.v2\.u16\s+\S+ )\{(%rs\d+), (%rs\d+)\}", r"\1{\3, \2}"),
    Fault("rounded to bfloat16", "product", r"cvt\.rn\.f16\.f32", "cvt.rn.bf16.f32"),
    Fault("sum left out", "column", r"add\.f32\s+(%f\d+), (%f\d+), %f\d+;", r"mov.f32 \1, \2;"),
)  # fmt: skip


@pytest.mark.few(2)
@needs_nvrtc
@pytest.mark.parametrize("name", ["product", "split", "softmax", "odd", "layernorm", "column", "transpose"])
def test_compiled_code_is_right(name: str, kernels: Callable[[str], tuple[engine.Kernel, str]]) -> None:
    kernel, text = kernels(name)
    for given in (None, text):
        report = engine.check(kernel, level="ptx", ptx=given)
        assert (report.status, report.findings, report.orders) == ("pass", (), ("late", "early")), report.message
        assert report.elements_compared > 0


@pytest.mark.few(12)
@needs_nvrtc
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught_with_its_lines(fault: Fault, kernels: Callable[[str], tuple[engine.Kernel, str]]) -> None:
    kernel, good = kernels(fault.of)
    text, edits = re.subn(fault.pattern, fault.text, good, count=1)
    assert edits == 1 and text != good, "nothing to edit"
    report = engine.check(kernel, level="ptx", ptx=text)
    assert report.status == "fail", report
    found = [one for one in report.findings if one.kind == fault.kind]
    assert found, report.findings
    cuda, told = kernel.source.text.splitlines(), text.splitlines()
    for one in (each for each in report.findings if each.kind not in OF_NO_INSTRUCTION):
        shown = re.search(r"PTX line (\d+), (?:@!?%p\d+ )?(\w+)([\w.:]*) ", one.message)
        assert shown, one.message
        assert shown[2] + shown[3] in told[int(shown[1]) - 1]
        assert CALLS[shown[2]] in cuda[one.line - 1]
    assert all(0 < one.line <= len(cuda) for one in found)


@needs_nvrtc
def test_an_unknown_instruction_is_a_named_refusal(kernels: Callable[[str], tuple[engine.Kernel, str]]) -> None:
    kernel, good = kernels("odd")
    report = engine.check(kernel, level="ptx", ptx=good.replace("add.f32", "add.rp.f32"))
    assert report.status == "unsupported" and "add.rp.f32" in report.message


@pytest.mark.parametrize("text", ["", "no PTX", ".entry k(.param .u64 a) { mov.u32 %r1, 1 }", ".entry odd() { }"])
@needs_nvrtc
def test_text_that_is_no_ptx_of_the_kernel_is_refused(
    text: str, kernels: Callable[[str], tuple[engine.Kernel, str]]
) -> None:
    report = engine.check(kernels("odd")[0], level="ptx", ptx=text or "\n")
    assert report.status == "fail" and "PTX" in report.message


def test_levels_have_names() -> None:
    kernel = engine.compile(engine.fuse(engine.load(MODELS / "softmax_96x512.onnx")).groups[0])
    with pytest.raises(engine.EngineError, match="source, ptx"):
        engine.check(kernel, level="sass")


HALF_TYPES = ("add.f16x2", "max.bf16", "max.f16", "selp.f16x2", "cvt.rn.f16x2.f16")


@pytest.mark.parametrize("opcode", [*HALF_TYPES, "and.b128", "mov.b128", "ld.global.b128"])
def test_types_that_are_not_known_are_refused(opcode: str) -> None:
    entry = PtxKernel("k", (), {f"%r{n}": np.dtype(np.uint32) for n in range(4)}, {}, (), {})
    several = not opcode.startswith(("mov", "ld", "cvt"))
    instruction = Instruction(opcode, ("%r0", "%r1", *(("%r2", "%r3") if several else ())), line=7)
    decoders = {**arithmetic.DECODERS, **convert.DECODERS, **transfers.DECODERS}
    with pytest.raises(Unsupported, match=f"{opcode} .line 7"):
        decoders[instruction.parts[0]](instruction, Operands(entry, {}))
