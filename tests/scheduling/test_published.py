"""The eleven published pairs: what each file asks for is what the kernel does; two files contradict themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import engine
from engine.scheduling.published.axes import fused_axes
from engine.scheduling.published.parse import parse
from engine.scheduling.published.translate import translate
from engine.tile.nodes import Load, Store, operations
from tests.scheduling.published_files import (
    LEGAL,
    TRANSPOSE,
    TWO_ITERATORS,
    corrected,
    group_of,
    needs_advice,
    operator,
    trick,
)
from tests.support.commands import document, refused
from tests.support.sentinels import sentinels

KINDS = (
    "Fused_AddN_fusion_9584919353229493170",
    "Fused_Cast_BiasAdd_Gelu_fusion_7971173442909348882",
    "Fused_Sub_Mul_Mul_split_9258187064108063363",
)
"""A fused axis, rows with a broadcast operand, a block of one warp."""


def kernel_of(name: str, text: str) -> engine.Kernel:
    group = group_of(operator(name))
    return engine.compile(group, engine.merge_advice(engine.default_recipe(group), group, text))


def launch(kernel: engine.Kernel) -> tuple[int, int]:
    return kernel.source.grid[0], kernel.source.block[0]


def widths(kernel: engine.Kernel) -> set[int]:
    """Elements of the accesses to arrays as large as the result; operands that are broadcast may be read singly."""
    buffers = kernel.tile.buffers
    largest = max(b.elements for b in buffers.values() if b.scope == "global")
    found = [(op.source if isinstance(op, Load) else op.target, op.width)
             for op in operations(kernel.tile.body) if isinstance(op, Load | Store)]  # fmt: skip
    return {width for name, width in found if buffers[name].elements == largest}


def outcomes(kernel: engine.Kernel) -> set[str]:
    return {verdict.outcome for verdict in kernel.verdicts}


@needs_advice
@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_file_is_honoured_to_the_letter(name: str) -> None:
    kernel = kernel_of(name, trick(name).read_text())
    assert outcomes(kernel) == {"honoured"}
    assert (*launch(kernel), widths(kernel)) == (*LEGAL[name][:2], {LEGAL[name][2]})
    assert all(v.placed.author == "user" for v in kernel.verdicts)
    assert all(v.placed.entry.because.startswith(f"published advice {name}") for v in kernel.verdicts)


@pytest.mark.slow(sentinel=True)
@needs_advice
@pytest.mark.parametrize("name", sentinels(LEGAL, 3))
def test_a_legal_files_kernel_is_right(name: str) -> None:
    report = engine.check(kernel_of(name, trick(name).read_text()))
    assert report.status == "pass", report.message


@needs_advice
@pytest.mark.parametrize(
    ("name", "words"),
    [
        (TRANSPOSE, ("dimension 3", "grid (gpu.blocks)", "threads of a block (gpu.threads)")),
        (TWO_ITERATORS, ("S_0 declares 2 iterators (meta)", "its pattern has 1 (ax1)", "write meta [1, 0]")),
    ],
)
def test_a_file_that_contradicts_itself_is_refused_by_name(name: str, words: tuple[str, ...]) -> None:
    with pytest.raises(engine.BadInput) as caught:
        engine.published_advice(trick(name), group_of(operator(name)))
    assert caught.value.subject == f"advice {name}_0"
    assert all(word in str(caught.value) for word in ("contradicts itself", *words)), str(caught.value)


@needs_advice
@pytest.mark.parametrize(
    ("name", "expected", "entries"),
    [(TRANSPOSE, (768, 1024, {4}), 7), (TWO_ITERATORS, (144, 1024, {4}), 6)],
)
def test_a_corrected_copy_is_honoured_and_right(name: str, expected: tuple[object, ...], entries: int) -> None:
    kernel = kernel_of(name, corrected(name))
    assert [v.outcome for v in kernel.verdicts] == ["honoured"] * entries
    assert (*launch(kernel), widths(kernel)) == expected
    report = engine.check(kernel)
    assert report.status == "pass", report.message


@needs_advice
def test_the_transpose_runs_in_the_order_of_its_reads() -> None:
    kernel = kernel_of(TRANSPOSE, corrected(TRANSPOSE))
    rows = [v.because for v in kernel.verdicts if v.placed.entry.field == "terms"]
    assert rows == ["S0: i", "S0: k", "S0: j", "S0: l"]


@needs_advice
@pytest.mark.parametrize("name", [*LEGAL, TRANSPOSE, TWO_ITERATORS])
def test_our_axis_fusion_sees_the_loops_of_the_published_pattern(name: str) -> None:
    """AKG wrote the pattern after its own inlining and fusion: an independent account of the same operator."""
    group = group_of(operator(name))
    pattern = parse(corrected(name), name).pattern
    axes = fused_axes(group, [i.name for i in group.program.statements[-1].iterators])
    extents = []
    for axis in axes:
        extents.append(1)
        for iterator in axis:
            extents[-1] *= iterator.extent
    assert [[a.extent for a in loops.axes] for loops in pattern] == [extents] * len(group.program.outputs)


@needs_advice
@pytest.mark.parametrize("name", [*LEGAL, TRANSPOSE, TWO_ITERATORS])
def test_advice_that_is_written_and_read_again_is_the_same(name: str, tmp_path: Path) -> None:
    group = group_of(operator(name))
    published = parse(corrected(name), name)
    advice = translate(published, group)
    engine.write_published(advice, group, tmp_path / "copy.json")
    assert engine.published_advice(tmp_path / "copy.json", group) == advice
    again = parse((tmp_path / "copy.json").read_text(), "copy")
    assert (again.name, again.flags) == (published.name, published.flags)
    assert (again.blocks, again.threads, again.vectors) == (published.blocks, published.threads, published.vectors)
    ours, theirs = ([[row.operations for row in w.rows] for w in p.wishes] for p in (again, published))
    assert ours == theirs


@needs_advice
def test_the_command_line_takes_published_files() -> None:
    name = KINDS[1]
    (group,) = document("schedule", str(operator(name)), "--tree", str(trick(name)))["groups"]
    assert {row["verdict"] for row in group["verdicts"]} == {"honoured"}
    assert sum("terms" in row["entry"] for row in group["verdicts"]) == 2
    message = refused("schedule", str(operator(TRANSPOSE)), "--tree", str(trick(TRANSPOSE)))
    assert TRANSPOSE in message and "contradicts itself" in message


@needs_advice
@pytest.mark.parametrize(
    ("of", "to", "words"),
    [
        (KINDS[0], KINDS[1], ("1 statement ", "writes 2 arrays")),
        (KINDS[1], "Fused_Cast_BiasAdd_Gelu_fusion_7719078727474100806", ("640 x 768", "4096 x 3072")),
        (KINDS[2], KINDS[0], ("49152 x 128", "4096 x 768")),
        ("fused_relu_grad", KINDS[2], ("205520896", "32 x 12 x 128 x 128")),
        (KINDS[0], "Fused_Cast_ReduceSum_Cast_RealDiv_split_16855420756764862693", ("is a reduction",)),
    ],
)
def test_advice_for_another_operator_is_refused(of: str, to: str, words: tuple[str, ...]) -> None:
    with pytest.raises(engine.BadInput, match="does not match") as caught:
        engine.published_advice(trick(of), group_of(operator(to)))
    assert all(word in str(caught.value) for word in words), str(caught.value)


@needs_advice
def test_advice_that_names_its_operator_is_for_no_other(tmp_path: Path) -> None:
    name = KINDS[0]
    group = group_of(operator(name))
    path = tmp_path / "named.json"
    for operator_name, fits in ((name, True), ("Fused_Other", False)):
        path.write_text(json.dumps({**json.loads(trick(name).read_text()), "operator": operator_name}))
        if fits:
            assert engine.published_advice(path, group)
        else:
            with pytest.raises(engine.BadInput, match="Fused_Other"):
                engine.published_advice(path, group)
