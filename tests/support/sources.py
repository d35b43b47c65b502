"""The program's own modules, parsed once for all tests that look at them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def trees() -> dict[Path, ast.Module]:
    """Every module of the program, parsed."""
    files = (file for folder in ("engine", "app", "views") for file in sorted((ROOT / folder).rglob("*.py")))
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}
