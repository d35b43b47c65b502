"""Ten operators tuned on a GPU, then timed beside cuBLAS, cuDNN, Triton and torch.compile, in one command.

On a machine that `tests/gpu/prepare.py install` has made ready (Python 3.12, PyTorch, Triton; no network)::

    python -m tests.gpu.tuning -o results --minutes 20

On a machine that is there for minutes and bare, with what was carried to it (see `tests/gpu/measure_all.py`)::

    python3 tests/gpu/measure_all.py run --tuning --out "$OUT" --minutes 9

Each operator gets `loomscope tune --runner measured` with 50 trials, all kept in `results/tuning.db`; the kernels of
the best recipes are then timed in one process with the peers, on the same buffers, in interleaved rounds, and the ratio
of each is printed.  A second call goes on where the first one stopped: a search that its time ended goes on with what
it had, a row that was searched further, or lacks one of `--systems`, is timed again with all of them.  Leaves
`tuned.json` (as the files under resources/measurements), `tuning.md`, the records and the recipes.  A trial has a
process of its own, so that ten rows are expected to take several calls of nine minutes.  `--dry-run` says what would
run.  Exit codes: 0 done, 1 a row is left, 2 bad input, 3 no GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.execution.measure import GPU_HINT, gpu_name
from engine.measurements import read_measurements
from engine.measurements.nodes import OURS
from engine.recipe_files import read_recipe
from engine.suite import read_row
from engine.support.errors import BadInput, EngineError, MissingCapability
from engine.tuning.search import LATE
from tests.benchmarks import gpu, gpu_table, prepared, report
from tests.benchmarks.gpu_process import QUIET, ROOT, GpuProcess

ROWS = (
    "suite:alcop-matmul/1024x1024x1024",
    "suite:alcop-matmul/512x768x3072",
    "suite:transformer/8192x3072x768",
    "suite:transformer/8192x3072x768-bias-gelu",
    "suite:batched/12x512x512x64",
    "suite:batched/8x1024x1024x1024",
    "suite:conv/64x128x28x28-128-k3-s1",
    "suite:conv/64x512x7x7-512-k3-s1",
    "suite:memory/softmax-32768x1024",
    "suite:memory/layernorm-16384x4096",
)
"""Products alone, with an epilogue and batched, convolutions, and rows that memory bounds."""
SYSTEMS = (OURS, "torch", "cublaslt", "cudnn", "triton", "torch.compile")
"""torch.compile tries its algorithms for a minute for a row: it comes last."""
TRIALS = 50
TUNING_SHARE = 0.6
"""Of the time that is left; the rest is for the rows beside their peers."""
GRACE = 30.0
"""Seconds that a search may take past its minutes, to finish a trial and time the best again."""
NAME = "tuned"


@dataclass(frozen=True, slots=True)
class Call:
    """One call."""

    rows: tuple[str, ...]
    systems: tuple[str, ...]
    output: Path
    target: str
    runner: str
    trials: int
    minutes: float

    @property
    def records(self) -> Path:
        """Every trial of all rows."""
        return self.output / "tuning.db"

    def recipe(self, reference: str) -> Path:
        """What the search of a row leaves when it has ended."""
        return self.output / "recipes" / f"{reference.rpartition('/')[2]}.json"

    def document(self, reference: str) -> Path:
        """What the search of a row says."""
        return self.recipe(reference).with_suffix(".told")

    def command(self, reference: str, minutes: float) -> tuple[str, ...]:
        """The search of a row."""
        return (
            sys.executable, "-m", "app", "tune", reference, "--target", self.target, "--runner", self.runner,
            "--trials", str(self.trials), "--minutes", f"{minutes:.2f}", "--records", str(self.records),
            "-o", str(self.recipe(reference)), "--json",
        )  # fmt: skip

    def plan(self) -> gpu.Plan:
        """The rows beside their peers."""
        return gpu.Plan(NAME, tuple(map(read_row, self.rows)), self.systems, self.output / f"{NAME}.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the status is the exit code."""
    options = _parser().parse_args(arguments)
    systems = tuple(options.systems.split(","))
    call = Call(
        tuple(options.row or ROWS), systems, options.output, options.target, options.runner, options.trials,
        options.minutes,
    )  # fmt: skip
    try:
        if options.dry_run:
            for reference in call.rows:
                print(" ".join(call.command(reference, call.minutes * TUNING_SHARE / len(call.rows))))
            gpu.list_rows(call.plan())
            return 0
        device = gpu_name()
        if device is None:
            raise MissingCapability("benchmark", "this machine", "there is no NVIDIA GPU", GPU_HINT)
        left = run(call, device)
    except EngineError as error:
        print(f"{error.subject}: {error.reason}", file=sys.stderr)
        return error.exit_code
    return 1 if left else 0


def run(call: Call, device: str, clock: Callable[[], float] = time.monotonic) -> list[str]:
    """Tune, prepare the best kernels, time them beside the peers; the rows that time did not suffice for."""
    end = clock() + 60 * call.minutes
    call.recipe(call.rows[0]).parent.mkdir(parents=True, exist_ok=True)
    tuned_by = clock() + 60 * call.minutes * TUNING_SHARE
    waiting = [reference for reference in call.rows if not is_searched(call, reference)]
    for number, reference in enumerate(waiting):
        share = (tuned_by - clock()) / 60 / (len(waiting) - number)
        if share > 0 and tune(call, reference, share):
            forget(call, reference)
    kernels = call.output / "kernels"
    for reference in call.rows:
        if call.recipe(reference).exists():
            prepared.write(*prepared.prepare(reference, call.target, read_recipe(call.recipe(reference))), kernels)
    process = GpuProcess(QUIET, kernels)
    try:
        (document,) = gpu.run([call.plan()], device, process, end - clock(), clock)
    finally:
        process.close()
    text = "\n".join(told(call))
    (call.output / "tuning.md").write_text(text + "\n", encoding="utf-8")
    print(text)
    left: list[str] = document["summary"]["left"]
    return [reference for reference in call.rows if reference in left or not is_searched(call, reference)]


def is_searched(call: Call, reference: str) -> bool:
    """Whether the search of a row ended by itself, with as many trials as are asked for."""
    path = call.document(reference)
    if not path.exists():
        return False
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found["ended"] != LATE and found["asked"] >= call.trials


def forget(call: Call, reference: str) -> None:
    """A row that has other kernels now is to be timed again."""
    path = call.output / f"{NAME}.json"
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
        rows = [row for row in known["rows"] if row["row"] != reference]
        report.write(path, known["name"], known["environment"], rows, known["summary"])


def tune(call: Call, reference: str, minutes: float) -> bool:
    """Search one row; whether that left a recipe, and what there is to say of it."""
    print(f"tuning {reference}, up to {minutes:.1f} minutes", flush=True)
    command = call.command(reference, minutes)
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, timeout=60 * minutes + GRACE, check=False, text=True
        )
    except subprocess.TimeoutExpired:
        print(f"{reference}: its search did not end in time; its trials are kept", flush=True)
        return False
    if done.returncode in (2, 3):
        raise BadInput("benchmark", reference, f"its search ended with status {done.returncode}: see above")
    if done.returncode != 0:
        return False
    said = json.loads(done.stdout) | {"asked": call.trials}
    call.document(reference).write_text(json.dumps(said, indent=1), encoding="utf-8")
    return True


def told(call: Call) -> Iterator[str]:
    """What tuning was worth by its own times, then the table beside the peers."""
    yield f"Searches of up to {call.trials} trials a row"
    yield ""
    yield "| row | before | best | before / best | trials | failures | program |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | --- |"
    for reference in call.rows:
        path = call.document(reference)
        if path.exists():
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            failures = sum(found["failures"].values())
            for group, best in found["best"].items():
                yield _searched(f"{reference} {group}", best, found["trials"], failures)
    yield ""
    measured = read_measurements(call.output / f"{NAME}.json")
    if any(row.ours is not None for row in measured.rows):
        yield from gpu_table.table([measured])
    else:
        yield "No row has a time of ours beside its peers."


def _searched(name: str, best: dict[str, Any], trials: int, failures: int) -> str:
    before, now, program = best["before"], best["microseconds"], best["program"]
    is_known = isinstance(before, float) and math.isfinite(before)
    values = ", ".join(f"{dimension} {value}" for dimension, value in program["values"])
    cells = (
        name, f"{before:.2f}" if is_known else "", f"{now:.2f} {best['origin']}",
        f"{before / now:.2f}" if is_known else "", str(trials), str(failures), f"{program['mapping']}: {values}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _parser() -> argparse.ArgumentParser:
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.tuning", description=about)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of results, to write and to go on")
    parser.add_argument("--row", action="append", help="a row of a suite in place of the ten; may be repeated")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="what to compare with, with commas")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--runner", default="measured", help="predicted tries the command without a GPU")
    parser.add_argument("--trials", type=int, default=TRIALS, help="of each group of a row")
    parser.add_argument("--minutes", type=float, default=20.0, help="for everything")
    parser.add_argument("--dry-run", action="store_true", help="say what would run; needs no GPU")
    return parser


if __name__ == "__main__":
    sys.exit(main())
