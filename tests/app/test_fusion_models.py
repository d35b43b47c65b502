"""Groups by hand on real graphs in the real window: what a drag shows, packs by keys, the longest stall."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest

from app.session.client import COMMAND
from app.shell.window import Window
from engine.documents.model import NodeDoc
from tests.app.driving import PATIENCE
from tests.app.test_fusion import LEFT, groups, open_all, over, placed, settled
from tests.fusion.test_plan import model
from tests.semantics.single import Node
from tests.support.pointer import drag_over
from tests.support.stalls import assert_fluent

SHARED = Path(__file__).parents[3] / "shared" / "models"
FLOAT = "float32"
K = Qt.Key


def shown(make: Callable[..., Window], qtbot: object, path: Path) -> Window:
    window = make(command=COMMAND)
    window.workspace.start()
    window.open_file(str(path))
    settled(window, qtbot)
    window.activateWindow()
    return window


def chained(window: Window) -> tuple[NodeDoc, NodeDoc]:
    """Two launches that are drawn, the second of which reads from the first, which has several operators."""
    opened = window.workspace.model
    assert opened is not None
    boxes = window.panels.graph.scene.drawing.placed
    drawn = {each.box.nodes[0].id: each.box.nodes[0] for each in boxes if not each.box.operator}
    pairs = [(drawn[e.source], drawn[e.target]) for e in opened.edges if {e.source, e.target} <= drawn.keys()]
    return next(pair for pair in pairs[len(pairs) // 3 :] if len(pair[0].operators) > 1)


def dragged(window: Window, qtbot: object, operator: str, points: list[QPointF]) -> list[tuple[str, str]]:
    """(verdict, sentence) of the note at each of some points that an operator is dragged over; then it goes back."""
    canvas, source = window.panels.graph.canvas, placed(window, operator)
    start = canvas.mapFromScene(QPointF(source.left + 12, source.top + 12))
    QTest.mousePress(canvas.viewport(), LEFT, pos=start)
    found, at = [], start
    for point in points:
        end = canvas.mapFromScene(point)
        for part in (0.2, 0.6, 1.0):
            drag_over(canvas.viewport(), at + QPoint(*(round(part * d) for d in (end - at).toTuple())))
        settled(window, qtbot)
        found.append((canvas.note.outcome, canvas.note.sentence))
        at = end
    drag_over(canvas.viewport(), start)
    QTest.mouseRelease(canvas.viewport(), LEFT, pos=start)
    settled(window, qtbot)
    return found


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize("name", ["bert_base_b1_s128.onnx", "lstm_cell_unrolled_b8_s20.onnx"], ids=["BERT", "RNN"])
def test_a_drag_over_a_real_graph_tells_legality_and_change(
    name: str, make: Callable[..., Window], qtbot: object
) -> None:
    if not (SHARED / name).exists():
        pytest.skip(f"{SHARED / name} is not there")
    window = shown(make, qtbot, SHARED / name)
    open_all(window, qtbot)
    first, second = chained(window)
    window.workspace.bus.select_group(first.group)
    settled(window, qtbot)
    window.panels.graph.canvas.reveal_launch(first.id)
    settled(window, qtbot)
    target = [over(window, second.operators[-1])]
    notes: list[tuple[str, str]] = []
    assert_fluent(lambda: notes.extend(dragged(window, qtbot, first.operators[-1], target)))
    assert notes
    for outcome, sentence in notes:
        assert outcome in ("honoured", "infeasible"), sentence
        assert ("predicted" in sentence) if outcome == "honoured" else sentence.startswith("Not legal: ")


SIDES: list[Node] = [
    ("Softmax", ["x"], ["a"], {"axis": 1}),
    ("MatMul", ["z", "w"], ["c"], {}),
    ("Softmax", ["c"], ["b"], {"axis": 1}),
    ("Tanh", ["b"], ["y"], {}),
]
"""n0 beside all others; n2 and n3 are one kernel."""


NOT_LEGAL = (
    "Not legal: n1 is a matrix product: its tiles fill a kernel of their own, "
    "or one of products with a factor in common"
)


@pytest.mark.slow(sentinel=True)
def test_what_nothing_connects_is_packed_by_keys(make: Callable[..., Window], qtbot: object, tmp_path: Path) -> None:
    shapes = {"x": (FLOAT, (64, 96)), "z": (FLOAT, (32, 64)), "w": (FLOAT, (64, 320))}
    window = shown(make, qtbot, model(tmp_path, SIDES, shapes, "a", "y"))
    assert groups(window) == [{"n0"}, {"n1"}, {"n2", "n3"}], "at different depths: the search packs none"
    opened = window.workspace.model
    assert opened is not None
    window.workspace.bus.select_group(next(node.group for node in opened.nodes if "n0" in node.operators))
    settled(window, qtbot)
    window.action("merge").trigger()
    settled(window, qtbot)
    chosen, fusing = window.wiring.fusion.chooser.list, window.wiring.fusion_edits
    qtbot.waitUntil(lambda: fusing.is_settled, timeout=PATIENCE)  # type: ignore[attr-defined]
    offered = {key: chosen.rows.row_at(chosen.rows.index_of(key)) for key in chosen.rows}
    told = {row.title.split("  ·  ")[1]: (key, row.value.outcome, row.value.sentence) for key, row in offered.items()}
    assert told["n1"][1:] == ("infeasible", NOT_LEGAL)
    assert told["n3"][1] == "honoured" and "1 kernel fewer" in told["n3"][2]
    for _ in range(list(offered).index(told["n3"][0])):
        QTest.keyClick(chosen, K.Key_Down)
    QTest.keyClick(chosen, K.Key_Return)
    settled(window, qtbot)
    assert groups(window) == [{"n0", "n2", "n3"}, {"n1"}]
    file = tmp_path / "kept.loom"
    window.document.save(str(file))
    qtbot.waitUntil(lambda: file.exists() and window.document.is_idle, timeout=PATIENCE)  # type: ignore[attr-defined]
    window.action("undo").trigger()
    settled(window, qtbot)
    assert groups(window) == [{"n0"}, {"n1"}, {"n2", "n3"}]
    window.open_file(str(file))
    qtbot.waitUntil(lambda: window.document.is_idle, timeout=PATIENCE)  # type: ignore[attr-defined]
    settled(window, qtbot)
    assert groups(window) == [{"n0", "n2", "n3"}, {"n1"}]
