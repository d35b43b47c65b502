"""Edited recipes, descriptions, workspaces and journals are read or refused by name, without a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.json_edits import EDITS, TEXT_EDITS, broken
from tests.fuzz.processes import FOUND
from tests.support.commands import ROOT

RUN = """
import json, sys
from importlib import import_module
from pathlib import Path
from tests.fuzz.processes import run
kind = import_module("tests.fuzz." + sys.argv[1])
kind.warm_up()
outcomes = run(kind.cases(int(sys.argv[2])), range(int(sys.argv[3])), Path(sys.argv[4]), kind.REFUSALS)
print(json.dumps([(one.case, one.result, one.detail) for one in outcomes]))
"""
"""In a process of its own: what a test runner has loaded would count against each case's limit of address space."""
KINDS = ("recipes", "akg", "workspaces")


@pytest.mark.few(1)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("seed", "count"), [(0, 16), *(pytest.param(seed, 250, marks=pytest.mark.slow) for seed in range(1, 9))]
)
@pytest.mark.parametrize("kind", KINDS)
def test_edited_files_are_read_or_refused(kind: str, seed: int, count: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN, kind, str(seed), str(count), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = json.loads(done.stdout)
    assert [one for one in outcomes if one[1] == FOUND] == [] and len(outcomes) == count
    counts = Counter(result for _, result, _ in outcomes)
    assert counts["BadInput"] and counts["accepted"], counts


DOCUMENT = {"steps": [{"text": "a", "parent": 1}, {"text": "b", "parent": 2.5}], "name": "made", "on": True}


@pytest.mark.parametrize("edit", EDITS[5:], ids=lambda edit: edit.__name__)
def test_every_edit_changes_a_document(edit: object) -> None:
    results = set()
    for seed in range(20):
        root = [json.loads(json.dumps(DOCUMENT))]
        edit(root, ("word", 7), Random(seed))  # type: ignore[operator]
        results.add(json.dumps(root))
    assert len(results - {json.dumps([DOCUMENT])}) > 5


@pytest.mark.parametrize("edit", TEXT_EDITS, ids=lambda edit: edit.__name__)
def test_every_edit_of_text_changes_it(edit: object) -> None:
    text = json.dumps(DOCUMENT).encode()
    assert sum(edit(text, Random(seed)) != text for seed in range(20)) > 10  # type: ignore[operator]


def test_a_seed_says_the_file() -> None:
    first, again, other = (broken(DOCUMENT, ("word",), Random(seed), 3) for seed in (5, 5, 6))
    assert first == again != other
