"""Stitched and packed kernels of every real graph beside the repository: none of them spills registers."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from tests.support.needs import needs_nvrtc

SHARED = Path(__file__).parents[4] / "shared"
GRAPHS = sorted((*SHARED.glob("models/*.onnx"), *SHARED.glob("akg/stitch/*.json")))
KINDS = ("stitched", "packed")


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.skipif(not GRAPHS, reason=f"{SHARED} with real graphs is absent")
@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
def test_no_stitched_kernel_spills(path: Path) -> None:
    found = {}
    for group in engine.fuse(engine.load(path)).groups:
        if group.kind in KINDS:
            kernel = engine.compile(group)
            for architecture in engine.ARCHITECTURES:
                compiled = engine.nvrtc(kernel, architecture)
                if compiled.spill_bytes:
                    found[group.name, architecture] = compiled.spill_bytes
    assert not found
