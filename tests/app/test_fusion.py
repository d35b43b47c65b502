"""Groups by hand in the real window with the real worker: dragged, merged, split, refused, fixed, undone, saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest

import engine
from app.session.client import COMMAND
from app.session.fusion_constraints import FUSION
from app.session.open_request import OpenRequest
from app.session.recovery import journal_folder, read_journal
from app.shell.window import Window
from engine.documents.exploration import SPLIT, TAKE_OUT, FusionEdit
from tests.app.driving import PATIENCE, settle
from tests.fusion.test_plan import model
from tests.semantics.single import Node
from tests.support.pointer import drag_over
from tests.support.stalls import assert_fluent
from views.graph.drawing import PlacedBox

FLOAT = "float32"
NODES: list[Node] = [
    ("Exp", ["x"], ["e"], {}),
    ("Softmax", ["e"], ["p"], {"axis": 1}),
    ("Mul", ["p", "g"], ["m"], {}),
    ("Tanh", ["m"], ["t"], {}),
    ("MatMul", ["t", "w"], ["b"], {}),
    ("Relu", ["b"], ["r"], {}),
    ("MatMul", ["r", "v"], ["y"], {}),
]
"""n0 to n3 are one kernel, n4 with n5, and n6."""
SHAPES = {"x": (FLOAT, (64, 96)), "g": (FLOAT, (96,)), "w": (FLOAT, (96, 32)), "v": (FLOAT, (32, 48))}
TOGETHER = [{"n0", "n1", "n2", "n3"}, {"n4", "n5"}, {"n6"}]
K, LEFT = Qt.Key, Qt.MouseButton.LeftButton


@pytest.fixture
def window(make: Callable[..., Window], qtbot: object, tmp_path: Path) -> Iterator[Window]:
    made = make(command=COMMAND)
    made.workspace.start()
    made.open_file(str(model(tmp_path, NODES, SHAPES, "y")))
    settled(made, qtbot)
    assert groups(made) == TOGETHER
    made.activateWindow()
    yield made


def settled(window: Window, qtbot: object) -> None:
    settle(window, qtbot)
    fusing, client = window.wiring.fusion_edits, window.workspace.client
    qtbot.waitUntil(lambda: fusing.is_settled and client.is_idle, timeout=PATIENCE)  # type: ignore[attr-defined]
    settle(window, qtbot)


def groups(window: Window) -> list[set[str]]:
    """The operators of every launch, in order."""
    opened = window.workspace.model
    assert opened is not None
    return sorted((set(node.operators) for node in opened.nodes), key=min)


def placed(window: Window, operator: str) -> PlacedBox:
    """The box of an operator where its launch is open, else that of its launch."""
    drawn = window.panels.graph.scene.drawing.placed
    inside = next((each for each in drawn if each.box.operator == operator), None)
    return inside or next(each for each in drawn if operator in each.box.nodes[0].operators)


def open_all(window: Window, qtbot: object) -> None:
    """Every launch as a hull, all of it in sight."""
    if not any(each.box.operator for each in window.panels.graph.scene.drawing.placed):
        window.action("operators").trigger()
    settled(window, qtbot)
    window.panels.graph.canvas.fit_all()


def drag(window: Window, qtbot: object, operator: str, to: QPointF, drop: bool = True) -> None:
    """Takes a box in hand at its left end, moves it over a point of the scene, waits for the verdict, lets go."""
    canvas, source = window.panels.graph.canvas, placed(window, operator)
    start, end = canvas.mapFromScene(QPointF(source.left + 12, source.top + 12)), canvas.mapFromScene(to)
    QTest.mousePress(canvas.viewport(), LEFT, pos=start)
    for part in (0.2, 0.6, 1.0):
        drag_over(canvas.viewport(), start + QPoint(*(round(part * d) for d in (end - start).toTuple())))
    settled(window, qtbot)
    if drop:
        QTest.mouseRelease(canvas.viewport(), LEFT, pos=end)
        settled(window, qtbot)


def over(window: Window, operator: str) -> QPointF:
    """A point on the frame of the launch that an operator is in, or on its box."""
    drawn = window.panels.graph.scene.drawing.placed
    launch = next(e for e in drawn if not e.box.operator and operator in e.box.nodes[0].operators)
    return QPointF(launch.left + launch.width / 2, launch.top + 8)


def outside(window: Window) -> QPointF:
    """A point beside everything."""
    left, top, _, _ = window.panels.graph.scene.drawing.extent
    return QPointF(left - 10, top + 6)


def undo_all(window: Window, qtbot: object) -> None:
    for _ in window.wiring.fusion_edits.history.path(window.wiring.fusion_edits.history.current)[1:]:
        window.action("undo").trigger()
        settled(window, qtbot)


@pytest.mark.slow(sentinel=True)
def test_by_mouse_and_its_longest_stall(window: Window, qtbot: object) -> None:
    """Takes out, merges, moves; an illegal merge is refused with its reason; everything is undone."""
    open_all(window, qtbot)
    window.workspace.bus.select_group(window.workspace.model.groups[0].name)  # type: ignore[union-attr]
    settled(window, qtbot)

    def work() -> None:
        take_out_by_mouse(window, qtbot)
        move_by_mouse(window, qtbot)
        merge_by_mouse(window, qtbot)
        be_refused_by_mouse(window, qtbot)
        undo_all(window, qtbot)
        assert groups(window) == TOGETHER and window.wiring.fusion_edits.history.current == 0

    assert_fluent(work)


def take_out_by_mouse(window: Window, qtbot: object) -> None:
    canvas = window.panels.graph.canvas
    drag(window, qtbot, "n3", outside(window), drop=False)
    assert canvas.note.outcome == "honoured" and "1 kernel more" in canvas.note.sentence
    assert "predicted by FusionStitching's model" in canvas.note.sentence and "▲" in canvas.note.sentence
    QTest.mouseRelease(canvas.viewport(), LEFT, pos=canvas.mapFromScene(outside(window)))
    settled(window, qtbot)
    assert groups(window) == [{"n0", "n1", "n2"}, {"n3"}, {"n4", "n5"}, {"n6"}]
    assert [edge.fixed for edge in window.workspace.model.edges if edge.tensor == "m"] == [True]  # type: ignore[union-attr]


def move_by_mouse(window: Window, qtbot: object) -> None:
    open_all(window, qtbot)
    drag(window, qtbot, "n2", over(window, "n3"))
    assert groups(window) == [{"n0", "n1"}, {"n2", "n3"}, {"n4", "n5"}, {"n6"}]
    assert any(each.box.operator for each in window.panels.graph.scene.drawing.placed), "what is open stays open"


def merge_by_mouse(window: Window, qtbot: object) -> None:
    open_all(window, qtbot)
    canvas, rest = window.panels.graph.canvas, over(window, "n0")
    head = canvas.mapFromScene(over(window, "n3"))
    QTest.mousePress(canvas.viewport(), LEFT, pos=head)
    drag_over(canvas.viewport(), head + QPoint(9, 9))
    drag_over(canvas.viewport(), canvas.mapFromScene(rest))
    settled(window, qtbot)
    assert canvas.note.outcome == "honoured" and "▼" in canvas.note.sentence
    QTest.mouseRelease(canvas.viewport(), LEFT, pos=canvas.mapFromScene(rest))
    settled(window, qtbot)
    assert groups(window) == TOGETHER
    fixed = [node for node in window.workspace.model.nodes if node.fixed]  # type: ignore[union-attr]
    assert [set(node.operators) for node in fixed] == [TOGETHER[0]], "what was merged by hand is marked as fixed"


def be_refused_by_mouse(window: Window, qtbot: object) -> None:
    open_all(window, qtbot)
    before, card = window.workspace.model, window.panels.graph.card
    drag(window, qtbot, "n4", over(window, "n6"), drop=False)
    canvas = window.panels.graph.canvas
    assert canvas.note.outcome == "infeasible"
    assert canvas.note.sentence == "Not legal: would wait for itself: n5 lies between them and is another kernel"
    QTest.mouseRelease(canvas.viewport(), LEFT, pos=canvas.mapFromScene(over(window, "n6")))
    settled(window, qtbot)
    assert window.workspace.model is before, "nothing is lost"
    assert card.isVisible() and card.told is not None and card.told.is_refusal
    assert "n5 lies between them" in card.told.sentence and set(card.told.names) == {"n4", "n6"}
    assert window.workspace.problems[-1][1].stage == "fuse"


def press(window: Window, key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    QTest.keyClick(window.panels.graph.canvas, key, modifiers)


@pytest.mark.slow(sentinel=True)
def test_by_keyboard(window: Window, qtbot: object) -> None:
    """Split, merged, moved and released with keys alone; advice of a group that stays is kept throughout."""
    fusing, graph = window.wiring.fusion_edits, window.panels.graph
    last = next(node.group for node in window.workspace.model.nodes if "n6" in node.operators)  # type: ignore[union-attr]
    window.workspace.bus.select_group(last)
    settled(window, qtbot)
    window.workspace.edit(last, (window.workspace.recipe(last) or "") + "# mine\n")
    settled(window, qtbot)
    graph.canvas.setFocus()
    window.action("operators").trigger()
    settled(window, qtbot)
    for _ in range(12):
        if graph.scene.look.cursor and graph.scene.look.cursor.operator == "n2":
            break
        press(window, K.Key_Down)
    assert graph.scene.look.cursor is not None and graph.scene.look.cursor.operator == "n2"
    settled(window, qtbot)
    window.action("why-boundary").trigger()
    told = graph.card.told
    assert told is not None and told.chips == ("register", "49.2 kB saved")
    window.action("split").trigger()
    settled(window, qtbot)
    assert groups(window) == [{"n0", "n1"}, {"n2", "n3"}, {"n4", "n5"}, {"n6"}]
    group = window.workspace.group(window.wiring.group)
    assert group is not None and window.panels.explain.subtitle.text() == group.title, "the selection survives"
    window.action("merge").trigger()
    settled(window, qtbot)
    chooser = window.wiring.fusion.chooser
    qtbot.waitUntil(lambda: window.wiring.fusion_edits.is_settled, timeout=PATIENCE)  # type: ignore[attr-defined]
    QTest.keyClick(chooser.list, K.Key_Return)
    settled(window, qtbot)
    assert groups(window)[0] == TOGETHER[0] and [step.title for step in fusing.history.steps][-1].startswith("Merge")
    window.action("release").trigger()
    settled(window, qtbot)
    assert fusing.fixed.groups == ()
    name = next(node.group for node in window.workspace.model.nodes if "n6" in node.operators)  # type: ignore[union-attr]
    assert window.workspace.histories[name].text.endswith("# mine\n"), "advice stays with its group"
    undo_all(window, qtbot)
    assert groups(window) == TOGETHER
    window.action("redo").trigger()
    settled(window, qtbot)
    assert groups(window) == [{"n0", "n1"}, {"n2", "n3"}, {"n4", "n5"}, {"n6"}]


@pytest.mark.slow(sentinel=True)
def test_why_an_edge_is_a_boundary(window: Window, qtbot: object) -> None:
    """By click: with the reason where it cannot be otherwise, with the cost terms where it could."""
    graph = window.panels.graph
    line = next(line for line in graph.scene.drawing.lines if line.tensors and line.tensors[0].tensor == "t")
    x, y = line.points[0][0], (line.points[0][1] + line.points[1][1]) / 2
    at = graph.canvas.mapFromScene(QPointF(x, y))
    QTest.mouseClick(graph.canvas.viewport(), LEFT, pos=at)
    settled(window, qtbot)
    assert graph.card.told is not None and "They stay two kernels: a tile of" in graph.card.told.sentence
    assert graph.card.told.chips[0] == "24.6 kB through global memory"
    window.wiring.fusion_edits.carry_out(FusionEdit(SPLIT, ("n2", "n3")))
    settled(window, qtbot)
    line = next(line for line in graph.scene.drawing.lines if line.tensors and line.tensors[0].tensor == "m")
    graph.edge_selected.emit(line)
    settled(window, qtbot)
    told = graph.card.told
    assert told is not None and told.sentence == "You keep n2 and n3 apart." and "fixed by you" in told.chips
    graph.card.buttons["release"].click()
    settled(window, qtbot)
    assert groups(window) == TOGETHER


@pytest.mark.slow(sentinel=True)
def test_what_is_fixed_is_saved_opened_and_copied(window: Window, qtbot: object, tmp_path: Path) -> None:
    window.wiring.fusion_edits.carry_out(FusionEdit(SPLIT, ("n1", "n2")))
    settled(window, qtbot)
    expected = groups(window)
    assert expected == [{"n0", "n1"}, {"n2", "n3"}, {"n4", "n5"}, {"n6"}]
    window.action("script-all").trigger()
    names: dict[str, object] = {}
    exec(QGuiApplication.clipboard().text().partition("\nADVICE")[0], names)  # our own text, up to the advice
    plan = names["plan"]
    assert isinstance(plan, engine.FusionPlan)
    assert sorted((set(i.operators) for g in plan.groups for i in g.instances), key=min) == expected
    file = tmp_path / "kept.loom"
    window.document.save(str(file))
    qtbot.waitUntil(lambda: file.exists() and window.document.is_idle, timeout=PATIENCE)  # type: ignore[attr-defined]
    window.action("undo").trigger()
    settled(window, qtbot)
    assert groups(window) == TOGETHER
    window.open_file(str(file))
    qtbot.waitUntil(lambda: window.document.is_idle, timeout=PATIENCE)  # type: ignore[attr-defined]
    settled(window, qtbot)
    assert groups(window) == expected and window.wiring.fusion_edits.history.step.title.startswith("Split")
    window.action("undo").trigger()
    settled(window, qtbot)
    assert groups(window) == TOGETHER and FUSION in window.workspace.histories


@pytest.mark.slow(sentinel=True)
def test_undo_goes_back_in_the_order_of_the_edits(window: Window, qtbot: object) -> None:
    """Advice, then a split that ends its group: the history sleeps, wakes with the undo, and is undone after it."""
    workspace, fusing = window.workspace, window.wiring.fusion_edits
    group = next(node.group for node in workspace.model.nodes if "n0" in node.operators)  # type: ignore[union-attr]
    workspace.bus.select_group(group)
    settled(window, qtbot)
    first = workspace.recipe(group) or ""
    workspace.edit(group, first + "# mine\n")
    settled(window, qtbot)
    fusing.carry_out(FusionEdit(SPLIT, ("n1", "n2")))
    settled(window, qtbot)
    assert [each.trail.steps[-1].text for each in workspace.asleep] == [first + "# mine\n"]
    assert all("# mine" not in history.text for history in workspace.histories.values())
    window.action("undo").trigger()
    settled(window, qtbot)
    assert groups(window) == TOGETHER and workspace.recipe(group) == first + "# mine\n" and workspace.asleep == []
    window.action("undo").trigger()
    settled(window, qtbot)
    assert workspace.recipe(group) == first and not window.undo_stack.can_undo(group)
    for _ in range(2):
        window.action("redo").trigger()
        settled(window, qtbot)
    assert groups(window)[0] == {"n0", "n1"} and workspace.asleep[0].trail.steps[-1].text == first + "# mine\n"


@pytest.mark.slow(sentinel=True)
def test_what_is_fixed_is_in_the_journal_at_once(window: Window, qtbot: object) -> None:
    window.wiring.fusion_edits.carry_out(FusionEdit(TAKE_OUT, ("n3",)))
    settled(window, qtbot)
    assert window.document.is_modified
    (journal,) = journal_folder().glob("*.journal")
    left = read_journal(journal)
    assert left is not None and left.edits == 1
    assert OpenRequest("", "h200", trails=left.content.groups).arguments()["apart"] == [["n2", "n3"]]


@pytest.mark.slow(sentinel=True)
def test_cancelling_leaves_the_groups_as_they_are(window: Window, qtbot: object) -> None:
    fusing = window.wiring.fusion_edits
    fusing.carry_out(FusionEdit(SPLIT, ("n1", "n2")))
    qtbot.waitUntil(lambda: window.workspace.is_fusing, timeout=PATIENCE)  # type: ignore[attr-defined]
    window.action("cancel").trigger()
    settled(window, qtbot)
    assert groups(window) == TOGETHER and not fusing.is_busy and len(fusing.history.steps) == 1
    fusing.carry_out(FusionEdit(SPLIT, ("n1", "n2")))
    settled(window, qtbot)
    assert groups(window)[0] == {"n0", "n1"}


@pytest.mark.slow(sentinel=True)
def test_the_history_of_the_groups_is_a_tree_that_one_can_walk(window: Window, qtbot: object) -> None:
    fusing = window.wiring.fusion_edits
    for wish in (FusionEdit(SPLIT, ("n1", "n2")), FusionEdit(TAKE_OUT, ("n0",))):
        fusing.carry_out(wish)
        settled(window, qtbot)
    assert groups(window) == [{"n0"}, {"n1"}, {"n2", "n3"}, {"n4", "n5"}, {"n6"}]
    window.action("groups").trigger()
    history = window.panels.history
    assert window.history.group == FUSION and window.history.history is fusing.history
    history.step_requested.emit(1)
    settled(window, qtbot)
    assert groups(window) == [{"n0", "n1"}, {"n2", "n3"}, {"n4", "n5"}, {"n6"}]
    texts = history.summary.texts()
    assert "Author user who decided last" in texts and "Kept apart 1 pair of operators" in texts
    window.action("release-all").trigger()
    settled(window, qtbot)
    assert groups(window) == TOGETHER and fusing.history.step.title == "Unpin all"
