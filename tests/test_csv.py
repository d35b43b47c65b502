"""Tables of the command line as CSV: the rows of `--json`, to the last digit."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.support.commands import SOFTMAX, document, loomscope


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (("predict", "example"), "kernels"),
        (("inspect", SOFTMAX), "operators"),
        (("fuse", "example"), "groups"),
        (("moves", SOFTMAX, "--group", "softmax_0"), "possible"),
        (("doctor",), "rows"),
    ],
)
def test_rows_are_those_of_json(tmp_path: Path, arguments: tuple[str, ...], key: str) -> None:
    out = tmp_path / "rows.csv"
    done = loomscope(*arguments, "--csv", str(out))
    assert done.returncode == 0 and not done.stdout.lstrip().startswith("{")
    rows = document(*arguments)[key]
    with out.open(newline="", encoding="utf-8") as file:
        read = list(csv.DictReader(file))
    assert len(read) == len(rows) > 0
    for row, told in zip(rows, read, strict=True):
        for name, value in row.items():
            if isinstance(value, float):
                assert float(told[name]) == value
            elif isinstance(value, list | dict):
                assert json.loads(told[name]) == value
            else:
                assert told[name] == ("" if value is None else str(value))


def test_a_place_where_nothing_can_be_written_is_refused_first(tmp_path: Path) -> None:
    done = loomscope("predict", SOFTMAX, "--csv", str(tmp_path / "no" / "rows.csv"))
    assert done.returncode == 2 and "no folder" in done.stderr


def test_verbs_that_print_rows_and_no_others_have_the_option() -> None:
    for verb in ("verify", "measure", "compare", "diff", "trials", "mappings", "check", "schedule"):
        assert "--csv FILE" in loomscope(verb, "--help").stdout, verb
    for verb in ("open", "render", "explain", "baseline", "report"):
        assert "--csv" not in loomscope(verb, "--help").stdout, verb
