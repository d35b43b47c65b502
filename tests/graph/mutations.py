"""Broken files against every loader: `python -m tests.graph.mutations [--count N] [--seed S]`.

A file is broken by a seeded mutator, loaded, and what still loads is fused and compiled.  Only errors that the engine
raises on purpose may come out.  A child process does the work with 1 GiB of memory above what it needs to start; a
case that ends the child or keeps it longer than `--limit` seconds is a finding too, and the next child goes on there.
"""

from __future__ import annotations

import argparse
import os
import queue
import resource
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import engine
from app.session.loom_file import read_loom
from engine.recipe_files import complete_recipe, published_advice
from engine.support.errors import BadInput, EngineError, Fault, Illegal, OverBudget, Unsupported
from tests.graph.seeds import MODELS, ROOT, SHAPE, Seed, seeds
from tests.scheduling.published_files import adding

MEMORY = 2**30
"""Bytes above what the process has once everything is imported and every sound file was compiled."""
GROUPS = 12
"""Kernels compiled of one file."""
LIMIT = 60.0
"""Seconds for one file; most take milliseconds."""
LONGEST = 12_000
"""Characters of a message; names may have 4,096."""
REFUSALS = (BadInput, Unsupported, OverBudget)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one broken file."""

    case: int
    mutation: str
    result: str
    """"compiled", the name of the error that refused it, or "FINDING"."""
    detail: str = ""


def run(first: int, count: int, seed: int, folder: Path, limit: float = LIMIT) -> Iterator[Outcome]:
    """The outcome of every case, from child processes one after the other."""
    at = first
    while at < first + count:
        command = ["-m", "tests.graph.mutations", "--child", str(folder), "--first", str(at)]
        child = subprocess.Popen(
            [sys.executable, *command, "--count", str(first + count - at), "--seed", str(seed)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        for outcome in _followed(child, at, limit):
            yield outcome
            at = outcome.case + 1


def _followed(child: subprocess.Popen[str], at: int, limit: float) -> Iterator[Outcome]:
    """The lines of a child as outcomes; its end before its time, and silence, are outcomes of the case it was at."""
    assert child.stdout and child.stderr
    lines: queue.Queue[str | None] = queue.Queue()
    errors: list[str] = []
    threads = [
        threading.Thread(target=lambda: ([*map(lines.put, child.stdout or ())], lines.put(None)), daemon=True),
        threading.Thread(target=lambda: errors.extend(child.stderr or ()), daemon=True),
    ]
    for thread in threads:
        thread.start()
    mutation, started = "", False
    try:
        while True:
            # Imports and the sound files come before the first case.
            line = lines.get(timeout=limit if started else 10 * limit)
            if line is None:
                break
            started = True
            word, *fields = line.rstrip("\n").split("\t")
            if not fields:  # not a line of ours: a library that writes to standard output
                yield Outcome(at, mutation, "FINDING", f"printed {line!r}")
                continue
            case, *rest = fields
            if word == "case":
                at, mutation = int(case), rest[0]
            elif word == "end":
                return
            else:
                yield Outcome(int(case), mutation, *rest)
                mutation = ""
        code = child.wait()
        threads[1].join()
        last = (errors or [""])[-1].strip()[:300]
        yield Outcome(at, mutation, "FINDING", f"the process ended with {code}: {last}")
    except queue.Empty:
        yield Outcome(at, mutation, "FINDING", f"still running after {limit:g} s")
    finally:
        child.kill()
        child.wait()


# -- in the child


def work(folder: Path, first: int, count: int, seed: int) -> None:
    """Go through cases, telling each before and after."""
    sound = seeds(folder)
    kinds = sorted({one.kind for one in sound})
    prepare(folder)
    for one in sound:
        with suppress(EngineError):  # a few real files are refused as they are
            use(one, written(folder, one, one.data))
    _limit_memory()
    for case in range(first, first + count):
        random = Random(f"{seed}:{case}")
        kind = random.choice(kinds)
        one = random.choice([s for s in sound if s.kind == kind])
        mutator = random.choice(one.mutators)
        print("case", case, f"{one.name} {mutator.__name__}", sep="\t", flush=True)
        path = written(folder, one, mutator(one.data, random))
        result, detail = _tried(one, path)
        if result == "FINDING":
            kept = folder / f"case{case}{one.suffix}"
            path.replace(kept)
            detail = f"{kept}: {detail}"
        print("done", case, result, detail, sep="\t", flush=True)
    print("end", 0, sep="\t", flush=True)


def _tried(one: Seed, path: Path) -> tuple[str, str]:
    """How a file ended: no error but the engine's own may leave a loader."""
    try:
        use(one, path)
    except Fault as error:
        return "FINDING", f"Fault: {_one_line(str(error))}"
    except (*REFUSALS, Illegal) as error:
        if len(str(error)) > LONGEST:
            return "FINDING", f"a message of {len(str(error))} characters"
        return type(error).__name__, ""
    except Exception as error:  # what must not happen, whatever it is, is what this looks for
        frames = traceback.extract_tb(error.__traceback__)
        last = next((f for f in reversed(frames) if "/engine/" in f.filename or "/app/" in f.filename), frames[-1])
        place = f"{Path(last.filename).name}:{last.lineno} {last.name}"
        return "FINDING", f"{type(error).__name__} at {place}: {_one_line(str(error))}"
    return "compiled", ""


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


def use(one: Seed, path: Path) -> None:
    """Load a file as its loader does, and compile what it gives."""
    match one.loader:
        case "graph":
            graph = engine.load(path, {"batch": 2} if one.name == "shapes" else None)
            _compile(engine.fuse(graph), None)
        case "recipe":
            plan = _softmax()
            _compile(plan, complete_recipe(engine.read_recipe(path), plan, path.name))
        case "advice":
            plan = _softmax()
            (group,) = plan.groups
            _compile(
                plan, engine.merge_advice(engine.default_recipe(group), group, engine.read_advice(path), path.name)
            )
        case "published":
            group = _operator(one.operator or path.parent / "add.json")
            recipe = engine.default_recipe(group).with_group(group.name, published_advice(path, group))
            engine.compile(group, recipe)
        case _:
            read_loom(path)


def _compile(plan: engine.FusionPlan, recipe: engine.Recipe | None) -> None:
    """Compile the kernels of a plan; what no kernel follows is no obstacle to the next."""
    for group in plan.groups[:GROUPS]:
        with suppress(Unsupported):
            engine.compile(group, recipe)


@cache
def _softmax() -> engine.FusionPlan:
    return engine.fuse(engine.load(MODELS / "softmax_96x512.onnx"))


@cache
def _operator(path: Path) -> engine.FusionGroup:
    return engine.fuse(engine.load(path)).groups[0]


def prepare(folder: Path) -> None:
    """What files refer to: an operator for advice, weights, a link out of the folder, a pipe that nobody writes to."""
    adding(folder, SHAPE)
    (folder / "weights").write_bytes(bytes(64))
    with suppress(FileExistsError):
        (folder / "link").symlink_to("/etc/passwd")
    with suppress(FileExistsError):
        os.mkfifo(folder / "fifo")


def written(folder: Path, one: Seed, data: bytes) -> Path:
    path = folder / f"broken{one.suffix}"
    path.write_bytes(data)
    return path


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


# -- the command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases, print every finding and how the others ended; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.graph.mutations", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--count", type=int, default=10_000, metavar="N", help="files (10,000)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first (0)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="another seed, other files (0)")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="S", help=f"seconds for one file ({LIMIT:g})")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the files of findings are kept")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        work(options.child, options.first, options.count, options.seed)
        return 0
    start = time.perf_counter()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="mutations-"))
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    for outcome in run(options.first, options.count, options.seed, folder, options.limit):
        counts[outcome.result] += 1
        if outcome.result == "FINDING":
            print(f"case {outcome.case}, {outcome.mutation}: {outcome.detail}", flush=True)
    told = ", ".join(f"{number} {result}" for result, number in counts.most_common())
    print(f"{sum(counts.values())} files in {time.perf_counter() - start:.0f} s: {told}")
    return int(counts["FINDING"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
