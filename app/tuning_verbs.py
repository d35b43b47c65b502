"""Verbs about the choices that a tuner searches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.options import NO_DIMS, Dims, File, Group, Json, RecipeFile, Target, job, verb


@verb
def mappings(
    file: File,
    check: Annotated[bool, typer.Option("--check", help="Run their kernels on the CPU and compare.")] = False,
    every: Annotated[bool, typer.Option("--all", help="All mappings, not the cheapest of each intrinsic.")] = False,
    group: Group = None, recipe: RecipeFile = None, target: Target = None, dim: Dims = NO_DIMS, json: Json = False,
) -> None:  # fmt: skip
    """Every way to compute each sum of products by an intrinsic, and why the others cannot."""
    from app import tuning

    if not tuning.mappings(job(file, target, dim, group, recipe), check, every, json):
        raise typer.Exit(1)


@verb
def tune(
    file: File,
    records: Annotated[
        Path, typer.Option("--records", metavar="DB", help="Where trials are kept; those in it are not run again.")
    ] = Path("loomscope.db"),
    trials: Annotated[int, typer.Option("--trials", metavar="N", help="For each group on average.")] = 64,
    minutes: Annotated[float | None, typer.Option("--minutes", metavar="M", help="Stop after so long.")] = None,
    strategy: Annotated[str, typer.Option("--strategy", help="model, random or exhaustive.")] = "model",
    runner: Annotated[str, typer.Option("--runner", help="predicted: times are the model's.")] = "predicted",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with DB, which must be there.")] = False,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Run the best kernels on the CPU first.")] = True,
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="R.json", help="Recipe with the best.")] = None,
    table: Annotated[Path | None, typer.Option("--export", metavar="FILE", help="Trials as .csv or .json.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of everything that is drawn by chance.")] = 0,
    group: Group = None, recipe: RecipeFile = None, target: Target = None, dim: Dims = NO_DIMS, json: Json = False,
) -> None:  # fmt: skip
    """Search tiles, warps and pipelines of matrix products; every finished trial is kept."""
    from app import tuning

    tuning.tune(
        job(file, target, dim, group, recipe),
        tuning.Wishes(records, trials, minutes, strategy, runner, resume, check, out, table, seed),
        json,
    )
