"""Lines of the table of speed: a goal that is met, one that is not, and a figure that there is none for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.execution.sass import disassembler
from engine.support.errors import Unsupported
from tests.benchmarks import speed

GOAL = speed.Goal("a kernel", "launches", 2, True, lambda: (2.0, "cuBLAS: 1 us"))


@pytest.mark.parametrize(
    ("goal", "is_most", "met"), [(2, True, True), (1, True, False), (2, False, True), (3, False, False)]
)
def test_a_figure_meets_its_goal_or_not(goal: float, is_most: bool, met: bool) -> None:
    row = speed.row_of(replace(GOAL, goal=goal, is_most=is_most, why_open="a launch takes as long"))
    assert (row.figure, row.met, row.peer) == (2.0, met, "cuBLAS: 1 us")
    assert row.because == ("" if met else "a launch takes as long")


def test_what_the_engine_refuses_is_told_and_not_met() -> None:
    def refuse() -> tuple[float, str]:
        raise Unsupported("speed", "a graph", "has no kernel")

    row = speed.row_of(replace(GOAL, figure=refuse))
    assert row.figure is None and not row.met and "has no kernel" in row.because


@pytest.mark.skipif(disassembler() is None, reason="nvidia-cuda-nvdisasm is not installed")
def test_the_document_has_a_row_for_each_line_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "speed.json"
    assert speed.main(["--only", "add + layer norm", "--json", str(file)]) == 0
    (row,) = json.loads(file.read_text())["rows"]
    assert row["figure"] == 1 and row["met"] and row["unit"] == "launches"
    assert "met   add + layer norm of 512 x 16384" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        speed.main(["--only", "no such line"])
