"""News that waits for an answer without stopping anything: a strip with a sentence and at most three buttons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QWidget

from views.icons import icon
from views.panel import PADDING, icon_button, label
from views.theme import Theme
from views.themed import Themed

HEIGHT = 36


@dataclass(frozen=True, slots=True)
class News:
    """What happened, the details, and what may be done about it."""

    title: str
    detail: str
    choices: Sequence[tuple[str, Callable[[], None]]] = ()
    """Text and effect of each button; the first is the one that is meant."""
    dismissed: Callable[[], None] | None = None
    """Called where it is closed without a choice."""


class Notice(QWidget, Themed):
    """Shows the newest news; the ones before come back when it is answered."""

    news_changed = Signal(bool)
    """Whether there is any."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "notice")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedHeight(HEIGHT)
        self.setAccessibleName("Notice")
        self.title = label("", "title")
        self.detail = label("", "second")
        self.close_button = icon_button("Dismiss")
        self.close_button.clicked.connect(self._dismiss)
        self._buttons: list[QPushButton] = []
        self._news: list[News] = []
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(PADDING, 0, 8, 0)
        self._row.setSpacing(8)
        self._row.addWidget(self.title)
        self._row.addWidget(self.detail, 1)
        self._row.addWidget(self.close_button)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    @property
    def has_news(self) -> bool:
        """Whether anything waits for an answer."""
        return bool(self._news)

    @property
    def buttons(self) -> dict[str, QPushButton]:
        """The choices in sight under their texts."""
        return {button.text(): button for button in self._buttons}

    def show_news(self, news: News) -> None:
        """Shows news above those that wait."""
        self._news.append(news)
        self._show()

    def withdraw(self, title: str) -> None:
        """Takes back news that are out of date."""
        self._news = [news for news in self._news if news.title != title]
        self._show()

    def show_theme(self, theme: Theme) -> None:
        """Takes over the tokens of `theme`."""
        self.close_button.setIcon(icon("cancel", theme.colours["text-2"]))

    def _show(self) -> None:
        for button in self._buttons:
            self._row.removeWidget(button)
            button.deleteLater()
        self._buttons = []
        self.news_changed.emit(self.has_news)
        if not self._news:
            return
        news = self._news[-1]
        self.title.setText(news.title)
        self.detail.setText(news.detail)
        self.detail.setToolTip(news.detail)
        for number, (text, effect) in enumerate(news.choices):
            button = QPushButton(text)
            button.setProperty("role", "small" if number else "primary-small")
            button.clicked.connect(lambda _=False, act=effect: self._choose(act))
            self._row.insertWidget(self._row.count() - 1, button)
            self._buttons.append(button)

    def _choose(self, effect: Callable[[], None]) -> None:
        self._news.pop()
        self._show()
        effect()

    def _dismiss(self) -> None:
        if not self._news:
            return
        news = self._news.pop()
        self._show()
        if news.dismissed is not None:
            news.dismissed()
