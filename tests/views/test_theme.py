"""Colour tokens keep the contrast that the design asks for (WCAG 2 relative luminance)."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("PySide6", reason="themes are Qt colours")

from views.theme import COLOUR_MAPS, THEMES, Theme, load_theme

SURFACES = ("panel", "chrome", "raised", "accent-bg")
TEXTS = ("text", "text-2", "text-3", "accent", "wrong", "better", "worse")
CODE = ("keyword", "type", "number")
TEXT_CONTRAST, MARK_CONTRAST = 4.5, 3.0


def luminance(colour: str) -> float:
    """WCAG 2.2 relative luminance of "#RRGGBB"."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.fixture(params=itertools.product(THEMES, COLOUR_MAPS), ids="-".join)
def theme(request: pytest.FixtureRequest) -> Theme:
    return load_theme(*request.param)


def test_the_measure_knows_black_and_white() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21.0)
    assert contrast("#767676", "#FFFFFF") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("text", TEXTS)
def test_text_on_surfaces(theme: Theme, text: str, surface: str) -> None:
    assert contrast(theme.colours[text], theme.colours[surface]) >= TEXT_CONTRAST


@pytest.mark.parametrize("text", CODE)
def test_code_on_its_surfaces(theme: Theme, text: str) -> None:
    assert all(
        contrast(theme.colours[text], theme.colours[surface]) >= TEXT_CONTRAST for surface in ("panel", "accent-bg")
    )


def test_text_on_special_surfaces(theme: Theme) -> None:
    colours = theme.colours
    assert all(contrast(colours[text], colours["wrong-bg"]) >= TEXT_CONTRAST for text in ("wrong", "accent", "text-2"))
    assert contrast(colours["on-accent"], colours["accent-fill"]) >= TEXT_CONTRAST
    assert contrast(colours["text"], colours["found-bg"]) >= TEXT_CONTRAST


def test_marks_on_the_panel(theme: Theme) -> None:
    marks = (theme.colours["edge"], *theme.authors.values(), *theme.cost)
    assert min(contrast(mark, theme.colours["panel"]) for mark in marks) >= MARK_CONTRAST


def test_more_cost_is_more_contrast(theme: Theme) -> None:
    """Read off the drawn scale, between its stops too."""
    drawn = [theme.cost_colour(step / 50).name() for step in range(51)]
    contrasts = [contrast(colour, theme.colours["panel"]) for colour in drawn]
    assert all(later > earlier - 0.05 for earlier, later in itertools.pairwise(contrasts))
    assert contrasts[-1] > 3 * contrasts[0]


def test_both_themes_have_the_same_tokens() -> None:
    dark, light = (load_theme(name) for name in THEMES)
    assert dark.colours.keys() == light.colours.keys()
    assert dark.authors.keys() == light.authors.keys()
