"""Loops whose end stands before their head in the text, as NVRTC writes those that it unrolls in part."""

from __future__ import annotations

import numpy as np
import pytest

from engine.execution.nodes import Emulation
from engine.execution.ptx.execute import execute
from engine.tile.source import CudaSource, Parameter

LOOP = """.visible .entry k(.param .u64 k_param_0)
{
  .reg .pred %p<5>;
  .reg .b32 %r<12>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [k_param_0];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, 0;
  mov.u32 %r5, 0;
  mov.u32 %r6, 31;
  mov.u32 %r7, 1;
  mov.u32 %r8, -1;
  bra.uni $HEAD;
$END:
  add.s32 %r2, %r2, 1;
$HEAD:
  shfl.sync.bfly.b32 %r3|%p1, %r1, %r7, %r6, %r8;
  add.s32 %r5, %r5, %r3;
  setp.eq.s32 %p2, %r2, 2;
  @%p2 bra $DONE;
  setp.ne.s32 %p3, %r1, 0;
  @%p3 bra $END;
  add.s32 %r5, %r5, 100;
  bra.uni $END;
$DONE:
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r5;
  ret;
}
"""
"""Three shuffles with the neighbour; between them lane 0 alone adds 100, while the others are back at the head."""


def run(text: str, blocks: int, order: str) -> tuple[Emulation, np.ndarray]:
    buffer = Parameter("y_", "y", "int32", 64, False, True, 4)
    source = CudaSource("", "k", (blocks, 1, 1), (64, 1, 1), 0, (buffer,), ())
    found, outputs, _ = execute(source, text, {}, order=order, timeout=10)
    return found, outputs["y"]


@pytest.mark.parametrize("order", ["late", "early"])
@pytest.mark.parametrize("blocks", [1, 3])
def test_lanes_wait_for_the_others_of_their_warp(blocks: int, order: str) -> None:
    found, sums = run(LOOP, blocks, order)
    assert found.findings == ()
    thread = np.arange(64)
    np.testing.assert_array_equal(sums, 3 * (thread ^ 1) + np.where(thread == 0, 200, 0))


def test_lanes_that_never_come_are_a_fault() -> None:
    """Lane 0 leaves the loop, and the others shuffle without it."""
    text = LOOP.replace("  bra.uni $END;\n", "  bra.uni $DONE;\n")
    (finding,) = run(text, 1, "late")[0].findings
    assert finding.kind == "divergent warp" and "not all lanes of a warp come" in finding.message
