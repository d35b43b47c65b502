"""Verbs about the choices that a tuner searches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from app.cli.options import NOTHING, Dims, File, GpuAlone, Group, Json, RecipeFile, Target, job, one_of
from app.cli.standard_streams import place_on_disk, read_file, written_file, written_table

Table = Annotated[
    Path | None, Option("--export", metavar="FILE", parser=written_table, help="Trials as .csv or .json.")
]


def mappings(
    file: File,
    check: Annotated[bool, Option("--check", help="Run their kernels on the CPU and compare.")] = False,
    every: Annotated[bool, Option("--all", help="All mappings, not the cheapest of each intrinsic.")] = False,
    group: Group = None, recipe: RecipeFile = None, target: GpuAlone = None, dim: Dims = NOTHING, json: Json = False,
) -> bool:  # fmt: skip
    """Every way to compute sums of products by an intrinsic. Tells why the others cannot."""
    from app.cli import mappings as tuning_mappings

    return tuning_mappings.mappings(job(file, target, dim, group, recipe), check, every, json)


def tune(
    file: File,
    records: Annotated[
        Path, Option(metavar="DB", parser=place_on_disk, help="Where trials are kept; those in it are not run again.")
    ] = Path("loomscope.db"),
    trials: Annotated[int, Option(metavar="N", help="For each group on average.")] = 64,
    minutes: Annotated[float | None, Option(metavar="M", help="Stop after so long.")] = None,
    patience: Annotated[
        int, Option(metavar="R", help="Rounds without gain after which a group gets no more.")
    ] = 8,
    strategy: Annotated[
        str,
        Option(
            metavar="NAME", autocompletion=one_of("learned", "model", "evolution", "random", "exhaustive"),
            help="learned, model, evolution, random or exhaustive.",
        ),
    ] = "learned",
    runner: Annotated[
        str,
        Option(
            metavar="NAME", autocompletion=one_of("predicted", "measured", "replayed"),
            help="predicted: the model's times; measured: this GPU's; replayed: those measured in DB.",
        ),
    ] = "predicted",
    resume: Annotated[bool, Option("--resume", help="Go on with DB's last run; nothing is repeated.")] = False,
    start: Annotated[
        Path | None,
        Option("--from", metavar="FILE", parser=read_file, help="Try first what was good: a recipe, or records."),
    ] = None,
    check: Annotated[bool, Option("--check/--no-check", help="Compare the best with the reference.")] = True,
    jobs: Annotated[int, Option(metavar="N", help="Processes of this machine.")] = 1,
    cluster: Annotated[
        str | None, Option(metavar="ADDRESS", help="Dask scheduler; one GPU for each worker.")
    ] = None,
    out: Annotated[
        Path | None, Option("-o", "--output", metavar="R.json", parser=written_file, help="Recipe with the best.")
    ] = None,
    table: Table = None,
    seed: Annotated[int, Option(metavar="N", help="Of everything that is drawn by chance.")] = 0,
    group: Group = None, recipe: RecipeFile = None, target: Target = None, dim: Dims = NOTHING, json: Json = False,
) -> None:  # fmt: skip
    """Search mappings, tiles and pipelines of every group. Every finished trial is kept."""
    from app.cli import tuning

    limits = records, trials, minutes, patience, strategy, runner, resume, start
    wishes = tuning.Wishes(*limits, check, jobs, cluster, out, table, seed)
    tuning.tune(job(file, target, dim, group, recipe), wishes, json)


def trials(
    records: Annotated[
        Path, Argument(metavar="DB", parser=read_file, help="Records of `tune`, or a log of Kernel Tuner or TVM.")
    ],
    run: Annotated[int | None, Option(metavar="N", help="The run to tell of, else the last.")] = None,
    against: Annotated[
        str | None, Option(metavar="RUN", help="Compare with another run: its number, or another file.")
    ] = None,
    table: Table = None,
    origin: Annotated[
        str | None,
        Option(
            metavar="NAME", autocompletion=one_of("predicted", "measured", "synthetic"),
            help="Of what is exported: predicted, measured or synthetic.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Runs of a file of records. Also the best of each mapping, and which dimensions explain the times."""
    from app.cli import trials as tuning_records

    tuning_records.trials(records, run, against, table, origin, json)
