"""No thread keeps more of an array than its registers hold: long rows are read again, shared by more, or split."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.fusion.legality import KernelLegality
from engine.fusion.nodes import FusionGroup, GroupInstance
from engine.fusion.split_reductions import in_parts
from engine.fusion.stitching.nodes import POLICIES
from engine.target import target
from engine.target.registers import MAX_PRIVATE
from engine.tensor.live_values import overwritten_before
from engine.tensor.nodes import Array, TensorProgram
from tests.support.programs import apply, at, program, statement
from tests.test_shared_models import AKG, SHARED, needs_shared

SOME = [
    SHARED / "exports" / "minimal" / "elemany_nvrtc_hang.json",
    *sorted((SHARED / "akg").glob("*ReduceSum_InplaceAssign*.json")),
    *sorted((SHARED / "akg").glob("*Select_Assign*.json")),
]


def largest(kernel: engine.Kernel) -> int:
    """Elements of the largest array that a thread keeps."""
    return max((b.elements for b in kernel.tile.buffers.values() if b.scope == "register"), default=0)


def crowded(path: Path, policy: str) -> list[str]:
    """The groups of a file whose kernels keep more, whichever machine they are for."""
    graph = engine.load(path)
    found = []
    for machine in ("h200", "a100"):
        for group in engine.fuse(graph, target=machine, policy=policy).groups:
            kernel = engine.compile(group, engine.default_recipe(group))
            found += [f"{group.name} of {path.name} for {machine}"] if largest(kernel) > MAX_PRIVATE else []
    return found


@needs_shared
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("path", SOME, ids=lambda path: path.stem[:40])
def test_kernels_of_exported_graphs_keep_no_more(path: Path, policy: str) -> None:
    assert not crowded(path, policy)


@needs_shared
@pytest.mark.slow(sentinel=False)
@pytest.mark.parametrize("policy", POLICIES)
def test_no_kernel_of_any_shared_graph_keeps_more(policy: str) -> None:
    given = [path for path in (SHARED / "akg").glob("*.json") if not path.name.startswith("complex")]
    paths = [*SOME, *sorted(given), *AKG, *sorted((SHARED / "models").glob("*.onnx"))]
    assert [found for path in paths for found in crowded(path, policy)] == []


def overflow(rows: int, columns: int) -> TensorProgram:
    """Gradients scaled, and whether any of them is infinite: a flag that is overwritten, and keeps them from a step."""
    box, ij = [("i", rows), ("j", columns)], ("i", "j")
    source = program(
        "overflow",
        {"x": (rows, columns), "y": (rows, columns), "b": (rows, columns), "a": (), "flag": (), "z": (rows, columns)},
        [
            statement("S0", box, at("y", *ij), apply("mul", at("x", *ij), at("x", *ij))),
            statement("S1", box, at("b", *ij), apply("isinf", at("y", *ij))),
            statement("S2", box, at("a"), at("b", *ij), ("max", "i j")),
            statement("S3", [], at("flag"), at("a")),
            statement("S4", box, at("z", *ij), apply("mul", at("y", *ij), at("flag"))),
        ],
        "y flag z",
        "flag",
    )
    whole = source.statements[2]
    assert whole.reduction is not None
    flags = replace(whole, reduction=replace(whole.reduction, operation="any", accumulate="bool", identity=False))
    arrays = {**source.arrays, "b": Array("b", (rows, columns), "bool")}
    return replace(source, arrays=arrays, statements=(*source.statements[:2], flags, *source.statements[3:]))


@pytest.mark.parametrize("rows", [1024, 50304], ids=["rows as many as parts", "more rows"])
def test_a_flag_of_a_whole_tensor_is_made_in_parts(rows: int) -> None:
    """Parts have the type that is collected: the flag is a float, its parts are not."""
    parted = in_parts(overflow(rows, 2048))
    (part,) = (s for s in parted.statements if s.name == "S2.parts")
    assert parted.arrays["a.parts"].dtype == "bool" and parted.arrays["a.parts"].elements > 500
    assert part.points == rows * 2048


def test_a_flag_that_nothing_as_long_waits_for_stays_whole() -> None:
    source = overflow(1024, 2048)
    alone = source.cut_out(source.statements[:4], frozenset(("y", "flag")))
    assert in_parts(alone) is alone and in_parts(source) is not source


def updated(columns: int) -> TensorProgram:
    """x = x - max x;  s = sum x;  y = x / s: the new x is needed again, and nothing makes it again."""
    box, ij = [("i", 4), ("j", columns)], ("i", "j")
    return program(
        "updated",
        {"x": (4, columns), "m": (4,), "s": (4,), "y": (4, columns)},
        [
            statement("S0", box, at("m", "i"), at("x", *ij), ("max", "j")),
            statement("S1", box, at("x", *ij), apply("sub", at("x", *ij), at("m", "i"))),
            statement("S2", box, at("s", "i"), at("x", *ij), ("sum", "j")),
            statement("S3", box, at("y", *ij), apply("div", at("x", *ij), at("s", "i"))),
        ],
        "x y",
        "x",
    )


def test_rows_that_threads_cannot_keep_are_more_kernels() -> None:
    fits = KernelLegality(updated(1).arrays, target("h200"))
    limit = MAX_PRIVATE * 1024
    assert not isinstance(fits(updated(limit).statements, frozenset("xy")), str)
    assert isinstance(fits(updated(limit + 4).statements, frozenset("xy")), str)


def made(source: TensorProgram) -> engine.Kernel:
    instance = GroupInstance((), {n: n for n in source.arrays}, {s.name: s.operator for s in source.statements})
    group = FusionGroup(source.name, source.name, "row reduction", source, (instance,), (), "", "h200")
    one_thread = engine.entry("S0", at="innermost", mark=("lane", 1))
    return engine.compile(group, engine.default_recipe(group).advise("user", one_thread))


@pytest.mark.parametrize("columns", [96, 900, 4096])
def test_as_many_threads_share_a_row_as_keep_it(columns: int) -> None:
    """Asked for one: that thread keeps 96, of longer rows it takes more threads, and the verdict says so."""
    kernel = made(updated(columns))
    assert MAX_PRIVATE // 2 < largest(kernel) <= MAX_PRIVATE
    relaxed = [v for v in kernel.verdicts if v.placed.entry.value == ("lane", 1)]
    assert [v.outcome for v in relaxed] == ["honoured" if columns <= MAX_PRIVATE else "relaxed"]


def test_a_row_that_no_block_keeps_goes_through_memory() -> None:
    kernel = made(updated(MAX_PRIVATE * 1024 + 4))
    assert kernel.family == "general" and "in registers it keeps 128 at most" in kernel.tile.misfit
    assert largest(kernel) <= MAX_PRIVATE


def test_what_is_made_of_old_values_is_lost_behind_the_update() -> None:
    one = {s.name: s for s in updated(8).statements}
    loops = [((one["S0"],), True), ((one["S1"],), True), ((one["S2"],), True), ((one["S3"],), True)]
    assert overwritten_before(loops, {"x"}) == {"x"}
    together = [((one["S0"],), True), ((one["S1"], one["S2"], one["S3"]), True)]
    assert overwritten_before(together, {"x"}) == frozenset(), "read where it is made"
    flag = overflow(8, 8)
    assert overwritten_before([((s,), bool(s.iterators)) for s in flag.statements], {"flag"}) == frozenset()
