"""Rows of text under a line of column names, each column as wide as its widest cell."""

from __future__ import annotations

from collections.abc import Sequence


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
