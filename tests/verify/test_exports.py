"""Graphs of other exporters whose right kernels were called wrong, or whose inputs were outside a root's domain."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from tests.support.needs import needs_compiler, needs_nvrtc

EXPORTS = Path(__file__).parents[3] / "shared" / "exports"
FILES = (
    "minimal/sum_all.onnx",  # the parts of a sum, beside a reference that adds up the whole
    "train_mlp_adam.onnx",  # roots of an optimiser's state
    "minimal/matvec_gather.onnx",  # half of a register that nothing writes, nor uses
    "pointnet2_fps_topk.onnx",  # roots of differences that cancel
    "rwkv.onnx",  # cancellation behind a gather
    "train_transformer_adam.onnx",
    "resnet18_qdq_int8.onnx",  # codes that rounding decides, zero points that frames hold
    "bert_dynquant.onnx",
    "gat_pyg_ts17.onnx",  # branches by shapes
    "rwkv_script_loop_ts17.onnx",  # a loop of known length
    "dlrm_embbag.onnx",  # sequences filled in a loop
    "llama_int4_qdq_op21.onnx",
    "llama_int4_nbits.onnx",
)


@pytest.mark.slow(sentinel=True)
@needs_compiler
@needs_nvrtc
@pytest.mark.skipif(not EXPORTS.is_dir(), reason=f"{EXPORTS} is not here")
@pytest.mark.parametrize("file", FILES)
def test_every_kernel_passes_as_text_and_as_compiled(file: str) -> None:
    for group in engine.fuse(engine.load(EXPORTS / file)).groups:
        kernel = engine.compile(group)
        levels = ("source", "ptx") if engine.predict(kernel).microseconds < 20 else ("source",)
        for level in levels:
            found = engine.check(kernel, level=level)
            assert found.status == "pass", f"{group.name}, {level}: {found.message}"
