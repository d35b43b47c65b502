"""How soon each strategy finds the best program: ALCOP's operators on a device that no searcher sees.

    python -m tests.benchmarks.search [--quick] [--operator NAME ...] [--json FILE] [--records FILE]
    python -m tests.benchmarks.search --recorded FILE
    python -m tests.benchmarks.search --spaces FOLDER    (measured on real GPUs: `tests.benchmarks.search_spaces`)

The truth is exhaustive: all of the 2,592 programs of a fixed space of each operator (`search_truth.WHOLE`), before
pruning.  That takes one to two hours on two cores; what was compiled is kept, so that a run that is ended
goes on.  Its times are of origin "synthetic": this tests search code and says nothing about a GPU.  `--records` keeps
the truth in a record file, `--recorded` takes that of a record file, of whatever origin, and compiles nothing.
Strategies see what pruning left; the best of the whole space, what was pruned included, is 1.  How far a program may be
promised behind the best before it is dropped was chosen with the dense products, so that the others are told apart.
Exit code 1 where the model that ranks programs is as good as the device (a rank correlation of 0.9 or more in what
pruning leaves): nothing would be tested then; 2 where a record file holds no times.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any

from engine.execution.nvrtc import nvrtc_version
from engine.records.store import RecordStore
from engine.suite import read_suite
from engine.support.cache import cache_folder
from engine.support.errors import BadInput, EngineError
from engine.tuning.strategies import STRATEGIES
from tests.benchmarks import report
from tests.benchmarks.pipelines_rows import SUITE
from tests.benchmarks.search_races import Found, Outcome, Race, keep, of_operator, of_records
from tests.benchmarks.search_spaces import SpaceFigures, race, read_spaces, summarize_spaces
from tests.benchmarks.search_truth import operator_of

NAME = "search"
QUICK = ("MM_BERT_FC2", "BMM_BERT_SV", "Conv2D_RN50_3")
CHOSE = "MM_"
"""How the operators are called that `prune.FAR_FROM_BEST` was chosen with: all others grade it."""
TRIALS, SEEDS, SPACE_SEEDS = 200, 3, 20
MOST_CORRELATION = 0.9
GOALS = {"best_of_10": 0.95, "best_of_50": 0.99, "pruned_trials": 1 / 6, "pruned_loss": 0.01, "sixth_loss": 0.01}
"""The first two at least, of the best strategy; the others at most."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the status is the exit code."""
    options = _parser().parse_args(arguments)
    started = time.monotonic()
    if options.spaces:
        return _race_spaces(options)
    strategies = tuple(options.strategy or STRATEGIES)
    race = Race(strategies, options.trials, options.seeds or SEEDS)
    outcomes: list[Outcome] = []
    try:
        for outcome in _outcomes(options, race):
            print(_line(outcome), flush=True)
            outcomes.append(outcome)
        if not outcomes:
            raise BadInput("benchmark", str(options.recorded), "holds no times of anything that can be searched")
    except EngineError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    summary = summarize(outcomes, strategies) | {"seconds": round(time.monotonic() - started, 1)}
    _show(summary, strategies)
    graders = [outcome for outcome in outcomes if not outcome.name.startswith(CHOSE)]
    if graders and len(graders) < len(outcomes):
        graded = summarize(graders, strategies)
        summary["graded"] = {key: graded[key] for key in ("operators", "best_strategy", *GOALS, "sixth_loss_largest")}
        told = ", ".join(f"{key} {value}" for key, value in summary["graded"].items())
        print(f"\noperators that no constant was chosen with: {told}")
    if options.json:
        environment = report.environment("numpy", "nvidia-cuda-nvrtc") | {"nvrtc": nvrtc_version()}
        report.write(options.json, NAME, environment, [asdict(outcome) for outcome in outcomes], summary)
    correlation = summary["rank_correlation"]
    if not options.recorded and correlation is not None and correlation >= MOST_CORRELATION:
        print(f"the model knows the device: a rank correlation of {correlation} tests nothing", file=sys.stderr)
        return 1
    return 0


def _race_spaces(options: argparse.Namespace) -> int:
    """The default strategy, and those that are named, in every measured space."""
    default = next(iter(STRATEGIES))
    strategies = tuple(dict.fromkeys((default, "random", "genetic", *(options.strategy or ()))))
    figures: dict[str, dict[str, SpaceFigures]] = {}
    try:
        for space in read_spaces(options.spaces):
            print(
                f"{space.name}: {len(space.ran):,} of {len(space.programs):,} ran, best {space.best:.4g} ms, published"
            )
            figures[space.name] = {}
            for strategy in strategies:
                found = figures[space.name][strategy] = race(space, strategy, options.seeds or SPACE_SEEDS)
                bests = f"{found.best_of_10:6.3f} {found.best_of_50:6.3f} {found.best_of_200:6.3f}"
                spread = f"50 +-{found.error_of_50:.3f}; score {found.score:6.3f}"
                cost = f"{found.milliseconds_a_proposal:7.2f} ms a proposal"
                print(f"  {strategy:10} best of 10, 50, 200: {bests}, {spread}; {cost}", flush=True)
    except EngineError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if options.json:
        rows = [
            {"space": name, "strategy": other} | asdict(one)
            for name, of in figures.items()
            for other, one in of.items()
        ]
        report.write(options.json, NAME, report.environment("numpy"), rows, summarize_spaces(figures, default))
    return 0


def _outcomes(options: argparse.Namespace, race: Race) -> Iterator[Outcome]:
    if options.recorded:
        return of_records(options.recorded, race, options.origin)
    return _synthetic(options, race)


def _synthetic(options: argparse.Namespace, race: Race) -> Iterator[Outcome]:
    names = options.operator or (QUICK if options.quick else [row.name for row in read_suite(SUITE).rows])
    figures = options.figures or cache_folder() / NAME / "figures.db"
    for name in names:
        operator = operator_of(name, options.quick)
        outcome, times = of_operator(operator, figures, options.processes, race)
        if options.records:
            with RecordStore(options.records) as store:
                keep(operator, times, store)
        yield outcome


def summarize(outcomes: Sequence[Outcome], strategies: Sequence[str]) -> dict[str, Any]:
    """Means over the operators, each strategy and the best one."""
    each = {
        name: {
            "best_of_10": _mean([outcome.found[name].best_of_10 for outcome in outcomes]),
            "best_of_50": _mean([outcome.found[name].best_of_50 for outcome in outcomes]),
            "trials_to_99": _mean([outcome.found[name].trials_to_99 for outcome in outcomes], 1),
            "reached_99": _mean([outcome.found[name].reached_99 for outcome in outcomes]),
        }
        for name in strategies
    }
    best = max(strategies, key=lambda name: (each[name]["best_of_10"] or 0) + (each[name]["best_of_50"] or 0))
    judged = [outcome for outcome in outcomes if outcome.left_share is not None]
    losses = [outcome.pruned_loss for outcome in judged if outcome.pruned_loss is not None]
    random = [outcome.random_trials for outcome in judged if outcome.random_trials is not None]
    saved = [1 - after / before for before, after in random]
    return {
        "origin": ", ".join(sorted({outcome.origin for outcome in outcomes})),
        "operators": len(outcomes),
        "programs": sum(outcome.total for outcome in outcomes),
        "tried": sum(outcome.tried for outcome in outcomes),
        "timed": sum(outcome.timed for outcome in outcomes),
        "rank_correlation_before_pruning": _mean(
            [o.correlation_before for o in outcomes if o.correlation_before is not None]
        ),
        "rank_correlation": _mean([o.correlation for o in outcomes if o.correlation is not None]),
        "rank_correlation_largest": max((o.correlation for o in outcomes if o.correlation is not None), default=None),
        "best_strategy": best,
        "best_of_10": each[best]["best_of_10"],
        "best_of_50": each[best]["best_of_50"],
        "pruned_trials": _mean([o.left_share for o in judged if o.left_share is not None]),
        "pruned_loss": _mean(losses, 4),
        "pruned_loss_largest": max(losses, default=None),
        "sixth_loss": _mean([o.sixth_loss for o in judged if o.sixth_loss is not None], 4),
        "sixth_loss_largest": max((o.sixth_loss for o in judged if o.sixth_loss is not None), default=None),
        "pruning_saves_random_search": _mean(saved),
        "strategies": each,
        "goals": GOALS,
    }


def _mean(values: Sequence[float], digits: int = 3) -> float | None:
    return round(mean(values), digits) if values else None


def _line(outcome: Outcome) -> str:
    found = ", ".join(f"{name} {_figures(one)}" for name, one in outcome.found.items())
    before, after = (
        "-" if one is None else f"{one:.2f}" for one in (outcome.correlation_before, outcome.correlation)
    )
    return (
        f"{outcome.name:16} {outcome.timed:5,} of {outcome.tried:5,} timed, {outcome.left:5,} left, "
        f"best {outcome.best:9.2f} us {outcome.origin}, rank correlation {before}, of those left {after}; {found}"
    )


def _figures(found: Found) -> str:
    return f"{found.best_of_10:.2f}/{found.best_of_50:.2f}"


def _show(summary: Mapping[str, Any], strategies: Sequence[str]) -> None:
    print(f"\n{'strategy':12} {'best of 10':>10} {'best of 50':>10} {'trials to 99 %':>14} {'which reach it':>14}")
    for name in strategies:
        one = summary["strategies"][name]
        cells = (one["best_of_10"], one["best_of_50"], one["trials_to_99"], one["reached_99"])
        print(f"{name:12} {cells[0]:>10} {cells[1]:>10} {cells[2]:>14} {cells[3]:>14}")
    print()
    for key, value in summary.items():
        if key not in ("strategies", "goals", "graded"):
            goal = f"  (goal {GOALS[key]:.3g})" if key in GOALS else ""
            print(f"{key:30} {value}{goal}")


def _parser() -> argparse.ArgumentParser:
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog=f"python -m tests.benchmarks.{NAME}", description=about)
    parser.add_argument("--quick", action="store_true", help="three operators, a small space of each")
    parser.add_argument("--operator", action="append", help="a row of the suite; may be repeated")
    parser.add_argument("--strategy", action="append", choices=tuple(STRATEGIES), help="all where none is named")
    parser.add_argument("--trials", type=int, default=TRIALS, help="of one search")
    parser.add_argument("--seeds", type=int, help="searches of each strategy that are averaged")
    parser.add_argument("--processes", type=int, default=2, help="that compile")
    parser.add_argument("--figures", type=Path, help="file of what was compiled, to write and to go on with")
    parser.add_argument("--records", type=Path, help="record file to keep the truth in")
    parser.add_argument("--recorded", type=Path, help="record file whose attempts are the truth")
    parser.add_argument("--spaces", type=Path, help="folder of spaces that were measured whole")
    parser.add_argument("--origin", help="of the recorded times, where the file has several")
    parser.add_argument("--json", type=Path, help="write rows and summary here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
