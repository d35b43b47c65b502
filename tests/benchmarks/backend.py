"""All node tests of the installed onnx package through the whole path, and why the others do not pass.

    python -m tests.benchmarks.backend [--json FILE] [--only PART] [--seconds N] [--workers N]

A test loads, fuses, compiles its kernels, emulates them and compares with the outputs that the package publishes
(`tests.semantics.node_tests`).  Refused: an EngineError before any kernel.  Failed: a kernel that is not made, wrong
or too slow.  Usable: compiled types only, static shapes, no empty tensor, no subgraph.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import FrameType

from tests.semantics.node_tests import Case, Outcome, every_case, run

REFUSED = ("load", "lower")
"""Stages before any kernel."""
SECONDS = 60


class OutOfTime(Exception):
    """A test took longer than it may."""


def run_case(case: Case, seconds: int = SECONDS) -> Outcome:
    """One test, stopped after some seconds; what is no EngineError is an outcome, too."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run(case)
    except OutOfTime:
        return Outcome(case.name, case.expanded, "time", f"not done in {seconds} s")
    except Exception as error:  # a defect of ours: counted as such
        return Outcome(case.name, case.expanded, "crash", f"{type(error).__name__}: {error}"[:200])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_cases(cases: Iterable[Case], seconds: int = SECONDS, workers: int = 2) -> Iterator[Outcome]:
    """The outcomes of many tests, in order."""
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(partial(run_case, seconds=seconds), cases, chunksize=4)


def reason_of(outcome: Outcome) -> str:
    """The reason without what is a single test's own: names of its tensors and operators, counts."""
    first = outcome.reason.partition("; ")[0]
    first = re.sub(r"^\S+ holds (\S+)(?: elements)?;? ?.*", r"holds \1", first)
    first = re.sub(r" \((?:input|initializer|operator|tensor)[^)]*\)$", "", first)
    first = re.sub(r"^holds (\S+) elements", r"holds \1", first)
    first = re.sub(r"\b(?:output|axis|axes) \S+", lambda found: found[0].split()[0], first)
    return re.sub(r"\b\d+\b", "N", first)


def count_reasons(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], list[str]]:
    """(kind, reason) -> names of the tests, the most first.  kind: "refused" or the stage that failed."""
    found = defaultdict(list)
    for outcome in outcomes:
        if outcome.stage != "pass":
            kind = "refused" if outcome.stage in REFUSED else outcome.stage
            found[kind, reason_of(outcome)].append(outcome.name)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def summary(outcomes: Iterable[Outcome]) -> dict[str, dict[str, int]]:
    """Tests and how they ended, of all and of the usable ones."""
    counts = {"all": Counter[str](), "usable": Counter[str]()}
    for outcome in outcomes:
        how = outcome.stage if outcome.stage == "pass" else "refused" if outcome.stage in REFUSED else "fail"
        for title in ("all", "usable") if every_case()[outcome.name].usable else ("all",):
            counts[title].update((how, "tests"))
    return {title: {how: found[how] for how in ("tests", "pass", "fail", "refused")} for title, found in counts.items()}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write counts, reasons and outcomes to this file")
    parser.add_argument("--only", default="", help="tests with this in their name")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="the most that a test may take")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    start = time.perf_counter()
    chosen = [case for name, case in every_case().items() if options.only in name]
    outcomes = list(run_cases(chosen, options.seconds, options.workers))
    reasons = count_reasons(outcomes)
    for (kind, reason), names in reasons.items():
        print(f"{len(names):5}  {kind:8} {reason}   [{names[0]}]")
    counts = summary(outcomes)
    for title, count in counts.items():
        print(f"{title}: " + ", ".join(f"{number} {how}" for how, number in count.items()))
    print(f"{time.perf_counter() - start:.0f} s")
    if options.json:
        by_reason = [{"kind": k, "reason": why, "tests": names} for (k, why), names in reasons.items()]
        document = {"counts": counts, "reasons": by_reason, "outcomes": [asdict(o) for o in outcomes]}
        options.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
