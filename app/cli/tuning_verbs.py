"""Verbs about the choices that a tuner searches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.options import NO_DIMS, Dims, File, Group, Json, RecipeFile, Target, job, verb


@verb
def mappings(
    file: File,
    check: Annotated[bool, typer.Option("--check", help="Run their kernels on the CPU and compare.")] = False,
    every: Annotated[bool, typer.Option("--all", help="All mappings, not the cheapest of each intrinsic.")] = False,
    group: Group = None, recipe: RecipeFile = None, target: Target = None, dim: Dims = NO_DIMS, json: Json = False,
) -> None:  # fmt: skip
    """Every way to compute sums of products by an intrinsic. Tells why the others cannot."""
    from app.cli import mappings as tuning_mappings

    if not tuning_mappings.mappings(job(file, target, dim, group, recipe), check, every, json):
        raise typer.Exit(1)


@verb
def tune(
    file: File,
    records: Annotated[
        Path, typer.Option("--records", metavar="DB", help="Where trials are kept; those in it are not run again.")
    ] = Path("loomscope.db"),
    trials: Annotated[int, typer.Option("--trials", metavar="N", help="For each group on average.")] = 64,
    minutes: Annotated[float | None, typer.Option("--minutes", metavar="M", help="Stop after so long.")] = None,
    patience: Annotated[
        int, typer.Option("--patience", metavar="R", help="Rounds without gain after which a group gets no more.")
    ] = 8,
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="NAME", help="learned, model, evolution, random or exhaustive.")
    ] = "learned",
    runner: Annotated[
        str,
        typer.Option(
            "--runner",
            metavar="NAME",
            help="predicted: the model's times; measured: this GPU's; replayed: those measured in DB.",
        ),
    ] = "predicted",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with DB's last run; nothing is repeated.")] = False,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Compare the best with the reference.")] = True,
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", help="Processes of this machine.")] = 1,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="ADDRESS", help="Dask scheduler; one GPU for each worker.")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="R.json", help="Recipe with the best.")] = None,
    table: Annotated[Path | None, typer.Option("--export", metavar="FILE", help="Trials as .csv or .json.")] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of everything that is drawn by chance.")] = 0,
    group: Group = None, recipe: RecipeFile = None, target: Target = None, dim: Dims = NO_DIMS, json: Json = False,
) -> None:  # fmt: skip
    """Search mappings, tiles and pipelines of every group. Every finished trial is kept."""
    from app.cli import tuning

    tuning.tune(
        job(file, target, dim, group, recipe),
        tuning.Wishes(
            records, trials, minutes, patience, strategy, runner, resume, check, jobs, cluster, out, table, seed
        ),
        json,
    )


@verb
def trials(
    records: Annotated[Path, typer.Argument(metavar="DB", help="File of records that `tune` wrote.")],
    run: Annotated[int | None, typer.Option("--run", metavar="N", help="The run to tell of, else the last.")] = None,
    table: Annotated[Path | None, typer.Option("--export", metavar="FILE", help="Trials as .csv or .json.")] = None,
    origin: Annotated[
        str | None,
        typer.Option("--origin", metavar="NAME", help="Of what is exported: predicted, measured or synthetic."),
    ] = None,
    json: Json = False,
) -> None:
    """Runs of a file of records. Also the best of each mapping, and which dimensions explain the times."""
    from app.cli import trials as tuning_records

    tuning_records.trials(records, run, table, origin, json)
