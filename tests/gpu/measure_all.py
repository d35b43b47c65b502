"""Everything that needs a GPU, on a machine that is there for minutes, in one or two calls.

Ahead, where there is a package index and time (the folders are ignored by git and travel with the checkout)::

    python3 tests/gpu/prepare.py carry                                  # wheels/: what the machine lacks
    python3.12 tests/gpu/prepare.py build                               # wheels/: PyCUDA, where CUDA's headers are
    python3 -m tests.benchmarks.prepared -o prepared                    # prepared/: machine code of every row

On the machine, which needs Python 3.12 with PyTorch (Triton, JAX), and no network; OUT is where results are to lie::

    python3 tests/gpu/measure_all.py run --out "$OUT" --minutes 9 --suite calibration --suite memory --suite alcop

It installs, passes the tests of `tests/gpu`, measures, fits the model of times, prints the table, and leaves
`results.tar.gz` and `table.md`.  With `--tuning` it tunes ten operators and times them beside their peers (see
`tests/gpu/tuning.py`), and of the suites measures only those that are named.  What one step lacks is said, and the rest
goes on.  A second call with `--resume measured/results.tar.gz` (carried too) goes on where the first one stopped, with
more suites or more `--systems`; those that compile for long, as torch.compile does, are best asked for last.  Back
home::

    python3 -m tests.gpu.measure_all keep measured/results.tar.gz       # resources/measurements/DATE-SUITE.json
    loomscope calibrate resources/measurements/*.json

Exit codes: 0 done, 1 a step failed, 2 an archive that is none, 3 the machine cannot be prepared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # run as a file: only the standard library is there yet

from tests.gpu import prepare  # noqa: E402

SUITES = ("calibration", "memory", "alcop", "transformer", "batched", "conv", "gta", "alcop-matmul")
"""In the order of what they tell."""
SYSTEMS = "loomscope,torch,cublaslt,cudnn,triton,xla"
"""Without torch.compile, which takes a minute for a row."""
TEST_SECONDS = 90.0
CLOSING_SECONDS = 40.0
"""For the calibration and the table, after the last row."""
MEASURED = ROOT / "resources" / "measurements"


@dataclass(frozen=True)
class Call:
    """One call on the machine."""

    out: Path
    wheels: Path
    kernels: Path
    site: Path
    suites: tuple[str, ...]
    systems: str
    minutes: float
    resume: Path | None = None
    tunes: bool = False
    """Whether ten operators are tuned."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the status is the exit code."""
    options = _parser().parse_args(arguments)
    archive = options.archive if options.what == "keep" else options.resume
    if archive is not None and not is_archive(archive):
        print(f"{archive}: is no results.tar.gz of an earlier call", file=sys.stderr)
        return 2
    if options.what == "keep":
        for path in keep(options.archive, options.folder):
            print(path)
        return 0
    suites = tuple(options.suite or (() if options.tuning else SUITES))
    call = Call(
        options.out, options.wheels, options.kernels, options.site, suites, options.systems, options.minutes,
        options.resume, options.tuning,
    )  # fmt: skip
    return run(call, options.dry_run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    verbs = parser.add_subparsers(dest="what", required=True)
    run_ = verbs.add_parser("run", help="on the GPU machine")
    run_.add_argument("--out", type=Path, required=True, help="folder for results")
    run_.add_argument("--wheels", type=Path, default=ROOT / "wheels")
    run_.add_argument("--kernels", type=Path, default=ROOT / "prepared")
    run_.add_argument("--site", type=Path, default=prepare.SITE)
    run_.add_argument("--suite", action="append", choices=SUITES, help="all, most telling first, where none is named")
    run_.add_argument("--systems", default=SYSTEMS)
    run_.add_argument("--tuning", action="store_true", help="tune ten operators, and no suite that is not named")
    run_.add_argument("--minutes", type=float, default=9.0, help="for everything, the installation included")
    run_.add_argument("--resume", type=Path, help="results.tar.gz of an earlier call")
    run_.add_argument("--dry-run", action="store_true", help="say what would run")
    keep_ = verbs.add_parser("keep", help="put results among the recorded ones")
    keep_.add_argument("archive", type=Path)
    keep_.add_argument("--folder", type=Path, default=MEASURED)
    return parser


def run(call: Call, dry: bool = False) -> int:
    """All steps within the minutes; 0, 1 where one failed, 3 where the machine could not be prepared."""
    end = time.monotonic() + call.minutes * 60
    results = call.site / "results"
    if not dry:
        results.mkdir(parents=True, exist_ok=True)
        call.out.mkdir(parents=True, exist_ok=True)
        if call.resume is not None:
            _unpack(call.resume, results)
    lacks = prepare.lacking(call.wheels)
    print("".join(f"{what}\n" for _, what in lacks), end="", flush=True)
    if (lacks and not dry) or prepare.run(prepare.install(call.wheels, call.site), dry):
        return 3
    rows = (rows_step, calibration_step, table_step) if call.suites else ()
    made = (tests_step, *((tuning_step,) if call.tunes else ()), *rows)
    failed = 0
    for make in made:
        before = time.monotonic()
        left = max(end - before, CLOSING_SECONDS)
        step = make(call, results, left)  # made when its turn comes: it takes the files that are there
        if dry:
            print(f"{step.name}:\n  {step}")
            continue
        failed += _done(step, left) != 0
        print(f"{step.name}: {time.monotonic() - before:.0f} s", flush=True)
    if not dry:
        _pack(results, call.out)
    return 1 if failed else 0


def tests_step(call: Call, results: Path, seconds: float) -> prepare.Step:
    """The tests that need a GPU."""
    command = (sys.executable, "-m", "pytest", "tests/gpu", "-m", "gpu", "-q")
    return prepare.Step("tests", command, _environment(call, results))


def rows_step(call: Call, results: Path, seconds: float) -> prepare.Step:
    """The rows of all suites."""
    suites = [word for suite in call.suites for word in ("--suite", suite)]
    minutes = max(seconds - CLOSING_SECONDS, 0.0) / 60
    command = (
        sys.executable, "-m", "tests.benchmarks.gpu", *suites, "--systems", call.systems,
        "--kernels", str(call.kernels), "--minutes", f"{minutes:.2f}", "-o", str(results),
    )  # fmt: skip
    return prepare.Step("rows", command, _environment(call, results))


def tuning_step(call: Call, results: Path, seconds: float) -> prepare.Step:
    """Ten operators tuned, then timed beside their peers."""
    minutes = max(seconds - CLOSING_SECONDS, 0.0) / 60
    command = (
        sys.executable, "-m", "tests.gpu.tuning", "-o", str(results), "--systems", call.systems,
        "--minutes", f"{minutes:.2f}",
    )  # fmt: skip
    return prepare.Step("tuning", command, _environment(call, results))


def calibration_step(call: Call, results: Path, seconds: float) -> prepare.Step:
    """The model of times, fitted to what is there."""
    command = (sys.executable, "-m", "app", "calibrate", *_files(call, results))
    return prepare.Step("calibration", command, _environment(call, results))


def table_step(call: Call, results: Path, seconds: float) -> prepare.Step:
    """The table of what is there."""
    command = (sys.executable, "-m", "tests.benchmarks.gpu_table", *_files(call, results))
    return prepare.Step("table", command, _environment(call, results))


def _files(call: Call, results: Path) -> list[str]:
    found = sorted(map(str, results.glob("gpu-*.json")))
    return found or [str(results / f"gpu-{suite}.json") for suite in call.suites]


def _environment(call: Call, results: Path) -> dict[str, str]:
    return {
        **prepare.environment(call.site),
        "LOOMSCOPE_CACHE": str(call.site / "cache"), "LOOMSCOPE_DATA": str(results / "data"),
    }  # fmt: skip


def _done(step: prepare.Step, seconds: float) -> int:
    """Run a step and show what it says; 124 where its time is over.  The table is also kept in a file."""
    limit = min(seconds, TEST_SECONDS) if step.name == "tests" else seconds
    environment = {**os.environ, **step.environment}
    kept = Path(step.environment["LOOMSCOPE_DATA"]).parent / "table.md" if step.name == "table" else None
    try:
        if kept is None:
            return subprocess.run(step.command, env=environment, cwd=ROOT, timeout=limit, check=False).returncode
        with kept.open("w", encoding="utf-8") as file:
            done = subprocess.run(
                step.command, env=environment, cwd=ROOT, timeout=limit, check=False, stdout=file
            ).returncode
        print(kept.read_text(encoding="utf-8"), flush=True)
        return done
    except subprocess.TimeoutExpired:
        print(f"{step.name}: ended, its {limit:.0f} s are over", flush=True)
        return 124


def _pack(results: Path, out: Path) -> None:
    """All files in one, and the tables beside it."""
    with tarfile.open(out / "results.tar.gz", "w:gz") as archive:
        for path in sorted(results.rglob("*")):
            if path.is_file():
                archive.add(path, path.relative_to(results).as_posix())
    for table in (results / "table.md", results / "tuning.md"):
        if table.is_file():
            (out / table.name).write_bytes(table.read_bytes())


def is_archive(path: Path) -> bool:
    """Whether a file is an archive of files alone, whole, as `run` leaves it."""
    try:
        with tarfile.open(path) as files:
            return all(member.isfile() for member in files)
    except (OSError, EOFError, tarfile.TarError, zlib.error):
        return False


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")


def keep(archive: Path, folder: Path = MEASURED) -> list[Path]:
    """The archive's files under the names of recorded measurements: DATE-SUITE.json, DATE-table.md, DATE-h200.json.

    Of what tuning leaves, that is DATE-tuned.json, DATE-tuning.md and DATE-tuning.db; kernels and recipes stay there.
    """
    kept: list[Path] = []
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as files:
        names = [name for name in files.getnames() if not name.startswith(("kernels/", "recipes/"))]
        held = {name: files.extractfile(name).read() for name in names}  # type: ignore[union-attr]
    suites = {name: json.loads(data) for name, data in held.items() if name.startswith(("gpu-", "tuned."))}
    date = min((one["environment"]["date"][:10] for one in suites.values()), default="undated")
    for name, data in held.items():
        own = suites[name]["environment"]["date"][:10] if name in suites else date
        path = folder / f"{own}-{Path(name).name.removeprefix('gpu-')}"
        path.write_bytes(data)
        kept.append(path)
    return kept


if __name__ == "__main__":
    sys.exit(main())
