"""The command line: verbs that call the engine's API and print what it answers.

Exit codes: 0 done; 1 a check failed; 2 bad input or usage; 3 this machine lacks what was asked for; 70 a fault of ours,
with a report file.
The engine and Qt are imported inside the verbs, so that `--help` is quick.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from typer import Argument, Option

from app.cli import options, output, tuning_verbs, window_verbs
from app.cli.options import (
    NO_PATHS,
    NOTHING,
    Dims,
    File,
    Gpu,
    GpuAlone,
    Group,
    Json,
    Numerics,
    RecipeFile,
    Records,
    Target,
    TreeFile,
    complete_gpu,
    job,
    one_of,
    percentage,
    verb,
)
from app.cli.standard_streams import place_on_disk, read_file, written_file
from app.exit_codes import ENDS_WITH_PARENT, PIPE_CLOSED

app = typer.Typer(
    help="Explore, edit, check and time GPU schedules of deep-learning operators.",
    epilog="Without a verb the window opens. `-` in place of a file is standard input or output. Exit codes: 0 done, "
    "1 a check failed, 2 bad input, 3 this machine lacks what was asked for, 70 a fault of loomscope, with a report "
    "file.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain lines: an error is one, and fits into any log
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

_GRACE = 1.5
"""Seconds that the program may take to end after SIGTERM or SIGHUP."""


def main() -> None:
    """Entry point of `loomscope`."""
    # nohup ignores SIGHUP.
    heard = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, _end)
    if os.environ.pop(ENDS_WITH_PARENT, ""):
        from engine.support.child_processes import end_with_parent

        end_with_parent()
    code = output.run(lambda: app(prog_name="loomscope"), PIPE_CLOSED)
    for number in heard:  # it ends anyway: an exception in what runs at exit would be told with a traceback
        signal.signal(number, _allow_grace)
    sys.exit(code)


def _allow_grace(number: int, frame: FrameType | None) -> None:
    """SIGALRM ends the process after a while."""
    signal.setitimer(signal.ITIMER_REAL, _GRACE)


def _end(number: int, frame: FrameType | None) -> None:
    """End as Ctrl-C does, so that temporary files are removed.

    An exception that lands in a callback of a weak reference is lost: SIGALRM then ends the process.
    """
    _allow_grace(number, frame)
    raise KeyboardInterrupt


def command(codes: str, name: str | None = None) -> Callable[[Callable[..., bool | None]], Callable[..., None]]:
    """Registers a verb, by default under its function's name; `codes` ends its help."""
    return lambda body: app.command(name, epilog=codes)(verb(body))


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context, version: Annotated[bool, Option("--version", help="Print the version and stop.")] = False
) -> None:
    """Open the window where no verb is given."""
    if version:
        from importlib import metadata

        try:
            output.say(f"loomscope {metadata.version('loomscope')}")
        except metadata.PackageNotFoundError:
            output.say("loomscope, from a source tree that is not installed")
        raise typer.Exit
    if context.invoked_subcommand is None:
        verb(window_verbs.open_)()


command("Exit codes: 0 done, 2 bad input, 3 no display, 130 interrupted.", "open")(window_verbs.open_)
command("Exit codes: 0 done, 2 bad input.")(window_verbs.render)


@command("Exit codes: 0 done, 2 bad input.")
def inspect(file: File, dim: Dims = NOTHING, json: Json = False) -> None:
    """Operators and tensors of a file, and what is unsupported."""
    from app.cli import verbs

    verbs.inspect(job(file, dim=dim), json)


@command("Exit codes: 0 done, 2 bad input.")
def fuse(
    file: File, policy: options.Policy = None, target: Gpu = None, dim: Dims = NOTHING, json: Json = False
) -> None:
    """The fusion plan: which operators become one kernel, and why."""
    from app.cli import verbs

    verbs.fuse(job(file, target, dim), policy, json)


@command("Exit codes: 0 done, 2 bad input.")
def recipe(
    file: File,
    out: Annotated[Path, Option("-o", "--output", metavar="FILE", parser=written_file, help="Where to write it.")],
    group: Group = None,
    tree: TreeFile = None,
    target: Gpu = None,
    dim: Dims = NOTHING, numerics: Numerics = NOTHING,
) -> None:
    """Write the recipe with every adviser's entries, to edit. Pass it back with --recipe."""
    from app.cli import verbs

    verbs.recipe(job(file, target, dim, group, None, tree, numerics), out)


@command("Exit codes: 0 done, 1 a required entry of the recipe cannot hold, 2 bad input.")
def schedule(
    file: File, group: Group = None, tree: TreeFile = None, recipe: RecipeFile = None, target: Target = None,
    dim: Dims = NOTHING,
    numerics: Numerics = NOTHING, json: Json = False,
) -> bool:  # fmt: skip
    """Schedule trees, and what became of every entry of the recipe."""
    from app.cli import verbs

    return verbs.schedule(job(file, target, dim, group, recipe, tree, numerics), json)


@command("Exit codes: 0 done, 1 a group has no kernel or a required entry cannot hold, 2 bad input, 3 no NVRTC.")
def generate(
    file: File,
    out: Annotated[Path, Option("-o", "--output", metavar="DIR", parser=place_on_disk, help="Folder for .cu files.")],
    programs: Annotated[
        list[str],
        Option(
            "--with", metavar="PROGRAM", autocompletion=one_of("torch", "harness"),
            help="torch: PyTorch operators; harness: a PyCUDA script.",
        ),
    ] = NOTHING,
    group: Group = None, recipe: RecipeFile = None, target: Target = None, dim: Dims = NOTHING,
    numerics: Numerics = NOTHING, json: Json = False,
) -> bool:  # fmt: skip
    """CUDA or C++ text of every kernel, and a manifest of the launches."""
    from app.cli import verbs

    return verbs.generate(job(file, target, dim, group, recipe, None, numerics), out, programs, json)


@command("Exit codes: 0 done, 1 a kernel is wrong, 2 bad input, 3 no C++ compiler.")
def verify(
    file: File,
    whole: Annotated[bool, Option("--whole", help="The model end to end instead of each kernel alone.")] = False,
    level: Annotated[
        str,
        Option(
            metavar="LEVEL", autocompletion=one_of("source", "ptx", "both", "auto"),
            help="source, ptx (the compiled code), both, or auto: ptx where it is quick.",
        ),
    ] = "auto",
    group: Group = None, recipe: RecipeFile = None, target: Target = None, dim: Dims = NOTHING,
    numerics: Numerics = NOTHING, json: Json = False,
) -> bool:  # fmt: skip
    """Run kernels on the CPU, as text and as compiled. They are compared with an independent implementation."""
    from app.cli.verify import verify as run

    return run(job(file, target, dim, group, recipe, None, numerics), whole, level, json)


@command("Exit codes: 0 done, 1 a required entry of the recipe cannot hold, 2 bad input.")
def predict(
    file: File, group: Group = None, recipe: RecipeFile = None, target: Target = None, dim: Dims = NOTHING,
    numerics: Numerics = NOTHING,
    json: Json = False,
    trace: Annotated[
        Path | None,
        Option(
            metavar="FOLDER", parser=place_on_disk, help="Write one block of every kernel as trace events for Perfetto."
        ),
    ] = None,
) -> None:  # fmt: skip
    """Modelled time of every kernel."""
    from app.cli import times

    times.predict(job(file, target, dim, group, recipe, None, numerics), json, trace)


@command("Exit codes: 0 done, 1 a kernel fails or is wrong, 2 bad input, 3 no such GPU, or no C++ compiler.")
def measure(
    file: File, group: Group = None, recipe: RecipeFile = None, target: Target = None, dim: Dims = NOTHING,
    numerics: Numerics = NOTHING,
    json: Json = False,
) -> bool:  # fmt: skip
    """Time of every kernel on this machine's GPU or CPU."""
    from app.cli import times

    return times.measure(job(file, target, dim, group, recipe, None, numerics), json)


@command("Exit codes: 0 done, 2 bad input: other devices, no times, too few rows.")
def calibrate(
    files: Annotated[
        list[Path],
        Argument(
            metavar="[FILE...]",
            parser=read_file,
            help="What `measure --json` or the GPU benchmark wrote, or a table like resources/published/times.csv; "
            "none with --target cpu, which measures this machine's rates.",
        ),
    ] = NO_PATHS,
    target: Annotated[
        str | None,
        Option(
            metavar="GPU", autocompletion=complete_gpu, help="GPU whose figures are fitted; by default the files' own."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Fit the model of times to measured or published ones. Predictions then say that they are calibrated."""
    from app.cli import verbs

    verbs.calibrate(files, target, json)


@command("Exit codes: 0 done, 1 a required entry of the recipe cannot hold, 2 bad input.")
def explain(
    file: File,
    group: Annotated[str, Option(metavar="NAME", help="The group to explain.")],
    recipe: RecipeFile = None, target: Target = None, dim: Dims = NOTHING,
    numerics: Numerics = NOTHING,
) -> None:  # fmt: skip
    """Why a group is fused, scheduled, placed and timed as it is."""
    from app.cli import verbs

    verbs.explain(job(file, target, dim, group, recipe, None, numerics))


@command("Exit codes: 0 done, 1 slower than allowed or a required entry cannot hold, 2 bad input.")
def compare(
    a: Annotated[
        Path, Argument(metavar="A", parser=read_file, help="A recipe; a manifest; `predict --json`; `measure --json`.")
    ],
    b: Annotated[Path, Argument(metavar="B", parser=read_file, help="Another of the same kind.")],
    model: Annotated[
        str | None, Option(metavar="FILE", help="Compare schedules, code and figures of its kernels.")
    ] = None,
    group: Group = None,
    max_slowdown: Annotated[
        float | None, Option(metavar="P", parser=percentage, help="Fail where a kernel of B is P % slower.")
    ] = None,
    json: Json = False,
) -> bool:
    """What changes from one file to another. Both are recipes (with a model, its kernels), times or manifests."""
    from app.cli.compare import compare as run

    return run(a, b, model, group, max_slowdown, json)


@command("Exit codes: 0 done, whatever differs, 2 bad input.")
def diff(
    a: Annotated[str, Argument(metavar="A", help="A model, or a saved workspace (.loom).")],
    b: Annotated[str, Argument(metavar="B", help="Another.")],
    target: Target = None, dim: Dims = NOTHING, json: Json = False,
) -> None:  # fmt: skip
    """Two models or workspaces side by side. Operators and kernels added, removed and changed, with figures."""
    from app.cli.diff import diff as run

    run(job(a, target, dim), job(b, target, dim), json)


@command("Exit codes: 0 done, 1 a kernel does not run, 2 bad input, 3 no C++ compiler or no NVRTC.")
def baseline(
    file: File,
    out: Annotated[Path, Option("-o", "--output", metavar="FILE", parser=written_file, help="Where to write it.")],
    recipe: RecipeFile = None, target: GpuAlone = None, dim: Dims = NOTHING,
) -> None:  # fmt: skip
    """Count what the kernels cost, for `check`. Sectors, conflicts, registers and spills; needs no GPU."""
    from app.cli import regression as gate

    gate.baseline(job(file, target, dim, recipe=recipe), out)


@command("Exit codes: 0 nothing grew, 1 a figure grew, 2 bad input, 3 no C++ compiler or no NVRTC.")
def check(
    file: File,
    before: Annotated[Path, Argument(metavar="BASELINE", parser=read_file, help="As `loomscope baseline` writes it.")],
    tolerance: Annotated[
        float, Option(metavar="P", parser=percentage, help="Let figures grow by P %.")
    ] = 0.0,
    recipe: RecipeFile = None, target: GpuAlone = None, dim: Dims = NOTHING, json: Json = False,
) -> bool:  # fmt: skip
    """Whether any figure of a baseline grew. A gate for continuous integration, which needs no GPU."""
    from app.cli import regression as gate

    return gate.check(job(file, target, dim, recipe=recipe), before, tolerance, json)


@command("Exit codes: 0 done, 2 bad input, 3 no C++ compiler, unless --no-check.")
def report(
    file: File,
    out: Annotated[Path, Option("-o", "--output", metavar="HTML", parser=written_file, help="Report to write.")],
    records: Records = NO_PATHS,
    details: Annotated[
        int, Option(metavar="N", min=0, help="Groups told with schedule and code, the edited and the slowest first.")
    ] = 40,
    checked: Annotated[
        bool, Option("--check/--no-check", help="Run these groups' kernels on the CPU against the reference.")
    ] = True,
    group: Group = None, recipe: RecipeFile = None, target: Target = None, dim: Dims = NOTHING,
) -> None:  # fmt: skip
    """One HTML file about a model or a workspace. Graph, kernels, edits, schedules, code, checks; needs no network."""
    from app.cli.report import report as run

    run(job(file, target, dim, group, recipe), out, records, details, checked)


@command("Exit codes: 0 done, 1 a required entry of the recipe cannot hold, 2 bad input.")
def moves(
    file: File,
    group: Annotated[str, Option(metavar="NAME", help="The group to look at.")],
    recipe: RecipeFile = None, target: GpuAlone = None, dim: Dims = NOTHING, json: Json = False,
) -> None:  # fmt: skip
    """Next steps of a group, each tried. Tells their predicted effects, or why they cannot be."""
    from app.cli import verbs

    verbs.moves(job(file, target, dim, group, recipe), json)


@command("Exit codes: 0 whatever is missing, 3 a cache that cannot be cleared.")
def doctor(
    json: Json = False,
    clear_cache: Annotated[bool, Option("--clear-cache", help="Delete what is kept of compilations first.")] = False,
) -> None:
    """What this machine has, and what to install for the rest."""
    from app.cli import verbs

    verbs.doctor(json, clear_cache)


command("Exit codes: 0 done, 1 a kernel is wrong, 2 bad input, 3 no C++ compiler.")(tuning_verbs.mappings)
command("Exit codes: 0 done, 2 bad input or nothing to search, 3 no GPU or no Dask, 130 interrupted.")(
    tuning_verbs.tune
)
command("Exit codes: 0 done, 2 bad input.")(tuning_verbs.trials)
