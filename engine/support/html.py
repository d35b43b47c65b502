"""Small HTML for notebooks: what `_repr_html_` of the library's values is made of.  Everything in it is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

MOST_ROWS = 60
"""Rows that a table shows; the others are counted in its last line."""


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], total: int) -> str:
    """A titled table; a column whose name ends with ">" is aligned to the right.  total: number of rows."""
    names = [column.removesuffix(">") for column in columns]
    align = ["right" if column.endswith(">") else "left" for column in columns]
    heads = zip(names, align, strict=True)
    head = "".join(f'<th style="text-align:{side}">{escape(name)}</th>' for name, side in heads)
    body = "".join(
        "<tr>" + "".join(
            f'<td style="text-align:{side}">{escape(str(cell))}</td>' for cell, side in zip(row, align, strict=True)
        ) + "</tr>"
        for row in islice(rows, MOST_ROWS)
    )  # fmt: skip
    more = f"<p>and {total - MOST_ROWS:,} more</p>" if total > MOST_ROWS else ""
    return f"<p><b>{escape(title)}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def html_text(title: str, text: str, is_open: bool = True) -> str:
    """A titled block of lines as they are, which folds."""
    shown = " open" if is_open else ""
    return f"<details{shown}><summary><b>{escape(title)}</b></summary><pre>{escape(text)}</pre></details>"
