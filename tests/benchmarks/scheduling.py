"""Our path from a program to its loops against isl's: `python -m tests.benchmarks.scheduling [--json FILE] [--quick]`.

Ours: dependences, schedule, legality, loop structure.  isl's: data flow, its scheduler, its AST, with the program given
to it as parsed sets and maps, which is not counted.  isl gets the sizes as numbers and, in further runs, as parameters
(`N >= 4`, as our dependences do); the faster way counts.  Rounds are interleaved; times are medians of milliseconds of
processor time.

A statement's parallel outer loops are those outside all its sequential loops.  Both schedules flag them themselves
("parallel", isl's "coincident") and a reduction's loops count for neither.  The outermost band alone is reported, too:
loops that stand outside every sequence.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table

from engine.tensor.nodes import TensorProgram
from tests.benchmarks import programs, report
from tests.benchmarks.isl_process import IslProcess
from tests.benchmarks.measuring import FIXED, LIMIT, SYMBOLIC, Comparison, compare, stage_medians
from tests.benchmarks.parallel import outer_loops, outermost_band

LENGTHS = (30, 100, 300)
BUDGETS = {30: 30.0, 100: 100.0, 300: 400.0}
"""Statements -> milliseconds for our whole path."""
LEGALITY_BUDGET = 10.0
"""Milliseconds for the legality of one edit; the check of the whole schedule bounds it from above."""
GOAL = 10.0
"""Times faster than isl, from 30 statements on."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the document."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scheduling", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and summary there")
    parser.add_argument("--quick", action="store_true", help="a softmax and the chain of 30 only, one round")
    parser.add_argument("--rounds", type=int, default=5, help="rounds for each program (default: %(default)s)")
    options = parser.parse_args(arguments)
    where = report.environment("islpy", "numpy")
    chosen, refused = _quick() if options.quick else _all()
    rounds = 1 if options.quick else options.rounds
    with IslProcess(LIMIT) as isl:
        compare(programs.cases()[0], "case", isl, 1)  # imports and first calls, on both sides
        progress = track(chosen, "Comparing", console=Console(stderr=True), transient=True)
        found = [compare(program, kind, isl, rounds) for kind, program in progress]
    figures = summary(found)
    show(found, figures, refused)
    if options.json:
        report.write(
            options.json,
            "scheduling",
            {**where, "rounds": rounds, "limit_seconds": LIMIT, "models_refused": refused},
            [row(one) for one in found],
            figures,
        )


Chosen = list[tuple[str, TensorProgram]]
"""(kind, program)."""


def _quick() -> tuple[Chosen, dict[str, str]]:
    softmax = next(p for p in programs.cases() if p.name == "softmax")
    return [("case", softmax), ("chain", programs.layernorm_gradients(LENGTHS[0]))], {}


def _all() -> tuple[Chosen, dict[str, str]]:
    groups, refused = programs.model_groups(10)
    chosen = [("case", p) for p in programs.cases()]
    chosen += [("chain", programs.layernorm_gradients(length)) for length in LENGTHS]
    return chosen + [("model", p) for p in groups], refused


def row(one: Comparison) -> dict[str, Any]:
    """A program's figures, for the document; milliseconds."""
    return {
        "program": one.program.name,
        "kind": one.kind,
        "statements": len(one.program.statements),
        "dependences": one.ours.dependences,
        "structure": one.ours.structure,
        "ours": {"total": one.our_time, "stages": stage_medians(one.our_runs), "runs": _sums(one.our_runs)},
        "isl": {
            way: {
                "total": one.isl_time(way),
                "killed": not runs,
                "stages": stage_medians(runs),
                "runs": _sums(runs),
            }
            for way, runs in one.isl_runs.items()
        },
        "isl_over_ours": one.ratio,
        "budget": _budget(one),
        "within_budget": _within_budget(one),
        "parallel_loops": {who: one.loops(who, outer_loops) for who in ("ours", FIXED, SYMBOLIC)},
        "parallel_loops_outermost_band": {who: one.loops(who, outermost_band) for who in ("ours", FIXED, SYMBOLIC)},
        "fewer": one.fewer(outer_loops),
        "fewer_in_outermost_band": one.fewer(outermost_band),
    }


def _sums(runs: Sequence[Mapping[str, float]]) -> list[float]:
    return [sum(run.values()) for run in runs]


def _budget(one: Comparison) -> float:
    return next((b for n, b in BUDGETS.items() if len(one.program.statements) <= n), BUDGETS[300])


def _within_budget(one: Comparison) -> bool:
    return one.our_time < _budget(one) and stage_medians(one.our_runs)["legality"] < LEGALITY_BUDGET


def summary(found: Sequence[Comparison]) -> dict[str, Any]:
    """The figures that the goals name; a ratio is None when its chain was not run.

    fewer_parallel_loops: programs with a statement that keeps fewer parallel outer loops than isl leaves it.
    """
    chains = {len(one.program.statements): one.ratio for one in found if one.kind == "chain"}
    return {
        **{f"isl_over_ours_{length}": chains.get(length) for length in LENGTHS},
        "fewer_parallel_loops": sum(bool(one.fewer(outer_loops)) for one in found),
        "fewer_in_outermost_band": sum(bool(one.fewer(outermost_band)) for one in found),
        "over_budget": sum(not _within_budget(one) for one in found),
    }


def show(found: Sequence[Comparison], figures: Mapping[str, Any], refused: Mapping[str, str]) -> None:
    """The table, the summary and what was left out."""
    console = Console(width=None if Console().is_terminal else 170)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("program\nmilliseconds", overflow="fold")
    for name in (
        "state-\nments", "depen-\ndences", "ours", "dependences + schedule\n+ legality + loops", "budget",
        "isl", "flow + schedule\n+ AST", "isl with\nsymbols", "isl /\nours", "parallel loops:\nours, isl, symbols",
    ):  # fmt: skip
        table.add_column(name, justify="right", no_wrap=True)
    kind = ""
    for one in found:
        if kind and one.kind != kind:
            table.add_section()
        kind = one.kind
        table.add_row(*_cells(one))
    console.print(table)
    for line in _findings(found, refused):
        console.print(line, highlight=False)
    console.print("  ".join(f"{name} {_number(value)}" for name, value in figures.items()))


def _cells(one: Comparison) -> Iterator[str]:
    statements = len(one.program.statements)
    yield one.program.name
    yield str(statements)
    yield str(one.ours.dependences)
    yield _number(one.our_time)
    yield _stages(one.our_runs)
    yield f"{_budget(one):.0f}" if _within_budget(one) else f"[red]over {_budget(one):.0f}[/]"
    yield _number(one.isl_time(FIXED)) if one.isl_runs[FIXED] else "killed"
    yield _stages(one.isl_runs[FIXED])
    yield _number(one.isl_time(SYMBOLIC)) if one.isl_runs[SYMBOLIC] else "killed"
    yield f"[red]{one.ratio:.1f}[/]" if statements >= LENGTHS[0] and one.ratio < GOAL else f"{one.ratio:.1f}"
    yield " ".join(f"{_number(one.loops(who, outer_loops)):>4}" for who in ("ours", FIXED, SYMBOLIC))


def _stages(runs: Sequence[Mapping[str, float]]) -> str:
    return " + ".join(f"{_number(value):>4}" for value in stage_medians(runs).values())


def _findings(found: Sequence[Comparison], refused: Mapping[str, str]) -> Iterator[str]:
    """What needs a reason: statements with fewer parallel loops, schedules beyond one nest, models left out."""
    for one in found:
        for what, count in (("outer loops", outer_loops), ("the outermost band", outermost_band)):
            fewer = ", ".join(f"{name} {ours} of {isl}" for name, (ours, isl) in one.fewer(count).items())
            if fewer:
                yield f"{one.program.name}: fewer parallel loops than isl in {what}: {fewer}"
    several = [one.program.name for one in found if one.ours.structure == "tree"]
    if several:
        yield f"more than the loop nest of one kernel, so the tree is printed instead: {', '.join(several)}"
    for model, reason in refused.items():
        yield f"{model} does not load: {reason}"
    if not programs.MODELS.is_dir():
        yield f"no groups of real models: {programs.MODELS} is absent"


def _number(value: float | int | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.1f}" if value < 100 else f"{value:.0f}"


if __name__ == "__main__":
    main()
