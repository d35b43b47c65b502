"""The table of decisions against the solver itself: what it calls legal is not refused, what it calls impossible is."""

from __future__ import annotations

import pytest

import engine
from engine.documents.exploration import CellDoc, DecisionsDoc
from engine.explore.decisions import decisions
from engine.fusion.nodes import FusionGroup
from engine.poly.dependences import dependences
from engine.scheduling.compose import compose
from engine.scheduling.nodes import Conflict
from engine.scheduling.solve import schedule
from engine.scheduling.text import from_text
from engine.tensor.nodes import TensorProgram
from tests.explore.groups import FILES, SHARED, group_of, made_of, needs_shared
from tests.support import programs
from tests.support.programs import apply, at, statement

SAMPLE = (
    programs.softmax(8, 12),
    programs.softmax(8, 12, associative=False),
    programs.layernorm(8, 12),
    programs.matmul_bias_relu(8, 6, 12, associative=False),
    programs.elementwise_chain(),
    programs.transpose_add(),
    programs.column_reduction(),
    programs.bias_cast(),
    programs.attention(),
    programs.in_place_update(),
)


def ordered_plane() -> TensorProgram:
    """A sum over two iterators whose terms come in the order of the text."""
    box = [("i", 8), ("k", 6), ("l", 5)]
    made = statement("S0", box, at("y", "i"), apply("exp", at("x", "i", "k", "l")), ("sum", "k l"), associative=False)
    return programs.program("plane", {"x": (8, 6, 5), "y": (8,)}, [made], "y")


def table(group: FusionGroup) -> DecisionsDoc:
    """The decisions without anybody's advice."""
    return decisions(group, engine.Recipe("h200"))


def cells(doc: DecisionsDoc) -> dict[tuple[str, str, str], CellDoc]:
    """(statement, iterator, dimension) -> cell."""
    return {
        (row.statement, row.iterator, name): cell
        for row in doc.rows
        for name, cell in zip(doc.dimensions, row.cells, strict=True)
    }


def is_refused(program: TensorProgram, line: str) -> bool:
    """Whether the solver refuses a required entry that stands alone."""
    tree = compose(from_text(f"advice user\n  required {line}\n"), program)
    try:
        schedule(program, dependences(program), tree)
    except Conflict:
        return True
    return False


def test_the_softmax_reads_as_one_expects() -> None:
    found = cells(table(group_of("softmax_96x512")))
    assert found["S0", "i", "i"] == CellDoc("parallel", True, "", "", "")
    assert found["S0", "i", "j"].state == "used"
    assert found["S0", "j", "j"] == CellDoc("legal", True, "S0 takes the max over j", "", "")
    assert found["S3", "j", "j"] == CellDoc("parallel", True, "", "", "")
    other = found["S1", "j", "i"]
    assert (other.state, other.entry) == ("legal", "S1 @ outermost: pin j")
    assert other.because == "in a loop apart from S0, because of the flow of y_max: S0 -> S1"


def test_statements_that_go_together_make_a_parallel_cell() -> None:
    found = cells(table(group_of("matmul_bias_gelu_128x256x512")))
    assert found["S3", "j", "i"] == CellDoc("parallel", False, "", "", "S3 @ outermost: pin j")
    assert found["S0", "k", "i"].state == "legal"


@pytest.mark.parametrize("program", SAMPLE, ids=lambda p: p.name)
def test_no_cell_that_is_called_legal_is_refused(program: TensorProgram) -> None:
    asked = [cell for cell in cells(table(made_of(program))).values() if cell.entry]
    assert asked
    assert [cell for cell in asked if is_refused(program, cell.entry)] == []


@pytest.mark.parametrize("file", FILES)
def test_nor_is_one_of_a_real_group(file: str) -> None:
    group = group_of(file)
    refused = [c for c in cells(table(group)).values() if c.entry and is_refused(group.program, c.entry)]
    assert refused == []


@needs_shared
def test_nor_is_one_of_a_published_operator() -> None:
    for path in sorted((SHARED / "akg" / "stitch").glob("*.json")):
        group = engine.fuse(engine.load(path)).groups[0]
        asked = [cell for cell in cells(table(group)).values() if cell.entry]
        assert asked
        assert [cell for cell in asked[::4] if is_refused(group.program, cell.entry)] == []


def test_every_impossible_cell_is_refused_when_it_is_asked_for() -> None:
    program = ordered_plane()
    impossible = {key: cell for key, cell in cells(table(made_of(program))).items() if cell.state == "impossible"}
    assert set(impossible) == {("S0", "l", "i"), ("S0", "l", "k")}
    for (name, iterator, dimension), cell in impossible.items():
        assert cell.entry == "" and cell.because == "breaks the reduction of y: S0 -> S0"
        assert "adds to y" in cell.witness
        address = "outermost" if dimension == "i" else "after i"
        assert is_refused(program, f"{name} @ {address}: pin {iterator}")


def test_each_row_has_one_choice_for_each_of_its_dimensions() -> None:
    for file in FILES:
        doc = table(group_of(file))
        for row in doc.rows:
            assert sum(cell.chosen for cell in row.cells) == 1
            assert all(not cell.entry for cell in row.cells if cell.chosen or cell.state in ("used", "impossible"))
