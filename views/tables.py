"""What a table shows as text that a spreadsheet takes: tab-separated for the clipboard, comma-separated for a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QWidget

Cell = str | int | float
FORMULA = ("=", "+", "-", "@")
"""What text begins with that a spreadsheet computes when it is pasted."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under named columns; figures are exact, "" where a row has none."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def make_table(rows: Iterable[Mapping[str, Cell]]) -> Table:
    """A table with every column that any row has, in the order in which they come."""
    known = [row for row in rows if row]
    columns = tuple(dict.fromkeys(name for row in known for name in row))
    return Table(columns, tuple(tuple(row.get(name, "") for name in columns) for row in known))


def flatten(value: Any, name: str = "") -> dict[str, Cell]:
    """A document's fields as cells: those of documents inside under "FIELD NAME", texts of a list one after the other;
    lists of anything else are left out."""
    if is_dataclass(value) and not isinstance(value, type):
        found: dict[str, Cell] = {}
        for field in fields(value):
            inner = " ".join(filter(None, (name, field.name.replace("_", " "))))
            found |= flatten(getattr(value, field.name), inner)
        return found
    if isinstance(value, bool):
        return {name: "yes" if value else ""}
    if isinstance(value, str | int | float):
        return {name: value}
    if isinstance(value, tuple) and value and all(isinstance(each, str) for each in value):
        return {name: "; ".join(value)}
    return {}


def tab_separated(table: Table) -> str:
    """For the clipboard: one line for each row, no cell breaks it, and no text of a file becomes a formula."""
    lines = (table.columns, *table.rows)
    return "\n".join("\t".join(map(_plain, line)) for line in lines) + "\n"


def _plain(cell: Cell) -> str:
    if not isinstance(cell, str):
        return repr(cell)
    text = " ".join(cell.split())
    return f"'{text}" if text.startswith(FORMULA) else text


def comma_separated(table: Table) -> str:
    """As RFC 4180 has it, with every cell as it is."""
    written = io.StringIO()
    csv.writer(written).writerows((table.columns, *table.rows))
    return written.getvalue()


class Tabular:
    """Part of an item view whose rows can be taken out; `table_rows` says how."""

    def table(self, chosen: bool = False) -> Table:
        """All rows, or those that are selected."""
        raise NotImplementedError

    def copy_rows(self, event: QKeyEvent) -> bool:
        """Whether a key was Copy; the selected rows are in the clipboard then."""
        if not event.matches(QKeySequence.StandardKey.Copy):
            return False
        table = self.table(chosen=True)
        if table.rows:
            QGuiApplication.clipboard().setText(tab_separated(table))
        event.accept()
        return True


def selected_lines(view: QAbstractItemView, order: Callable[[Any], Any]) -> list[Any]:
    """Indices of the selected lines from top to bottom, or of the current one."""
    chosen = view.selectionModel().selectedRows() or [view.currentIndex()]
    return sorted((index for index in chosen if index.isValid()), key=order)


def tables_in(widget: QWidget) -> list[tuple[str, Table]]:
    """The tables of a panel that have rows, by their names."""
    found = [(view.accessibleName(), view.table()) for view in widget.findChildren(QAbstractItemView)
             if isinstance(view, Tabular)]  # fmt: skip
    return [(name, table) for name, table in found if table.rows]
