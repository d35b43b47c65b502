"""Every action of the window once: menus, tool bar, shortcuts and tests all read this registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QAbstractButton, QMainWindow

from app.shell.panels import PANELS

Keys = QKeySequence.StandardKey


@dataclass(frozen=True, slots=True)
class ActionInfo:
    """How an action is called and reached; the first of its keys that the platform has stands in menus."""

    name: str
    text: str
    tip: str
    keys: tuple[QKeySequence | QKeySequence.StandardKey | str, ...] = ()
    icon: str = ""
    checkable: bool = False
    needs: str = ""
    """What to do where it is disabled."""


A_MODEL = "open a model first"
A_GROUP = "select a group first"
A_REPLAY = "replay a recorded run first"
A_FIXED = "nothing is pinned"
A_RUN = "start tuning, or open a tuning log first"
A_TRIAL = "choose a trial of the open model first"
A_BEST = "show a run of the open model, for its target and sizes, that has a time"
A_CHART = "select a group and open the Pipeline tab of Schedule first"
A_STEP = "select a group whose kernel is known"

ACTIONS = (
    ActionInfo("open", "&Open…", "Open a model (ONNX, torch.export, AKG) or a workspace", (Keys.Open,), "open"),
    ActionInfo("example", "Open &Example", "Open the built-in example model"),
    ActionInfo("reload", "&Reload", "Read the model's file again; edits and selection stay where they still apply",
               ("F5",), needs=A_MODEL),
    ActionInfo("save", "&Save", "Save the workspace: model, advice, history, what is in sight", (Keys.Save,), "save",
               needs=A_MODEL),
    ActionInfo("save-as", "Save &As…", "Save the workspace in another file", ("Ctrl+Shift+S",), needs=A_MODEL),
    ActionInfo("export-report", "&Report…", "Write one HTML file: graph, kernels, edits and gains, schedules, code",
               needs=A_MODEL),
    ActionInfo("export-cuda", "&CUDA Sources…", "Write the .cu files, what they include, and a manifest",
               needs=A_MODEL),
    ActionInfo("export-torch", "&PyTorch Operators…", "Write the kernels with a module that calls them from PyTorch",
               needs=A_MODEL),
    ActionInfo("export-tables", "&Tables as CSV…", "Write every table of the window into a folder", needs=A_MODEL),
    ActionInfo("export-trace", "T&race (Perfetto)…", "Write the selected kernel's pipeline chart as trace events",
               needs=A_CHART),
    ActionInfo("compare-model", "Com&pare with…", "Another model or workspace beside the open one", needs=A_MODEL),
    ActionInfo("quit", "&Quit", "Close the window", (Keys.Quit, "Ctrl+Q")),
    ActionInfo("undo", "&Undo", "Take the last edit back", (Keys.Undo,), "undo", needs="nothing to take back"),
    ActionInfo("redo", "&Redo", "Make the edit again", (Keys.Redo, "Ctrl+Y", "Ctrl+Shift+Z"), "redo",
               needs="nothing to make again"),
    ActionInfo("pin", "Pin as &Baseline", "Count gains from the selected step of the history", ("B",), needs=A_STEP),
    ActionInfo("compare", "Compare with Base&line", "The selected step of the history beside the baseline", ("D",),
               needs="make an edit first"),
    ActionInfo("note", "Add &Note", "Write a note to the selected step of the history", ("N",), needs=A_STEP),
    ActionInfo("script", "Copy as &Script", "Copy the library calls that make the selected group's kernel again", (),
               "copy", needs=A_STEP),
    ActionInfo("script-all", "Copy &Workspace as Script", "Copy the library calls that make every group's kernel again",
               needs=A_MODEL),
    ActionInfo("operators", "E&xpand Groups", "Open every group in sight, or close them all", ("O",),
               needs=A_MODEL),
    ActionInfo("why-boundary", "E&xplain Boundary", "Why the next edge divides two kernels, with the cost terms",
               ("W",), needs=A_GROUP),
    ActionInfo("merge", "&Merge with…", "Make one kernel of the selected group and a neighbour", ("Ctrl+M",),
               needs=A_GROUP),
    ActionInfo("move", "Mo&ve Operator to…", "Move an operator to a neighbouring group, or out of its own",
               ("Ctrl+Shift+M",), needs=A_GROUP),
    ActionInfo("split", "&Split Here", "Split a group at the selected edge, or before the selected operator", ("X",),
               needs=A_GROUP),
    ActionInfo("release", "&Unpin", "Leave the selected group or edge to the search again", ("R",), needs=A_FIXED),
    ActionInfo("release-all", "Unpin &All", "Leave all groups to the search again", needs=A_FIXED),
    ActionInfo("groups", "Fusion &History", "Steps of the fusion plan: what was merged, moved, split and pinned",
               needs=A_MODEL),
    ActionInfo("find", "&Go to…", "Go to a group, an operator or a statement", ("Ctrl+P",), "search"),
    ActionInfo("find-text", "F&ind in Code…", "Find words in the CUDA text, PTX or SASS, or in the text of a trial",
               (Keys.Find,), needs=A_MODEL),
    ActionInfo("find-next", "Find Ne&xt", "Go to the next match in the code", ("F3",), needs=A_MODEL),
    ActionInfo("find-previous", "Find Pre&vious", "Go to the match before in the code", ("Shift+F3",), needs=A_MODEL),
    ActionInfo("palette", "&Commands…", "Find and run any command", ("Ctrl+Shift+P",)),
    ActionInfo("explore", "&Explore", "Outline, graph, schedule, timing", ("Alt+1",), "", True),
    ActionInfo("schedule", "&Schedule", "Code, schedule, constraints", ("Alt+2",), "", True),
    ActionInfo("pipeline", "P&ipeline", "Code, pipeline chart, shared memory, what if", ("Alt+3",), "", True),
    ActionInfo("tune", "&Tune", "Progress of a search, its trials, where they went", ("Alt+4",), "", True),
    ActionInfo("system", "S&ystem", "The desktop's theme", (), "", True),
    ActionInfo("dark", "&Dark", "Dark theme", (), "", True),
    ActionInfo("light", "&Light", "Light theme", (), "", True),
    ActionInfo("zoom-in", "Zoom &In", "Enlarge the graph", (Keys.ZoomIn, "Ctrl+=")),
    ActionInfo("zoom-out", "Zoom &Out", "Shrink the graph", (Keys.ZoomOut,)),
    ActionInfo("fit", "&Fit Graph", "Show the whole graph", ("Ctrl+0",), "fit"),
    ActionInfo("measured-times", "&Measured Times on Graph",
               "Measured times on the graph's nodes instead of predicted ones", ("M",), "", True),
    ActionInfo("roofline", "Roo&fline", "Every kernel against what the GPU can do", ("Ctrl+Shift+R",)),
    ActionInfo("next-panel", "&Next Panel", "Give the keyboard to the next panel", ("F6",)),
    ActionInfo("last-panel", "Pre&vious Panel", "Give the keyboard to the panel before", ("Shift+F6",)),
    ActionInfo("reset", "&Reset Layout", "Put every panel back in its place"),
    ActionInfo("apply", "&Apply", "Solve, check legality and generate code for the edited advice", ("Ctrl+Return",),
               "apply", needs="edit the advice first"),
    ActionInfo("check", "&Check", "Run the kernel on the CPU against the reference", ("F8",), "check", needs=A_GROUP),
    ActionInfo("time", "&Time", "Measure the kernel on the GPU", ("F9",), "clock", needs=A_GROUP),
    ActionInfo("replay", "&Replay Recorded Run…", "Play the samples of a file of times", ("Ctrl+F9",), "replay"),
    ActionInfo("replay-pause", "Pa&use Replay", "Pause the replay, or go on", ("Shift+F9",), "pause", needs=A_REPLAY),
    ActionInfo("replay-stop", "Sto&p Replay", "Close the recording, with its times", ("Ctrl+Shift+F9",), "stop",
               needs=A_REPLAY),
    ActionInfo("slower", "Replay &Slower", "Fewer samples a second", ("[",), needs=A_REPLAY),
    ActionInfo("faster", "Replay &Faster", "More samples a second", ("]",), needs=A_REPLAY),
    ActionInfo("pin-samples", "Pin Samples as &Baseline", "Later samples of this kernel are set against those shown",
               ("Shift+B",), needs="measure a kernel or replay a recorded run first"),
    ActionInfo("tune-start", "&Start Tuning", "Search recipes of the open model with the settings of the Run panel",
               ("F7",), "play", needs="open a model first; one run at a time"),
    ActionInfo("tune-pause", "&Pause or Resume Tuning", "Pause the run that is shown, go on with it, or start it again",
               ("Shift+F7",), "pause", needs=A_RUN),
    ActionInfo("tune-stop", "S&top Tuning", "End the run; the best is kept, and it can be resumed", ("Ctrl+Shift+F7",),
               "stop", needs="nothing is tuned"),
    ActionInfo("tune-attach", "&Open Tuning Log…", "Follow a run of the command line, or look at an old one",
               ("Ctrl+F7",)),
    ActionInfo("tune-detach", "Close &Run", "Show no run any more; its log stays", needs=A_RUN),
    ActionInfo("tune-best", "Apply &Best", "Make the best recipe of the shown group a step of its history",
               ("Ctrl+Shift+Return",), needs=A_BEST),
    ActionInfo("tune-best-all", "Apply Best of All &Groups",
               "The best of every group that became faster, as one step of undo", ("Ctrl+Alt+Return",),
               needs="follow a run of several groups of the open model"),
    ActionInfo("tune-trial", "Apply &Chosen Trial", "Make the chosen trial's recipe a step of its group's history",
               needs=A_TRIAL),
    ActionInfo("tune-ablate", "Ab&lation of Best", "What each entry of the best recipe is worth: the kernel without it",
               needs=A_BEST),
    ActionInfo("tune-all", "Trials of All G&roups", "The trials of all groups in one table, or those of one group",
               ("Ctrl+Shift+G",), needs="follow a run of several groups"),
    ActionInfo("tune-filter", "&Filter Trials", "Put the cursor into the filter of the trials", ("Ctrl+Shift+F",)),
    ActionInfo("cancel", "Cancel &Jobs", "Stop everything that runs", ("Ctrl+.",), "cancel", needs="nothing runs"),
    ActionInfo("machine", "Target, Numerics and &Dimensions…", "Open for another machine or rounding", needs=A_MODEL),
    ActionInfo("preferences", "Pre&ferences…", "Colours, target, limits of the worker, shortcuts",
               (Keys.Preferences, "Ctrl+,")),
    ActionInfo("guide", "&Guide", "Tour, concepts, glossary and keys", ("Shift+F1",)),
    ActionInfo("keys", "&Shortcuts", "Every shortcut on one sheet", ("F1",)),
    ActionInfo("about", "&About Loomscope", "What this program is"),
    *(
        ActionInfo(info.action, info.title, info.tip, (info.keys,) if info.keys else (), checkable=True)
        for info in PANELS
    ),
    *(
        ActionInfo(info.picture_action, f"Picture of {info.title}…", f"Write the {info.name} panel as SVG or PNG")
        for info in PANELS
    ),
)  # fmt: skip

INFOS = {info.name: info for info in ACTIONS}

EXPORTS = ("export-report", "export-cuda", "export-torch", "export-tables", "export-trace", "")
"""What the sub-menu Export of File lists above the pictures of the panels."""

MENUS = (
    ("&File", (
        "open", "recent", "example", "reload", "", "save", "save-as", "", "compare-model", "export", "", "quit",
    )),
    ("&Edit", ("undo", "redo", "", "pin", "compare", "note", "", "script", "script-all", "", "find", "palette", "",
               "find-text", "find-next", "find-previous", "", "preferences")),
    ("&View", (
        "explore", "schedule", "pipeline", "tune", "", "system", "dark", "light", "", "zoom-in", "zoom-out", "fit", "",
        "measured-times", "roofline", "", "next-panel", "last-panel", "panels", "reset",
    )),
    ("F&usion", (
        "operators", "why-boundary", "", "merge", "move", "split", "", "release", "release-all", "", "groups",
    )),
    ("&Run", (
        "apply", "check", "time", "", "replay", "replay-pause", "replay-stop", "slower", "faster", "", "pin-samples",
        "", "cancel", "", "machine",
    )),
    ("&Tune", (
        "tune-start", "tune-pause", "tune-stop", "", "tune-attach", "tune-detach", "", "tune-best", "tune-best-all",
        "tune-trial", "tune-ablate", "", "tune-all", "tune-filter",
    )),
    ("&Help", ("guide", "keys", "", "about")),
)  # fmt: skip
"""Menu -> its actions in order; "" is a separator; "recent", "export", "panels" are sub-menus that the window fills."""
LISTED = (
    *MENUS, ("&Export", (*EXPORTS, *(info.picture_action for info in PANELS))),
    ("&Panels", tuple(info.action for info in PANELS)),
)  # fmt: skip
"""The menus with those of exports and panels: what the palette and the sheet of shortcuts list."""

EXCLUSIVE = (("explore", "schedule", "pipeline", "tune"), ("system", "dark", "light"))


def make_actions(window: QMainWindow, given: Mapping[str, QAction]) -> dict[str, QAction]:
    """All actions, belonging to the window, so that their shortcuts work everywhere in it.

    given: those that exist already because Qt makes them, as for showing and hiding a dock.
    """
    made = {info.name: _make(info, given.get(info.name) or QAction(window), window) for info in ACTIONS}
    for names in EXCLUSIVE:
        group = QActionGroup(window)
        for name in names:
            group.addAction(made[name])
    return made


def default_keys(info: ActionInfo) -> list[QKeySequence]:
    """The keys of an action where nobody chose others."""
    # A platform without its own keys for an action (such as Quit) gives an empty sequence; one whose own keys are those
    # that are meant everywhere gives them twice, and Qt would refuse both as ambiguous.
    sequences = {keys.toString(): keys for keys in [QKeySequence(each) for each in info.keys] if not keys.isEmpty()}
    return list(sequences.values())


def set_keys(action: QAction, info: ActionInfo, keys: list[QKeySequence]) -> None:
    """Binds an action's keys; its tool tip tells the first."""
    action.setShortcuts(keys)
    _tell(action, info)


def follow(button: QAbstractButton, action: QAction) -> None:
    """Lets a button of a panel be enabled with an action, and say what that says."""

    def show() -> None:
        button.setEnabled(action.isEnabled())
        button.setToolTip(action.toolTip())

    action.changed.connect(show)
    show()


def _make(info: ActionInfo, action: QAction, window: QMainWindow) -> QAction:
    action.setText(info.text)
    set_keys(action, info, default_keys(info))
    action.setCheckable(info.checkable)
    action.enabledChanged.connect(lambda _: _tell(action, info))
    window.addAction(action)
    return action


def _tell(action: QAction, info: ActionInfo) -> None:
    """Tips say what an action does, by which key, and where it is disabled what to do first."""
    shown = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
    missing = "" if action.isEnabled() else info.needs
    told = f"{info.tip} ({shown})" if shown else info.tip
    action.setToolTip("\n".join(filter(None, (told, f"{missing[:1].upper()}{missing[1:]}"))))
    action.setStatusTip("; ".join(filter(None, (info.tip, missing))))
