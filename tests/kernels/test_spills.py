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
    (group,) = [one for one in plan.groups if any(operator in i.operators for i in one.instances)]
    kernel = engine.compile(group)
    found = compile_cuda(kernel.source.text, kernel.target.architecture)
    assert found.spill_bytes == 0 and found.registers > 64


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
