"""Tables: rows of text under a line of column names, and titled ones that print and that a notebook shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from engine.support.html import MOST_ROWS, html_table


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines of a table; a column whose name ends with ">" is aligned to the right.

    >>> print(text_table(("group", "µs>"), [("softmax_0", "5.5"), ("add_0", "12.0")]))
    group        µs
    softmax_0   5.5
    add_0      12.0
    """
    names = [column.removesuffix(">") for column in columns]
    widths = [max(map(len, cells)) for cells in zip(names, *rows, strict=True)]
    align = [str.rjust if column.endswith(">") else str.ljust for column in columns]
    lines = (zip(align, cells, widths, strict=True) for cells in (names, *rows))
    return "\n".join("  ".join(pad(cell, width) for pad, cell, width in line).rstrip() for line in lines)


@dataclass(frozen=True, slots=True)
class TitledTable:
    """What a value of the library is shown as.  Prints as text; rows beyond `MOST_ROWS` are counted."""

    title: str
    columns: tuple[str, ...]
    """As of `text_table`."""
    rows: Iterable[Sequence[object]]
    total: int
    """Number of the rows."""

    def __str__(self) -> str:
        shown = [tuple(map(str, row)) for row in islice(self.rows, MOST_ROWS)]
        more = [f"and {self.total - MOST_ROWS:,} more"] if self.total > MOST_ROWS else []
        return "\n".join([self.title, *([text_table(self.columns, shown)] if shown else []), *more])

    def html(self) -> str:
        """As a notebook shows it."""
        return html_table(self.title, self.columns, self.rows, self.total)
