"""Names and sizes in the whole program: what a function is called, what a class name means, how much one place holds.

`goldens/names.txt` lists what is left to mend.  It may only shrink: a line that is no longer true fails the test.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.support.sources import ROOT, trees

BASELINE = Path(__file__).parent / "goldens" / "names.txt"
MOST_PARAMETERS, MOST_LINES = 6, 400

IRREGULAR = frozenset(
    """
    begun bent bitten borne bought bound broken brought built burnt caught chosen dealt done drawn driven eaten
    fallen fed felt flown forgotten forgiven fought found frozen given gone got grown heard held hidden hung kept
    known laid led left lent lost made meant met overlaid paid proven redone remade said seen sent shaken shown
    slept sold sought spent spoken spun stolen stood struck stuck swept swollen sworn taken taught thought thrown
    told torn undone unknown unmade won worn wound woven written
    """.split()
)
"""Participles without -ed; `split`, `cut`, `put`, `set`, `read` and `run` are verbs, too, and allowed."""
VERBS_IN_ED = frozenset(
    {"bleed", "breed", "embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed"}
)

WIDE = {
    "entry": "of the library: one keyword for each field of an entry",
    "tune": "of the library, and the verb: one keyword for each option",
    "render": "a verb of the command line: one parameter for each option",
    "job": "the operands that verbs share: one parameter for each option",
    "recipe": "a verb",
    "measure": "a verb",
    "schedule": "a verb",
    "generate": "a verb",
    "verify": "a verb",
    "check": "a verb",
    "mappings": "a verb",
    "report": "a verb",
    "predict": "a verb",
    "conv": "a row of a suite names one size for each parameter",
    "transposed_conv": "a row of a suite",
    "masked_attention": "a row of a suite",
}
"""Functions that may have more parameters, each with its reason."""


def package(file: Path) -> str:
    """The two outermost folders of a module: places that stay while modules are moved."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts[:2])


@cache
def functions() -> list[tuple[str, ast.FunctionDef]]:
    return [
        (package(file), node)
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]


def is_property(function: ast.FunctionDef) -> bool:
    names = {getattr(d, "id", getattr(d, "attr", "")) for d in function.decorator_list}
    return not names.isdisjoint({"property", "cached_property"})


def is_participle(name: str) -> bool:
    word = name.strip("_")
    ends_in_ed = re.fullmatch(r"[a-z]+ed", word) is not None and word not in VERBS_IN_ED
    return ends_in_ed or word in IRREGULAR


def parameters(function: ast.FunctionDef) -> int:
    """Parameters of a function but for `self` and `cls`."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def participles() -> set[str]:
    return {f"{where} {f.name}" for where, f in functions() if is_participle(f.name) and not is_property(f)}


def wide_functions() -> set[str]:
    wide = ((where, f.name) for where, f in functions() if parameters(f) > MOST_PARAMETERS)
    return {f"{where} {name}" for where, name in wide if name not in WIDE}


def ambiguous_classes() -> set[str]:
    """Class names that mean two things; a leading underscore makes no other name."""
    places = defaultdict(list)
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.strip("_")].append(node)
    return {name for name, nodes in places.items() if len(nodes) > 1}


def long_files() -> set[str]:
    sizes = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in trees()}
    return {str(file.relative_to(ROOT)) for file, size in sizes.items() if size > MOST_LINES}


CHECKS = {
    "participle": participles,
    "more than six parameters": wide_functions,
    "class name of several classes": ambiguous_classes,
    "file of more than 400 lines": long_files,
}


def baseline(kind: str) -> set[str]:
    lines = BASELINE.read_text(encoding="utf-8").splitlines()
    return {line.removeprefix(f"{kind}: ") for line in lines if line.startswith(f"{kind}: ")}


@pytest.mark.parametrize("kind", CHECKS)
def test_names_and_sizes_hold_but_for_what_is_left_to_mend(kind: str) -> None:
    assert CHECKS[kind]() - baseline(kind) == set()


@pytest.mark.parametrize("kind", CHECKS)
def test_the_list_of_what_is_left_only_shrinks(kind: str) -> None:
    assert baseline(kind) - CHECKS[kind]() == set(), f"mended: delete these lines of {BASELINE.name}"


def test_every_exception_is_needed() -> None:
    assert {f.name for _, f in functions() if parameters(f) > MOST_PARAMETERS} >= WIDE.keys()


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("moved", True), ("_known", True), ("kept", True), ("bytes_moved", False), ("seed", False), ("split", False)],
)
def test_what_counts_as_a_participle(name: str, is_one: bool) -> None:
    assert is_participle(name) == is_one
