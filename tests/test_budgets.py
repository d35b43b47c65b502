"""Budgets for what a file asks for stand in one module, are all in use, and are those of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.support import budgets
from tests.support.commands import ROOT

BUDGETS = {name: value for name, value in vars(budgets).items() if name.isupper()}
PAGE = ROOT / "resources" / "docs" / "checks_and_limits.md"


def test_the_page_lists_them_all() -> None:
    rows = re.findall(r"^\| `(MAX_\w+)` \| ([\d,]+) \| \S", PAGE.read_text(), re.MULTILINE)
    assert {name: int(number.replace(",", "")) for name, number in rows} == BUDGETS


@pytest.fixture(scope="module")
def texts() -> dict[Path, str]:
    here = Path(budgets.__file__)
    files = (path for folder in ("engine", "app") for path in (ROOT / folder).rglob("*.py") if path != here)
    return {path: path.read_text() for path in files}


@pytest.mark.parametrize("name", BUDGETS)
def test_each_is_checked_somewhere_and_stated_once(name: str, texts: dict[Path, str]) -> None:
    imported = re.compile(rf"^from engine.support.budgets import (\([^)]*|.*)\b{name}\b", re.MULTILINE)
    users = [text for text in texts.values() if imported.search(text)]
    assert any(len(re.findall(rf"\b{name}\b", text)) > 1 for text in users), "no code asks for it"
    assert not [path for path, text in texts.items() if re.search(rf"^{name}\b.* = ", text, re.MULTILINE)]
