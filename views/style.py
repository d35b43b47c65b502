"""The application's style sheet, written from a theme's tokens."""

from __future__ import annotations

from string import Template

from views.theme import RESOURCES, Theme

SHEET = Template("""
* { color: $text; }
QMainWindow, QDialog { background: $panel; }
QMainWindow::separator { background: $line; width: 1px; height: 1px; }
QMainWindow::separator:hover { background: $accent; }
QToolTip { background: $raised; color: $text; border: 1px solid $edge; padding: 3px 6px; font-size: 11px; }

QMenuBar { background: $chrome; padding: 0 4px; border: none; }
QMenuBar::item { padding: 6px 10px; background: transparent; color: $text_2; }
QMenuBar::item:selected { background: $raised; color: $text; }
QMenu { background: $chrome; border: 1px solid $edge; padding: 4px; }
QMenu::item { padding: 5px 28px 5px 20px; border-radius: 4px; }
QMenu::item:selected { background: $accent_bg; }
QMenu::item:disabled { color: $text_3; }
QMenu::separator { height: 1px; background: $line; margin: 4px 8px; }

QToolBar { background: $chrome; border: none; border-bottom: 1px solid $line; padding: 0 8px; spacing: 4px; }
QToolBar[role="notices"] { padding: 0; border: none; spacing: 0; }
QToolBar::separator { width: 1px; background: $line; margin: 10px 6px; }
QStatusBar { background: $chrome; border-top: 1px solid $line; color: $text_2; }
QStatusBar::item { border: none; }

QToolButton, QPushButton { background: $panel; border: 1px solid $line; border-radius: 6px; padding: 0 10px; min-height: 26px; }
QToolButton:hover, QPushButton:hover { background: $raised; }
QToolButton:focus, QPushButton:focus { border-color: $accent; }
QToolButton:disabled, QPushButton:disabled { color: $text_3; }
QToolButton[role="icon"] { background: transparent; border: 1px solid transparent; padding: 0; min-width: 26px; }
QToolButton[role="icon"]:hover { background: $raised; }
QToolButton[role="small"] { background: transparent; border: 1px solid transparent; border-radius: 4px; padding: 0;
  min-width: 22px; min-height: 22px; }
QToolButton[role="small"]:hover { background: $raised; }
QToolButton[role="small"]:focus { border-color: $accent; }
QToolButton[role="segment"] { background: transparent; border: 1px solid transparent; color: $text_2; padding: 0 12px;
  min-height: 24px; border-radius: 5px; }
QToolButton[role="segment"]:checked { background: $accent_bg; color: $text; font-weight: 600; }
QFrame[role="segments"] { background: $panel; border: 1px solid $line; border-radius: 6px; }
QToolButton[role="status"] { background: transparent; border: none; color: $text_2; padding: 0 8px; font-size: 11px; min-height: 20px; }
QToolButton[role="status"]:hover { background: $raised; color: $text; }
QToolButton[role="status"][wrong="true"] { color: $wrong; font-weight: 600; }
QToolButton[role="link"], QPushButton[role="link"] { background: transparent; border: none; color: $accent; padding: 0 2px; min-height: 20px; }
QPushButton[role="link"]:hover { text-decoration: underline; }
QPushButton[role="link"]:disabled { color: $text_3; }
QPushButton[role="primary"], QToolButton[primary="true"] { background: $accent_fill; color: $on_accent; border-color: $accent_fill; font-weight: 600; }
QPushButton[role="small"], QPushButton[role="path"] { min-height: 22px; padding: 0 8px; font-size: 11px; border-radius: 4px; }
QPushButton[role="path"] { text-align: left; }
QPushButton[role="small"]:checked { background: $accent_bg; border-color: $accent; }
QPushButton[role="primary-small"] { background: $accent_fill; color: $on_accent; border-color: $accent_fill; font-weight: 600;
  min-height: 22px; padding: 0 8px; font-size: 11px; border-radius: 4px; }
QPushButton[role="primary-small"]:disabled { background: $raised; color: $text_3; border-color: $line; }
QToolButton::menu-indicator { image: none; }

QLineEdit { background: $panel; border: 1px solid $line; border-radius: 6px; padding: 0 8px; min-height: 26px;
  selection-background-color: $accent_bg; selection-color: $text; }
QLineEdit:focus { border-color: $accent; }
QLineEdit[role="quiet"] { border: 1px solid transparent; min-height: 22px; font-size: 11px; padding: 0; border-radius: 4px; }
QLineEdit[role="quiet"]:hover { border-color: $line; padding: 0 6px; }
QLineEdit[role="quiet"]:focus { border-color: $accent; padding: 0 6px; }
QLineEdit[role="small"] { min-height: 22px; font-size: 11px; border-radius: 4px; }
QLineEdit[wrong="true"] { color: $wrong; border-color: $wrong; }
QComboBox { background: $panel; border: 1px solid $line; border-radius: 6px; padding: 0 8px; min-height: 26px; }
QComboBox:hover { background: $raised; }
QComboBox:focus { border-color: $accent; }
QComboBox::drop-down { border: none; width: 20px; }
QComboBox::down-arrow { image: url("$icons/chevron-$name.svg"); width: 14px; height: 14px; }
QComboBox[role="small"] { min-height: 22px; font-size: 11px; border-radius: 4px; }
QComboBox QAbstractItemView, QListView[role="popup"] { background: $chrome; border: 1px solid $edge; selection-background-color: $accent_bg;
  selection-color: $text; outline: none; padding: 2px; }

QTreeView, QTableView, QListView, QPlainTextEdit, QTextBrowser, QScrollArea, QGraphicsView { background: $panel; border: none; outline: none; }
QTreeView::item, QTreeView::item:selected, QTreeView::item:hover { border: none; }
QTreeView::branch { background: transparent; image: none; }
QHeaderView { background: $panel; }
QHeaderView::section { background: $panel; color: $text_3; border: none; border-bottom: 1px solid $line; padding: 0 8px; font-size: 7.9pt; }
QTableView { gridline-color: transparent; selection-background-color: $accent_bg; selection-color: $text; }
QPlainTextEdit { font-family: "JetBrains Mono"; font-size: 11px; selection-background-color: $accent_bg; selection-color: $text; }

QSplitter::handle { background: $line; }
QScrollBar:vertical { background: transparent; width: 9px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 9px; margin: 0; }
QScrollBar::handle { background: $raised; border-radius: 3px; margin: 1px; min-height: 24px; min-width: 24px; }
QScrollBar::handle:hover { background: $edge; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QAbstractScrollArea::corner { background: $panel; border: none; }
QProgressBar { background: $raised; border: none; border-radius: 2px; max-height: 4px; min-height: 4px; }
QProgressBar::chunk { background: $accent; border-radius: 2px; }
QCheckBox { spacing: 6px; }

QWidget[role="header"] { background: $chrome; border-bottom: 1px solid $line; }
QWidget[role="header"][focused="true"] { border-bottom: 1px solid $accent; }
QWidget[role="palette"] { background: $chrome; border: 1px solid $edge; border-radius: 6px; }
QWidget[role="subheader"] { background: $panel; border-bottom: 1px solid $line; }
QWidget[role="notice"] { background: $accent_bg; border-bottom: 1px solid $line; }
QWidget[role="body"] { background: $panel; }
QLabel { background: transparent; }
QLabel[role="title"] { font-weight: 600; }
QLabel[role="second"] { color: $text_2; font-size: 11px; }
QLabel[role="hint"] { color: $text_3; }
QLabel[role="small-hint"] { color: $text_3; font-size: 11px; }
QLabel[role="small-hint"][wrong="true"] { color: $wrong; }
QLabel[role="paragraph"] { color: $text_2; }
QToolButton[role="device"] { background: transparent; border: 1px solid transparent; padding: 0 14px; font-weight: 600; min-height: 24px; }
QToolButton[role="device"]:hover { background: $raised; }
QLabel[role="headline"] { font-size: 16px; font-weight: 600; }
QLabel[role="chip"] { background: $raised; color: $text_2; border-radius: 3px; padding: 2px 6px; font-size: 7.9pt; }
QLabel[role="outline-chip"] { border: 1px solid $edge; color: $text_2; border-radius: 3px; padding: 1px 6px; font-size: 7.9pt; }
QLabel[role="key"] { border: 1px solid $line; border-radius: 3px; color: $text_3; padding: 0 5px; font-size: 7.9pt; }
QLabel[role="wrong"] { color: $wrong; font-weight: 600; }
QLabel[role="wrong-text"] { color: $wrong; }
QFrame[role="witness"] { background: $wrong_bg; border-radius: 4px; }
QWidget[role="card"] { background: $chrome; border-top: 1px solid $line; }
QFrame[role="rule"] { background: $line; border: none; max-height: 1px; min-height: 1px; }
QMainWindow > QTabBar { background: $chrome; qproperty-drawBase: 0; }
QMainWindow > QTabBar::tab { background: transparent; border: none; border-top: 2px solid transparent; color: $text_2;
  padding: 3px 12px 4px 12px; }
QMainWindow > QTabBar::tab:hover { color: $text; }
QMainWindow > QTabBar::tab:selected { color: $text; border-top: 2px solid $accent; }
QToolButton[role="tab"] { background: transparent; border: none; border-radius: 0; border-bottom: 2px solid transparent; color: $text_2;
  padding: 0; margin: 0 5px; min-height: 25px; }
QToolButton[role="tab"]:hover { color: $text; }
QToolButton[role="tab"]:checked { color: $text; font-weight: 600; border-bottom: 2px solid $accent; }
""")


def style_sheet(theme: Theme) -> str:
    """The whole program's style sheet for `theme`."""
    tokens = {token.replace("-", "_"): value for token, value in theme.colours.items()}
    return SHEET.substitute(tokens, name=theme.name, icons=(RESOURCES / "icons").as_posix())
