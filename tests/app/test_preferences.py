"""Preferences are in force at once and kept; the guide tells what is true."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QComboBox

from app.shell.actions import ACTIONS, default_keys
from app.shell.guide import KEYS, PAGES, page_text
from app.shell.preferences import GIGABYTE, Preferences
from app.shell.window import Window
from engine.target.devices import DEVICES
from views.theme import load_theme


@pytest.fixture
def dialog(make: Callable[..., Window]) -> Iterator[Preferences]:
    window = make()
    window.action("preferences").trigger()
    yield window.commands.preferences


def pick(choice: QComboBox, value: object) -> None:
    """What a person does with a list: chooses, which `setCurrentIndex` alone does not tell."""
    index = choice.findData(value)
    assert index >= 0
    choice.setCurrentIndex(index)
    choice.activated.emit(index)


@pytest.mark.slow(sentinel=True)
def test_theme_and_colour_map_change_at_once_and_stay(dialog: Preferences, make: Callable[..., Window]) -> None:
    window = dialog.parent()
    assert isinstance(window, Window) and window.theme == load_theme("dark")
    pick(dialog.theme, "light")
    pick(dialog.colour_map, "cividis")
    assert window.theme == load_theme("light", "cividis") != load_theme("light")
    assert window.panels.outline.tree.theme == window.theme and window.action("light").isChecked()
    assert make(theme=None).theme == window.theme, "the next window is the same"


@pytest.mark.slow(sentinel=True)
def test_the_system_theme_follows_the_desktop(dialog: Preferences, monkeypatch: pytest.MonkeyPatch) -> None:
    window = dialog.parent()
    assert isinstance(window, Window)
    pick(dialog.theme, "system")
    assert window.action("system").isChecked() and QSettings().value("theme") == "system"
    for scheme, name in ((Qt.ColorScheme.Light, "light"), (Qt.ColorScheme.Dark, "dark")):
        monkeypatch.setattr("app.shell.window.desktop_scheme", lambda scheme=scheme: scheme)
        window._follow_system()
        assert window.theme.name == name


@pytest.mark.slow(sentinel=True)
def test_the_target_is_that_of_the_next_file(dialog: Preferences, make: Callable[..., Window]) -> None:
    window = dialog.parent()
    assert isinstance(window, Window)
    other = next(name for name in DEVICES if name != window.workspace.opened.target)
    pick(dialog.target, other)
    assert window.workspace.opened.target == other == make().workspace.opened.target


def test_the_worker_gets_no_more_memory_than_allowed(dialog: Preferences, qtbot: object) -> None:
    window = dialog.parent()
    assert isinstance(window, Window)
    client = window.workspace.client
    window.workspace.start()
    qtbot.waitUntil(lambda: client.process_id != 0)  # type: ignore[attr-defined]
    pick(dialog.memory, 16)
    assert resource.prlimit(client.process_id, resource.RLIMIT_AS)[0] == 16 * GIGABYTE
    client.cancel()
    qtbot.waitUntil(  # type: ignore[attr-defined]
        lambda: client.process_id != 0 and resource.prlimit(client.process_id, resource.RLIMIT_AS)[0] == 16 * GIGABYTE
    )


@pytest.mark.slow(sentinel=True)
def test_keys_are_bound_anew_refused_where_taken_and_reset(
    dialog: Preferences, make: Callable[..., Window], qtbot: object
) -> None:
    window = dialog.parent()
    assert isinstance(window, Window)
    dialog.choose("merge")
    dialog.keys.setKeySequence(QKeySequence("Ctrl+Shift+P"))
    dialog.buttons["Assign"].click()
    assert "belongs to “Commands…”" in dialog.message.text()
    assert window.action("merge").shortcuts() == [QKeySequence("Ctrl+M")]
    dialog.keys.setKeySequence(QKeySequence("Ctrl+J"))
    dialog.buttons["Assign"].click()
    assert window.action("merge").shortcuts() == [QKeySequence("Ctrl+J")]
    assert "Ctrl+J" in window.action("merge").toolTip()
    assert make().action("merge").shortcuts() == [QKeySequence("Ctrl+J")], "the next window has them, too"
    dialog.buttons["Remove"].click()
    assert window.action("merge").shortcuts() == [] == make().action("merge").shortcuts()
    dialog.buttons["Reset"].click()
    assert window.action("merge").shortcuts() == [QKeySequence("Ctrl+M")] == make().action("merge").shortcuts()


def test_every_page_of_the_guide_opens(make: Callable[..., Window]) -> None:
    window = make()
    window.action("guide").trigger()
    guide = window.commands.guide
    for page in PAGES:
        guide.pages.buttons[page].click()
        assert page in guide.text.toPlainText().splitlines()[0]
    assert "Ctrl+Shift+P" in guide.text.toPlainText(), "the last page lists the keys"


@pytest.mark.parametrize("page", [page for page in PAGES if page != KEYS])
def test_the_keys_that_a_page_names_exist(page: str) -> None:
    known = {keys.toString() for info in ACTIONS for keys in default_keys(info)}
    named = re.findall(r"\b(?:(?:Ctrl|Alt|Shift)\+)+\w+|\bF\d+\b", page_text(page))
    assert set(named) <= known
    assert named or page != "Tour"
