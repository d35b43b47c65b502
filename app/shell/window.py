"""The main window: panels in docks, actions, menus, tool bar, status bar, settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings, QSize, Qt
from PySide6.QtGui import QAction, QCloseEvent, QGuiApplication, QIcon
from PySide6.QtWidgets import QApplication, QComboBox, QMainWindow, QMenu, QSizePolicy, QToolBar, QToolButton, QWidget

from app.controllers.diff import DiffController
from app.controllers.history import HistoryController
from app.controllers.model_diff import ModelDiffController
from app.session.document import Document
from app.session.measuring import measuring
from app.session.named_models import EXAMPLE
from app.session.recovery import journal_folder
from app.session.selection import Selection
from app.session.undo_stack import UndoStack
from app.session.workspace import Workspace
from app.shell.actions import ACTIONS, EXPORTS, MENUS, make_actions
from app.shell.commands import Commands
from app.shell.drops import FileDrops
from app.shell.exports import Exports
from app.shell.files import FileActions
from app.shell.layout import Dock, Proportions, arrange, proportion_strip
from app.shell.palette import plain
from app.shell.panels import PANELS, PERSPECTIVES
from app.shell.preferences import bind_keys, preferred_map
from app.shell.search import SearchBox
from app.shell.window_frame import MenuBar, Segments, StatusBar
from app.shell.wiring import Panels, Wiring
from views.diff.window import FRAME
from views.format import duration
from views.icons import icon
from views.notice import Notice
from views.problems.jobs import JobState
from views.schedule.view import PIPELINE
from views.style import style_sheet
from views.theme import SYSTEM, Theme, load_theme, palette
from views.themed import apply_theme, restyle

COLOURS = {"Predicted time": "time", "Measured time": "measured", "Traffic": "traffic", "Bound": "bound"}
"""What the tool bar offers -> what the graph calls it."""

SMALLEST = (1024, 640)
"""Pixels of the window in which every panel is still of use."""
USUAL = (1440, 900)
"""Pixels of the window at the first start, where the screen has room for them."""
SHORT = 132
"""Pixels in which one can tell what the graph is coloured by."""
LAYOUT_VERSION = 4


class Window(QMainWindow):
    """Everything seen; the workspace holds everything known."""

    def __init__(self, workspace: Workspace, theme: str | None = None, journals: Path | None = None) -> None:
        super().__init__()
        self.workspace = workspace
        self.settings = QSettings()
        self.document = Document(workspace, journals or journal_folder())
        self.notice = Notice()
        self.files = FileActions(self, self.document, self.settings, self.notice)
        self.files.replay_chosen.connect(lambda path: self.wiring.timing.replay(path))
        self.files.records_chosen.connect(lambda path: self.wiring.tuning.control.attach(path))
        self.files.other_records_chosen.connect(lambda path: self.wiring.tuning.comparison.open(path))
        self._preferred = theme or str(self.settings.value("theme", "dark"))
        self.theme = self._load_theme()
        self.panels = Panels()
        self.wiring: Wiring = Wiring(self.panels, workspace)
        self.history = HistoryController(self.panels.history, workspace, self.wiring.fusion_edits)
        self.undo_stack = UndoStack(workspace, self.wiring.fusion_edits)
        self.wiring.tuning.applying.tied.connect(self.undo_stack.tie)
        self.diff = DiffController(self, workspace)
        self.history.compare_requested.connect(self.diff.compare)
        self.model_diff = ModelDiffController(self, workspace, lambda: self.files.name)
        self.files.other_chosen.connect(self.model_diff.compare)
        self.docks: dict[str, Dock] = {name: Dock(panel) for name, panel in self.panels.by_name().items()}
        shown = {info.action: self.docks[info.name].toggleViewAction() for info in PANELS}
        self.actions_by_name: dict[str, QAction] = make_actions(self, shown)
        bind_keys(self.actions_by_name, self.settings)
        self.perspective = "Explore"
        self._layouts: dict[str, QByteArray] = {}
        self._make_frame()
        self._connect_workspace()
        self.setDockNestingEnabled(True)
        self.setMinimumSize(*SMALLEST)
        self.resize(*USUAL)
        self.proportions = Proportions(self, self.docks, lambda: self.perspective)
        self._arrange()
        self.exports = Exports(self)
        self.exports.state_changed.connect(self._show_counts)
        self.panels.jobs.stop_requested.connect(self._stop_job)
        self.drops = FileDrops(self, self.docks.values(), self.files.open)
        self.commands = Commands(self)
        self.set_theme()
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._follow_system)
        self._show_counts()
        self._show_selection(Selection())

    def action(self, name: str) -> QAction:
        """One of the registered actions."""
        return self.actions_by_name[name]

    def open_file(self, path: str) -> None:
        """Opens a model or a workspace file."""
        self.document.open(path)

    def set_theme(self, name: str = "") -> None:
        """ "dark", "light" or "system", by default the one in use with other colours; every panel repaints."""
        self._preferred = name or self._preferred
        self.theme = self._load_theme()
        self.settings.setValue("theme", self._preferred)
        self.action(self._preferred).setChecked(True)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        sheet = style_sheet(self.theme)
        if application.styleSheet() != sheet:  # setting it again would restyle every widget of every window
            application.setPalette(palette(self.theme))
            application.setStyleSheet(sheet)
        apply_theme(self, self.theme)
        for info in ACTIONS:
            if info.icon:
                self.action(info.name).setIcon(self._icon(info.icon, "text-2"))
        self._show_draft(self.panels.constraints.text.is_draft)

    def _load_theme(self) -> Theme:
        """The preferred theme in the preferred colours."""
        desktop = "light" if desktop_scheme() == Qt.ColorScheme.Light else "dark"
        return load_theme(desktop if self._preferred == SYSTEM else self._preferred, preferred_map(self.settings))

    def _follow_system(self) -> None:
        if self._preferred == SYSTEM:
            self.set_theme()

    def set_perspective(self, name: str) -> None:
        """Arranges the panels for a kind of work; an arrangement that the user changed comes back."""
        if name != self.perspective:
            self._layouts[self.perspective] = self.saveState(LAYOUT_VERSION)
            self.perspective = name
            state = self._layouts.get(name)
            if state is None or not self._restore(state):
                self._arrange()
        if name == PIPELINE:
            self.panels.schedule.select_tab(PIPELINE)
        self.perspectives.choose(name)
        self.action(name.lower()).setChecked(True)
        self.document.view["perspective"] = name

    def reset_layout(self) -> None:
        """Puts every panel back in its place."""
        self._layouts.clear()
        for dock in self.docks.values():
            dock.setFloating(False)
        self._arrange()

    def _arrange(self) -> None:
        arrange(self, self.docks, self.perspective)
        self.proportions.declare(self.perspective)

    def restore_layout(self) -> None:
        """Takes size and arrangement over from the last time."""
        geometry, state = self.settings.value("geometry"), self.settings.value("layout")
        perspective = str(self.settings.value("perspective", self.perspective))
        if perspective in PERSPECTIVES:
            self.set_perspective(perspective)
        if geometry is None or not self.restoreGeometry(geometry):
            self._fit_screen()
        if state is not None and self._restore(state):
            self.proportions.forget()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Remembers the layout and ends the worker; a person is asked about unsaved edits first."""
        if event.spontaneous() and self.document.is_modified:
            event.ignore()
            self.files.settle_edits(self.close)
            return
        self.settings.setValue("geometry", self.saveGeometry())
        self.settings.setValue("layout", self.saveState(LAYOUT_VERSION))
        self.settings.setValue("perspective", self.perspective)
        QGuiApplication.styleHints().colorSchemeChanged.disconnect(self._follow_system)
        self.document.close()
        self.wiring.timing.close()
        self.wiring.tuning.close()
        self.exports.close()
        self.model_diff.close()
        self.commands.focus.close()
        self.workspace.client.close()
        super().closeEvent(event)

    def _restore(self, state: QByteArray) -> bool:
        """Arranges panels as they were saved; whether there is news is no matter of arrangement."""
        restored = self.restoreState(state, LAYOUT_VERSION)
        self.notice_bar.setVisible(self.notice.has_news)
        return restored

    def _fit_screen(self) -> None:
        """Fills a screen that has less room than the window would take with its frame."""
        room = self.screen().availableSize()
        if room.width() <= USUAL[0] or room.height() <= USUAL[1] + FRAME:
            self.resize(self.size().boundedTo(room))
            self.move(self.screen().availableGeometry().topLeft())
            self.setWindowState(Qt.WindowState.WindowMaximized)

    def _make_frame(self) -> None:
        self.menu = MenuBar()
        self.setMenuBar(self.menu)
        for title, names in MENUS:
            self._fill_menu(self.menu.addMenu(title), names)
        self.perspectives = Segments(tuple(PERSPECTIVES), "Perspective")
        self.perspectives.choose(self.perspective)
        self.perspectives.chosen.connect(self.set_perspective)
        # In a narrow window the rest of the tool bar comes first.
        self.colour_by = QComboBox()
        self.colour_by.setMinimumWidth(SHORT)
        self.colour_by.setAccessibleName("Colour the graph by")
        self.colour_by.setToolTip("What the graph is coloured by")
        self.colour_by.addItems(list(COLOURS))
        self.colour_by.currentIndexChanged.connect(self._colour_by)
        self.search = SearchBox()
        self.search.chosen.connect(lambda hit: self.wiring.go_to(hit))  # there is no wiring yet
        self.search.found.connect(self.panels.graph.show_found)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self.addToolBar(self._make_tool_bar())
        self.addToolBarBreak()
        self.notice_bar = self._make_notice_bar()
        self.addToolBar(self.notice_bar)
        self.status = StatusBar()
        self.setStatusBar(self.status)
        self.undo_stack.acted.connect(self.status.say)

    def _fill_menu(self, menu: QMenu, names: tuple[str, ...]) -> None:
        for name in names:
            if name == "recent":
                self.files.fill_recent(menu.addMenu("Open &Recent"))
            elif name == "export":
                exports = menu.addMenu("&Export")
                self._fill_menu(exports, EXPORTS)
                self._fill_menu(exports.addMenu("P&icture"), tuple(info.picture_action for info in PANELS))
            elif name == "panels":
                self._fill_menu(menu.addMenu("&Panels"), tuple(info.action for info in PANELS))
            elif name:
                menu.addAction(self.action(name))
            else:
                menu.addSeparator()

    def _make_tool_bar(self) -> QToolBar:
        bar = QToolBar("Main tool bar", movable=False, iconSize=QSize(16, 16))
        bar.setObjectName("main-tool-bar")
        bar.setFixedHeight(40)
        self.tool_buttons: dict[str, QToolButton] = {}
        for name in ("open", "save", "", "undo", "redo", ""):
            bar.addWidget(self._tool_button(name, "icon")) if name else bar.addSeparator()
        bar.addWidget(self.perspectives)
        bar.addSeparator()
        bar.addWidget(self.colour_by)
        bar.addWidget(_spring())
        bar.addWidget(self.search)
        bar.addWidget(_spring())
        for name in ("apply", "check", "time"):
            bar.addWidget(self._tool_button(name, "text"))
        return bar

    def _make_notice_bar(self) -> QToolBar:
        """Takes no room while there is no news."""
        bar = QToolBar("Notices", movable=False)
        bar.setObjectName("notices")
        bar.setProperty("role", "notices")
        bar.addWidget(self.notice)
        bar.hide()
        self.notice.news_changed.connect(bar.setVisible)
        return bar

    def _tool_button(self, name: str, role: str) -> QToolButton:
        button = self.tool_buttons[name] = QToolButton()
        button.setDefaultAction(self.action(name))
        button.setProperty("role", role)
        button.setAccessibleName(plain(self.action(name).text()))
        styles = Qt.ToolButtonStyle
        button.setToolButtonStyle(styles.ToolButtonTextBesideIcon if role == "text" else styles.ToolButtonIconOnly)
        return button

    def _connect_workspace(self) -> None:
        workspace, panels = self.workspace, self.panels
        workspace.model_changed.connect(self._show_model)
        workspace.preview.shown.connect(self._show_index)
        workspace.problems_changed.connect(self._show_counts)
        workspace.client.jobs_changed.connect(self._show_counts)
        workspace.machine.changed.connect(self._show_device)
        self.document.state_changed.connect(self._show_title)
        workspace.bus.changed.connect(self._show_selection)
        workspace.kernel_changed.connect(lambda _: self._show_statements())
        panels.constraints.draft_changed.connect(self._show_draft)
        panels.outline.open_requested.connect(self.files.ask_open)
        panels.timing.live.replay_requested.connect(self.files.ask_replay)
        for view in (panels.tuning, panels.run):
            view.attach_requested.connect(self.files.ask_records)
        panels.run.start_file.choice_requested.connect(lambda: self.files.ask_start(panels.run.start_file.show_path))
        panels.tuning.comparison.log_requested.connect(self.files.ask_other_records)
        panels.outline.example_requested.connect(lambda: self.files.open(EXAMPLE))
        self.status.problems_requested.connect(lambda: self._toggle("problems"))
        self.status.jobs_requested.connect(lambda: self._toggle("jobs"))

    def _show_model(self) -> None:
        self._show_index()
        self._show_title()
        if not self.workspace.is_regrouping:
            self._show_view(self.workspace.opened.view)
        self._show_device()
        seconds = sum(seconds for _, seconds in self.workspace.model.seconds) if self.workspace.model else 0
        self.status.opened.setText(f"Opened in {duration(seconds * 1e6)}" if seconds else "")
        self._show_statements()

    def _show_index(self) -> None:
        assert self.workspace.shown is not None
        self.search.show_index(self.workspace.shown.index)

    def _show_title(self) -> None:
        title = self.files.title
        self.setWindowTitle(f"{title} — Loomscope" if title else "Loomscope")
        self.menu.show_document(title)

    def _show_device(self) -> None:
        target = self.workspace.opened.target
        self.menu.show_device(measuring(self.workspace.machine, target).device, target)

    def _show_view(self, view: Mapping[str, str]) -> None:
        """What was in sight when the workspace was saved."""
        if view.get("perspective") in PERSPECTIVES:
            self.set_perspective(view["perspective"])
        if view.get("colour") in COLOURS.values():
            self.show_colour(view["colour"])

    def show_colour(self, what: str) -> None:
        """What the graph's bars show, by the graph's name for it."""
        self.colour_by.setCurrentIndex(list(COLOURS.values()).index(what))

    def _colour_by(self, index: int) -> None:
        chosen = list(COLOURS.values())[index]
        self.panels.graph.set_colour_by(chosen)
        self.action("measured-times").setChecked(chosen == "measured")
        self.document.view["colour"] = chosen

    def _show_statements(self) -> None:
        kernel = self.workspace.legal_kernel(self.wiring.group)
        self.search.show_statements(kernel.statements if kernel else ())

    def _show_selection(self, selection: Selection) -> None:
        group = self.workspace.group(selection.group)
        self.status.show_selection(group.title if group else "", selection.statements, group.instances if group else 0)
        self._show_statements()

    def _show_counts(self) -> None:
        problems = [problem for _, problem in self.workspace.problems]
        self.status.show_problems(len(problems), any(problem.severity == "error" for problem in problems))
        jobs = [JobState(job.number, job.title, job.text, job.done, job.total) for job in self.workspace.client.jobs]
        jobs += [self.exports.job] if self.exports.job else []
        self.panels.jobs.show_jobs(jobs)
        self.status.show_jobs(len(jobs))

    def _stop_job(self, number: int) -> None:
        """An export has a process of its own; the worker is stopped with all that it does."""
        if self.exports.job and number == self.exports.job.number:
            self.exports.cancel()
        else:
            self.workspace.client.cancel()

    def _show_draft(self, draft: bool) -> None:
        """Apply is the primary button only while an edit waits for it."""
        button = self.tool_buttons["apply"]
        self.action("apply").setEnabled(draft)
        restyle(button, "primary", "true" if draft else "false")
        self.action("apply").setIcon(self._icon("apply", "on-accent" if draft else "text-2"))

    def _icon(self, name: str, token: str) -> QIcon:
        return icon(name, self.theme.colours[token], self.theme.colours["edge"])

    def focus_search(self) -> None:
        """Puts the cursor into the field that goes to groups, operators and statements."""
        self.search.setFocus()
        self.search.selectAll()

    def _toggle(self, name: str) -> None:
        dock = self.docks[name]
        dock.setVisible(not dock.isVisible())
        proportion_strip(self, self.docks)


def desktop_scheme() -> Qt.ColorScheme:
    """Whether the desktop is light or dark, or does not say."""
    return QGuiApplication.styleHints().colorScheme()


def _spring() -> QWidget:
    spring = QWidget()
    spring.setMinimumWidth(4)
    spring.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
    return spring
