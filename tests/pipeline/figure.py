"""The loop of figure 7 of ALCOP as a tile program: chunks of A to shared memory, parts of a chunk to registers."""

from __future__ import annotations

from dataclasses import replace

from engine.tensor.index import Index
from engine.tensor.nodes import Access, Literal
from engine.tile.nodes import (
    Assign,
    AsyncCopy,
    Barrier,
    Buffer,
    Commit,
    Declare,
    For,
    Load,
    PipelineRequest,
    Slot,
    TileOp,
    TileProgram,
    Wait,
)

KO, KI = 8, 4
"""Iterations of the outer and the inner loop."""
CHUNK, PART = 16, 4
"""Elements of A that one iteration of each uses."""


def figure_7(shared: int = 3, register: int = 2, ko: int = KO, ki: int = KI) -> TileProgram:
    """One thread adds up A, a chunk at a time; the requests ask for stages of both levels."""
    outer, inner, lane = Index.of("ko"), Index.of("ki"), Index.of("v")
    body: tuple[TileOp, ...] = (
        Declare("acc", Literal(0.0, "float32")),
        For("ko", ko, (
            For("c", CHUNK // PART, (
                AsyncCopy("A_shared", Index.of("c") * PART, "A", outer * CHUNK + Index.of("c") * PART, PART),
            ), unroll=True),
            Commit(), Wait(0), Barrier(),
            For("ki", ki, (
                Declare("A_reg"),
                Load(Slot("A_reg"), "A_shared", inner * PART, PART),
                For("v", PART, (Assign(Slot("acc"), Access("A_reg", (lane,)), combine="sum"),), unroll=True),
            ), unroll=True),
            Barrier(),
        )),
    )  # fmt: skip
    buffers = {
        "A": Buffer("A", "float32", (KO * CHUNK,), "global"),
        "A_shared": Buffer("A_shared", "float32", (CHUNK,), "shared"),
        "A_reg": Buffer("A_reg", "float32", (PART,), "register"),
        "acc": Buffer("acc", "float32", (), "register"),
    }
    program = TileProgram("figure", (), 1, 1, {}, buffers, frozenset(), frozenset(("A",)), body, ())
    inner = PipelineRequest(("A_reg",), register, "register_stages")
    requests = (PipelineRequest(("A_shared",), shared, "stages"), inner)
    return replace(program, requests=requests)
