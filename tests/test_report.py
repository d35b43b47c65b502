"""Chips of the schedule tree: the marks as the kernel has them, not as they were asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import engine
from engine.documents.model import ScheduleDoc
from engine.present.model import kernel_doc
from tests.kernels.test_lowering import kernel_of


def nodes(doc: ScheduleDoc) -> Iterator[ScheduleDoc]:
    yield doc
    for child in doc.children:
        yield from nodes(child)


@pytest.mark.parametrize(
    ("name", "entries", "expected"),
    [
        ("element_wise", [("S0", "thread", 64), ("S1", "thread", 64)], {"thread 64"}),
        ("element_wise", [("S0", "thread", 4096), ("S1", "thread", 4096)], {"thread 1024"}),
        ("element_wise", [("S0", "vector", 2)], {"vector 2"}),
        ("element_wise", [("S0", "stages", 3)], {"vector 4"}),
        ("element_wise", [("S0", "thread", 4096), ("S0", "thread", 64)], {"thread 1024", "vector 4"}),
    ],
    ids=["taken", "too large", "the advisers' gives way", "of no use", "one of two"],
)
def test_chips_are_what_the_kernel_has(
    name: str, entries: list[tuple[str, str, int]], expected: set[str], tmp_path: Path
) -> None:
    group = kernel_of(name, tmp_path).group
    wishes = [engine.entry(statement, at="innermost", mark=(mark, value)) for statement, mark, value in entries]
    kernel = engine.compile(group, engine.default_recipe(group).advise("user", *wishes))
    chips = [chip for node in nodes(kernel_doc(kernel).schedule) for chip in node.chips]
    assert expected <= set(chips)
    for mark, value in ((mark, value) for _, mark, value in entries):
        shown = {chip for chip in chips if chip.startswith(f"{mark} ") or chip.endswith(mark)}
        assert shown <= expected, f"{mark} {value} stands beside what the kernel has"
    for node in nodes(kernel_doc(kernel).schedule):
        kinds = [chip.split()[0] for chip in node.chips]
        assert len(set(kinds)) == len(kinds), "one number of each kind on a dimension"
