"""The files of `resources/suites`, and `suite:NAME/ROW` as an ONNX model for every verb and the window."""

from __future__ import annotations

import difflib
from collections import Counter
from pathlib import Path

from engine.suite.nodes import Suite, SuiteRow
from engine.support.cache import keep_file
from engine.support.errors import BadInput
from engine.support.files import read_json
from engine.support.serialization import from_json

SUITES = Path(__file__).resolve().parents[2] / "resources" / "suites"
"""Where the suites lie: beside the engine, in the source tree and where it is installed."""
PREFIX = "suite:"


def suite_names(folder: Path = SUITES) -> tuple[str, ...]:
    """The suites that there are."""
    return tuple(sorted(path.stem for path in folder.glob("*.json")))


def read_suite(name: str, folder: Path = SUITES) -> Suite:
    """A suite by its name.  BadInput for one that is not there or whose file is broken, by the place in it."""
    names = suite_names(folder)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3) or names
        raise BadInput("suite", f"suite {name}", "there is no such suite", f"try {', '.join(near)}")
    path = folder / f"{name}.json"
    data = read_json(path, "suite")
    if not isinstance(data, dict):
        raise BadInput("suite", str(path), "is no JSON object")
    try:
        suite = from_json(Suite, {"name": name, **data})
    except BadInput as error:
        raise BadInput("suite", f"{path}, {error.subject}", error.reason, error.hint) from None
    twice = [row for row, times in Counter(row.name for row in suite.rows).items() if times > 1]
    if twice:
        raise BadInput("suite", str(path), f"has two rows named {twice[0]}")
    return suite


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
