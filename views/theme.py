"""Colour tokens and faces: one value per theme, read from `resources`, handed to every view."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette

RESOURCES = Path(__file__).resolve().parent.parent / "resources"
THEMES = ("dark", "light")
SYSTEM = "system"
"""Stands for the theme that the desktop has."""
COLOUR_MAPS = ("viridis", "cividis")
"""Of costs; cividis looks the same to those who see red and green alike."""
DEFAULT_MAP = COLOUR_MAPS[0]
INTERFACE_FACE = "Inter"
CODE_FACE = "JetBrains Mono"


@dataclass(frozen=True, slots=True)
class Theme:
    """The tokens of `resources/themes/NAME.json`; text keeps a contrast of 4.5 on every surface, marks 3 on `panel`."""

    name: str
    colours: Mapping[str, str]
    authors: Mapping[str, str]
    cost: tuple[str, ...]
    """Sequential scale, cheap to dear: a colour map, cut so that more cost means more contrast."""

    def colour(self, token: str) -> QColor:
        """The colour of a token, e.g. "text-2"."""
        return QColor(self.colours[token])

    def author(self, name: str) -> QColor:
        """The colour of an author's glyph."""
        return QColor(self.authors.get(name, self.colours["text-2"]))

    def cost_colour(self, part: float) -> QColor:
        """Where `part`, cut to 0..1, falls on the cost scale, linear between its stops."""
        place = min(max(part, 0.0), 1.0) * (len(self.cost) - 1)
        index = min(int(place), len(self.cost) - 2)
        low, high, weight = QColor(self.cost[index]), QColor(self.cost[index + 1]), place - index
        red, green, blue = (
            a + (b - a) * weight
            for a, b in ((low.redF(), high.redF()), (low.greenF(), high.greenF()), (low.blueF(), high.blueF()))
        )
        return QColor.fromRgbF(red, green, blue)


def load_theme(name: str, colour_map: str = DEFAULT_MAP) -> Theme:
    """Reads the tokens of "dark" or "light"."""
    stored = json.loads((RESOURCES / "themes" / f"{name}.json").read_text(encoding="utf-8"))
    return Theme(stored["name"], stored["colours"], stored["authors"], tuple(stored["cost"][colour_map]))


@cache
def load_faces() -> tuple[str, ...]:
    """Registers the faces that ship with the program, so that the window looks the same everywhere; their families."""
    files = sorted((RESOURCES / "fonts").glob("*.[ot]tf"))
    handles = [QFontDatabase.addApplicationFont(str(file)) for file in files]
    return tuple(family for handle in handles for family in QFontDatabase.applicationFontFamilies(handle))


def face(size: float = 12.0, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
    """The interface face with tabular figures; `size` in pixels at 100 %."""
    return _face(INTERFACE_FACE, size, weight, "tnum")


def code_face(size: float = 11.0) -> QFont:
    """The monospace face without ligatures; `size` in pixels at 100 %."""
    font = _face(CODE_FACE, size, QFont.Weight.Normal, "")
    font.setFixedPitch(True)
    font.setStyleHint(QFont.StyleHint.Monospace)
    for ligature in ("liga", "calt"):
        font.setFeature(QFont.Tag(ligature), 0)
    return font


def semibold(size: float = 12.0) -> QFont:
    """The interface face for titles and headline figures."""
    return face(size, QFont.Weight.DemiBold)


def palette(theme: Theme) -> QPalette:
    """The theme as Qt's palette, for what the style sheet does not reach."""
    roles = {
        QPalette.ColorRole.Window: "panel",
        QPalette.ColorRole.Base: "panel",
        QPalette.ColorRole.AlternateBase: "chrome",
        QPalette.ColorRole.Button: "chrome",
        QPalette.ColorRole.ToolTipBase: "raised",
        QPalette.ColorRole.ToolTipText: "text",
        QPalette.ColorRole.WindowText: "text",
        QPalette.ColorRole.Text: "text",
        QPalette.ColorRole.ButtonText: "text",
        QPalette.ColorRole.PlaceholderText: "text-3",
        QPalette.ColorRole.Highlight: "accent-bg",
        QPalette.ColorRole.HighlightedText: "text",
        QPalette.ColorRole.Link: "accent",
    }
    made = QPalette()
    for role, token in roles.items():
        made.setColor(role, theme.colour(token))
    return made


def _face(family: str, size: float, weight: QFont.Weight, feature: str) -> QFont:
    font = QFont(family)
    # Pixel sizes may be fractional (10.5) only through points; a pixel is 0.75 point at 96 dots per inch.
    font.setPixelSize(round(size)) if size == round(size) else font.setPointSizeF(size * 0.75)
    font.setWeight(weight)
    font.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    if feature:
        font.setFeature(QFont.Tag(feature), 1)
    return font
