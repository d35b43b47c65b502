"""`suite:NAME/ROW` as an ONNX model, for every verb and the window."""

from __future__ import annotations

import difflib
from pathlib import Path

from engine.suite.nodes import Suite, SuiteRow
from engine.suite.read import SUITES, read_suite
from engine.support.cache import keep_file
from engine.support.errors import BadInput

PREFIX = "suite:"


def is_reference(file: str | Path) -> bool:
    """Whether a FILE argument names a row of a suite."""
    return str(file).startswith(PREFIX)


def read_row(reference: str, folder: Path = SUITES) -> tuple[Suite, SuiteRow]:
    """The suite and the row behind "suite:NAME/ROW".  BadInput that lists the nearest rows where there is none."""
    name, _, wanted = reference.removeprefix(PREFIX).partition("/")
    suite = read_suite(name, folder)
    for row in suite.rows:
        if row.name == wanted:
            return suite, row
    names = [row.name for row in suite.rows]
    near = difflib.get_close_matches(wanted, names, n=3) or names[:5]
    reason = "the suite has no such row" if wanted else "names no row"
    raise BadInput("suite", reference, reason, f"try {', '.join(f'{PREFIX}{name}/{one}' for one in near)}")


def model_file(reference: str, folder: Path = SUITES) -> Path:
    """The ONNX model of a row, written into the cache: the same bytes every time.

    A file, so that the reference implementation runs what the row says, as it does for any other model.  It holds no
    weights: a row of any size takes a few hundred bytes.  Raises BadInput.
    """
    from engine.suite.operators import model_of

    suite, row = read_row(reference, folder)
    data = model_of(row).SerializeToString(deterministic=True)
    return keep_file(f"suites/{suite.name}", f"{row.name}.onnx", data)
