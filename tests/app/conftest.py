"""A window with the made-up worker and settings of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
pytest.importorskip("PySide6", reason="the window needs PySide6")

from app.shell.main import application, make_window
from app.shell.preferences import keep_settings_in
from app.shell.window import Window
from engine.records.nodes import STOPPED
from tests.app.driving import COMMAND, MODEL, afresh, select, settle
from tests.app.tuning_runs import GROUP, TIMES, attached, write_run
from views.tuning.view import PROGRESS


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings and journals of a test end with it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    keep_settings_in(tmp_path)


@pytest.fixture(scope="session")
def qapp() -> Iterator[object]:
    """The program's own application object: its name, style and faces."""
    yield application()


@pytest.fixture
def make(qtbot: object) -> Iterator[Callable[..., Window]]:
    """Makes windows; their workers have ended when the test is over."""
    made: list[Window] = []

    def window(
        width: int = 1440, height: int = 900, theme: str = "dark", command: Sequence[str] = COMMAND
    ) -> Window:
        new = make_window(theme=theme, command=command)
        made.append(new)
        new.resize(width, height)
        new.show()
        return new

    yield window
    for each in made:
        each.close()
        assert each.workspace.client.process_id == 0
        each.deleteLater()


@pytest.fixture
def window(make: Callable[..., Window], qtbot: object) -> Window:
    """A window with the made-up model open."""
    new = make()
    new.workspace.start()
    new.open_file(MODEL)
    settle(new, qtbot)
    assert new.workspace.model is not None
    return new


@pytest.fixture(scope="module")
def shared(qapp: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    """One window and one worker for all tests of a module; `driving.afresh` makes it forget the test before."""
    folder = tmp_path_factory.mktemp("shared")
    keep_settings_in(folder)
    made = make_window(theme="dark", command=COMMAND, journals=folder)
    made.show()
    made.workspace.start()
    yield made
    made.close()
    assert made.workspace.client.process_id == 0
    made.deleteLater()


@pytest.fixture
def quiet(shared: Window, qtbot: object) -> Window:
    """The shared window with the made-up model open, and no run shown."""
    shared.wiring.tuning.control.put_away()
    shared.workspace.clear_problems()
    shared.panels.trials.filter.clear()
    shared.panels.tuning.select_tab(PROGRESS)
    shared.set_perspective("Explore")
    afresh(shared, qtbot)
    return shared


@pytest.fixture
def tuned(quiet: Window, qtbot: object, tmp_path: Path) -> Window:
    """A window that follows a run of its model that ended."""
    select(quiet, qtbot, GROUP)
    quiet.set_perspective("Tune")
    path = tmp_path / "night.db"
    write_run(path, quiet, GROUP, TIMES, STOPPED).store.close()
    attached(quiet, qtbot, path, len(TIMES))
    return quiet
