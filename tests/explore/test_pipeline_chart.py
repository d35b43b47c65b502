"""The chart of a pipeline: what stands in its cells, that it adds up, and that planted faults are hazards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import engine
from engine.documents.pipeline import COMPUTE, COPY, STORE, WAIT, ChartDoc
from engine.explore.pipeline_chart import chart
from engine.explore.pipeline_hazards import hazards
from engine.explore.pipeline_trace import trace
from engine.explore.shared_memory import place
from engine.kernels.gemm.entries import entries_of, with_user_entries
from engine.kernels.gemm.problem import gemm_axes
from engine.kernels.nodes import Kernel
from engine.support.serialization import from_json, to_json
from engine.tensorize.space import GemmConfig
from engine.tile.nodes import Barrier, Commit, For, TileOp, TileProgram, UniformIf, Wait
from tests.support.attentions import Attention
from tests.support.needs import needs_compiler
from views.pipeline.canvas import describe

TILE = GemmConfig((128, 128, 32), (64, 32), 3)


@cache
def kernel(knobs: GemmConfig = TILE, row: str = "transformer/8192x3072x768-bias-gelu") -> Kernel:
    group = next(g for g in engine.fuse(engine.load(f"suite:{row}")).groups if g.kind == "contraction")
    recipe = engine.default_recipe(group)
    axes = gemm_axes(group.program)
    assert axes is not None
    return engine.compile(group, with_user_entries(recipe, group.name, entries_of(axes, knobs)))


def changed(tile: TileProgram, change: Callable[[TileOp], tuple[TileOp, ...]]) -> TileProgram:
    """A tile program whose operations went through `change`, innermost first."""

    def through(body: tuple[TileOp, ...]) -> tuple[TileOp, ...]:
        inside = (replace(op, body=through(op.body)) if isinstance(op, For | UniformIf) else op for op in body)
        return tuple(new for op in inside for new in change(op))

    return replace(tile, body=through(tile.body))


@pytest.mark.parametrize("stages", [2, 3, 4, 6])
def test_cells_name_the_stage_that_is_copied_to_and_read(stages: int) -> None:
    """Copy t goes to stage t mod S, tile t is read from there, and copies run S - 1 tiles ahead."""
    doc = chart(kernel(replace(TILE, stages=stages)))
    assert (doc.loop, doc.steps, doc.stages, doc.hazards) == ("k", 24, stages, ())
    computed = {bar.step: bar.stage for bar in doc.bars if bar.row == COMPUTE}
    assert all(stage == step % stages for step, stage in computed.items())
    copied = [(bar.step, bar.stage) for bar in doc.bars if bar.row == COPY]
    assert copied[: stages - 1] == [(-1, number) for number in range(stages - 1)]
    assert all(stage == (step + stages - 1) % stages for step, stage in copied[stages - 1 :])
    ahead = [bar.tile - bar.step for bar in doc.bars if bar.row == COPY and bar.step >= 0]
    assert set(ahead) == {stages - 1}
    assert max(step for step, _ in copied) <= 24 - stages  # nothing is left to copy in the last steps


def test_what_is_copied_once_is_no_tile(tmp_path: Path) -> None:
    """Attention copies its queries once, in a group of their own; each step the next keys and values."""
    group = Attention(queries=64, keys=1024, depth=64, head=64, dtype="float32").group(tmp_path)
    made = engine.compile(group, engine.default_recipe(group))
    doc = chart(made)
    copied = [bar for bar in doc.bars if bar.row == COPY]
    assert doc.steps > 2 and doc.hazards == ()
    assert {"key_tile", "value_tile"} <= {buffer.name for buffer in doc.shared if buffer.in_loop}
    once, *looped = copied
    assert (once.step, once.tile, once.stage) == (-1, None, None)
    assert describe(once).endswith("cycles. No tile of the loop: it is copied once")
    ahead = [bar.tile - bar.step for bar in looped]
    assert set(ahead) == {doc.stages - 1}
    for tile in range(doc.steps):
        mine = [bar for bar in looped if bar.tile == tile]
        assert 1 <= len(mine) <= 2 and {bar.stage for bar in mine} <= set(range(doc.stages))
    assert not any(-1 in (bar.tile, bar.stage) for bar in doc.bars)
    used = {bar.step: bar.start for bar in reversed(doc.bars) if bar.row == COMPUTE}
    assert [flight.tile for flight in doc.flights] == list(range(doc.steps))
    assert all(flight.copied <= flight.arrived and flight.read == used[flight.tile] for flight in doc.flights)


def test_a_tile_is_copied_before_it_arrives_and_used_after() -> None:
    doc = chart(kernel())
    assert [flight.tile for flight in doc.flights] == [*range(6), 22, 23]
    for flight in doc.flights:
        assert flight.stage == flight.tile % 3
        assert flight.copied <= flight.arrived <= flight.read < flight.freed


@pytest.mark.parametrize("stages", [1, 2])
def test_what_goes_through_registers_is_loaded_a_tile_ahead(stages: int) -> None:
    """Windows along rows of halves: no copy is asynchronous, and with two stages a tile's use hides its loads."""
    group = next(g for g in engine.fuse(engine.load("suite:alcop/Conv2D_RN50_2")).groups if g.kind == "contraction")
    text = f"advice user\n  all @ innermost: mark stages {stages}\n"
    made = engine.compile(group, engine.merge_advice(engine.default_recipe(group), group, text))
    doc = chart(made)
    assert (made.tile.stages, doc.hazards) == (stages, ())
    copied = [bar for bar in doc.bars if bar.row == COPY]
    assert all(bar.stage == bar.tile % stages for bar in copied)
    assert {bar.tile - bar.step for bar in copied if bar.step >= 0} == {stages - 1}
    if stages == 1:
        plain = [bar for bar in doc.bars if bar.kind == "stall"]
        assert len(plain) >= len({bar.step for bar in copied}), "every step waits for its own loads"


def test_a_long_loop_is_folded_and_the_rest_keeps_its_order() -> None:
    doc = chart(kernel())
    first, count = doc.folded
    assert (first, count) == (6, 16) and doc.folded_cycles > 0
    assert {bar.step for bar in doc.bars} == {-1, *range(6), 22, 23, 24}
    for row in (COPY, WAIT, COMPUTE, STORE):
        starts = [bar.start for bar in doc.bars if bar.row == row]
        assert starts == sorted(starts)
    assert max(bar.end for bar in doc.bars) == pytest.approx(doc.cycles - doc.folded_cycles)
    short = chart(kernel(TILE, "alcop/BMM_BERT_QK"))
    assert short.folded == (0, 0) and short.steps == 2


def test_the_chart_takes_the_time_that_the_model_says() -> None:
    """A block's cycles are those of a wave: the rhythm is played, not drawn by hand."""
    for stages in (1, 2, 4):
        doc = chart(kernel(replace(TILE, stages=stages)))
        waves = next(term for term in doc.terms if term.name == "waves").value
        loop = next(term for term in doc.terms if term.name == "main loop").value
        epilogue = next(term for term in doc.terms if term.name == "epilogue").value
        assert doc.cycles / doc.clock == pytest.approx((loop + epilogue) / waves, rel=0.03)
        assert doc.time.origin == doc.alcop.origin == doc.baseline.origin == "predicted"
        assert (doc.time.note, doc.alcop.note) == ("uncalibrated", "ALCOP model, uncalibrated")


def test_without_a_pipeline_every_step_stalls() -> None:
    """Copy, wait, compute in turn; with four stages nearly all waiting is gone."""
    alone, deep = (chart(kernel(replace(TILE, stages=stages))) for stages in (1, 4))
    stalled = {bar.step for bar in alone.bars if bar.kind == "stall"}
    assert stalled == {bar.step for bar in alone.bars if bar.row == COMPUTE}
    assert alone.stalled > 0.4 * alone.cycles and deep.stalled < 0.1 * deep.cycles


def statements(lines: list[str]) -> list[str]:
    """Lines one by one, but a block that packs a vector and stores it as one."""
    found = [""]
    for line in lines:
        found[-1] += line
        if not found[-1].startswith("{") or line == "}":
            found.append("")
    return found[:-1]


def test_bars_know_their_lines() -> None:
    found = kernel()
    lines = found.source.text.splitlines()
    wanted = {
        COPY: ("async_",), WAIT: ("async_wait", "barrier"), COMPUTE: ("ldmatrix", "mma_"), STORE: (".store<",)
    }  # fmt: skip
    doc = chart(found)
    for row, texts in wanted.items():
        own = [bar for bar in doc.bars if bar.row == row and bar.lines]
        assert own
        for bar in own:
            for statement in statements([lines[number - 1].strip() for number in bar.lines]):
                assert any(each in statement for each in texts), statement
    fill, loop = (next(b.lines for b in doc.bars if b.row == COPY and b.step == step) for step in (-1, 0))
    assert max(fill) < min(loop)


@pytest.mark.parametrize("knobs", [TILE, replace(TILE, stages=1), GemmConfig((128, 128, 64), (64, 32), 3, 2)])
def test_sound_pipelines_have_no_hazard(knobs: GemmConfig) -> None:
    found = trace(kernel(knobs).tile)
    assert found is not None and hazards(found) == ()


@pytest.mark.parametrize(
    ("name", "change", "kinds"),
    [
        ("wait for one group less", lambda op: (replace(op, pending=2),) if isinstance(op, Wait) else (op,),
         {"not waited for"}),
        ("no barrier", lambda op: () if isinstance(op, Barrier) else (op,), {"no barrier", "overwritten"}),
        ("no commit", lambda op: () if isinstance(op, Commit) else (op,), {"not waited for", "wrong tile"}),
        ("a prologue short by one", lambda op: (replace(op, extent=1),) if _is_prologue(op) else (op,),
         {"not waited for", "wrong tile"}),
    ],
)  # fmt: skip
def test_planted_faults_are_hazards(
    name: str, change: Callable[[TileOp], tuple[TileOp, ...]], kinds: set[str]
) -> None:
    found = trace(changed(kernel().tile, change))
    assert found is not None
    assert kinds & {hazard.kind for hazard in hazards(found)}, name


def _is_prologue(op: TileOp) -> bool:
    return isinstance(op, For) and op.name == "ahead"


def test_a_hazard_is_marked_in_the_chart() -> None:
    sound = kernel()
    faulty = replace(sound, tile=changed(sound.tile, lambda op: () if isinstance(op, Barrier) else (op,)))
    doc = chart(faulty)
    assert doc.hazards and {bar.kind for bar in doc.bars if bar.row == COMPUTE} >= {"hazard"}
    assert "no barrier" in next(bar.because for bar in doc.bars if bar.kind == "hazard" and bar.row == COMPUTE)


def test_shared_memory_is_mapped_byte_by_byte() -> None:
    found = kernel()
    doc = chart(found)
    mapped = [(buffer.array, buffer.offset, buffer.size, buffer.stages) for buffer in doc.shared]
    results = ("", 0, 8192, 1)  # after the main loop, over its tiles
    assert mapped == [("a_2", 0, 24576, 3), ("b_2", 24576, 24576, 3), results]
    assert doc.shared_bytes == found.source.shared_bytes == 49152 < doc.shared_limit == 227 * 1024
    for buffer in doc.shared:
        for chunks, rows in zip(buffer.chunks, buffer.rows, strict=True):
            assert len(set(zip(chunks, rows, strict=True))) == 8  # a permutation of what 128 bytes hold
        assert buffer.passes == 1 < buffer.passes_unpermuted


@needs_compiler
def test_the_permutation_is_the_one_that_the_emulator_sees() -> None:
    """The first matrix load of a warp, address by address: rows of one chunk, where `place` says they lie."""
    found = kernel(GemmConfig((64, 64, 32), (32, 32), 2), "gta/gemm-16x512x128")
    lanes = next(each for each in engine.addresses(found).lanes if each.kind == "shared load")
    buffer = next(s for s in chart(found).shared if lanes.array == s.name)
    by_rows = [place(lane % 16 * buffer.row_bytes // 2 + lane // 16 * 8, buffer.row_bytes, 2) * 2 for lane in range(32)]
    assert list(lanes.addresses) == by_rows
    assert lanes.sectors == lanes.ideal == 4 * buffer.passes


def test_rows_in_turns_are_a_pipeline_too() -> None:
    """Eight rows a turn, copied two turns ahead: the chart goes by the tile program, not by the kind of kernel."""
    group = engine.fuse(engine.load("resources/models/layernorm_64x768.onnx")).groups[0]
    turns = "advice user\n  all @ i: mark turns 8\n  all @ i: mark stages 3\n"
    found = engine.compile(group, engine.merge_advice(engine.default_recipe(group), group, turns))
    doc = chart(found)
    assert (doc.loop, doc.steps, doc.stages, doc.hazards, doc.gemm) == ("turn", 8, 3, (), None)
    copied = [(bar.tile, bar.stage) for bar in doc.bars if bar.row == COPY]
    assert copied == [(tile, tile % 3) for tile in range(8)]
    assert {bar.step for bar in doc.bars if bar.row == STORE} == set(range(8))


def test_a_kernel_without_tiles_says_so_and_documents_travel() -> None:
    group = engine.fuse(engine.load("resources/models/softmax_96x512.onnx")).groups[0]
    none = chart(engine.compile(group))
    assert none.bars == () and "nothing to pipeline" in none.because and none.gemm is none.knobs is None
    for doc in (none, chart(kernel())):
        assert from_json(ChartDoc, to_json(doc)) == doc
