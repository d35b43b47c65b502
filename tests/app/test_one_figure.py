"""One figure a fact: whatever panel tells a kernel's time, share, shared memory, limit or type, all tell the same.

All panels that the window declares are read after each of 23 edits: labels, descriptions for readers of the screen,
and the rows of all tables.  A fact is known by its unit and by the words beside it, not by the panel that shows it.
What it has to be, the engine says alone: plan and kernel are made anew under the advice that is in use.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.exceptions import TimeoutError as Late

import engine
from app.session.fusion_constraints import fixed_now, fixed_of
from app.shell.window import Window
from engine.documents.exploration import JOIN, SPLIT, FusionEdit
from engine.documents.units import kib
from engine.graph.nodes import DTYPES
from engine.recipe_files import replace_advice
from engine.target import target
from tests.app.driving import PATIENCE, open_with_worker, select
from tests.app.test_fusion import NODES, SHAPES, settled
from tests.app.tuning_runs import attached, resting, write_run
from tests.fusion.test_plan import model
from views.format import duration
from views.panel import Panel
from views.schedule.view import PIPELINE
from views.tables import tables_in
from views.timing.view import ROOFLINE

DURATION = r"[\d.,]+ (?:µs|ms|s)"
BYTES = r"[\d.,]+ [kKMG]i?B"
TOLD = {
    "time": (rf"^Time\n({DURATION})", rf"^{{title}}(?:   |, predicted )({DURATION})", rf"^{DURATION} → ({DURATION})$"),
    "shared memory": (rf"^({BYTES}) (?:of {BYTES} )?(?:shared|per block)",),
    "limit of shared memory": (rf"^{BYTES} of ({BYTES}) per block",),
    "limit": (r"^(\w+) bound$",),
    "type": (rf"^· ({'|'.join(DTYPES)})$",),
}
"""Fact of the selected group -> how it is told, the figure in brackets; a label may follow the one before it."""
COLUMNS = {"predicted µs": "time", "microseconds": "time of all", "share": "share", "limited by": "limit"}
"""Column of any table with a row for a group -> the fact in it."""
PLACES = {
    "time": 4, "time of all": 1, "share": 2, "shared memory": 2, "limit of shared memory": 1, "limit": 2, "type": 1,
}  # fmt: skip
"""In how many panels, tables counted on their own, each fact is told at least: else this test reads nothing."""
SOON = 5_000
"""Milliseconds within which every panel has to follow."""


class Facts(NamedTuple):
    """What the engine says of one group."""

    time: float
    instances: int
    shared: int
    limit: str
    type: str


def engine_facts(window: Window, path: Path) -> dict[str, Facts]:
    """The facts of all groups under the advice in use."""
    workspace = window.workspace
    fixed = fixed_now(workspace.histories)
    texts = {name: history.step.text for name, history in workspace.histories.items()}
    return {g.name: facts_of(path, fixed, g.name, texts.get(g.name)) for g in plan_of(path, fixed).groups}


@lru_cache
def plan_of(path: Path, fixed: str) -> engine.FusionPlan:
    return engine.fuse(engine.load(path), fixed=fixed_of(fixed))


@lru_cache
def facts_of(path: Path, fixed: str, name: str, advice: str | None) -> Facts:
    plan = plan_of(path, fixed)
    group = plan.group(name)
    recipe = engine.default_recipe(group)
    kernel = engine.compile(group, replace_advice(recipe, group, advice) if advice else recipe)
    found = engine.predict(kernel)
    shared = max(launch.shared_bytes for launch in kernel.source.launches)
    anchor = max(group.program.statements, key=lambda statement: statement.points)
    kind = group.program.arrays[anchor.write.array].dtype
    return Facts(found.microseconds, len(group.instances), shared, found.bound, kind)


def figures(window: Window, panel: Panel, title: str) -> Iterator[tuple[str, str, str]]:
    """(fact, what is told of it, where) of the selected group in labels and descriptions."""
    widgets = [widget for part in (panel, panel.header) for widget in part.findChildren(QWidget)]
    texts = [widget.text() for widget in widgets if isinstance(widget, QLabel) and widget.text()]
    texts += ["\n".join(pair) for pair in pairwise(texts)]
    texts += [widget.accessibleDescription() for widget in widgets]
    for fact, expressions in TOLD.items():
        for expression in expressions:
            for text in texts:
                found = re.search(expression.replace("{title}", re.escape(title)), text)
                if found:
                    yield fact, found[1], text


def read(window: Window, path: Path, group: str) -> tuple[dict[str, set[str]], list[str]]:
    """Every figure in every panel: fact -> where it was told, and what is not the engine's."""
    shown = {part.name: part for part in window.workspace.model.groups}
    facts = engine_facts(window, path)
    assert set(shown) == set(facts)
    total = sum(each.time * each.instances for each in facts.values())
    mine, places = facts[group], defaultdict(set)
    machine = target("h200")
    right = {
        "time": duration(mine.time), "shared memory": kib(mine.shared), "limit": mine.limit, "type": mine.type,
        "limit of shared memory": kib(machine.shared_limit),
    }  # fmt: skip
    wrong = []
    for name, panel in window.panels.by_name().items():
        for fact, told, where in figures(window, panel, shown[group].title):
            places[fact].add(name)
            if told != right[fact]:
                wrong.append(f"{name}: {fact} {told}, not {right[fact]}: {where!r}")
        for title, table in tables_in(panel):
            for row in table.rows:
                cells = dict(zip(table.columns, row, strict=True))
                one = facts.get(str(cells.get("group", "")))
                if one is None:
                    continue
                spent = one.time * one.instances
                wanted = {"time": one.time, "time of all": spent, "share": spent / total, "limit": one.limit}
                for column, fact in COLUMNS.items():
                    if column in cells:
                        places[fact].add(title)
                        told, known = cells[column], wanted[fact]
                        if told != (known if isinstance(known, str) else pytest.approx(known)):
                            wrong.append(f"{title}: {fact} of {cells['group']} {told}, not {known}")
    return places, wrong


def read_at_rest(window: Window, qtbot: object, path: Path, group: str) -> tuple[dict[str, set[str]], list[str]]:
    """The same once the panels that wait for a moment of rest have drawn."""
    # What the panels in sight want is asked after a pause: without its answer, a quick reader sees an empty panel.
    qtbot.waitUntil(lambda: window.wiring.queries.is_settled, timeout=PATIENCE)  # type: ignore[attr-defined]
    with suppress(Late):
        qtbot.waitUntil(lambda: not read(window, path, group)[1], timeout=SOON)  # type: ignore[attr-defined]
    return read(window, path, group)


def edit(window: Window, group: str, pattern: str, instead: str) -> None:
    """Asks for a group's advice with the first mark that fits a pattern replaced; what is refused changes nothing."""
    text = window.workspace.recipe(group)
    assert text is not None
    changed = re.sub(pattern, instead, text, count=1)
    assert changed != text, f"{pattern} in {text}"
    window.workspace.edit(group, changed)


WALK = (
    ("n4", r"mark stages \d+", "mark stages 2"), ("n4", r"mark tile \d+", "mark tile 16"),
    ("n4", r"mark block \d+", "mark block 32"), ("", "undo", ""), ("", "undo", ""), ("", "redo", ""),
    ("n4", r"mark thread \d+", "mark thread 2"), ("n6", r"mark stages \d+", "mark stages 4"),
    ("n6", r"mark block \d+", "mark block 64"), ("n6", r"mark tile \d+", "mark tile 8"), ("", "undo", ""),
    ("n1", r"mark block \d+", "mark block 2"), ("n1", r"mark block \d+", "mark block 1"), ("", "undo", ""),
    ("n1", SPLIT, "n2"), ("n4", r"mark stages \d+", "mark stages 1"), ("", "undo", ""), ("", "undo", ""),
    ("", "redo", ""), ("n6", r"mark thread \d+", "mark thread 1"), ("n1", JOIN, "n2"), ("n4", "best", ""),
    ("", "undo", ""),
)  # fmt: skip
"""(operator of the group, mark, instead); undo and redo are the window's, a split and a join are of two operators, and
"best" is that of a search."""


@pytest.mark.slow(sentinel=True)
@pytest.mark.timeout(1200)
def test_every_panel_tells_the_engines_figures_after_each_edit(
    make: Callable[..., Window], qtbot: object, tmp_path: Path
) -> None:
    path = model(tmp_path, NODES, SHAPES, "y")
    window = open_with_worker(make, qtbot, str(path))
    window.set_perspective("Schedule")
    window.panels.schedule.select_tab(PIPELINE)
    window.panels.timing.select_tab(ROOFLINE)
    places: dict[str, set[str]] = defaultdict(set)
    group, seen = group_of(window, "n4"), set()
    for number, (operator, pattern, instead) in enumerate(WALK):
        if pattern in (SPLIT, JOIN):
            window.wiring.fusion_edits.carry_out(FusionEdit(pattern, (operator, instead)))
        elif pattern == "best":
            group = group_of(window, operator)
            select(window, qtbot, group)
            write_run(tmp_path / "night.db", window, group, (45.0, 49.0, None, 47.0)).store.close()
            attached(window, qtbot, tmp_path / "night.db", 4)
            window.action("tune-best").trigger()
            resting(window, qtbot)
        elif operator:
            group = group_of(window, operator)
            select(window, qtbot, group)
            edit(window, group, pattern, instead)
        else:
            window.action(pattern).trigger()
        settled(window, qtbot)
        if window.workspace.group(group) is None:
            group = group_of(window, "n4")
        select(window, qtbot, group)
        settled(window, qtbot)
        assert window.workspace.model is not None and window.workspace.model.total is not None
        seen.add(window.workspace.model.total.microseconds)
        told, wrong = read_at_rest(window, qtbot, path, group)
        assert not wrong, "\n".join((f"after edit {number}, {operator} {pattern} {instead}:", *wrong))
        for fact, where in told.items():
            places[fact] |= where
    assert len(seen) >= 8, "the edits change nothing"
    few = {fact: places[fact] for fact, count in PLACES.items() if len(places[fact]) < count}
    assert not few, few


def group_of(window: Window, operator: str) -> str:
    """The group that an operator is in now."""
    opened = window.workspace.model
    assert opened is not None
    return next(node.group for node in opened.nodes if operator in node.operators)
