"""Each case in a process of its own: forked, with 2 GiB of address space, 20 s of processor time and 120 s of a clock.

A case may end well or with an error that the engine raises on purpose.  Everything else is a finding: another
exception, an `engine.support.errors.Fault`, and the end of the process by a signal (SIGPROF: past its processor time,
SIGALRM: past its time).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.support.errors import BadInput, EngineError, OverBudget, Unsupported

PROCESSOR, CLOCK, MEMORY = 20.0, 120.0, 2 * 2**30
"""Seconds, seconds and bytes that one case may take."""
REFUSALS = (BadInput, Unsupported, OverBudget)
"""What the engine may say of a file.  A legality error is none: nobody asked for a schedule."""
LONGEST = 7_000
"""Characters of a message: subject, reason and hint are at most 2,000 each."""
FOUND = "FINDING"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one case ended."""

    case: int
    result: str
    """"accepted", the name of the error that refused it, or `FOUND`."""
    detail: str = ""
    """Of a refusal its message, of a finding its signature and message."""
    seconds: float = 0.0
    """Processor time."""
    memory: int = 0
    """Largest resident size in bytes."""


Case = Callable[[int, Path], None]
"""Writes case N into a folder, uses it, and returns or raises."""


def run(case: Case, numbers: Iterable[int], folder: Path, refusals: tuple[type[EngineError], ...] = REFUSALS,
        jobs: int = 1) -> Iterator[Outcome]:  # fmt: skip
    """The outcome of every case, `jobs` at a time; each has a folder `case-N` of its own inside `folder`."""
    children: dict[int, int] = {}
    for number in numbers:
        if len(children) >= jobs:
            yield _reap(children, folder)
        (folder / f"case-{number}").mkdir(parents=True, exist_ok=True)
        child = os.fork()
        if child == 0:
            _run_child(case, number, folder / f"case-{number}", refusals)
        children[child] = number
    while children:
        yield _reap(children, folder)


def _reap(children: dict[int, int], folder: Path) -> Outcome:
    child = next(iter(children)) if len(children) == 1 else 0
    while not child or child not in children:
        # Only children of this loop: the test runner may have others.
        for child in children:
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                break
        else:
            child = 0
            time.sleep(0.002)
    _, status, usage = os.wait4(child, 0)
    number = children.pop(child)
    told = folder / f"case-{number}" / "outcome.json"
    seconds, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return Outcome(number, FOUND, f"ended by {name}", seconds, memory)
    if not told.is_file():
        return Outcome(number, FOUND, f"exit {os.WEXITSTATUS(status)} without a word", seconds, memory)
    result, detail = json.loads(told.read_text())
    return Outcome(number, result, detail, seconds, memory)


def _run_child(case: Case, number: int, folder: Path, refusals: tuple[type[EngineError], ...]) -> None:
    """Run one case and end the process, without the parent's handlers and exit functions."""
    for name in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(name, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.setitimer(signal.ITIMER_PROF, PROCESSOR)
    signal.setitimer(signal.ITIMER_REAL, CLOCK)
    # What C++ libraries write past Python.
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    told = _outcome(case, number, folder, refusals)
    (folder / "outcome.json").write_text(json.dumps(told))
    os._exit(0)


def _outcome(case: Case, number: int, folder: Path, refusals: tuple[type[EngineError], ...]) -> tuple[str, str]:
    try:
        case(number, folder)
    except refusals as error:
        if not (error.subject and error.reason) or len(str(error)) > LONGEST:
            return FOUND, f"a message that names nothing or never ends: {str(error)[:200]!r}"
        return type(error).__name__, str(error)
    except BaseException as error:  # what must not happen, whatever it is, is what this looks for
        return FOUND, f"{signature(error)}: {' '.join(str(error).split())[:200]}"
    return "accepted", ""


def signature(error: BaseException) -> str:
    """The kind of an exception and the innermost line of the program that it went through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/engine/" in f.filename or "/app/" in f.filename]
    frame = (ours or frames)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno} {frame.name}"


def command(name: str, describe: str, case_of: Callable[[int], Case], use: Callable[[Path], None],
            refusals: tuple[type[EngineError], ...] = REFUSALS) -> int:  # fmt: skip
    """A fuzzer's command line; the exit code is 1 if anything was found.

    case_of(seed): the cases of a seed; use(path): load a file that was kept.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=describe)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another seed, other files (0)")
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="files (1,000)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first (0)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes at a time (1)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the files of findings are kept")
    parser.add_argument("--use", type=Path, metavar="FILE", help="load one file in this process, with its traceback")
    options = parser.parse_args()
    if options.use:
        use(options.use)
        return 0
    start, counts, slowest, largest = time.perf_counter(), Counter[str](), Outcome(0, ""), Outcome(0, "")
    folder = options.keep or Path(tempfile.mkdtemp(prefix="fuzz-"))
    numbers = range(options.first, options.first + options.count)
    for outcome in run(case_of(options.seed), numbers, folder, refusals, options.jobs):
        counts[outcome.result] += 1
        slowest = max(slowest, outcome, key=lambda o: o.seconds)
        largest = max(largest, outcome, key=lambda o: o.memory)
        if outcome.result == FOUND:
            print(f"case {outcome.case}, {outcome.seconds:.1f} s: {outcome.detail}", flush=True)
        else:
            shutil.rmtree(folder / f"case-{outcome.case}")
    told = ", ".join(f"{number} {result}" for result, number in counts.most_common())
    print(f"{counts.total()} files in {time.perf_counter() - start:.0f} s: {told}")
    print(f"at most {slowest.seconds:.1f} s (case {slowest.case}), {largest.memory >> 20} MiB (case {largest.case})")
    if counts[FOUND]:
        print(f"their files are in {folder}")
    return int(counts[FOUND] > 0)
