"""Other knobs by the model at once, by NVRTC on request; what cannot be is refused with figures and a near choice."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

import engine
from engine.cost.alcop_nodes import GemmProblem
from engine.execution.sass import NO_TOOL, disassembler
from engine.explore.pipeline_chart import chart
from engine.explore.what_if import turn_knob, what_if
from engine.kernels.gemm.nodes import Epilogue, EpilogueRequest, FusedGemm, PassRequests, Reach
from engine.support.errors import BadInput, Unsupported
from engine.tensorize.space import GemmConfig
from tests.support.needs import needs_nvrtc

WRITTEN = EpilogueRequest("y[i, j]", 2, True, True, True, True, True)
FFN = FusedGemm(
    GemmProblem(8192, 3072, 768),
    reaches=(Reach(2, 1, 8, True),) * 2,
    epilogue=Epilogue((PassRequests((), (WRITTEN,)),), widest=8, sum_bytes=2, factor_bytes=0),
    flops=0,
    special=0,
    dram_bytes=(2 * 768 * (8192 + 3072), 2 * 8192 * 3072),
)
NOW = GemmConfig((128, 128, 32), (64, 32), 4)


def test_an_answer_takes_less_than_fifty_milliseconds() -> None:
    what_if(FFN, NOW, NOW, "h200")
    started = time.process_time()
    for stages in range(1, 7):
        what_if(FFN, NOW, replace(NOW, stages=stages), "h200", 126)
    assert (time.process_time() - started) / 6 < 0.05


def test_figures_of_both_stand_beside_each_other() -> None:
    doc = what_if(FFN, NOW, replace(NOW, stages=6), "a100", 126)
    rows = {quantity.name: quantity for quantity in doc.quantities}
    assert (rows["Shared per block"].now, rows["Shared per block"].then) == ("64 KiB", "96 KiB")
    assert (rows["Blocks an SM holds"].now, rows["Blocks an SM holds"].then) == ("2", "1")
    assert rows["Shared per block"].binding and rows["Shared per block"].limit == "163 KiB"
    assert rows["Registers per thread"].now == "126" and rows["Registers per thread"].then.startswith("≈ ")
    assert doc.then is not None and doc.then.microseconds > doc.now.microseconds
    assert doc.now.origin == doc.then.origin == "predicted"
    assert [stages for stages, _ in doc.sweep] == [1, 2, 3, 4, 5, 6]
    assert dict(doc.sweep)[6] == doc.then.microseconds


@pytest.mark.parametrize(
    ("knobs", "text", "offer"),
    [
        (replace(NOW, block=(256, 256, 64), part=(64, 64), stages=4), "256 KiB of shared memory, a block may have 227",
         "3 stages"),
        (replace(NOW, block=(128, 128, 128), stages=6), "384 KiB of shared memory", "3 stages"),
        (replace(NOW, block=(120, 128, 32)), "no instruction divides 120 rows: it computes 16 x 8 x 16", ""),
        (replace(NOW, register_stages=4), "4 register stages, and a tile has 2 steps of 16", "2 register stages"),
        (replace(NOW, stages=9), "9 stages, a pipeline has up to 6", "6 stages"),
        (replace(NOW, slices=4), "4 slices of 32 depths are no whole steps of 16", "2 slices"),
        (replace(NOW, split_k=40), "40 blocks cannot share 24 tiles of 32 depths: one of them would have none",
         "split-K 2"),
        (replace(NOW, split_k=8), "786,432 KiB of sums in global memory, a kernel keeps 262,144 KiB", "split-K 2"),
        (replace(NOW, part=(48, 32)), "parts of 48 x 32 do not divide a tile of 128 x 128", "parts of 64 x 32"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_figures(knobs: GemmConfig, text: str, offer: str) -> None:
    doc = what_if(FFN, NOW, knobs, "h200")
    assert doc.then is None and doc.refusal is not None
    assert text in doc.refusal.text and doc.refusal.offer == offer
    if doc.refusal.nearest is not None:
        assert what_if(FFN, NOW, doc.refusal.nearest, "h200").refusal is None


def test_more_stages_than_the_loop_has_tiles_are_refused() -> None:
    short = replace(FFN, problem=replace(FFN.problem, k=96))
    refusal = what_if(short, replace(NOW, stages=2), replace(NOW, stages=5), "h200").refusal
    assert refusal is not None and refusal.text == "5 stages of 32 depths, and the loop has 3 of 96"
    assert refusal.nearest == replace(NOW, stages=3)
    low = replace(FFN, problem=replace(FFN.problem, m=512))
    refusal = what_if(low, NOW, replace(NOW, split_k=8), "h200").refusal
    assert refusal is not None
    assert refusal.text == "4 stages of 32 depths, and the loop has 3 of 768, shared by 8 blocks"
    assert refusal.nearest == replace(NOW, split_k=6)


def test_turning_a_knob_cuts_the_tile_anew() -> None:
    """As many warps as before, each with the squarest part; the tile alone where it is too small for them."""
    product = FFN.problem
    assert turn_knob(product, NOW, "stages", 2) == replace(NOW, stages=2)
    assert turn_knob(product, NOW, "rows", 256).part == (64, 64) and turn_knob(product, NOW, "rows", 256).parts == 8
    assert turn_knob(product, NOW, "warps", 4).part == (64, 64)
    small = turn_knob(product, turn_knob(product, NOW, "rows", 16), "columns", 32)
    assert small.part == (16, 16) and small.parts == 2
    assert turn_knob(replace(product, unit=""), GemmConfig((32, 32, 16), (2, 4)), "threads", 256).parts == 256


@needs_nvrtc
def test_a_variant_is_compiled_and_its_advice_asks_for_it() -> None:
    group = engine.fuse(engine.load("suite:transformer/8192x3072x768-bias-gelu")).groups[0]
    recipe = engine.default_recipe(group, target="a100")
    asked = GemmConfig((128, 128, 64), (64, 64), 3, 2)
    found = engine.variant(group, recipe, asked)
    assert found.entries == ("S0 @ k: mark tile 64", "S0 @ k: mark stages 3")
    assert (found.shared_bytes, found.spill_bytes, found.architecture) == (98304, 0, "sm_80")
    assert found.knobs.raster == engine.chart(engine.compile(group, recipe)).knobs.raster > 1  # the tiles stay
    assert 100 < found.registers <= 255 and found.time.origin == "predicted"
    again = engine.replace_advice(recipe, group, found.changed)
    assert engine.chart(engine.compile(group, again)).knobs == replace(asked, raster=found.knobs.raster)
    back = engine.variant(group, again, GemmConfig((128, 128, 64), (64, 64), 2, 2))
    assert back.changed.count("stages 2") == 2 and "stages 3" not in back.changed  # the old entry gives way


@needs_nvrtc
def test_knobs_that_the_kernel_does_not_take_are_refused() -> None:
    group = engine.fuse(engine.load("suite:transformer/8192x3072x768-bias-gelu")).groups[0]
    with pytest.raises(Unsupported, match="up to 6") as refused:
        engine.variant(group, engine.default_recipe(group), GemmConfig((128, 128, 32), (64, 32), 9))
    assert refused.value.hint == "the nearest that can be: 6 stages"
    softmax = engine.fuse(engine.load("resources/models/softmax_96x512.onnx")).groups[0]
    with pytest.raises(BadInput, match="no contraction"):
        engine.variant(softmax, engine.default_recipe(softmax), NOW)
    with pytest.raises(BadInput, match="no contraction"):
        engine.what_if_of_chart(chart(engine.compile(softmax)), NOW, "h200")


@needs_nvrtc
def test_ptx_is_linked_to_the_cuda_text() -> None:
    group = engine.fuse(engine.load("suite:gta/gemm-16x512x128")).groups[0]
    kernel = engine.compile(group)
    listed = engine.listing(kernel, "PTX")
    text, cuda = listed.text.splitlines(), kernel.source.text.splitlines()
    links = [(text[a - 1], cuda[b - 1]) for a, b in listed.lines]
    calls = (("mma.sync", "mma_m16n8k16"), ("ldmatrix.sync", "ldmatrix_"), ("cp.async.cg.", "async_copy"))
    for instruction, call in calls:
        found = [line for ptx, line in links if instruction in ptx]
        assert found and all(call in line for line in found)
    with pytest.raises(BadInput, match="PTX, SASS"):
        engine.listing(kernel, "LLVM")


@needs_nvrtc
def test_sass_is_linked_or_says_what_is_missing() -> None:
    kernel = engine.compile(engine.fuse(engine.load("suite:gta/gemm-16x512x128")).groups[0])
    listed = engine.listing(kernel, "SASS")
    if disassembler() is None:
        assert listed.text == "" and listed.because == NO_TOOL and "pip install nvidia-cuda-nvdisasm" in NO_TOOL
        return
    text, cuda = listed.text.splitlines(), kernel.source.text.splitlines()
    products = [cuda[b - 1] for a, b in listed.lines if "HMMA" in text[a - 1]]
    assert products and all("mma_m16n8k16" in line for line in products)
