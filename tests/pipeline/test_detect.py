"""The three rules, decided from the tile program: what is accepted, what is refused, why, and what would lift it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.kernels.families import lower
from engine.kernels.family import Setting
from engine.pipeline.detect import detect
from engine.pipeline.nodes import Decision
from engine.target.devices import H200
from engine.tensor.index import Index
from engine.tensor.nodes import (
    Access,
    Apply,
    Array,
    Iterator,
    Literal,
    Reduction,
    Statement,
    TensorProgram,
)
from engine.tile.nodes import (
    Assign,
    AsyncCopy,
    Buffer,
    For,
    Load,
    PipelineRequest,
    Slot,
    Store,
    TileOp,
    TileProgram,
    operations,
)
from tests.explore.groups import made_of
from tests.kernels.test_tensor_cores import advised, product_group
from tests.pipeline.figure import CHUNK, KO, PART, figure_7
from tests.support.programs import at


def edited(change: Callable[[TileOp], tuple[TileOp, ...]], **more: object) -> TileProgram:
    """Figure 7 with every operation replaced by what `change` makes of it."""

    def visit(body: tuple[TileOp, ...]) -> tuple[TileOp, ...]:
        below = (replace(op, body=visit(op.body)) if isinstance(op, For) else op for op in body)
        return tuple(new for op in below for new in change(op))

    program = figure_7()
    return replace(program, body=visit(program.body), **more)


def decided(program: TileProgram) -> tuple[Decision, Decision]:
    shared, register = detect(program, H200)
    return shared, register


def test_the_figure_is_accepted() -> None:
    shared, register = decided(figure_7())
    assert (shared.stages, register.stages) == (3, 2)
    assert shared.loop is not None and shared.loop.name == "ko"
    assert register.loop is not None and register.loop.name == "ki"
    assert shared.refusal is None and register.refusal is None


def through_a_register(copy: TileOp, bytes_each: int = 4) -> tuple[TileOp, ...]:
    """A plain copy in place of an asynchronous one."""
    if not isinstance(copy, AsyncCopy):
        return (copy,)
    held = Slot("held")
    return Load(held, "A", copy.source_position, 1), Store("A_shared", copy.target_position, held, 1)


HALF = {
    name: Buffer(name, "float16", shape, scope)
    for name, shape, scope in [("A", (KO * CHUNK,), "global"), ("A_shared", (CHUNK,), "shared"),
                               ("A_reg", (PART,), "register"), ("acc", (), "register"), ("held", (), "register")]
}  # fmt: skip


def test_rule_1_a_copy_of_two_bytes_is_stored_where_it_is_loaded() -> None:
    shared, register = decided(edited(through_a_register, buffers=HALF))
    assert shared.stages == 1 and shared.refusal is not None and shared.refusal.rule == 1
    assert "A is copied 2 bytes at a time and cp.async moves 4, 8 or 16" in shared.refusal.because
    assert "runs of 2 neighbours that begin at multiples of 4 bytes" in shared.refusal.lift
    assert register.stages == 2, "loads from shared memory are asynchronous whatever filled it"


def test_rule_1_arithmetic_on_the_way() -> None:
    def doubled(op: TileOp) -> tuple[TileOp, ...]:
        load, *store = through_a_register(op)
        if not store:
            return (load,)
        twice = Apply("mul", (Access("held", ()), Literal(2.0, "float16")), "float16")
        return load, Assign(Slot("held"), twice), *store

    shared, _ = decided(edited(doubled, buffers=HALF))
    assert shared.refusal is not None and shared.refusal.rule == 1
    assert "filled with computed values" in shared.refusal.because
    assert "compute where A_shared is used" in shared.refusal.lift


def test_rule_1_registers_that_are_computed() -> None:
    def computed(op: TileOp) -> tuple[TileOp, ...]:
        is_load = isinstance(op, Load)
        return (op, Assign(Slot("A_reg", (Index(),)), Literal(0.0, "float32"))) if is_load else (op,)

    _, register = decided(edited(computed))
    assert register.refusal is not None and register.refusal.rule == 1
    assert "A_reg is computed where it is filled" in register.refusal.because


def test_rule_2_no_loop_around() -> None:
    def unwrapped(op: TileOp) -> tuple[TileOp, ...]:
        return op.body if isinstance(op, For) and op.name == "ko" else (op,)

    shared, register = decided(edited(unwrapped))
    assert shared.refusal is not None and shared.refusal.rule == 2
    assert "no loop fills and uses A_shared in turn" in shared.refusal.because
    assert register.stages == 2


def two_buffers(stages: tuple[int, int], tail: bool = False) -> TileProgram:
    """Figure 7 with a second buffer that is filled beside the first; tail: used after the inner loop as well."""

    def beside(op: TileOp) -> tuple[TileOp, ...]:
        if isinstance(op, AsyncCopy):
            return op, replace(op, target="B_shared")
        if isinstance(op, Load):
            return op, replace(op, source="B_shared")
        if tail and isinstance(op, For) and op.name == "ki":
            return op, Load(Slot("late"), "B_shared", Index(), 1)
        return (op,)

    buffers = dict(figure_7().buffers)
    buffers["B_shared"] = replace(buffers["A_shared"], name="B_shared")
    buffers["late"] = Buffer("late", "float32", (), "register")
    wishes = (PipelineRequest(("A_shared",), stages[0], "stages"), PipelineRequest(("B_shared",), stages[1], "stages"))
    return edited(beside, buffers=buffers, requests=wishes)


def test_rule_3_all_buffers_of_a_scope_alike() -> None:
    assert [d.stages for d in detect(two_buffers((3, 3)), H200)] == [3, 3]
    for program, because in [
        (two_buffers((3, 2)), "A_shared has 3 stages, B_shared 2"),
        (two_buffers((3, 3), tail=True), "first or last used in different places"),
    ]:
        decisions = detect(program, H200)
        assert [d.stages for d in decisions] == [1, 1]
        for decision in decisions:
            assert decision.refusal is not None and decision.refusal.rule == 3
            assert because in decision.refusal.because and decision.refusal.lift


LIMITS = [
    # wish, nearest, reason
    (figure_7(shared=6, ko=4), 0, 4, "the loop over ko has 4 iterations"),
    (figure_7(shared=7), 0, 6, "up to 6 stages"),
    (figure_7(register=4, ki=2), 1, 2, "the loop over ki has 2 iterations; a deeper tile has more"),
    (figure_7(register=3), 1, 2, "registers hold 1, 2 or 4 stages"),
]


@pytest.mark.parametrize(("program", "level", "nearest", "because"), LIMITS)
def test_limits_give_the_nearest_choice(program: TileProgram, level: int, nearest: int, because: str) -> None:
    decision = detect(program, H200)[level]
    assert decision.stages == nearest
    assert because in str(decision.refusal)


# As a reader of verdicts meets it


WISHES = [
    ("all @ k: mark stages 6", 64, 3, "6 stages need 393,216 bytes of shared memory, a block may have 232,448; 3 need"),
    ("all @ k: mark register_stages 4", 32, 2, "the loop over step has 2 iterations; a deeper tile has more"),
    ("all @ k: mark register_stages 3", 32, 2, "registers hold 1, 2 or 4 stages"),
]


@pytest.mark.parametrize(("wish", "depth", "nearest", "because"), WISHES, ids=[wish for wish, *_ in WISHES])
def test_a_stage_count_that_cannot_be_had(wish: str, depth: int, nearest: int, because: str, tmp_path: Path) -> None:
    """Soft, it becomes the nearest; required, it is refused and the nearest proposed."""
    tile = [f"all @ {d}: mark {name} {size}" for d in "ij" for name, size in (("block", 256), ("warp", 64))]
    group = product_group(tmp_path, (1024, 1024), (1024, 1024))
    kernel = advised(group, *tile, f"all @ k: mark tile {depth}", wish)
    verdict = next(v for v in kernel.verdicts if str(v.placed.entry) == wish and v.placed.author == "user")
    assert verdict.outcome == "relaxed"
    assert because in verdict.because
    # Soft entries would give way to the required one: the kernel would leave the tensor cores for it.
    firm = [f"required {entry}" for entry in (*tile, f"all @ k: mark tile {depth}", wish)]
    with pytest.raises(engine.Conflict) as refused:
        advised(group, "required all @ k: mark intrinsic mma_m16n8k16_f16", *firm)
    number = int(wish.split()[-1])
    assert f"ask for what the kernel takes: “required {wish.replace(str(number), str(nearest))}”" in str(refused.value)


def test_copies_that_cannot_be_asynchronous_go_through_registers(tmp_path: Path) -> None:
    """47 x 31 halves: no row begins at a multiple of 4 bytes, so cp.async moves none of them."""
    group = product_group(tmp_path, (64, 47), (47, 31))
    kernel = advised(group, "all @ k: mark stages 2")
    verdict = next(v for v in kernel.verdicts if v.placed.author == "user")
    assert (kernel.tile.stages, verdict.outcome) == (2, "honoured")
    assert not any(isinstance(op, AsyncCopy) for op in operations(kernel.tile.body))
    assert "while tile t is used (left, right through registers)" in kernel.source.text


def test_a_tile_that_does_not_fit_the_registers_is_told(tmp_path: Path) -> None:
    """One warp would have 32 elements of either factor in registers at a time."""
    group = product_group(tmp_path, (64, 147), (147, 31))
    wishes = [f"all @ {d}: mark {name} 32" for d in "ij" for name in ("block", "warp")]
    kernel = advised(group, *wishes, "all @ k: mark tile 32", "all @ k: mark slices 1", "all @ k: mark stages 2")
    verdict = next(v for v in kernel.verdicts if str(v.placed.entry).endswith("stages 2") and v.placed.author == "user")
    assert (kernel.tile.stages, verdict.outcome) == (1, "relaxed")
    assert "copied 2 bytes at a time" in verdict.because and "take turns, 8 at a time" in verdict.because
    assert "more threads or a smaller tile lift it" in verdict.because
    allowed = advised(group, *wishes, "all @ k: mark tile 16", "all @ k: mark slices 1", "all @ k: mark stages 2")
    assert allowed.tile.stages == 2


def test_a_target_without_the_instruction(tmp_path: Path) -> None:
    """The kernel runs on CUDA cores, and the entry says why; a newer instruction set has what an older one has."""
    kernel = advised(product_group(tmp_path, (64, 64), (64, 64)))
    group = replace(kernel.group, program=kernel.program)
    for architecture, has_it in [("sm_75", False), ("sm_80", True), ("sm_90a", True), ("sm_100", True)]:
        tile = lower(group, kernel.schedule, Setting(replace(kernel.target, architecture=architecture)))
        assert bool(tile.intrinsic) == has_it
        told = [str(note) for note in tile.notes.values() if "mma.sync" in str(note)]
        reason = f"runs on CUDA cores: {architecture} has no mma.sync.aligned.m16n8k16, the first with it is sm_80"
        assert told == ([] if has_it else [reason])


@pytest.mark.parametrize("innermost", ["channels", "columns"])
def test_channels_innermost_are_copied_asynchronously(innermost: str) -> None:
    """A 3 x 3 convolution of halves: where a window moves along rows, the image goes through registers."""
    row, column = Index.of("h") + Index.of("r"), Index.of("w") + Index.of("s")
    extents = {"b": 2, "o": 32, "h": 12, "w": 12, "c": 32, "r": 3, "s": 3}
    if innermost == "channels":
        order, read, weight, shape = "bhworsc", at("x", "b", row, column, "c"), "orsc", (2, 14, 14, 32)
    else:
        order, read, weight, shape = "bohwcrs", at("x", "b", "c", row, column), "ocrs", (2, 32, 14, 14)
    factors = tuple(Apply("cast", (factor,), "float32") for factor in (read, at("k", *weight)))
    anchor = Statement(
        "S0", "conv", tuple(Iterator(name, extents[name]) for name in order), at("y", *order[:4]),
        Apply("mul", factors, "float32"), Reduction("sum", tuple(order[4:]), 0.0, "float32"),
    )  # fmt: skip
    shapes = {"x": shape, "k": tuple(extents[n] for n in weight), "y": tuple(extents[n] for n in order[:4])}
    arrays = {name: Array(name, shape, "float16") for name, shape in shapes.items()}
    kernel = engine.compile(made_of(TensorProgram("conv", arrays, (anchor,), ("x", "k"), ("y",)), "contraction"))
    (wish,) = (v for v in kernel.verdicts if v.placed.author == "pipeline" and "stages" in v.placed.entry.value)
    assert kernel.tile.intrinsic
    assert wish.outcome == "honoured" and kernel.tile.stages > 1
    copied = {op.source for op in operations(kernel.tile.body) if isinstance(op, AsyncCopy)}
    assert copied == ({"x", "k"} if innermost == "channels" else {"k"})
    assert ("one by one through registers" in wish.placed.entry.because) == (innermost == "columns")
