"""The frame that all panels share: header with title and tabs, sub-header, body, loading bar, empty state."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QStackedLayout,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from views.icons import icon
from views.keyboard import keyboard_target
from views.theme import Theme
from views.themed import Themed, apply_theme

HEADER = 28
SUBHEADER = 32
PADDING = 12


def label(text: str = "", role: str = "", wrap: bool = False) -> QLabel:
    """A label whose look the style sheet picks by `role`."""
    made = QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setWordWrap(wrap)
    if role:
        made.setProperty("role", role)
    if role in ("chip", "outline-chip", "key"):
        made.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
    return made


class Elided(QLabel):
    """One line that takes the room there is and asks for none.

    What does not fit ends in "…", so that a number is never read for another one; the tool tip then has the whole line
    above `tip`.  With `hug` it takes no more room than its text needs.
    """

    def __init__(self, role: str = "", tip: str = "", hug: bool = False) -> None:
        super().__init__()
        self._whole, self._tip, self._hug = "", tip, hug
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        if role:
            self.setProperty("role", role)
        self._fit()

    def text(self) -> str:
        """All of it."""
        return self._whole

    def setText(self, text: str) -> None:
        """Shows as much as there is room for."""
        self._whole = text
        self.setAccessibleName(text)
        self._fit()

    def minimumSizeHint(self) -> QSize:
        """A line's height; no width."""
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Shows more or less of it."""
        super().resizeEvent(event)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        """Another face or style makes it longer or shorter."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._fit()

    def _fit(self) -> None:
        if self._hug:
            self.setMaximumWidth(self.fontMetrics().horizontalAdvance(self._whole) + 2)
        shown = self.fontMetrics().elidedText(self._whole, Qt.TextElideMode.ElideRight, self.contentsRect().width())
        super().setText(shown)
        self.setToolTip("\n".join(filter(None, (self._whole if shown != self._whole else "", self._tip))))


def icon_button(tip: str) -> QToolButton:
    """A button that shows only an icon and therefore has a tool tip and an accessible name."""
    made = QToolButton()
    made.setProperty("role", "small")
    made.setToolTip(tip)
    made.setAccessibleName(tip)
    return made


def link(text: str) -> QPushButton:
    """A button that looks like a link."""
    made = QPushButton(text)
    made.setProperty("role", "link")
    made.setCursor(Qt.CursorShape.PointingHandCursor)
    return made


class FixedStrip(QWidget):
    """A horizontal strip of fixed height, also where a dock asks for its title bar's size."""

    def __init__(self, role: str, height: int) -> None:
        super().__init__()
        self.setProperty("role", role)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)  # else a plain widget paints no background
        self.setFixedHeight(height)

    def sizeHint(self) -> QSize:
        """The fixed height, whatever the content."""
        return QSize(super().sizeHint().width(), self.maximumHeight())

    def minimumSizeHint(self) -> QSize:
        """The fixed height, and the width below which something would be cut."""
        return QSize(super().minimumSizeHint().width(), self.maximumHeight())


class Header(FixedStrip):
    """The title bar of a panel; it leaves its title out where tabs need the room."""

    def __init__(self, title: QLabel) -> None:
        super().__init__("header", HEADER)
        self._title = title
        self.row = QHBoxLayout(self)
        self.row.setContentsMargins(PADDING, 0, 8, 0)
        self.row.setSpacing(8)
        # The layout would force its own minimum, with the title, on the header and so on the whole dock.
        self.row.setSizeConstraint(QHBoxLayout.SizeConstraint.SetNoConstraint)
        self.row.addWidget(title)

    def minimumSizeHint(self) -> QSize:
        """The width of everything but the title."""
        return QSize(self._needed_width() - self._title_width(), self.maximumHeight())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leaves the title out, or takes it in again."""
        super().resizeEvent(event)
        self._title.setVisible(self.width() >= self._needed_width())

    def _needed_width(self) -> int:
        """Pixels for everything, the title included."""
        return self.row.minimumSize().width() + (self._title_width() if self._title.isHidden() else 0)

    def _title_width(self) -> int:
        return self._title.sizeHint().width() + self.row.spacing()


def bar(role: str, height: int) -> tuple[QWidget, QHBoxLayout]:
    """A horizontal strip of fixed height and its layout."""
    strip = FixedStrip(role, height)
    layout = QHBoxLayout(strip)
    layout.setContentsMargins(PADDING, 0, 8, 0)
    layout.setSpacing(8)
    return strip, layout


def column_heads(first: str, columns: Sequence[tuple[str, int]]) -> QWidget:
    """Heads of a table: `first` takes the room that is left; (head, width in pixels) of the others, on the right."""
    strip, layout = bar("subheader", 26)
    layout.setContentsMargins(PADDING, 0, PADDING, 0)
    layout.setSpacing(0)
    layout.addWidget(label(first, "small-hint"), 1)
    for head, width in columns:
        made = label(head, "small-hint")
        made.setFixedWidth(width)
        made.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        layout.addWidget(made)
    return strip


def rule() -> QFrame:
    """A one-pixel separator."""
    made = QFrame()
    made.setProperty("role", "rule")
    return made


class LoadingBar(QProgressBar):
    """A thin bar that moves while something is on its way; hidden at first.

    It lies over the upper edge of a widget: in its layout, every change would lay out and paint all of it twice.
    """

    def __init__(self, over: QWidget) -> None:
        super().__init__(over)
        self._over = over
        self.setRange(0, 0)
        self.setTextVisible(False)
        self.setStyleSheet("min-height: 2px; max-height: 2px; border-radius: 0;")
        self.hide()
        over.installEventFilter(self)

    def showEvent(self, event: QShowEvent) -> None:
        """Takes its place above whatever was added since."""
        super().showEvent(event)
        self._lie()
        self.raise_()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """As wide as what it lies over."""
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self._lie()
        return False

    def _lie(self) -> None:
        self.setGeometry(0, 0, self._over.width(), 2)


class Panel(QWidget, Themed):
    """A panel: `header` serves as the title bar of its dock, `body` holds the content, `empty` what to do first."""

    tab_selected = Signal(str)
    cancel_requested = Signal()
    shown = Signal()

    def __init__(self, title: str, tabs: Sequence[str] = ()) -> None:
        super().__init__()
        self.setAccessibleName(title)
        self.setObjectName(title.lower())
        self._icons: list[tuple[QToolButton, str]] = []
        self.title = label(title, "title")
        self.header = Header(self.title)
        self.header_layout = self.header.row
        self.subtitle = Elided("hint", hug=True)  # whole, it would push what stands right of it out of the panel
        self.tabs: dict[str, QToolButton] = {}
        self._tab_group = QButtonGroup(self)
        for name in tabs:
            self._add_tab(name)
        self.header_layout.addWidget(self.subtitle, 100)
        self.header_layout.addStretch(1)

        self.body = QWidget()
        self.body.setProperty("role", "body")
        self.body_layout = QVBoxLayout(self.body)
        self.body_layout.setContentsMargins(0, 0, 0, 0)
        self.body_layout.setSpacing(0)
        self.empty = _Empty()
        holder = QWidget()
        self._stack = QStackedLayout(holder)
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self.body)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(holder, 1)
        self._veil = QWidget(self)
        self._veil.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._veil.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._veil.hide()
        self.progress = LoadingBar(self)

    def show_body(self) -> None:
        """Shows the content instead of the empty state."""
        self._stack.setCurrentWidget(self.body)

    def show_empty(self, sentence: str) -> None:
        """Shows one sentence in the panel's centre."""
        self.empty.sentence.setText(sentence)
        self._stack.setCurrentWidget(self.empty)

    def show_loading(self, loading: bool) -> None:
        """Dims the old content under a thin moving bar while something newer is on its way."""
        self._veil.setVisible(loading)
        self._veil.raise_()
        self.progress.setVisible(loading)

    def showEvent(self, event: QShowEvent) -> None:
        """Tells that the panel can be seen now, so that what it shows may be asked for."""
        super().showEvent(event)
        self.shown.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._veil.setGeometry(self.rect())

    def select_tab(self, name: str) -> None:
        """Brings a tab to the front and says so."""
        self.tabs[name].setChecked(True)
        self.tab_selected.emit(name)

    def add_header_icon(self, name: str, tip: str) -> QToolButton:
        """An icon at the right end of the header."""
        button = icon_button(tip)
        self._icons.append((button, name))
        self.header_layout.addWidget(button)
        return button

    def tint(self, button: QToolButton, name: str) -> None:
        """Lets a button's icon follow the theme."""
        self._icons.append((button, name))

    def set_theme(self, theme: Theme) -> None:
        """Repaints the panel, its content and its header, which is no child of it while a dock has it."""
        super().set_theme(theme)
        apply_theme(self.header, theme)

    def show_theme(self, theme: Theme) -> None:
        """Takes over the tokens of `theme`."""
        for button, name in self._icons:
            button.setIcon(icon(name, theme.colours["text-2"], theme.colours["line"]))
        panel = theme.colour("panel")
        self._veil.setStyleSheet(f"background: rgba({panel.red()}, {panel.green()}, {panel.blue()}, 110);")
        self.update()

    def _add_tab(self, name: str) -> None:
        button = QToolButton()
        button.setText(name)
        button.setCheckable(True)
        button.setProperty("role", "tab")
        button.clicked.connect(lambda: self._choose_tab(name))
        button.setChecked(not self.tabs)
        self._tab_group.addButton(button)
        self.tabs[name] = button
        self.header_layout.addWidget(button)

    def _choose_tab(self, name: str) -> None:
        """Brings a tab to the front; one that the pointer chose has the keyboard, too."""
        self.tab_selected.emit(name)
        if not self.tabs[name].hasFocus():
            keyboard_target(self).setFocus(Qt.FocusReason.MouseFocusReason)


class _Empty(QWidget):
    """One sentence and at most two buttons."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "body")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.sentence = label("", "hint", wrap=True)
        self.sentence.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.buttons = QHBoxLayout()
        self.buttons.setSpacing(8)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 8, 24, 8)
        layout.setSpacing(12)
        layout.addStretch(1)
        layout.addWidget(self.sentence)
        layout.addLayout(self.buttons)
        layout.addStretch(1)
        self.buttons.addStretch(1)
        self.buttons.addStretch(1)

    def add_button(self, text: str) -> QPushButton:
        """A button under the sentence."""
        made = QPushButton(text)
        self.buttons.insertWidget(self.buttons.count() - 1, made)
        return made
