"""Widgets that are painted with the tokens of a theme."""

from __future__ import annotations

from PySide6.QtWidgets import QAbstractScrollArea, QWidget

from views.theme import Theme


class Themed:
    """Mixed into a widget that needs tokens; `theme` is None until one was applied to it or to a widget around it."""

    theme: Theme | None = None

    def set_theme(self, theme: Theme) -> None:
        """Repaints the widget and what is in it with the tokens of `theme`."""
        assert isinstance(self, QWidget)
        apply_theme(self, theme)

    def show_theme(self, theme: Theme) -> None:
        """Takes over what is not looked up while painting, and repaints."""
        assert isinstance(self, QWidget)
        (self.viewport() if isinstance(self, QAbstractScrollArea) else self).update()


def apply_theme(root: QWidget, theme: Theme) -> None:
    """Repaints every themed widget from `root` down, each once."""
    for widget in (root, *root.findChildren(QWidget)):
        if isinstance(widget, Themed):  # found at any depth, so containers hand nothing on
            widget.theme = theme
            widget.show_theme(theme)


def restyle(widget: QWidget, name: str, value: str) -> None:
    """Sets a property that the style sheet selects by."""
    if widget.property(name) != value:
        widget.setProperty(name, value)
        widget.style().unpolish(widget)  # Qt evaluates the style sheet's selectors only when a widget is polished
        widget.style().polish(widget)
