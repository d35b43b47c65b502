"""The files of `resources/suites`."""

from __future__ import annotations

import difflib
from collections import Counter
from pathlib import Path

from engine.suite.nodes import Suite
from engine.support.errors import BadInput
from engine.support.files import read_json
from engine.support.serialization import from_json

SUITES = Path(__file__).resolve().parents[2] / "resources" / "suites"
"""Where the suites lie: beside the engine, in the source tree and where it is installed."""


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
