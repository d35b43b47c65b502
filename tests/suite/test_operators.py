"""Every operator of the suites at a small size: its kernels agree with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.suite import SuiteRow
from engine.suite.operators import OPERATORS, model_of

PRODUCT = {"m": 16, "n": 24, "k": 32}
HEADS = {"batch": 2, "heads": 3, "queries": 20, "keys": 24, "head": 16}
IMAGES = {"batch": 2, "channels": 4, "space": (4, 5)}
CONVOLUTION = {
    "batch": 2,
    "space": (9, 8),
    "channels": 3,
    "filters": 4,
    "kernel": (3, 3),
    "stride": (2, 2),
    "pad": (1, 1),
}
SIZES = {
    **{name: PRODUCT for name in OPERATORS if name.startswith("matmul")},
    **{name: IMAGES for name in OPERATORS if name.startswith(("batchnorm", "batch-statistics", "mean", "variance"))},
    **{name: {"elements": 100} for name in ("copy", "add", "sum")},
    "gemv": {"m": 24, "k": 40},
    "scan": PRODUCT,
    "batched-matmul": {"b": 2, **PRODUCT},
    "conv": {**CONVOLUTION, "dilation": (2, 1)},
    "transposed-conv": CONVOLUTION,
    "adam": {"parameters": 100},
    "masked-softmax": {"batch": 2, "heads": 3, "queries": 4, "keys": 16, "mask": (2, 1, 1, 16)},
    "attention": HEADS,
    "masked-attention": {**HEADS, "mask": (2, 1, 1, 24)},
    "qkv-split": {"batch": 2, "sequence": 4, "heads": 3, "head": 8},
    "rope": {"batch": 2, "sequence": 4, "heads": 3, "head": 8},
}
ROWS = {name: SuiteRow(name, name, "float16", SIZES.get(name, {"m": 16, "n": 24}), 1, 1) for name in OPERATORS}
QUICK = (
    "scan", "masked-attention", "matmul-bias-gelu-cast", "add-layernorm", "gelu-backward-bias", "cross-entropy", "rope",
)  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in OPERATORS]
)
def test_kernels_of_an_operator_agree_with_the_reference(name: str, tmp_path: Path) -> None:
    path = tmp_path / "row.onnx"
    path.write_bytes(model_of(ROWS[name]).SerializeToString())
    plan = engine.fuse(engine.load(path))
    assert not plan.unsupported
    for group in plan.groups:
        check = engine.check(engine.compile(group))
        assert check.status == "pass", f"{group.name}: {check.message} {check.findings}"
