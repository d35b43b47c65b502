"""Every action of the window once: menus, tool bar, shortcuts and tests all read this registry."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMainWindow

Keys = QKeySequence.StandardKey


@dataclass(frozen=True, slots=True)
class ActionInfo:
    """How an action is called and reached."""

    name: str
    text: str
    tip: str
    keys: tuple[QKeySequence | QKeySequence.StandardKey | str, ...] = ()
    icon: str = ""
    checkable: bool = False


ACTIONS = (
    ActionInfo("open", "&Open…", "Open an ONNX or AKG file", (Keys.Open,), "open"),
    ActionInfo("save", "&Save", "Save the workspace: model, advice, history, what is in sight", (Keys.Save,), "save"),
    ActionInfo("save-as", "Save &As…", "Save the workspace in another file", (Keys.SaveAs, "Ctrl+Shift+S")),
    ActionInfo("example", "Open &Example", "Open the built-in example model"),
    ActionInfo("quit", "&Quit", "Close the window", (Keys.Quit, "Ctrl+Q")),
    ActionInfo("undo", "&Undo", "Take the last edit back", (Keys.Undo,), "undo"),
    ActionInfo("redo", "&Redo", "Make the edit again", (Keys.Redo,), "redo"),
    ActionInfo(
        "apply", "&Apply", "Solve, check legality and generate code for the edited advice", ("Ctrl+Return",), "apply"
    ),
    ActionInfo("check", "&Check", "Run the kernel on the CPU against the reference", ("F8",), "check"),
    ActionInfo("time", "&Time", "Measure the kernel on the GPU", ("F9",), "clock"),
    ActionInfo("pin", "Pin as &Baseline", "Count gains from the selected step of the history", ("B",)),
    ActionInfo("compare", "Compare with &Baseline", "The selected step of the history beside the baseline", ("D",)),
    ActionInfo("note", "&Remark on Step", "Write a remark to the selected step of the history", ("N",)),
    ActionInfo("cancel", "Cancel &Jobs", "Stop everything that runs", ("Ctrl+.",), "cancel"),
    ActionInfo("find", "&Go to…", "Go to a group or a statement", ("Ctrl+P",), "search"),
    ActionInfo("explore", "&Explore", "Outline, graph, schedule, timing", ("Alt+1",), "", True),
    ActionInfo("schedule", "&Schedule", "Code, schedule, constraints", ("Alt+2",), "", True),
    ActionInfo("dark", "&Dark", "Dark theme", (), "", True),
    ActionInfo("light", "&Light", "Light theme", (), "", True),
    ActionInfo("reset", "&Reset Layout", "Put every panel back in its place"),
    ActionInfo("zoom-in", "Zoom &In", "Enlarge the graph", (Keys.ZoomIn, "Ctrl+=")),
    ActionInfo("zoom-out", "Zoom &Out", "Shrink the graph", (Keys.ZoomOut,)),
    ActionInfo("fit", "&Fit Graph", "Show the whole graph", ("Ctrl+0",), "fit"),
    ActionInfo("about", "&About Loomscope", "What this program is"),
)

MENUS = (
    ("&File", ("open", "recent", "example", "", "save", "save-as", "", "quit")),
    ("&Edit", ("undo", "redo", "", "pin", "compare", "note", "", "find")),
    ("&View", ("explore", "schedule", "", "dark", "light", "", "zoom-in", "zoom-out", "fit", "", "panels", "reset")),
    ("&Run", ("apply", "check", "time", "", "cancel")),
    ("&Help", ("about",)),
)
"""Menu -> its actions in order; "" is a separator, "recent" and "panels" are sub-menus that the window fills."""

EXCLUSIVE = (("explore", "schedule"), ("dark", "light"))


def make_actions(window: QMainWindow) -> dict[str, QAction]:
    """All actions, children of the window, so that their shortcuts work everywhere in it."""
    made = {info.name: _make(info, window) for info in ACTIONS}
    for names in EXCLUSIVE:
        group = QActionGroup(window)
        for name in names:
            group.addAction(made[name])
    return made


def _make(info: ActionInfo, window: QMainWindow) -> QAction:
    action = QAction(info.text, window)
    sequences = [QKeySequence(keys) for keys in info.keys]
    # A platform without its own keys for an action (such as Quit) gives an empty sequence.
    action.setShortcuts([keys for keys in sequences if not keys.isEmpty()][:2])
    shown = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
    action.setToolTip(f"{info.tip} ({shown})" if shown else info.tip)
    action.setStatusTip(info.tip)
    action.setCheckable(info.checkable)
    window.addAction(action)
    return action
