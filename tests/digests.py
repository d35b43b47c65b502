"""A digest of every plan and CUDA text: `python -m tests.digests [--only PART] [--write]`.

Covers the shared models, AKG's files and every row of the suites, for h200 and a100.  Prints each line that differs
from `tests/goldens/digests` and exits with 1 where there is one: a change that should leave the generated code alone is
checked by it, and one that should not shows which kernels it reaches.  `--write` keeps the new lines.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import engine
from engine import EngineError
from engine.suite import read_suite, suite_names
from engine.support.cache import digest
from tests.everything.files import AKG, MODELS, files

KEPT = Path(__file__).parent / "goldens" / "digests"
TARGETS = ("h200", "a100")
LENGTH = 12
"""Hexadecimal digits of a digest: 48 bits tell 3,000 lines apart."""
SHOWN = 40
"""Differing lines that are printed."""


def references(only: str = "") -> list[tuple[str, str]]:
    """(name, FILE argument) of all that is digested; those whose name contains `only`."""
    shared = [(f"{part}/{path.stem}", str(path)) for part, path in files() if part in (MODELS, AKG)]
    suites = map(read_suite, suite_names())
    rows = [(suite.reference(row), suite.reference(row)) for suite in suites for row in suite.rows]
    return [(name, file) for name, file in (*shared, *rows) if only in name]


def lines(name: str, file: str) -> list[str]:
    """The digests of one file: for each target, one of the plan and one of each kernel's text."""
    graph = engine.load(file)
    found = []
    for target in TARGETS:
        plan = engine.fuse(graph, target)
        found.append(f"{name} {target} plan {digest(*_plan(plan))[:LENGTH]}")
        found += [f"{name} {target} {group.name} {_kernel(group, target)}" for group in plan.groups]
    return found


def _plan(plan: engine.FusionPlan) -> Iterator[str]:
    """The decisions of a plan as text: which operators share a kernel, how values are passed, the order of launches."""
    for group in plan.groups:
        yield group.name
        yield from (" ".join(instance.operators) for instance in group.instances)
        yield from (f"{edge.producer} {edge.consumer} {edge.array} {edge.scheme}" for edge in group.edges)
    yield from (f"{launch.group} {launch.instance}" for launch in plan.launches)
    yield from sorted(plan.unsupported)


def _kernel(group: engine.FusionGroup, target: str) -> str:
    """The digest of a group's default CUDA text, or why there is none."""
    try:
        source = engine.compile(group, engine.default_recipe(group, target)).source
    except EngineError as error:
        return f"refused: {error.reason}"
    return digest(source.text, str(source.grid), str(source.block), str(source.shared_bytes))[:LENGTH]


def _one(reference: tuple[str, str]) -> list[str]:
    try:
        return lines(*reference)
    except EngineError as error:
        return [f"{reference[0]} refused: {error.reason}"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare or write; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.digests", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="PART", help="names that contain this")
    parser.add_argument("--write", action="store_true", help="keep what is found as tests/goldens/digests")
    options = parser.parse_args(arguments)
    chosen = references(options.only)
    before = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.exists() else []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        now = [line for found in pool.map(_one, chosen) for line in found]
    names = {name for name, _ in chosen}
    expected = [line for line in before if line.split(" ", 1)[0] in names]
    if options.write:
        others = [line for line in before if line.split(" ", 1)[0] not in names] if options.only else []
        KEPT.write_text("\n".join(sorted({*others, *now})) + "\n", encoding="utf-8")
    return _report(sorted(expected), sorted(set(now)))


def _report(expected: Sequence[str], now: Sequence[str]) -> int:
    """Print what differs; 1 where something does."""
    changed = [line for line in difflib.unified_diff(expected, now, lineterm="", n=0) if line[:1] in "+-"][2:]
    print(*changed[:SHOWN], sep="\n")
    print(f"{len(now):,} digests, {sum(line[0] == '+' for line in changed):,} differ", file=sys.stderr)
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
