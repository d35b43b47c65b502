"""Default kernels keep their values in registers: sentinels, those of models and suites that once did not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.execution.nvrtc import compile_cuda
from tests.support.needs import needs_nvrtc

SHARED = Path(__file__).parents[3] / "shared"
MODELS, EXPORTS = SHARED / "models", SHARED / "exports"
SPILLED = [
    # model, target, an operator of the kernel; the bytes that were spilled
    ("llama_2l_fp16_b2_s128_op20", "h200", "node_linear_6"),  # 8
    ("mobilenet_v2_b1", "a100", "node_Conv_809"),  # 32
    ("tf_mobilenet_v2_b1", "a100", "Conv__236"),  # 48
    ("resnet50_b8", "h200", "node_Conv_777"),  # 16, where three blocks were asked for
    ("tf_mobilenet_v2_b1", "h200", "mobilenetv2_1.00_224_1/block_4_depthwise_1/depthwise"),  # 16
    ("efficientnet_b0_b1_ts17", "h200", "/blocks/blocks.1/blocks.1.0/conv_pw/Conv"),  # 8
    ("efficientnet_b0_b1_ts17", "h200", "/blocks/blocks.5/blocks.5.1/conv_pw/Conv"),  # 32
    ("lstm_lm_b4_s35_ts17", "h200", "/r/LSTM_1"),  # 96
    ("vit_b16_b1", "a100", "node_layer_norm_1"),  # 16, of a row's 24 elements
    ("convnext_tiny_b1", "a100", "node_MatMul_299"),  # 16, of other blocks' parts
]


ROWS = [
    # row of a suite, target; the bytes that were spilled
    ("attention/llama-4x32x2048x2048x128", "a100"),  # 136, of a mask beside 32 queries a warp
    ("gta/transposed-1x64x56x56-128-k3-s2", "h200"),  # 208, of the places of single copies
    ("gta/dilated-512x28x28-1024", "a100"),  # 16, for blocks that shared memory has no room for
    ("transformer/128x4096x4096", "h200"),  # 8, of full tiles that share a depth
    ("alcop/MM_Square_2k", "a100"),  # 8, where the last of two blocks added up its own sums from memory, too
]


@pytest.mark.few(2)
@needs_nvrtc
@pytest.mark.parametrize(("row", "target"), ROWS)
def test_what_spilled_of_the_suites_spills_nothing(row: str, target: str) -> None:
    (group,) = engine.fuse(engine.load(f"suite:{row}"), target).groups
    kernel = engine.compile(group)
    assert compile_cuda(kernel.source.text, kernel.target.architecture).spill_bytes == 0


@pytest.mark.few(2)
@needs_nvrtc
@pytest.mark.skipif(not MODELS.is_dir(), reason=f"{MODELS} is absent: the real graphs are not shipped")
@pytest.mark.parametrize(("model", "target", "operator"), SPILLED)
def test_what_spilled_once_spills_nothing(model: str, target: str, operator: str) -> None:
    plan = engine.fuse(engine.load(MODELS / f"{model}.onnx"), target)
    groups = [one for one in plan.groups if any(operator in i.operators for i in one.instances)]
    kernels = [engine.compile(group) for group in groups]  # an LSTM has several
    found = [compile_cuda(kernel.source.text, kernel.target.architecture) for kernel in kernels]
    assert [one.spill_bytes for one in found] == [0] * len(groups) and max(one.registers for one in found) > 64


@pytest.mark.parametrize(
    ("grid", "threads", "sms", "before", "together"),
    [
        (147, 128, 132, 0, 2), (100, 128, 132, 0, 1), (132 * 4, 128, 132, 0, 4),
        (132 * 4 + 1, 128, 132, 0, 0),  # five blocks of 128 leave fewer than 128 registers to a thread
        (196, 512, 108, 0, 0), (100, 512, 108, 0, 1), (196, 256, 108, 1, 1),
    ],
)  # fmt: skip
def test_few_blocks_have_the_registers_of_an_sm(
    grid: int, threads: int, sms: int, before: int, together: int
) -> None:
    tile = engine.compile(engine.fuse(engine.load("suite:alcop/MM_RN50_FC")).groups[0]).tile
    assert replace(tile, grid=grid, threads=threads, together=before).with_registers(sms).together == together


@pytest.mark.parametrize(("grid", "needed", "together"), [(1176, 110, 9), (1176, 114, 0), (132, 255, 1), (529, 128, 5)])
def test_blocks_are_asked_for_where_they_leave_what_a_thread_needs(grid: int, needed: int, together: int) -> None:
    tile = engine.compile(engine.fuse(engine.load("suite:alcop/MM_RN50_FC")).groups[0]).tile
    few = replace(tile, grid=grid, threads=64, together=0)
    assert few.with_registers(132, needed).together == together


@pytest.mark.slow(sentinel=True)
@pytest.mark.skipif(not EXPORTS.is_dir(), reason=f"{EXPORTS} is absent: the real graphs are not shipped")
@needs_nvrtc
@pytest.mark.parametrize(("export", "target", "group", "most"), [
    ("rwkv", "a100", "matmul_2", 128),  # 16 bytes, of two blocks that share a depth
    ("rwkv_script_loop_ts17", "h200", "scatternd_1", 192),  # 23 kB: 300 values were loaded before any was used
])  # fmt: skip
def test_an_export_spills_nothing(export: str, target: str, group: str, most: int) -> None:
    plan = engine.fuse(engine.load(EXPORTS / f"{export}.onnx"), target)
    (found,) = [one for one in plan.groups if one.name == group]
    kernel = engine.compile(found)
    compiled = compile_cuda(kernel.source.text, kernel.target.architecture)
    assert compiled.spill_bytes == 0 and 64 < compiled.registers <= most
